#pragma once
// The error for a model that computes NaN or infinity, because its weights are damaged or values overflow
// their type. Functions throw it; a batcher's completion ends with it.
#include <span>

#include "weft/error.h"

#pragma GCC visibility push(default)

namespace weft {

class Model;

/// The message names the model's file. Error::code() is kInvalidFile.
class NotNumbersError : public Error {
 public:
  explicit NotNumbersError(const Model& model);
};

/// Throws NotNumbersError unless all values are finite. For values that a caller reads itself, such as
/// Context::embedding and Context::log_sum_exp. Single logits may be minus infinity.
void check_numbers(const Model& model, std::span<const float> values);

}  // namespace weft

#pragma GCC visibility pop
