#pragma once
// Requests to an encoder: passes inputs to its service, and sends one JSON response when all are computed.
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
  ErrorShape shape = ErrorShape::kOpenAi;  ///< Of errors.
  /// Makes the response from the values of EmbeddingRequest::done. On the service's thread.
  std::function<Json(std::vector<float>)> answer;
};

/// Counts the tokens of all inputs. Throws ApiError for an input without tokens, and
/// (context_length_exceeded) for an input that exceeds the model's length.
std::size_t check_texts(const ServedModel& model, const std::vector<TokenPair>& texts,
                        std::string_view param);

/// Throws as EmbeddingService::submit does, with nothing submitted.
void submit(Job& job, EncoderTexts texts);

}  // namespace weft::server
