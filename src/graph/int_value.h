#pragma once
// Arithmetic of whole numbers in the language: where the operands of a function are I32.
#include <optional>

#include "weft/graph/value.h"

namespace weft {

bool is_int(Value x);
/// Both are there, and I32.
bool are_ints(Value a, Value b);
/// The integer op for a floating-point op; nullopt if there is none.
std::optional<IntKind> int_kind(BinaryKind kind);
Value int_binary(IntKind kind, Value a, Value b, const Where& where);
/// The number, which must be a whole one of 32 bits, is the second operand; the first if `first`.
Value int_binary(IntKind kind, Value a, float number, bool first, const Where& where);

}  // namespace weft
