#pragma once
// Which families a test tries: all of them for what a family determines, some for what their ops determine.
#include <cstdlib>
#include <span>
#include <string_view>
#include <vector>

#include "engine/test_support.h"

namespace weft::test {

/// Families that have all kinds of ops together.
inline constexpr const char* kKinds[] = {"bloom", "deepseek2-lite", "falcon-h1", "gemma3n",  "gpt-oss",
                                         "llama", "mamba2",         "qwen35",    "qwen3moe", "rwkv7"};

/// Whether tests try everything: WEFT_FAMILIES=all in the environment, as `make test-families` and `make
/// test-vulkan` have it.
inline bool tries_all() {
  const char* const wish = std::getenv("WEFT_FAMILIES");
  return wish != nullptr && std::string_view(wish) == "all";
}
inline std::vector<const char*> some_or_all(std::span<const char* const> some,
                                            std::span<const char* const> all) {
  return tries_all() ? std::vector(all.begin(), all.end()) : std::vector(some.begin(), some.end());
}
/// For tests of what depends on ops, not on families.
inline std::vector<const char*> kinds_of_families() { return some_or_all(kKinds, kFamilies); }

}  // namespace weft::test
