#include "graph/int_value.h"

#include <cmath>

#include "graph/refuse.h"

namespace weft {

bool is_int(Value x) { return x && x.dtype() == DType::kI32; }
bool are_ints(Value a, Value b) { return is_int(a) && is_int(b); }

std::optional<IntKind> int_kind(BinaryKind kind) {
  switch (kind) {
    case BinaryKind::kAdd:
      return IntKind::kAdd;
    case BinaryKind::kSub:
      return IntKind::kSub;
    case BinaryKind::kMul:
      return IntKind::kMul;
    case BinaryKind::kMaximum:
      return IntKind::kMaximum;
    case BinaryKind::kMinimum:
      return IntKind::kMinimum;
    case BinaryKind::kDiv:
    case BinaryKind::kPow:
      return std::nullopt;
  }
  return std::nullopt;
}

Value int_binary(IntKind kind, Value a, Value b, const Where& where) {
  return apply(ops::IntBinary{kind}, {a, b}, where);
}

Value int_binary(IntKind kind, Value a, float number, bool first, const Where& where) {
  if (!(std::trunc(number) == number && std::fabs(number) < 0x1p31f))
    refuse("int_binary: " + a.name() + " is i32, and " + std::to_string(number) +
               " is not a 32-bit integer; cast it to f32 first",
           where);
  return apply(ops::IntBinary{kind, static_cast<std::int32_t>(number), first}, {a}, where);
}

}  // namespace weft
