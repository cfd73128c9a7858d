#pragma once
// Merges adapters into a model's file. Each matrix W that adapters change becomes W plus the sum of scale *
// alpha / rank * B A. The result computes the same as the model with the adapters, up to rounding, at the
// cost of the model alone. If a matrix has a separate factor (as in NVFP4 files), W is the matrix times the
// factor, and the factor stays as it is.
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
  /// The type of changed matrices. Empty: each keeps its type. A quantised matrix is quantised again, which
  /// loses about as much as the first time.
  std::optional<DType> type = {};
  int n_threads = 0;  ///< 0: the number of cores.
  /// Called from the calling thread with 0 to 1. False cancels (Error kCancelled).
  std::function<bool(double)> progress = {};
};

/// Reads a file or a split set, and writes one file, completely or not at all. Holds one tensor in memory at
/// a time, with its parts of the adapters. Returns the changed matrices. Throws Error kInvalidArgument for
/// invalid params: no adapters, a type that a matrix's rows do not fit, or the input file as the result.
/// Throws kInvalidFile for files that are not adapters of this model and kUnsupported for tensors that weft
/// cannot adapt (embeddings). Also throws kNotFound, kIo and kCancelled.
std::vector<QuantizedTensor> merge_adapters(const std::filesystem::path& from,
                                            const std::filesystem::path& to,
                                            const MergeAdaptersParams& params);

}  // namespace weft

#pragma GCC visibility pop
