#pragma once
// How the elements of a tensor stand in GGUF, where that is another order than the folder's.
#include <vector>

#include "convert/config.h"
#include "convert/family.h"
#include "convert/tensors.h"

namespace weft::convert_impl {

/// What becomes of a tensor: itself in the order of GGUF, or several. Throws Error kInvalidFile where its
/// shape is not what `config` says.
std::vector<OutTensor> arrange(OutTensor tensor, const Config& config, const Family& family);

}  // namespace weft::convert_impl
