#pragma once
// Expressions for JSON numbers that enforce bounds digit by digit.
#include <optional>
#include <string>
#include <string_view>

#include "grammar/language.h"

namespace weft::grammar {

/// A decimal number without exponent: the digits before and after the point, without redundant zeros.
struct Decimal {
  bool negative = false;
  std::string whole = "0", fraction;
  bool is_zero() const { return whole == "0" && fraction.empty(); }
};

/// Parses a JSON number. Returns nullopt if it has more than some hundred digits.
std::optional<Decimal> parse_decimal(std::string_view number);

/// Numbers without exponent on one side of a bound.
NodeId add_bounded(const Decimal& bound, bool exclusive, bool from_below, Builder& builder);

/// Any number; with `plain` without exponent.
NodeId add_number(bool integer, bool plain, Builder& builder);

/// Plain multiples of a step, if their last digits decide that; otherwise nullopt.
std::optional<NodeId> add_multiple(const Decimal& step, Builder& builder);

}  // namespace weft::grammar
