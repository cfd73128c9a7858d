#pragma once
// vLLM's endpoints for encoders: POST /v1/score and /classify.
#include "api/job.h"

namespace weft::server {

/// Scores of pairs of strings: a reranker's probability that they match, or the cosine of two embeddings.
void score(Job& job);
/// The probabilities of a classifier's classes for each input.
void classify(Job& job);

}  // namespace weft::server
