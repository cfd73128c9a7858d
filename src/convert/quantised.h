#pragma once
// Weights that a folder has quantised, made readable.
//   MXFP4 (gpt-oss)      NAME_blocks, NAME_scales: GGUF's MXFP4 with the bits in another order.
//   FP8 (DeepSeek, Qwen) NAME of F8_E4M3, NAME_scale_inv: one scale per block, row or tensor.
//   Compressed-tensors   FP8 and INT8 with NAME_scale; NAME_packed: codes of 4 or 8 bits in I32.
#include <map>
#include <string>

#include "convert/folder_weights.h"

namespace weft::convert_impl {

/// Replaces what belongs together by one source each. Throws Error kUnsupported that names a method that is
/// not read, kInvalidFile that names the tensor.
void join_quantised(const Json& config, std::map<std::string, Source>& sources);

}  // namespace weft::convert_impl
