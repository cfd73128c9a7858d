// Images and audio: files, encoders, and prompts that contain them.
#include "media.h"

#include <functional>

#include "model.h"
#include "weft/audio.h"
#include "weft/vision.h"
#include "weft_media.h"

using namespace weft;
using namespace weft::c;

static_assert(WEFT_SAMPLE_RATE == Audio::kSampleRate);

struct weft_vision_model {
  std::shared_ptr<const VisionModel> model;
};
struct weft_audio_model {
  std::shared_ptr<const AudioModel> model;
};
struct weft_media {
  std::shared_ptr<const EncodedMedia> encoded;
};

namespace weft::c {

template <>
weft_media_params defaults() {
  weft_media_params p = {};
  p.cache_bytes = -1;
  return p;
}

namespace {

/// VisionParams, AudioParams.
template <typename P>
P media_params(const weft_media_params* given) {
  const weft_media_params p = read(given, "params");
  P params;
  params.devices = texts(p.devices, p.n_devices, "devices");
  params.n_threads = p.n_threads;
  if (p.cache_bytes < -1)
    refuse("cache_bytes is " + std::to_string(p.cache_bytes) +
           "; it must be 0 or more, or -1 for the default");
  if (p.cache_bytes >= 0) params.cache_bytes = static_cast<std::size_t>(p.cache_bytes);
  return params;
}

std::span<const std::byte> bytes_of(const void* bytes, std::size_t n) {
  return list(static_cast<const std::byte*>(bytes), n, "bytes");
}
void give(weft_image* to, const Image& image) {
  need(to, "image");
  *to = {.width = image.width,
         .height = image.height,
         .rgb = copy_of(std::span(image.rgb)).release(),
         .n_bytes = image.rgb.size()};
}
void give(weft_audio* to, const Audio& sound) {
  need(to, "audio");
  *to = {.samples = copy_of(std::span(sound.samples)).release(), .n_samples = sound.samples.size()};
}

/// Shared by both kinds of encoders.
template <typename Handle>
weft_status check_fits(const Handle* encoder, const char* name, const weft_model* model, weft_error** error) {
  return run(error, [&] {
    const ModelInfo& info = need(model, "model").loaded->model->info();
    need(encoder, name).model->check_fits(info.architecture, info.n_embd_input);
  });
}
std::function<bool()> question(weft_encode_callback goes_on, void* user_data) {
  if (goes_on == nullptr) return {};
  return [goes_on, user_data] { return goes_on(user_data); };
}

std::unique_ptr<weft_prompt> place(const Model& model, std::span<const PromptPiece> pieces,
                                   const weft_media* const* media, std::size_t n_media, const char* marker) {
  std::vector<std::shared_ptr<const EncodedMedia>> all;
  for (const weft_media* const one : list(media, n_media, "media"))
    all.push_back(need(one, "one of media").encoded);
  return std::unique_ptr<weft_prompt>(
      new weft_prompt{.prompt = place_media(model.tokenizer(), pieces, all, need_text(marker, "marker"))});
}

}  // namespace

}  // namespace weft::c

weft_status weft_image_read(const void* bytes, size_t n_bytes, weft_image* image, weft_error** error) {
  return run(error, [&] { give(image, read_image(bytes_of(bytes, n_bytes))); });
}
weft_status weft_image_read_file(const char* path, weft_image* image, weft_error** error) {
  return run(error, [&] { give(image, read_image_file(need_text(path, "path"))); });
}
weft_status weft_audio_read(const void* bytes, size_t n_bytes, weft_audio* audio, weft_error** error) {
  return run(error, [&] { give(audio, read_audio(bytes_of(bytes, n_bytes))); });
}
weft_status weft_audio_read_file(const char* path, weft_audio* audio, weft_error** error) {
  return run(error, [&] { give(audio, read_audio_file(need_text(path, "path"))); });
}

void weft_media_params_init(weft_media_params* params, size_t struct_size) { init(params, struct_size); }
weft_status weft_media_kinds(const char* path, bool* images, bool* audio, weft_error** error) {
  return run(error, [&] {
    const MediaKinds kinds = media_kinds(need_text(path, "path"));
    if (images != nullptr) *images = kinds.images;
    if (audio != nullptr) *audio = kinds.audio;
  });
}

weft_vision_model* weft_vision_model_load(const char* path, const weft_media_params* params,
                                          weft_error** error) {
  return make(error, [&] {
    return std::make_unique<weft_vision_model>(
        VisionModel::load(need_text(path, "path"), media_params<VisionParams>(params)));
  });
}
void weft_vision_model_free(weft_vision_model* vision) { delete vision; }
weft_status weft_vision_model_get_info(const weft_vision_model* vision, weft_vision_info* info,
                                       weft_error** error) {
  return run(error, [&] {
    const VisionInfo& from = need(vision, "vision").model->info();
    weft_vision_info told = {};
    told.name = from.name.c_str();
    told.projector = from.projector.c_str();
    told.n_embd = from.n_embd;
    told.image_size = from.image_size;
    told.patch_size = from.patch_size;
    told.n_layers = from.n_layers;
    told.max_rows = from.max_rows;
    told.both_ways = from.both_ways;
    write(info, told, "info");
  });
}
weft_status weft_vision_model_check_fits(const weft_vision_model* vision, const weft_model* model,
                                         weft_error** error) {
  return check_fits(vision, "vision", model, error);
}
weft_media* weft_vision_model_encode(const weft_vision_model* vision, const weft_image* image,
                                     weft_encode_callback goes_on, void* user_data, weft_error** error) {
  return make(error, [&] {
    const VisionModel& model = *need(vision, "vision").model;
    const weft_image& from = need(image, "image");
    const std::span<const std::uint8_t> rgb =
        list(static_cast<const std::uint8_t*>(from.rgb), from.n_bytes, "image->rgb");
    const Image pixels = {.width = from.width, .height = from.height, .rgb = {rgb.begin(), rgb.end()}};
    return std::make_unique<weft_media>(model.encode(pixels, question(goes_on, user_data)));
  });
}

weft_audio_model* weft_audio_model_load(const char* path, const weft_media_params* params,
                                        weft_error** error) {
  return make(error, [&] {
    return std::make_unique<weft_audio_model>(
        AudioModel::load(need_text(path, "path"), media_params<AudioParams>(params)));
  });
}
void weft_audio_model_free(weft_audio_model* audio) { delete audio; }
weft_status weft_audio_model_get_info(const weft_audio_model* audio, weft_audio_info* info,
                                      weft_error** error) {
  return run(error, [&] {
    const AudioInfo& from = need(audio, "audio").model->info();
    weft_audio_info told = {};
    told.name = from.name.c_str();
    told.projector = from.projector.c_str();
    told.n_embd = from.n_embd;
    told.n_mels = from.n_mels;
    told.n_layers = from.n_layers;
    told.max_rows = from.max_rows;
    told.part_seconds = from.part_seconds;
    write(info, told, "info");
  });
}
weft_status weft_audio_model_check_fits(const weft_audio_model* audio, const weft_model* model,
                                        weft_error** error) {
  return check_fits(audio, "audio", model, error);
}
weft_media* weft_audio_model_encode(const weft_audio_model* model, const weft_audio* audio,
                                    weft_encode_callback goes_on, void* user_data, weft_error** error) {
  return make(error, [&] {
    const AudioModel& encoder = *need(model, "model").model;
    const weft_audio& from = need(audio, "audio");
    const std::span<const float> samples =
        list(static_cast<const float*>(from.samples), from.n_samples, "audio->samples");
    const Audio all = {.samples = {samples.begin(), samples.end()}};
    return std::make_unique<weft_media>(encoder.encode(all, question(goes_on, user_data)));
  });
}
void weft_media_free(weft_media* media) { delete media; }

weft_status weft_media_marker(char** marker, weft_error** error) {
  return run(error, [&] {
    need(marker, "marker");
    tell(marker, make_media_marker());
  });
}
weft_prompt* weft_prompt_create(const weft_model* model, const char* text, size_t n_bytes, uint32_t flags,
                                const weft_media* const* media, size_t n_media, const char* marker,
                                weft_error** error) {
  return make(error, [&] {
    const Model& with = *need(model, "model").loaded->model;
    if ((flags & ~static_cast<uint32_t>(WEFT_PARSE_SPECIAL)) != 0)
      refuse("flags are " + std::to_string(flags) + "; only WEFT_PARSE_SPECIAL says something here");
    const PromptPiece piece = {std::string(list(text, n_bytes, "text").data(), n_bytes),
                               (flags & WEFT_PARSE_SPECIAL) != 0};
    return place(with, {&piece, 1}, media, n_media, marker);
  });
}
weft_prompt* weft_prompt_create_chat(const weft_model* model, const weft_chat_message* messages,
                                     size_t n_messages, const weft_chat_params* params,
                                     const weft_media* const* media, size_t n_media, const char* marker,
                                     weft_error** error) {
  return make(error, [&] {
    const Model& with = *need(model, "model").loaded->model;
    return place(with, render(with, messages, n_messages, params), media, n_media, marker);
  });
}
void weft_prompt_free(weft_prompt* prompt) { delete prompt; }
const weft_token* weft_prompt_tokens(const weft_prompt* prompt, size_t* n, weft_error** error) {
  return make(error, [&]() -> const weft_token* {
    const std::vector<Token>& tokens = need(prompt, "prompt").prompt.tokens;
    need(n, "n") = tokens.size();
    return tokens.data();
  });
}
size_t weft_prompt_n_parts(const weft_prompt* prompt) {
  return prompt == nullptr ? 0 : prompt->prompt.parts.size();
}
weft_status weft_prompt_get_part(const weft_prompt* prompt, size_t place, weft_part* part,
                                 weft_error** error) {
  return run(error, [&] {
    const std::vector<EmbeddedPart>& all = need(prompt, "prompt").prompt.parts;
    if (place >= all.size())
      refuse("there is no part " + std::to_string(place) + " of " + std::to_string(all.size()));
    const EmbeddedPart& from = all[place];
    weft_part told = {};
    told.first = from.first;
    told.n = from.n;
    told.rows = from.rows.get();
    told.n_embd = from.n_embd;
    told.grid_width = from.grid_width;
    told.extent = from.extent();
    told.both_ways = from.both_ways;
    write(part, told, "part");
  });
}
