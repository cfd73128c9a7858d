#pragma once
// Splits a model's file into several files, and merges them again. Wherever weft takes a model's path, it
// also takes a split set by the path of any of its files.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

#pragma GCC visibility push(default)

namespace weft {

struct SplitParams {
  std::uint64_t max_bytes = 0;  ///< The most bytes of a part; a larger tensor gets its own part. 0: no limit.
  int max_tensors = 128;        ///< The most tensors of a part. 0: no limit.
  /// The calling thread calls it with the progress, 0 to 1. Returning false cancels (Error kCancelled).
  std::function<bool(double)> progress = {};
};

struct FilePart {
  std::filesystem::path path;
  int n_tensors = 0;
  std::uint64_t bytes = 0;  ///< The bytes of its tensors.
};

/// Returns the files that split_model() would write: PREFIX-00001-of-00003.gguf ... Throws Error
/// kInvalidArgument for wrong params and if one part would suffice, and errors of opening the file.
std::vector<FilePart> plan_split(const std::filesystem::path& from, const std::filesystem::path& prefix,
                                 const SplitParams& params = {});
/// Writes the parts. After an error none of them is left. Throws Error kInvalidArgument if a part would
/// overwrite an input or an existing file, kIo, and like plan_split().
std::vector<FilePart> split_model(const std::filesystem::path& from, const std::filesystem::path& prefix,
                                  const SplitParams& params = {});

/// Merges a split set, given by any of its parts, into one file, which is written atomically. Throws like
/// split_model().
void merge_model(const std::filesystem::path& from, const std::filesystem::path& to,
                 const std::function<bool(double)>& progress = {});

}  // namespace weft

#pragma GCC visibility pop
