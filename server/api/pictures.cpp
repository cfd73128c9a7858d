#include "api/pictures.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "weft/error.h"

namespace weft::server {
namespace {

constexpr std::size_t kMaxPictures = 64;

std::optional<unsigned> digit(char c) {
  if (c >= 'A' && c <= 'Z') return static_cast<unsigned>(c - 'A');
  if (c >= 'a' && c <= 'z') return static_cast<unsigned>(c - 'a' + 26);
  if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0' + 52);
  if (c == '+' || c == '-') return 62u;
  if (c == '/' || c == '_') return 63u;
  return std::nullopt;
}

/// Nothing where it is no base64 (RFC 4648, either alphabet, padded or not).
std::optional<std::vector<std::byte>> decode_base64(std::string_view text) {
  while (text.ends_with('=')) text.remove_suffix(1);
  if (text.size() % 4 == 1) return std::nullopt;
  std::vector<std::byte> bytes;
  bytes.reserve(text.size() / 4 * 3 + 2);
  unsigned bits = 0, n_bits = 0;
  for (const char c : text) {
    const std::optional<unsigned> value = digit(c);
    if (!value) return std::nullopt;
    bits = (bits << 6 | *value) & 0xffffffu;
    n_bits += 6;
    if (n_bits < 8) continue;
    n_bits -= 8;
    bytes.push_back(static_cast<std::byte>(bits >> n_bits & 0xffu));
  }
  return bytes;
}

Image decode(const Picture& picture) try { return read_image(picture.file); } catch (const Error& error) {
  throw bad_request(picture.path, fmt::format("'{}': {}", picture.path, error.what()));
}

/// The URL of a part that is a picture. Other parts are left to who reads messages.
std::optional<std::string_view> url_of(const Json& part, const std::string& path) {
  if (!part.is_object() || !part.contains("type")) return std::nullopt;
  const Json& type = part["type"];
  if (type != "image_url" && type != "input_image") return std::nullopt;
  const Json* url = part.contains("image_url") ? &part["image_url"] : nullptr;
  if (url != nullptr && url->is_object()) url = url->contains("url") ? &(*url)["url"] : nullptr;
  if (url == nullptr || !url->is_string())
    throw bad_request(path, fmt::format("'{}' has no text \"url\" in its \"image_url\"", path));
  return url->get_ref<const std::string&>();
}

}  // namespace

void PictureTaker::check(const std::string& path) {
  if (model_.vision == nullptr)
    throw bad_request(path, fmt::format("'{}' is a picture, and the model '{}' reads none: start the server "
                                        "with --mmproj FILE, the model's vision file",
                                        path, model_.spec.name));
  if (pictures_.pictures.size() == kMaxPictures)
    throw bad_request(path, fmt::format("at most {} pictures are taken in a request", kMaxPictures));
}

std::string PictureTaker::add(std::vector<std::byte> file, const std::string& path) {
  if (pictures_.mark.empty()) pictures_.mark = make_image_mark();
  pictures_.pictures.push_back({path, std::move(file)});
  return pictures_.mark;
}

std::string PictureTaker::take_base64(std::string_view data, const std::string& path) {
  check(path);
  auto bytes = decode_base64(data);
  if (!bytes) throw bad_request(path, fmt::format("the data of '{}' are no base64", path));
  return add(std::move(*bytes), path);
}

std::string PictureTaker::take_url(std::string_view url, const std::string& path) {
  check(path);
  if (!url.starts_with("data:"))
    throw bad_request(path, fmt::format("'{}' must be a data: URL; the server fetches nothing itself", path));
  const std::size_t comma = url.find(',');
  if (comma == std::string_view::npos || !url.substr(0, comma).ends_with(";base64"))
    throw bad_request(path, fmt::format("'{}' must look like \"data:image/png;base64,...\"", path));
  return take_base64(url.substr(comma + 1), path);
}

Pictures take_pictures(Json& messages, const ServedModel& model) {
  PictureTaker taker(model);
  for (std::size_t m = 0; m < messages.size(); ++m) {
    if (!messages[m].is_object() || !messages[m].contains("content")) continue;
    Json& content = messages[m]["content"];
    if (!content.is_array()) continue;
    Json parts = Json::array();
    bool was_picture = false;
    for (std::size_t i = 0; i < content.size(); ++i) {
      Json& part = content[i];
      const std::string path = fmt::format("messages[{}].content[{}]", m, i);
      const std::optional<std::string_view> url = url_of(part, path);
      const std::string mark = url ? taker.take_url(*url, path) : "";
      // A picture and the text beside it are one part: parts of text are lines of their own.
      const bool is_text = part.is_object() && part.contains("text") && part["text"].is_string();
      const bool goes_on = !parts.empty() && (url || (was_picture && is_text)) && parts.back().is_object() &&
                           parts.back().contains("text") && parts.back()["text"].is_string();
      if (goes_on)
        parts.back()["text"].get_ref<std::string&>() +=
            url ? mark : part["text"].get_ref<const std::string&>();
      else
        parts.push_back(url ? Json{{"type", "text"}, {"text", mark}} : std::move(part));
      was_picture = url.has_value();
    }
    content = std::move(parts);
  }
  return taker.finish();
}

PromptWithImages with_pictures(const std::vector<PromptPiece>& prompt, const Pictures& pictures,
                               const ServedModel& model) {
  if (pictures.pictures.empty()) return {.tokens = model.tokenizer().encode(prompt)};
  std::vector<std::shared_ptr<const EncodedImage>> encoded;
  for (const Picture& picture : pictures.pictures) encoded.push_back(model.vision->encode(decode(picture)));
  return place_images(model.tokenizer(), prompt, encoded, pictures.mark);
}

}  // namespace weft::server
