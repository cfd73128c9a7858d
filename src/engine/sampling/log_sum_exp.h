#pragma once
// Sums of e^logit on the host: for samplers, and for contexts whose devices do not find them.
#include <span>

#include "weft/types.h"

namespace weft::engine {

/// For one item of a batch.
struct LogSumExp {
  float sum;               ///< The logarithm of the sum of e^logit.
  Token token = kNoToken;  ///< A token that was named beforehand ...
  float logit = 0.0f;      ///< ... and its logit.
};

/// The sum of e^(logit - max). NaN, and logits so far below `max` that they are negligible, contribute e^-87.
double sum_of_exponentials(std::span<const float> logits, float max);

/// For a row of logits, in one thread. NaN counts as minus infinity, plus infinity as the largest number.
LogSumExp log_sum_exp(std::span<const float> logits, Token token);

}  // namespace weft::engine
