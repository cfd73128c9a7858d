#pragma once
// The header of a safetensors file: eight bytes with its length (little-endian), then JSON that gives each
// tensor's type, shape and place in the bytes that follow
// (https://huggingface.co/docs/safetensors, "Format").
#include <vector>

#include "base/mapped_file.h"
#include "weft/weights.h"

namespace weft {

/// The tensors of a whole file. Throws Error kInvalidFile that names the tensor. Of types that weft has not
/// only the place is checked.
std::vector<WeightFile::Tensor> read_safetensors(const base::MappedFile& mapped);

}  // namespace weft
