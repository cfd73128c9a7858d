#pragma once
#include <span>
#include <string_view>

namespace weft::speech {

struct Language {
  std::string_view code, name;
};

/// In the order of their tokens. Models know the first 99 or all 100.
std::span<const Language> languages();

}  // namespace weft::speech
