// The tests of the "is" operator.
#include "text/jinja/builtins.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/operators.h"
#include "text/jinja/strings.h"

namespace weft::text::jinja {
namespace {

using A = const Arguments&;
using I = Interpreter&;

const Value& subject(A arguments) { return arguments.positional.front(); }

// Tests without further arguments.
template <bool (*kHolds)(const Value&)>
bool plain(I, A arguments) {
  const Parameters given("test", arguments, {"value"});
  return kHolds(given[0]);
}

template <ast::Comparison kOperator>
bool comparison(I interpreter, A arguments) {
  const Parameters given("test", arguments, {"value", "other"});
  return compare(interpreter.heap(), kOperator, given[0], given[1]);
}

bool is_defined(const Value& value) { return !is_undefined(value); }
bool is_boolean(const Value& value) { return std::holds_alternative<bool>(value); }
bool is_true(const Value& value) { return is_boolean(value) && truth(value); }
bool is_false(const Value& value) { return is_boolean(value) && !truth(value); }
bool is_integer(const Value& value) { return std::holds_alternative<std::int64_t>(value); }
bool is_float(const Value& value) { return std::holds_alternative<double>(value); }
bool is_number(const Value& value) { return as_number(value).has_value(); }
bool is_string(const Value& value) { return as_text(value) != nullptr; }
bool is_mapping(const Value& value) { return as<Dict>(value) != nullptr; }
bool test_sequence(const Value& value) {
  const List* list = as<List>(value);
  return is_undefined(value) || as_text(value) || as<Dict>(value) || (list && list->kind <= ListKind::kTuple);
}
bool is_callable(const Value& value) { return as<Object>(value) && as<Object>(value)->callable(); }
bool never(const Value&) { return false; }

bool divisible_by(I interpreter, A arguments) {
  const Parameters given("divisibleby", arguments, {"value", "num"});
  const Value rest = arithmetic(interpreter.heap(), ast::Arithmetic::kModulo, given[0], given[1]);
  return !truth(rest);
}

template <std::int64_t kRest>
bool parity(I interpreter, A arguments) {
  const Parameters given("test", arguments, {"value"});
  const Value rest = arithmetic(interpreter.heap(), ast::Arithmetic::kModulo, given[0], std::int64_t{2});
  return equal(interpreter.heap(), rest, kRest);
}

template <bool (*kHolds)(std::string_view)>
bool text_test(I interpreter, A arguments) {
  const Parameters given("test", arguments, {"value"});
  const Text text = to_text(interpreter.heap(), given[0]);
  interpreter.budget().spend(text.size() / 16);
  return kHolds(text.bytes());
}

bool same_as(I interpreter, A arguments) {
  const Parameters given("sameas", arguments, {"value", "other"});
  if (given[0].index() != given[1].index()) return false;
  if (const auto* list = as<List>(given[0])) return list == as<List>(given[1]);
  if (const auto* dict = as<Dict>(given[0])) return dict == as<Dict>(given[1]);
  return equal(interpreter.heap(), given[0], given[1]);
}

bool is_filter(I, A arguments) {
  return as_text(subject(arguments)) && find_filter(as_text(subject(arguments))->bytes());
}
bool is_test(I, A arguments) {
  return as_text(subject(arguments)) && find_test(as_text(subject(arguments))->bytes());
}

struct TestEntry {
  std::string_view name;
  TestFunction body;
};

using ast::Comparison;
constexpr TestEntry kTests[] = {
    {"defined", plain<is_defined>},
    {"undefined", plain<is_undefined>},
    {"none", plain<is_none>},
    {"boolean", plain<is_boolean>},
    {"true", plain<is_true>},
    {"false", plain<is_false>},
    {"integer", plain<is_integer>},
    {"float", plain<is_float>},
    {"number", plain<is_number>},
    {"string", plain<is_string>},
    {"mapping", plain<is_mapping>},
    {"iterable", plain<is_iterable>},
    {"sequence", plain<test_sequence>},
    {"callable", plain<is_callable>},
    {"escaped", plain<never>},
    {"filter", is_filter},
    {"test", is_test},
    {"sameas", same_as},
    {"odd", parity<1>},
    {"even", parity<0>},
    {"divisibleby", divisible_by},
    {"upper", text_test<is_upper>},
    {"lower", text_test<is_lower>},
    {"eq", comparison<Comparison::kEqual>},
    {"equalto", comparison<Comparison::kEqual>},
    {"==", comparison<Comparison::kEqual>},
    {"ne", comparison<Comparison::kNotEqual>},
    {"!=", comparison<Comparison::kNotEqual>},
    {"lt", comparison<Comparison::kLess>},
    {"lessthan", comparison<Comparison::kLess>},
    {"<", comparison<Comparison::kLess>},
    {"le", comparison<Comparison::kLessEqual>},
    {"<=", comparison<Comparison::kLessEqual>},
    {"gt", comparison<Comparison::kGreater>},
    {"greaterthan", comparison<Comparison::kGreater>},
    {">", comparison<Comparison::kGreater>},
    {"ge", comparison<Comparison::kGreaterEqual>},
    {">=", comparison<Comparison::kGreaterEqual>},
    {"in", comparison<Comparison::kIn>},
};

}  // namespace

TestFunction find_test(std::string_view name) {
  for (const TestEntry& entry : kTests) {
    if (entry.name == name) return entry.body;
  }
  return nullptr;
}

}  // namespace weft::text::jinja
