#pragma once
// Names of a folder's tensors as names of GGUF.
#include <cstdint>
#include <string>
#include <string_view>

#include "convert/family.h"

namespace weft::convert_impl {

/// A folder's name, taken apart.
struct Place {
  std::string block = "blk";  ///< Prefix of the names of layers.
  std::int64_t layer = -1;    ///< -1 for tensors of the whole model.
  std::int64_t expert = -1;   ///< Expert or part; -1 for none or all.
  bool joined = false;        ///< Its parts are rows of one matrix; others are stacked.
  std::string name;           ///< In GGUF, without the layer.
};

/// Tensors that no GGUF file of the family has: other modalities, computed buffers, heads for training.
bool is_left_out(std::string_view name, const Family& family);

/// Throws Error kInvalidFile for an unknown name.
Place place_of(const std::string& full, const Family& family);

}  // namespace weft::convert_impl
