#pragma once
// Pictures in conversations, as OpenAI's chat API sends them: parts {"type": "image_url", "image_url":
// {"url": "data:image/png;base64,..."}}. Nothing is fetched: other URLs are refused.
#include <string>
#include <vector>

#include "api/job.h"
#include "weft/vision.h"

namespace weft::server {

struct Pictures {
  std::string mark;  ///< What stands in their places in the messages.
  std::vector<Image> images;
};

/// Takes the pictures out of an array of messages. Throws ApiError for a model that reads none, for too many,
/// and for those that cannot be read.
Pictures take_pictures(Json& messages, const ServedModel& model);

/// The prompt with the pictures in their places, computed now unless they came before.
PromptWithImages with_pictures(const std::vector<PromptPiece>& prompt, const Pictures& pictures,
                               const ServedModel& model);

}  // namespace weft::server
