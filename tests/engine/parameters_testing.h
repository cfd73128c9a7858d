#pragma once
// A walk over all fields of parameters: each must act or be refused. A struct with a field that has no row
// does not compile.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

namespace weft::test {

/// Becomes whatever a field is.
struct AnyValue {
  template <typename T>
  operator T() const;
};

/// How many fields an aggregate has.
template <typename P, typename... Values>
consteval std::size_t count_fields() {
  if constexpr (requires { P{Values{}..., AnyValue{}}; })
    return count_fields<P, Values..., AnyValue>();
  else
    return sizeof...(Values);
}

/// What a field is tried with.
template <typename P>
struct FieldRow {
  std::ptrdiff_t at = 0;                           ///< Where the field lies.
  std::function<void(P&)> base = [](P&) {};        ///< What it needs of others to act.
  std::optional<std::function<void(P&)>> acts;     ///< Must change the result.
  std::optional<std::function<void(P&)>> refused;  ///< Must be an error.

  FieldRow with(std::function<void(P&)> needed) && {
    base = std::move(needed);
    return std::move(*this);
  }
};

template <typename P, typename V>
std::ptrdiff_t place_of(V P::* field) {
  static const P one{};
  return reinterpret_cast<const char*>(&(one.*field)) - reinterpret_cast<const char*>(&one);
}
template <typename P, typename V>
std::function<void(P&)> setter(V P::* field, V value) {
  return [field, value = std::move(value)](P& params) { params.*field = value; };
}

template <typename P, typename V>
FieldRow<P> acts(V P::* field, std::type_identity_t<V> value) {
  return {.at = place_of(field), .acts = setter(field, std::move(value)), .refused = std::nullopt};
}
template <typename P, typename V>
FieldRow<P> refused(V P::* field, std::type_identity_t<V> value) {
  return {.at = place_of(field), .acts = std::nullopt, .refused = setter(field, std::move(value))};
}
/// Acts with the first value, and is refused with the second.
template <typename P, typename V>
FieldRow<P> both(V P::* field, std::type_identity_t<V> value, std::type_identity_t<V> bad) {
  return {.at = place_of(field),
          .acts = setter(field, std::move(value)),
          .refused = setter(field, std::move(bad))};
}
/// Every value makes sense, and results do not show which: `why` is for the reader of the test.
template <typename P, typename V>
FieldRow<P> unseen(V P::* field, const char* /*why*/) {
  return {.at = place_of(field), .acts = std::nullopt, .refused = std::nullopt};
}

/// `result` makes something comparable of parameters, or throws.
template <typename P, std::size_t n, typename F>
void walk(const FieldRow<P> (&rows)[n], const P& start, F result) {
  static_assert(n == count_fields<P>(), "each field needs a row");
  std::set<std::ptrdiff_t> places;
  for (const FieldRow<P>& row : rows) {
    EXPECT_TRUE(places.insert(row.at).second) << "two rows of the field at " << row.at;
    P params = start;
    row.base(params);
    if (row.acts) {
      P changed = params;
      (*row.acts)(changed);
      EXPECT_NE(result(changed), result(params)) << "the field at " << row.at << " has no effect";
    }
    if (row.refused) {
      (*row.refused)(params);
      EXPECT_ANY_THROW((void)result(params)) << "the field at " << row.at << " takes anything";
    }
  }
}

}  // namespace weft::test
