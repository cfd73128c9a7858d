#pragma once
// A model's file with adapters made a part of it: of each matrix W that adapters add to, W plus the sum of
// scale * alpha / rank * B A. It gives what the model gives with the adapters beside it, up to rounding, and
// needs no more than the model alone. Where a file has a factor beside a matrix (as those of NVFP4 have), W
// is the matrix times that, which stays as it is.
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
  /// Of the matrices that change. Empty: each keeps its type, and one that is quantised is packed anew, which
  /// loses about as much as packing it the first time has.
  std::optional<DType> type = {};
  int n_threads = 0;  ///< 0: as many as there are cores.
  /// Called from the calling thread with 0 to 1. False cancels (Error kCancelled).
  std::function<bool(double)> progress = {};
};

/// Reads a file or a split set, and writes one file: whole, or not at all. Holds one tensor in memory at a
/// time, with the parts of adapters that belong to it. Returns the matrices that were changed. Throws Error
/// kInvalidArgument for params that make no sense (no adapters, a type that a matrix's rows do not fit, the
/// file itself as the result), kInvalidFile for files that are no adapters of this model, kUnsupported for
/// what weft adapts not (embeddings), kNotFound, kIo, kCancelled.
std::vector<QuantizedTensor> merge_adapters(const std::filesystem::path& from,
                                            const std::filesystem::path& to,
                                            const MergeAdaptersParams& params);

}  // namespace weft

#pragma GCC visibility pop
