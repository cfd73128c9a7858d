#pragma once
// Reorders the elements of tensors whose order in GGUF differs from the folder's.
#include <vector>

#include "convert/config.h"
#include "convert/family.h"
#include "convert/tensors.h"

namespace weft::convert_impl {

/// Returns the tensor in GGUF's order, or several tensors that replace it. Throws Error kInvalidFile if its
/// shape differs from `config`.
std::vector<OutTensor> arrange(OutTensor tensor, const Config& config, const Family& family);

}  // namespace weft::convert_impl
