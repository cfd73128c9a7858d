#pragma once
// Numbers as JSON writes them, held to bounds digit by digit.
#include <optional>
#include <string>
#include <string_view>

#include "grammar/language.h"

namespace weft::grammar {

/// A decimal number without exponent: digits before and behind the point, without zeros that say nothing.
struct Decimal {
  bool negative = false;
  std::string whole = "0", fraction;
  bool is_zero() const { return whole == "0" && fraction.empty(); }
};

/// Of a JSON number; nothing where it has more than some hundred digits.
std::optional<Decimal> parse_decimal(std::string_view number);

/// Numbers without exponent, integers where `integer`, on one side of a bound.
NodeId add_bounded(const Decimal& bound, bool exclusive, bool from_below, Builder& builder);

/// Any number; with `plain` without exponent.
NodeId add_number(bool integer, bool plain, Builder& builder);

/// Plain numbers that a step divides, where that can be seen from their last digits; else nothing.
std::optional<NodeId> add_multiple(const Decimal& step, Builder& builder);

}  // namespace weft::grammar
