#pragma once
// The model cache: a folder of GGUF files that --model finds by name, and beside it the packed weights of
// models that were run.
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace weft::cli {

/// ${WEFT_CACHE:-$HOME/.cache/weft}/models; empty where neither is set: then there is no cache.
std::filesystem::path model_cache_dir();
/// ${WEFT_CACHE:-$HOME/.cache/weft}/packed, or empty: packed weights, which may be deleted at any time.
std::filesystem::path packed_cache_dir();
/// ${WEFT_CACHE:-$HOME/.cache/weft}/converted, or empty: models of folders, which may be deleted as well.
std::filesystem::path converted_cache_dir();
/// The model cache for people: its folder, or how to name one.
std::string model_cache_text();

struct CachedModel {
  std::string name;  ///< The file's name without .gguf; of one of a hub behind USER/REPO/.
  std::filesystem::path path;
  bool is_default = false;
};
/// Sorted by name; of a split file its first part only. Empty where there is no cache.
std::vector<CachedModel> cached_models();

struct PackedWeights {
  std::string model;  ///< The name of its file, without .gguf.
  std::filesystem::path path;
  std::uint64_t bytes = 0;
  std::chrono::system_clock::time_point last_used;
};
/// What was used last comes first.
std::vector<PackedWeights> packed_weights();
/// Gives those that were removed. Who uses them at the moment keeps them until the end. Throws Error kIo.
std::vector<PackedWeights> clear_packed_weights();

/// A path, or a name in the cache: whole, or a part of it that only one has (upper and lower case alike).
/// Empty: the default model. Throws Error kNotFound with what there is.
std::filesystem::path find_cached_model(std::string_view name);

}  // namespace weft::cli
