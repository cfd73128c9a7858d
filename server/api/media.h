#pragma once
// Pictures and sounds in conversations: files in base64, or data: URLs. Nothing is fetched: other URLs are
// refused.
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/job.h"
#include "weft/media.h"

namespace weft::server {

/// A file as it was sent. It is decoded when its turn comes: a small file may be a large picture.
struct MediaFile {
  std::string path;  ///< Of its part, for errors.
  std::vector<std::byte> bytes;
  bool is_sound = false;
};

struct Media {
  std::string mark;  ///< What stands in their places in the messages.
  std::vector<MediaFile> files;
  std::function<bool()> is_wanted;  ///< Whether the client is there still.
};

/// Takes pictures and sounds out of a conversation, in their order. Throws ApiError that names `path` for a
/// model that reads none, for too many, and for what is no data: URL and no base64.
class MediaTaker {
 public:
  /// The job must outlive it.
  explicit MediaTaker(Job& job);

  /// What stands in the picture's place.
  std::string take_url(std::string_view url, const std::string& path);
  std::string take_picture(std::string_view base64, const std::string& path);
  /// A part {"type": "input_audio", "input_audio": {"data": base64, "format": "wav"}} of OpenAI's APIs.
  std::string take_sound(const Json& part, const std::string& path);
  Media finish() { return std::move(media_); }

 private:
  std::string add(std::string_view base64, const std::string& path, bool is_sound);

  const ServedModel& model_;
  Ignored* ignored_;
  Media media_;
};

/// Whether a request's body has a picture or a sound, in any of the APIs' forms.
bool has_media(const Json& body);

/// Those of an array of messages of OpenAI's chat API: also parts {"type": "image_url", "image_url": {"url":
/// "data:image/png;base64,..."}}.
Media take_media(Json& messages, Job& job);

/// The prompt with the pictures and sounds, if there are any, in their places, computed now unless they came
/// before. Throws ApiError for those that cannot be read, and for too many pixels or seconds in all, and
/// Error kCancelled where nobody waits for it any more.
PromptWithMedia with_media(const std::vector<PromptPiece>& prompt, const Media& media,
                           const ServedModel& model);

}  // namespace weft::server
