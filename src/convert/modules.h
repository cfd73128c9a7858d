#pragma once
// The modules of sentence-transformers after a model: the pooling and the dense layers that follow it.
#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

namespace weft::convert_impl {

struct Modules {
  std::optional<std::uint32_t> pooling;      ///< GGUF's number. nullopt if the folder has none.
  std::vector<std::filesystem::path> dense;  ///< Files with a matrix "linear.weight", in their order.
};

/// Reads modules.json and the files that it names; without it, 1_Pooling. Throws Error kInvalidFile, and
/// kUnsupported for other poolings, dense layers with a bias or an activation, and more than two dense
/// layers.
Modules read_modules(const std::filesystem::path& folder);

}  // namespace weft::convert_impl
