#pragma once
// All values of an enumeration, so that a loop over them needs no list of its own.
#include <array>
#include <string_view>

namespace weft::base {

/// Whether the enumeration has a name for `value`. GCC and Clang print a value without one as a cast:
/// "(weft::Activation)9".
template <auto value>
constexpr bool is_enumerator() {
  return std::string_view(__PRETTY_FUNCTION__).find("= (") == std::string_view::npos;
}

template <typename Enum, int n = 0>
constexpr int n_enumerators() {
  if constexpr (is_enumerator<static_cast<Enum>(n)>()) {
    return n_enumerators<Enum, n + 1>();
  } else {
    return n;
  }
}

/// The values from 0 to the first one without a name. `Enum` has a fixed underlying type.
template <typename Enum>
constexpr auto enumerators() {
  std::array<Enum, n_enumerators<Enum>()> all{};
  for (int i = 0; i < n_enumerators<Enum>(); ++i) all[static_cast<unsigned>(i)] = static_cast<Enum>(i);
  return all;
}

}  // namespace weft::base
