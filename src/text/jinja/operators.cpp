#include "text/jinja/operators.h"

#include <algorithm>
#include <cmath>

#include "base/to_size.h"
#include "text/jinja/strings.h"

namespace weft::text::jinja {
namespace {

using ast::Arithmetic;

std::string_view symbol(Arithmetic op) {
  constexpr std::string_view kSymbols[] = {"+", "-", "*", "/", "//", "%", "**"};
  return kSymbols[static_cast<std::size_t>(op)];
}

[[noreturn]] void fail_types(Arithmetic op, const Value& a, const Value& b) {
  for (const Value* value : {&a, &b}) {
    const auto* missing = std::get_if<Undefined>(value);
    if (missing && missing->what) throw Problem(*missing->what);
  }
  throw Problem("unsupported operand type(s) for " + std::string(symbol(op)) + ": '" +
                std::string(type_name(a)) + "' and '" + std::string(type_name(b)) + "'");
}

std::int64_t floor_divide(std::int64_t a, std::int64_t b) {
  if (b == -1 && a == INT64_MIN) fail_overflow();
  const std::int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

std::int64_t integer_power(std::int64_t base, std::int64_t exponent) {
  std::int64_t result = 1;
  while (exponent > 0) {
    if (exponent % 2 != 0 && __builtin_mul_overflow(result, base, &result)) fail_overflow();
    exponent /= 2;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) fail_overflow();
  }
  return result;
}

Value integer_arithmetic(Arithmetic op, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  const bool divides =
      op == Arithmetic::kDivide || op == Arithmetic::kFloorDivide || op == Arithmetic::kModulo;
  if (divides && b == 0) throw Problem("division by zero");
  switch (op) {
    case Arithmetic::kAdd:
      if (__builtin_add_overflow(a, b, &result)) fail_overflow();
      return result;
    case Arithmetic::kSubtract:
      if (__builtin_sub_overflow(a, b, &result)) fail_overflow();
      return result;
    case Arithmetic::kMultiply:
      if (__builtin_mul_overflow(a, b, &result)) fail_overflow();
      return result;
    case Arithmetic::kDivide:
      return static_cast<double>(a) / static_cast<double>(b);
    case Arithmetic::kFloorDivide:
      return floor_divide(a, b);
    case Arithmetic::kModulo:
      return b == -1 ? std::int64_t{0} : a - floor_divide(a, b) * b;
    case Arithmetic::kPower:
      if (b >= 0) return integer_power(a, b);
      if (a == 0) throw Problem("0 cannot be raised to a negative power");
      return std::pow(static_cast<double>(a), static_cast<double>(b));
  }
  return result;
}

Value float_arithmetic(Arithmetic op, double a, double b) {
  const bool divides =
      op == Arithmetic::kDivide || op == Arithmetic::kFloorDivide || op == Arithmetic::kModulo;
  if (divides && b == 0.0) throw Problem("division by zero");
  switch (op) {
    case Arithmetic::kAdd:
      return a + b;
    case Arithmetic::kSubtract:
      return a - b;
    case Arithmetic::kMultiply:
      return a * b;
    case Arithmetic::kDivide:
      return a / b;
    case Arithmetic::kFloorDivide:
      return std::floor(a / b);
    case Arithmetic::kModulo: {
      const double rest = std::fmod(a, b);
      return rest != 0.0 && (rest < 0.0) != (b < 0.0) ? rest + b : rest;  // The sign of the divisor.
    }
    case Arithmetic::kPower:
      return std::pow(a, b);
  }
  return 0.0;
}

Value repeat(Heap& heap, const Value& sequence, std::int64_t count) {
  const auto n = to_size(std::max<std::int64_t>(count, 0));
  if (const Text* text = as_text(sequence)) {
    if (!text->empty() && n > kMaxTextBytes / text->size()) throw Problem("a repeated string is too long");
    heap.budget.spend_bytes(text->size() * n);
    Text out;
    if (!text->empty()) {
      for (std::size_t i = 0; i < n; ++i) out.append(*text);
    }
    return string(std::move(out));
  }
  const List& list = *as<List>(sequence);
  if (!list.items.empty() && n > kMaxSteps * kValuesPerStep / list.items.size())
    throw Problem("a list is too long");
  heap.budget.spend_values(list.items.size() * n);
  std::vector<Value> items;
  if (!list.items.empty()) {
    for (std::size_t i = 0; i < n; ++i) items.insert(items.end(), list.items.begin(), list.items.end());
  }
  return heap.list(std::move(items), list.kind);
}

bool is_sequence(const Value& value) {
  const List* list = as<List>(value);
  return as_text(value) || (list && list->kind <= ListKind::kTuple);
}

// a + b of strings or of lists of one kind.
std::optional<Value> concatenate(Heap& heap, const Value& a, const Value& b) {
  if (as_text(a) && as_text(b)) {
    heap.budget.spend_bytes(as_text(a)->size() + as_text(b)->size());
    Text out = *as_text(a);
    out.append(*as_text(b));
    return string(std::move(out));
  }
  const List *left = as<List>(a), *right = as<List>(b);
  if (!left || !right || left->kind != right->kind || left->kind > ListKind::kTuple) return std::nullopt;
  heap.budget.spend_values(left->items.size() + right->items.size());
  std::vector<Value> items = left->items;
  items.insert(items.end(), right->items.begin(), right->items.end());
  return heap.list(std::move(items), left->kind);
}

std::optional<std::int64_t> bound(const Value& value) {
  if (is_none(value) || is_undefined(value)) return std::nullopt;
  if (const auto number = as_integer(value)) return number;
  throw Problem("slice indices must be integers or None");
}

// The indices that a slice of `length` items selects (Python's slice.indices).
std::vector<std::size_t> slice_indices(Heap& heap, std::int64_t length, const Value& begin, const Value& end,
                                       std::int64_t step) {
  if (step == 0) throw Problem("slice step cannot be zero");
  const bool forward = step > 0;
  const std::int64_t lowest = forward ? 0 : -1, highest = forward ? length : length - 1;
  const auto place = [&](std::optional<std::int64_t> at, std::int64_t otherwise) {
    if (!at) return otherwise;
    return std::clamp(*at < 0 ? *at + length : *at, lowest, highest);
  };
  const std::int64_t first = place(bound(begin), forward ? lowest : highest);
  const std::int64_t last = place(bound(end), forward ? highest : lowest);
  std::vector<std::size_t> indices;
  for (std::int64_t i = first; forward ? i < last : i > last;) {
    indices.push_back(to_size(i));
    if (indices.size() % 16 == 0) heap.budget.spend();
    // Compared by distance: i + step may overflow.
    if (forward ? step >= last - i : step <= last - i) break;
    i += step;
  }
  return indices;
}

Text slice_text(Heap& heap, const Text& text, const Value& begin, const Value& end, std::int64_t step) {
  heap.budget.spend_bytes(text.size());
  const auto n_characters = static_cast<std::int64_t>(count_characters(text.bytes()));
  if (step == 1) {  // One run of bytes.
    const auto place = [&](const Value& value, std::int64_t otherwise) {
      const std::int64_t at = bound(value).value_or(otherwise);
      const std::int64_t index = std::clamp<std::int64_t>(at < 0 ? at + n_characters : at, 0, n_characters);
      return character_position(text.bytes(), to_size(index));
    };
    const std::size_t first = place(begin, 0), last = place(end, n_characters);
    return first < last ? text.slice(first, last) : Text();
  }
  heap.budget.spend(text.size() / 16);
  std::vector<std::size_t> starts;
  for (std::size_t i = 0; i < text.size(); i += character_at(text.bytes(), i).n_bytes) starts.push_back(i);
  Text out;
  for (std::size_t i : slice_indices(heap, n_characters, begin, end, step)) {
    out.append(text, starts[i], starts[i] + character_at(text.bytes(), starts[i]).n_bytes);
  }
  return out;
}

}  // namespace

void fail_overflow() {
  throw Problem("an integer does not fit into 64 bits; use a float (with a point) or a string instead");
}

std::optional<std::int64_t> truncated(double value) {
  if (!std::isfinite(value)) return std::nullopt;
  constexpr double kEnd = 9223372036854775808.0;  // The smallest value that is too large.
  if (value < -kEnd || value >= kEnd) fail_overflow();
  return static_cast<std::int64_t>(value);
}

Value arithmetic(Heap& heap, Arithmetic op, const Value& a, const Value& b) {
  if (const auto x = as_integer(a), y = as_integer(b); x && y) return integer_arithmetic(op, *x, *y);
  if (const auto x = as_number(a), y = as_number(b); x && y) return float_arithmetic(op, *x, *y);
  if (op == Arithmetic::kAdd) {
    if (auto result = concatenate(heap, a, b)) return *result;
  }
  if (op == Arithmetic::kMultiply && is_sequence(a) && as_integer(b)) return repeat(heap, a, *as_integer(b));
  if (op == Arithmetic::kMultiply && is_sequence(b) && as_integer(a)) return repeat(heap, b, *as_integer(a));
  if (op == Arithmetic::kModulo && as_text(a)) return string(format_percent(heap, *as_text(a), b));
  fail_types(op, a, b);
}

Value negative(const Value& value) {
  if (const auto number = as_integer(value)) {
    if (*number == INT64_MIN) fail_overflow();
    return -*number;
  }
  if (const auto number = as_number(value)) return -*number;
  fail_types(Arithmetic::kSubtract, std::int64_t{0}, value);
}

bool compare(Heap& heap, ast::Comparison op, const Value& a, const Value& b) {
  using ast::Comparison;
  // With NaN, a < b and b <= a are both false, so numbers are not compared by the swapped, negated test.
  const auto x = as_number(a), y = as_number(b);
  const bool floats = x && y && (!as_integer(a) || !as_integer(b));
  switch (op) {
    case Comparison::kEqual:
      return equal(heap, a, b);
    case Comparison::kNotEqual:
      return !equal(heap, a, b);
    case Comparison::kLess:
      return less(heap, a, b);
    case Comparison::kGreater:
      return less(heap, b, a);
    case Comparison::kLessEqual:
      return floats ? *x <= *y : !less(heap, b, a);
    case Comparison::kGreaterEqual:
      return floats ? *x >= *y : !less(heap, a, b);
    case Comparison::kIn:
      return contains(heap, b, a);
    case Comparison::kNotIn:
      return !contains(heap, b, a);
  }
  return false;
}

bool contains(Heap& heap, const Value& container, const Value& value) {
  if (const Text* text = as_text(container)) {
    const Text* what = as_text(value);
    if (!what)
      throw Problem("'in <string>' requires string as left operand, not " + std::string(type_name(value)));
    heap.budget.spend_bytes(text->size());
    return find(heap.budget, text->bytes(), what->bytes()) != kNotFound;
  }
  if (const Dict* dict = as<Dict>(container)) return get(heap, *dict, value) != nullptr;
  if (!is_iterable(container)) {
    throw Problem("argument of type '" + std::string(type_name(container)) + "' is not iterable");
  }
  const List* list = as<List>(container);
  if (!list) return false;
  const std::size_t begin = list->kind == ListKind::kGenerator ? list->n_read : 0;
  for (std::size_t i = begin; i < list->items.size(); ++i) {
    if (equal(heap, list->items[i], value)) return true;
  }
  return false;
}

std::optional<Value> subscript(Heap& heap, const Value& container, const Value& key) {
  if (const auto* missing = std::get_if<Undefined>(&container)) {
    throw Problem(missing->what ? *missing->what : "a value is undefined");
  }
  if (const Dict* dict = as<Dict>(container)) {
    const List* list = as<List>(key);
    if (as<Dict>(key) || as<Object>(key) || is_undefined(key) || (list && list->kind != ListKind::kTuple)) {
      return std::nullopt;
    }
    const Value* found = get(heap, *dict, key);
    return found ? std::optional<Value>(*found) : std::nullopt;
  }
  const auto index = as_integer(key);
  if (!index || !is_sequence(container)) return std::nullopt;
  const auto size = static_cast<std::int64_t>(length(heap, container));
  if (*index >= size || *index < -size) return std::nullopt;
  const auto at = to_size(*index < 0 ? *index + size : *index);
  if (const List* list = as<List>(container)) return list->items[at];
  const Text& text = *as_text(container);
  const std::size_t begin = character_position(text.bytes(), at);
  return string(text.slice(begin, begin + character_at(text.bytes(), begin).n_bytes));
}

Value slice(Heap& heap, const Value& value, const Value& begin, const Value& end, const Value& step) {
  const std::int64_t by = bound(step).value_or(1);
  if (const Text* text = as_text(value)) return string(slice_text(heap, *text, begin, end, by));
  const List* list = as<List>(value);
  if (list && list->kind <= ListKind::kTuple) {
    std::vector<Value> items;
    const auto size = static_cast<std::int64_t>(list->items.size());
    for (std::size_t i : slice_indices(heap, size, begin, end, by)) items.push_back(list->items[i]);
    return heap.list(std::move(items), list->kind);
  }
  if (const auto* missing = std::get_if<Undefined>(&value)) {
    throw Problem(missing->what ? *missing->what : "a value is undefined");
  }
  throw Problem("'" + std::string(type_name(value)) + "' object cannot be sliced");
}

}  // namespace weft::text::jinja
