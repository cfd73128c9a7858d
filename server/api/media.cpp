#include "api/media.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "base/base64.h"
#include "weft/error.h"

namespace weft::server {
namespace {

constexpr std::size_t kMaxFiles = 64;
// Limits for all images and all audio of a request. Small files may decode to large ones, and a worker
// decodes them.
constexpr std::int64_t kMaxPixels = 4 * kMaxImagePixels;
constexpr std::int64_t kMaxSamples = Audio::kMaxSamples;

/// The pixels and samples of a request so far.
struct Spent {
  std::int64_t n_pixels = 0, n_samples = 0;
};

std::shared_ptr<const EncodedMedia> encode(const MediaFile& file, const ServedModel& model, Spent& spent,
                                           const std::function<bool()>& is_wanted) {
  std::optional<Image> image;
  std::optional<Audio> sound;
  try {
    if (file.is_audio)
      sound = read_audio(file.bytes);
    else
      image = read_image(file.bytes);
  } catch (const Error& error) {
    throw bad_request(file.path, fmt::format("'{}': {}", file.path, error.what()));
  }
  const std::int64_t n_pixels = image ? std::int64_t{image->width} * image->height : 0;
  const std::int64_t n_samples = sound ? std::ssize(sound->samples) : 0;
  if (spent.n_pixels + n_pixels > kMaxPixels)
    throw bad_request(
        file.path,
        fmt::format("'{}': the images of this request exceed {} pixels in total; send smaller ones",
                    file.path, kMaxPixels));
  if (spent.n_samples + n_samples > kMaxSamples)
    throw bad_request(file.path,
                      fmt::format("'{}': the audio of this request exceeds {} seconds in total; send less",
                                  file.path, kMaxSamples / Audio::kSampleRate));
  spent.n_pixels += n_pixels;
  spent.n_samples += n_samples;
  return sound ? model.audio->encode(*sound, is_wanted) : model.vision->encode(*image, is_wanted);
}

std::string take_image_part(const Json& part, const std::string& path, MediaTaker& taker) {
  const Json* url = part.contains("image_url") ? &part["image_url"] : nullptr;
  if (url != nullptr && url->is_object()) url = url->contains("url") ? &(*url)["url"] : nullptr;
  if (url == nullptr || !url->is_string())
    throw bad_request(path, fmt::format("'{}' has no string \"url\" in its \"image_url\"", path));
  return taker.take_url(url->get_ref<const std::string&>(), path);
}

/// Takes a part that is an image, audio or a file, and returns the string in its place. Other parts are left
/// to the reader of the message.
std::optional<std::string> take_part(const Json& part, const std::string& path, MediaTaker& taker) {
  if (!part.is_object() || !part.contains("type")) return std::nullopt;
  const Json& type = part["type"];
  if (type == "input_audio") return taker.take("audio", [&] { return taker.take_audio(part, path); });
  if (type == "file" || type == "input_file")
    return taker.take("file", [&]() -> std::string { throw no_files(path); });
  if (type != "image_url" && type != "input_image") return std::nullopt;
  return taker.take("image", [&] { return take_image_part(part, path, taker); });
}

/// WAV, AIFF, FLAC, Ogg and MP3.
bool starts_as_audio(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  for (const std::string_view begin : {"RIFF", "RF64", "FORM", "fLaC", "OggS", "ID3"})
    if (text.starts_with(begin)) return true;
  return bytes.size() > 1 && bytes[0] == std::byte{0xFF} && (bytes[1] & std::byte{0xE0}) == std::byte{0xE0};
}

/// Replaces the mark of a file that is left out. `n` is the number of marks before it.
void replace_mark(std::vector<PromptPiece>& prompt, const std::string& mark, std::size_t n,
                  const std::string& note) {
  for (PromptPiece& piece : prompt)
    for (std::size_t at = piece.text.find(mark); at != std::string::npos;
         at = piece.text.find(mark, at + mark.size()))
      if (n-- == 0) return void(piece.text.replace(at, mark.size(), note));
}

std::string left_out(std::string_view what) { return fmt::format("[{} that cannot be read]", what); }

/// The base64 of a data: URL.
std::string_view data_of(std::string_view url, const std::string& path, std::string_view example) {
  if (!url.starts_with("data:"))
    throw bad_request(path, fmt::format("'{}' must be a data: URL; the server does not fetch URLs", path));
  const std::size_t comma = url.find(',');
  if (comma == std::string_view::npos || !url.substr(0, comma).ends_with(";base64"))
    throw bad_request(path, fmt::format("'{}' must look like \"data:{};base64,...\"", path, example));
  return url.substr(comma + 1);
}

}  // namespace

ApiError no_files(const std::string& path) {
  return bad_request(path,
                     fmt::format("'{}' is a file, which the server does not read; send its text", path));
}

MediaTaker::MediaTaker(Job& job) : model_(*job.model), ignored_(&job.ignored) {
  media_.is_wanted = [exchange = job.exchange] { return !exchange->closed(); };
  media_.note_left_out = [&job](const ApiError& error) {
    job.ignored.add(error.param);
    job.warnings.push_back(fmt::format("{} (left out of the tool's result)", error.what()));
  };
}

std::string MediaTaker::take(std::string_view what, const std::function<std::string()>& read) const {
  try {
    return read();
  } catch (const ApiError& error) {
    if (!in_tool_result_) throw;
    media_.note_left_out(error);
    return left_out(what);
  }
}

std::string MediaTaker::add(std::string_view base64, const std::string& path, bool is_audio) {
  if (media_.files.size() == kMaxFiles)
    throw bad_request(path, fmt::format("a request may have at most {} images and audio files", kMaxFiles));
  auto bytes = base::from_base64(base64);
  if (!bytes) throw bad_request(path, fmt::format("the data of '{}' are not valid base64", path));
  if (media_.mark.empty()) media_.mark = make_media_marker();
  media_.files.push_back({path, std::move(*bytes), is_audio, in_tool_result_});
  return media_.mark;
}

void MediaTaker::check_vision(const std::string& path) const {
  if (model_.vision == nullptr)
    throw bad_request(path, fmt::format("'{}' is an image, but the model '{}' cannot read images: start the "
                                        "server with --mmproj FILE, the model's vision file",
                                        path, model_.spec.name));
}

void MediaTaker::check_hearing(const std::string& path) const {
  if (model_.audio == nullptr)
    throw bad_request(path, fmt::format("'{}' is audio, but the model '{}' cannot read audio: start the "
                                        "server with --mmproj FILE, the model's audio file",
                                        path, model_.spec.name));
}

std::string MediaTaker::take_image(std::string_view base64, const std::string& path) {
  check_vision(path);
  return add(base64, path, false);
}

std::string MediaTaker::take_data(std::string_view base64, const std::string& path) {
  if (model_.vision == nullptr && model_.audio != nullptr) return add(base64, path, true);
  check_vision(path);
  const auto begin = base::from_base64(base64.substr(0, 16));
  const bool is_audio = model_.audio != nullptr && begin && starts_as_audio(*begin);
  return add(base64, path, is_audio);
}

std::string MediaTaker::take_url(std::string_view url, const std::string& path) {
  check_vision(path);
  return add(data_of(url, path, "image/png"), path, false);
}

std::string MediaTaker::take_audio_url(std::string_view url, const std::string& path) {
  check_hearing(path);
  return add(data_of(url, path, "audio/wav"), path, true);
}

std::string MediaTaker::take_audio(const Json& part, const std::string& path) {
  check_hearing(path);
  Fields fields(part, path, ignored_);
  const Json* const value = fields.object("input_audio");
  if (value == nullptr) throw bad_request(path, fmt::format("'{}' has no \"input_audio\"", path));
  Fields audio = fields.within(*value, fields.path_of("input_audio"));
  // The decoder finds the format in the bytes.
  constexpr std::array<std::string_view, 6> kFormats = {"wav", "mp3", "flac", "ogg", "opus", "aiff"};
  if (const std::string format = audio.string("format", "wav");
      std::find(kFormats.begin(), kFormats.end(), format) == kFormats.end())
    throw bad_request(audio.path_of("format"), fmt::format("'{}' must be one of {}", audio.path_of("format"),
                                                           fmt::join(kFormats, ", ")));
  std::string mark = add(audio.string("data"), path, true);
  audio.done();
  return mark;
}

PromptWithMedia read_media_prompt(Job& job, const std::string& text, bool parse_special, const Json& data,
                                  const std::string& path) {
  constexpr std::string_view kMarker = "<__media__>";
  if (!data.is_array()) throw bad_request(path, fmt::format("'{}' must be an array of base64 strings", path));
  MediaTaker taker(job);
  std::string prompt;
  std::size_t begin = 0, n = 0;
  for (std::size_t at = text.find(kMarker); at != std::string::npos; at = text.find(kMarker, begin)) {
    prompt.append(text, begin, at - begin);
    begin = at + kMarker.size();
    if (n++ >= data.size()) continue;
    const std::string place = element(path, n - 1);
    if (!data[n - 1].is_string())
      throw bad_request(place, fmt::format("'{}' must be a base64 string", place));
    const std::string& sent = data[n - 1].get_ref<const std::string&>();
    prompt += taker.take_data(sent.starts_with("data:") ? data_of(sent, place, "image/png") : sent, place);
  }
  if (n != data.size())
    throw bad_request(path, fmt::format("the prompt has {} markers {}, but '{}' has {} files", n, kMarker,
                                        path, data.size()));
  prompt.append(text, begin);
  return with_media({{std::move(prompt), parse_special}}, taker.finish(), *job.model);
}

bool has_media(const Json& body) {
  if (body.is_object()) {
    if (const auto data = body.find("multimodal_data"); data != body.end() && !data->empty()) return true;
    // Ollama's messages have their images in a list.
    if (const auto images = body.find("images");
        images != body.end() && images->is_array() && !images->empty())
      return true;
    const auto type = body.find("type");
    constexpr std::array<std::string_view, 4> kTypes = {"image_url", "input_image", "image", "input_audio"};
    if (type != body.end() && type->is_string() &&
        std::find(kTypes.begin(), kTypes.end(), type->get_ref<const std::string&>()) != kTypes.end())
      return true;
  }
  return body.is_structured() && std::any_of(body.begin(), body.end(), has_media);
}

Media take_media(Json& messages, Job& job) {
  MediaTaker taker(job);
  for (std::size_t m = 0; m < messages.size(); ++m) {
    if (!messages[m].is_object() || !messages[m].contains("content")) continue;
    Json& content = messages[m]["content"];
    if (!content.is_array()) continue;
    const auto role = messages[m].find("role");
    taker.in_tool_result(role != messages[m].end() && (*role == "tool" || *role == "function"));
    Json parts = Json::array();
    bool was_taken = false;
    for (std::size_t i = 0; i < content.size(); ++i) {
      Json& part = content[i];
      const std::optional<std::string> mark =
          take_part(part, fmt::format("messages[{}].content[{}]", m, i), taker);
      // A mark and the string parts next to it become one part, because each string part is a line of its
      // own.
      const bool is_text = part.is_object() && part.contains("text") && part["text"].is_string();
      const bool goes_on = !parts.empty() && (mark || (was_taken && is_text)) && parts.back().is_object() &&
                           parts.back().contains("text") && parts.back()["text"].is_string();
      if (goes_on)
        parts.back()["text"].get_ref<std::string&>() +=
            mark ? *mark : part["text"].get_ref<const std::string&>();
      else
        parts.push_back(mark ? Json{{"type", "text"}, {"text", *mark}} : std::move(part));
      was_taken = mark.has_value();
    }
    content = std::move(parts);
  }
  return taker.finish();
}

PromptWithMedia with_media(const std::vector<PromptPiece>& prompt, const Media& media,
                           const ServedModel& model) {
  if (media.files.empty()) return {.tokens = model.tokenizer().encode(prompt)};
  std::vector<PromptPiece> pieces = prompt;
  std::vector<std::shared_ptr<const EncodedMedia>> encoded;
  Spent spent;
  for (const MediaFile& file : media.files) {
    try {
      encoded.push_back(encode(file, model, spent, media.is_wanted));
    } catch (const ApiError& error) {
      if (!file.may_be_left_out) throw;
      media.note_left_out(error);
      replace_mark(pieces, media.mark, encoded.size(), left_out(file.is_audio ? "audio" : "image"));
    }
  }
  return place_media(model.tokenizer(), pieces, encoded, media.mark);
}

}  // namespace weft::server
