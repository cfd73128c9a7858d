#pragma once
// The error of a model that computes NaN or infinity, because its weights are damaged or values overflow
// their type. It is thrown, or ends a completion.
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

/// Throws NotNumbersError unless all values of the model are finite. For values that callers read themselves:
/// embeddings, Context::log_sum_exp. Single logits may be minus infinity.
void check_numbers(const Model& model, std::span<const float> values);

}  // namespace weft

#pragma GCC visibility pop
