#pragma once
// The functions of templates: filters (value|name), tests (value is name), methods (value.name()) and
// functions (name()). Each follows jinja2 3.1 or Python, or transformers where its chat templates differ.
#include <array>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>

#include "text/jinja/value.h"

namespace weft::text::jinja {

using FilterFunction = Value (*)(Interpreter&, const Arguments&);
using TestFunction = bool (*)(Interpreter&, const Arguments&);
/// `self` is the value that the function is bound to, undefined for free functions.
using NativeFunction = Value (*)(Interpreter&, const Value& self, const Arguments&);

/// Null where there is none.
FilterFunction find_filter(std::string_view name);
TestFunction find_test(std::string_view name);
/// Methods of str, list and dict. Lists and dicts can be changed (append, update, ...); the Jinja sandbox of
/// transformers refuses that. They live only during the rendering, so nothing outside is changed.
std::optional<Value> find_method(Heap& heap, const Value& self, std::string_view name);
/// range, dict, namespace, raise_exception, joiner, cycler.
std::optional<Value> find_function(Heap& heap, std::string_view name);

Value function(Heap& heap, NativeFunction body, Value self);
/// Of a namespace(); null for other values.
Dict* namespace_attributes(const Value& value);
/// The time formatted by strftime. Throws Problem for another value.
Value format_time(const Value& now, std::string_view format);
/// strftime_now(format) for a fixed time: "YYYY-MM-DD", "YYYY-MM-DDTHH:MM:SS" or seconds since 1970 (UTC).
/// Throws Problem for any other value.
Value strftime_function(Heap& heap, const Value& now);

/// The arguments of one call, found by position or name.
class Parameters {
 public:
  /// `what` names the function in errors. Throws Problem for arguments that it does not have.
  Parameters(std::string_view what, const Arguments& arguments,
             std::initializer_list<std::string_view> names);

  bool has(std::size_t i) const { return values_[i] != nullptr; }
  /// Throws Problem where the argument is missing.
  const Value& operator[](std::size_t i) const;
  bool is_none(std::size_t i) const { return !has(i) || std::holds_alternative<None>(*values_[i]); }
  Value get(std::size_t i, Value otherwise) const { return has(i) ? *values_[i] : std::move(otherwise); }
  bool flag(std::size_t i) const { return has(i) && truth(*values_[i]); }
  std::int64_t integer(std::size_t i, std::optional<std::int64_t> otherwise = {}) const;
  const Text& text(std::size_t i) const;

 private:
  [[noreturn]] void fail(const std::string& what) const;

  std::string_view what_;
  std::span<const std::string_view> names_;
  std::array<const Value*, 8> values_{};
};

// The groups of filters that find_filter() searches.
struct FilterEntry {
  std::string_view name;
  FilterFunction body;
};
std::span<const FilterEntry> text_filters();
std::span<const FilterEntry> number_filters();
std::span<const FilterEntry> sequence_filters();

/// item.a.b or item[0] for "a.b" or 0, as in map(attribute=...) and similar filters.
Value path_of(Interpreter& interpreter, const Value& item, const Value& path);

}  // namespace weft::text::jinja
