#pragma once
// Python's operators on values.
#include <cstdint>
#include <optional>

#include "text/jinja/ast.h"
#include "text/jinja/value.h"

namespace weft::text::jinja {

/// Throws Problem when Python raises a TypeError or ZeroDivisionError, and for integers beyond 64 bits.
Value arithmetic(Heap& heap, ast::Arithmetic op, const Value& a, const Value& b);
Value negative(const Value& value);
/// Throws Problem for numbers outside of 64-bit integers.
[[noreturn]] void fail_overflow();
/// Python's int(): drops the fraction. Empty for non-finite values; throws Problem beyond 64 bits.
std::optional<std::int64_t> truncated(double value);
bool compare(Heap& heap, ast::Comparison op, const Value& a, const Value& b);
bool contains(Heap& heap, const Value& container, const Value& value);
/// list[key], string[key], dict[key]; empty if there is no such item or the value has no items.
std::optional<Value> subscript(Heap& heap, const Value& container, const Value& key);
/// value[begin:end:step]; missing bounds are None or undefined.
Value slice(Heap& heap, const Value& value, const Value& begin, const Value& end, const Value& step);

/// Python's %-formatting: "%s has %5.2f". `values`: a tuple, a dict, or one value.
Text format_percent(Heap& heap, const Text& format, const Value& values);
/// str.format() with {}, {0} and {name}, without format specifications.
Text format_braces(Heap& heap, const Text& format, const Arguments& arguments);

}  // namespace weft::text::jinja
