#pragma once
// Counts in messages: "1 token", "2 tokens".
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

namespace weft::base {

/// `n` and the noun. `plural`: empty: the noun with an "s".
std::string counted_text(std::int64_t n, std::string_view noun, std::string_view plural);

std::string counted(std::integral auto n, std::string_view noun, std::string_view plural = {}) {
  return counted_text(static_cast<std::int64_t>(n), noun, plural);
}

}  // namespace weft::base
