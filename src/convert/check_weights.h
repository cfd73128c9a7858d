#pragma once
#include <vector>

#include "convert/tensors.h"
#include "weft/gguf.h"

namespace weft::convert_impl {

/// Throws Error kInvalidFile that names the weights which the folder lacks. `file` has all keys and tensors
/// of the result.
void check_weights(const std::vector<OutTensor>& tensors, const GgufWriter& file);

}  // namespace weft::convert_impl
