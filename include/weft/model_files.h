#pragma once
// Splits a model's file into several, and joins them. Wherever weft reads a file, it also reads a split set,
// named by any of its parts.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

#pragma GCC visibility push(default)

namespace weft {

struct SplitParams {
  std::uint64_t max_bytes = 0;  ///< Of a part; a larger tensor gets its own part. 0: no limit.
  int max_tensors = 128;        ///< Maximum tensors of a part. 0: no limit.
  /// Called from the calling thread with 0 to 1. False cancels (Error kCancelled).
  std::function<bool(double)> progress = {};
};

struct FilePart {
  std::filesystem::path path;
  int n_tensors = 0;
  std::uint64_t bytes = 0;  ///< Of the tensors.
};

/// The files that split_model would write: PREFIX-00001-of-00003.gguf ... Throws Error kInvalidArgument if
/// one part would suffice or params are invalid, and errors of opening the file.
std::vector<FilePart> plan_split(const std::filesystem::path& from, const std::filesystem::path& prefix,
                                 const SplitParams& params = {});
/// Each part appears whole or not at all; after an error none is there. Throws Error kInvalidArgument where a
/// part would overwrite an input or an existing file, kIo, and errors of plan_split.
std::vector<FilePart> split_model(const std::filesystem::path& from, const std::filesystem::path& prefix,
                                  const SplitParams& params = {});

/// A split set, by any of its parts, as one file: whole, or not at all. Throws as split_model does.
void merge_model(const std::filesystem::path& from, const std::filesystem::path& to,
                 const std::function<bool(double)>& progress = {});

}  // namespace weft

#pragma GCC visibility pop
