#pragma once
// The model cache: a folder of GGUF files that --model finds by name, and the packed weights of used models.
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace weft::cli {

/// ${WEFT_CACHE:-$HOME/.cache/weft}/models; empty if neither variable is set, which means no cache.
std::filesystem::path model_cache_dir();
/// ${WEFT_CACHE:-$HOME/.cache/weft}/packed, or empty: packed weights, which may be deleted at any time.
std::filesystem::path packed_cache_dir();
/// ${WEFT_CACHE:-$HOME/.cache/weft}/converted, or empty: models of folders, which may be deleted as well.
std::filesystem::path converted_cache_dir();
/// For messages: the cache's folder, or how to set one.
std::string model_cache_text();

struct CachedModel {
  std::string name;  ///< The file's name without .gguf, for hub models preceded by USER/REPO/.
  std::filesystem::path path;
  bool is_default = false;
};
/// Sorted by name; of a split model only the first part. Empty without a cache.
std::vector<CachedModel> cached_models();

struct PackedWeights {
  std::string model;  ///< The name of its file, without .gguf.
  std::filesystem::path path;
  std::uint64_t bytes = 0;
  std::chrono::system_clock::time_point last_used;
};
/// The most recently used first.
std::vector<PackedWeights> packed_weights();
/// Removes packed weights and returns the removed ones. Processes that have them mapped keep them. Throws
/// Error kIo.
std::vector<PackedWeights> clear_packed_weights();

/// Finds a path, or a model of the cache by its name or a unique part of it, ignoring case. Empty: the
/// default model. Throws Error kNotFound that lists the models.
std::filesystem::path find_cached_model(std::string_view name);

}  // namespace weft::cli
