#pragma once
// Merges LoRA adapters into a model's file. Each matrix W that they change becomes W + sum of scale * alpha /
// rank * B A. The result computes the same as the model with adapters, up to rounding, at the model's own
// cost. If a matrix has a separate scale tensor (as in NVFP4 files), that tensor stays as it is, and W is the
// scaled matrix.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <vector>

#include "weft/dtype.h"
#include "weft/quantize.h"

#pragma GCC visibility push(default)

namespace weft {

struct AdapterToMerge {
  std::filesystem::path path;
  float scale = 1.0f;
};

struct MergeAdaptersParams {
  std::vector<AdapterToMerge> adapters;
  /// The type of changed matrices. nullopt: each keeps its type. Quantising a quantised matrix again loses
  /// about as much as the first time.
  std::optional<DType> type = {};
  int n_threads = 0;  ///< 0: the number of cores.
  /// The calling thread calls it with the progress, 0 to 1. Returning false cancels (Error kCancelled).
  std::function<bool(double)> progress = {};
};

/// Reads a model's file or split set, and writes one file atomically. Holds one tensor in memory at a time,
/// with its parts of the adapters. Returns the changed matrices. Throws Error kInvalidArgument for wrong
/// params: no adapters, a type that does not fit a matrix's rows, or `to` as an input. Throws kInvalidFile
/// for a file that is not an adapter of this model, and kUnsupported for tensors that cannot be adapted
/// (embeddings). Also kNotFound, kIo and kCancelled.
std::vector<QuantizedTensor> merge_adapters(const std::filesystem::path& from,
                                            const std::filesystem::path& to,
                                            const MergeAdaptersParams& params);

}  // namespace weft

#pragma GCC visibility pop
