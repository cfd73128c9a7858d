#pragma once
// A model's file in several, and several in one. What weft reads as one file it reads as a split set too, by
// any of its parts.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

#pragma GCC visibility push(default)

namespace weft {

struct SplitParams {
  std::uint64_t max_bytes = 0;  ///< Of a part's tensors; one that is larger is alone. 0: any.
  int max_tensors = 128;        ///< Of a part. 0: any.
  /// Called from the calling thread with 0 to 1. False cancels (Error kCancelled).
  std::function<bool(double)> progress = {};
};

struct FilePart {
  std::filesystem::path path;
  int n_tensors = 0;
  std::uint64_t bytes = 0;  ///< Of the tensors.
};

/// What split_model would write: PREFIX-00001-of-00003.gguf ... Throws Error kInvalidArgument where one part
/// would do, or params say nothing or nonsense, and what opening the file throws.
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
