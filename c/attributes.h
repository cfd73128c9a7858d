#pragma once
// Access to ops and their attributes by name. The names come from the structs of the op table
// (weft/graph/op.h), so this file has no list. Boost.PFR takes structs apart; names are what the compiler
// prints.
#include <array>
#include <boost/pfr.hpp>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "weft/graph.h"

namespace weft::c {

namespace reflection {

/// The last word within braces: of a field `{&nowhere<...>.value.Norm::eps}`, of an enumerator
/// `{Activation::kSilu}`. A printed number is not an enumerator.
constexpr std::string_view last_word(std::string_view printed) {
  const auto is_word = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  std::size_t end = printed.rfind('}');
  while (end > 0 && !is_word(printed[end - 1])) --end;
  std::size_t begin = end;
  while (begin > 0 && is_word(printed[begin - 1])) --begin;
  return printed.substr(begin, end - begin);
}

template <typename T>
struct Holder {
  T value;
};
/// Declared and never defined: only the addresses of its fields are used, at compile time.
template <typename T>
extern const Holder<T> nowhere;

template <typename T>
struct Braced {
  T value;
};
template <typename T>
Braced(T) -> Braced<T>;

template <auto kValue>
consteval std::string_view word_of() {
  return last_word(__PRETTY_FUNCTION__);
}

}  // namespace reflection

template <typename T, std::size_t kPlace>
constexpr std::string_view field_name() {
  using namespace reflection;
  return word_of<Braced{&boost::pfr::get<kPlace>(nowhere<T>.value)}>();
}

/// Calls `use` with the name of each field and the field. Fields of nested structs are named "struct.field".
template <typename T, typename F>
void each_field(T& object, F&& use, const std::string& prefix = {}) {
  using Plain = std::remove_const_t<T>;
  [&]<std::size_t... kPlaces>(std::index_sequence<kPlaces...>) {
    (
        [&] {
          auto& field = boost::pfr::get<kPlaces>(object);
          const std::string name = prefix + std::string(field_name<Plain, kPlaces>());
          if constexpr (std::is_same_v<std::remove_cvref_t<decltype(field)>, ops::Rope>)
            each_field(field, use, name + ".");
          else
            use(name, field);
        }(),
        ...);
  }(std::make_index_sequence<boost::pfr::tuple_size_v<Plain>>{});
}

/// "kGeluErf" as "gelu_erf".
inline std::string snake(std::string_view enumerator) {
  std::string result;
  for (const char c : enumerator.substr(1)) {
    if (c < 'A' || c > 'Z') {
      result += c;
      continue;
    }
    if (!result.empty()) result += '_';
    result += static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

/// The names of an enum's values, which count from 0.
template <typename E>
std::vector<std::string> choices() {
  constexpr std::size_t kMost = 32;
  std::vector<std::string> result;
  [&]<std::size_t... kValues>(std::index_sequence<kValues...>) {
    (
        [&] {
          constexpr std::string_view kWord =
              reflection::word_of<reflection::Braced{static_cast<E>(kValues)}>();
          if constexpr (kWord.starts_with('k')) result.push_back(snake(kWord));
        }(),
        ...);
  }(std::make_index_sequence<kMost>{});
  return result;
}

/// An op of each kind, with the defaults.
template <typename V>
struct AllOps;
template <typename... T>
struct AllOps<std::variant<T...>> {
  static std::vector<Op> make() { return {Op(T{})...}; }
};
inline const std::vector<Op>& all_ops() {
  static const std::vector<Op> ops = AllOps<Op>::make();
  return ops;
}

}  // namespace weft::c
