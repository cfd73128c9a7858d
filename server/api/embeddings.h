#pragma once
// Embeddings: a vector for each input, from any model, by pooling hidden states.
#include <functional>
#include <span>
#include <vector>

#include "api/job.h"
#include "api/prompts.h"

namespace weft::server {

/// POST /v1/embeddings
void embeddings(Job& job);
/// POST /embedding, in llama.cpp's own form.
void native_embedding(Job& job);

/// The form of a vector in a response.
struct VectorForm {
  std::size_t n_dimensions = 0;  ///< The first ones are kept; 0: all.
  /// As llama.cpp's embd_normalize: -1 none, 0 scales the largest number to 32760, p > 0 scales the p-norm to
  /// 1.
  int norm = 2;

  std::vector<float> finish(std::span<const float> vector) const;
};

struct EmbeddingOrder {
  std::vector<Prompt> prompts = {};
  Pooling pooling = Pooling::kMean;
  VectorForm form = {};
  std::string field = "input";  ///< The field of the prompts, for errors.
  ErrorShape shape = ErrorShape::kOpenAi;
  /// Makes the response. Any thread.
  std::function<Json(const std::vector<std::vector<float>>& vectors, std::size_t n_tokens)> answer = nullptr;
};

/// The pooling and the form of requests that do not choose them.
EmbeddingOrder usual_embedding(const Job& job);
/// The most tokens of an input.
int max_input_tokens(const ServedModel& model);
/// Computes the vectors. Throws ApiError for an input that is empty or too long.
void embed(Job& job, EmbeddingOrder order);

}  // namespace weft::server
