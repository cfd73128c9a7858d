#pragma once
// Pictures in conversations, as OpenAI's chat API sends them: parts {"type": "image_url", "image_url":
// {"url": "data:image/png;base64,..."}}. Nothing is fetched: other URLs are refused.
#include <cstddef>
#include <string>
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

/// Takes the pictures out of an array of messages. Throws ApiError for a model that reads none, for too many,
/// and for what is no data: URL.
Pictures take_pictures(Json& messages, const ServedModel& model);

/// The prompt with the pictures in their places, computed now unless they came before. Throws ApiError for
/// those that cannot be read.
PromptWithImages with_pictures(const std::vector<PromptPiece>& prompt, const Pictures& pictures,
                               const ServedModel& model);

}  // namespace weft::server
