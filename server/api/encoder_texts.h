#pragma once
// Requests to an encoder: texts to its service, and one JSON answer when all of them are read.
#include <functional>
#include <string_view>
#include <vector>

#include "api/job.h"
#include "models/embedding_service.h"

namespace weft::server {

struct EncoderTexts {
  std::vector<TokenPair> texts;
  bool scores = false;
  Pooling pooling = Pooling::kMean;
  /// The answer, of what EmbeddingRequest::done is told. On the service's thread.
  std::function<Json(std::vector<float>)> answer;
};

/// The tokens of all of them. Throws ApiError (context_length_exceeded) for a text that is longer than the
/// model reads, and for one without tokens.
std::size_t check_texts(const ServedModel& model, const std::vector<TokenPair>& texts,
                        std::string_view param);

/// Throws as EmbeddingService::submit does, with nothing submitted.
void submit(Job& job, EncoderTexts texts);

}  // namespace weft::server
