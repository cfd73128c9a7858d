#pragma once
// Pictures in conversations: files in base64, or data: URLs. Nothing is fetched: other URLs are refused.
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/job.h"
#include "weft/vision.h"

namespace weft::server {

/// A file as it was sent. It is decoded when its turn comes: a small file may be a large picture.
struct Picture {
  std::string path;  ///< Of its part, for errors.
  std::vector<std::byte> file;
};

struct Pictures {
  std::string mark;  ///< What stands in their places in the messages.
  std::vector<Picture> pictures;
};

/// Takes pictures out of a conversation, in their order. Throws ApiError that names `path` for a model that
/// reads none, for too many, and for what is no data: URL and no base64.
class PictureTaker {
 public:
  explicit PictureTaker(const ServedModel& model) : model_(model) {}

  /// What stands in the picture's place.
  std::string take_url(std::string_view url, const std::string& path);
  std::string take_base64(std::string_view data, const std::string& path);
  Pictures finish() { return std::move(pictures_); }

 private:
  void check(const std::string& path);
  std::string add(std::vector<std::byte> file, const std::string& path);

  const ServedModel& model_;
  Pictures pictures_;
};

/// Those of an array of messages of OpenAI's chat API: parts {"type": "image_url", "image_url": {"url":
/// "data:image/png;base64,..."}}.
Pictures take_pictures(Json& messages, const ServedModel& model);

/// The prompt with the pictures, if there are any, in their places, computed now unless they came before.
/// Throws ApiError for those that cannot be read.
PromptWithImages with_pictures(const std::vector<PromptPiece>& prompt, const Pictures& pictures,
                               const ServedModel& model);

}  // namespace weft::server
