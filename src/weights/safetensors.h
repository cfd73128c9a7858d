#pragma once
// The header of a safetensors file. Eight bytes have its length (little-endian). JSON follows, with each
// tensor's type, shape and place in the bytes after it (https://huggingface.co/docs/safetensors, "Format").
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "weft/weights.h"

namespace weft {

/// A tensor of any type.
struct StoredTensor {
  std::string name;
  std::string type;            ///< The file's name: "F32", "F8_E4M3", ...
  std::optional<DType> dtype;  ///< nullopt if weft does not have the type.
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;  ///< Within the mapped file.
};

/// The tensors of a whole file. Throws Error kInvalidFile that names the tensor. For types that no version of
/// the format describes, only the position is checked.
std::vector<StoredTensor> list_safetensors(const base::MappedFile& mapped);

/// The tensors of types that weft has.
std::vector<WeightFile::Tensor> read_safetensors(const base::MappedFile& mapped);

}  // namespace weft
