#pragma once
// The model cache: a folder of GGUF files that --model finds by name.
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace weft::cli {

/// ${WEFT_CACHE:-$HOME/.cache/weft}/models
std::filesystem::path model_cache_dir();
/// ${WEFT_CACHE:-$HOME/.cache/weft}/packed: packed weights, which may be deleted at any time.
std::filesystem::path packed_cache_dir();

struct CachedModel {
  std::string name;  ///< The file's name without .gguf.
  std::filesystem::path path;
  bool is_default = false;
};
/// Sorted by name; of a split file its first part only. Empty where there is no cache.
std::vector<CachedModel> cached_models();

/// A path, or a name in the cache: whole, or a part of it that only one has (upper and lower case alike).
/// Empty: the default model. Throws Error kNotFound with what there is.
std::filesystem::path find_model(std::string_view name);

}  // namespace weft::cli
