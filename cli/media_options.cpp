#include "media_options.h"

#include <fmt/format.h>

#include "pull.h"
#include "weft/error.h"

namespace weft::cli {

namespace {

constexpr std::string_view kNoMmproj = "none";

}  // namespace

void add_mmproj_option(CLI::App& app, std::string& mmproj, const std::string& group) {
  app.add_option(
         "--mmproj", mmproj,
         "the model's encoders (GGUF), to read pictures and sounds; none: not even those fetched with it")
      ->type_name("FILE")
      ->group(group);
}

void add_image_option(CLI::App& app, std::vector<std::string>& images, const std::string& group) {
  app.add_option("--image", images,
                 "a picture in front of the text, PNG or JPEG; with --mmproj; may be given again")
      ->type_name("FILE")
      ->expected(1, CLI::detail::expected_max_vector_size)
      ->allow_extra_args(false)
      ->group(group);
}

void add_audio_option(CLI::App& app, std::vector<std::string>& sounds, const std::string& group) {
  app.add_option("--audio", sounds,
                 "a sound in front of the text, WAV, FLAC, Ogg or MP3; with --mmproj; may be given again")
      ->type_name("FILE")
      ->expected(1, CLI::detail::expected_max_vector_size)
      ->allow_extra_args(false)
      ->group(group);
}

namespace {

MediaModels load_named(const std::filesystem::path& mmproj, const ModelOptions& options, const Model& model) {
  const PlacementParams placement = placement_params(options);
  std::vector<std::string> devices = placement.devices;
  if (devices.empty() && placement.n_layers == 0) devices = {"cpu"};
  const auto registry = find_all_backends();
  const MediaKinds kinds = media_kinds(mmproj);
  MediaModels models;
  if (kinds.pictures) {
    models.vision =
        VisionModel::load(mmproj, {.devices = devices, .n_threads = options.n_threads, .registry = registry});
    models.vision->check_fits(model.info().architecture, model.info().n_embd_input);
  }
  if (kinds.sounds) {
    models.audio =
        AudioModel::load(mmproj, {.devices = devices, .n_threads = options.n_threads, .registry = registry});
    models.audio->check_fits(model.info().architecture, model.info().n_embd_input);
  }
  return models;
}

}  // namespace

MediaModels load_media(const std::string& mmproj, const std::filesystem::path& file,
                       const ModelOptions& options, const Model& model, const Talk& talk) {
  if (mmproj == kNoMmproj) return {};
  if (!mmproj.empty()) return load_named(mmproj, options, model);
  const std::filesystem::path fetched = fetch::find_vision(file);
  if (fetched.empty()) return {};
  try {
    return load_named(fetched, options, model);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnsupported && error.code() != ErrorCode::kInvalidArgument) throw;
    note(talk, fmt::format("weft: note: no pictures and sounds: {}", error.what()));
    return {};
  }
}

std::shared_ptr<const EncodedMedia> encode_image(const MediaModels& models, const std::string& file) {
  if (models.vision == nullptr)
    throw Error(ErrorCode::kUnsupported, "pictures need the model's vision file: give it with --mmproj FILE");
  return models.vision->encode(read_image_file(file));
}

std::shared_ptr<const EncodedMedia> encode_sound(const MediaModels& models, const std::string& file) {
  if (models.audio == nullptr)
    throw Error(ErrorCode::kUnsupported, "sounds need the model's audio file: give it with --mmproj FILE");
  return models.audio->encode(read_sound_file(file));
}

std::vector<std::shared_ptr<const EncodedMedia>> encode_files(const MediaModels& models,
                                                              const std::vector<std::string>& images,
                                                              const std::vector<std::string>& sounds) {
  if (!images.empty() && models.vision == nullptr)
    throw UsageError("pictures need the model's vision file: give it with --mmproj FILE");
  if (!sounds.empty() && models.audio == nullptr)
    throw UsageError("sounds need the model's audio file: give it with --mmproj FILE");
  std::vector<std::shared_ptr<const EncodedMedia>> media;
  for (const std::string& file : images) media.push_back(encode_image(models, file));
  for (const std::string& file : sounds) media.push_back(encode_sound(models, file));
  return media;
}

}  // namespace weft::cli
