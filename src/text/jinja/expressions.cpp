// Expressions: every evaluation counts a step and a level of depth.
#include "text/jinja/builtins.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/operators.h"

namespace weft::text::jinja {

Value Interpreter::eval(const ast::Expression& expression) {
  const Level level(depth_, kMaxDepth, "expressions");
  budget().spend();
  line_ = expression.line;
  return std::visit([this](const auto& node) { return eval(node); }, expression.what);
}

Value Interpreter::eval(const ast::Constant& node) { return node.value; }
Value Interpreter::eval(const ast::Name& node) { return lookup(node.name); }

Value Interpreter::eval(const ast::ListLiteral& node) {
  std::vector<Value> items;
  for (const auto& item : node.items) items.push_back(eval(*item));
  return heap_.list(std::move(items), node.is_tuple ? ListKind::kTuple : ListKind::kList);
}

Value Interpreter::eval(const ast::DictLiteral& node) {
  Dict* dict = heap_.make<Dict>();
  for (const auto& [key, value] : node.entries) {
    Value name = eval(*key);
    set(heap_, *dict, std::move(name), eval(*value));
  }
  return dict;
}

Value Interpreter::eval(const ast::Postfix& node) {
  Value value = eval(*node.base);
  for (const ast::Suffix& suffix : node.suffixes) {
    budget().spend();
    line_ = suffix.line;
    value = std::visit([&](const auto& what) { return apply(value, what); }, suffix.what);
  }
  return value;
}

Value Interpreter::eval(const ast::Unary& node) {
  const Value value = eval(*node.operand);
  switch (node.op) {
    case ast::Unary::Operator::kNot:
      return !truth(value);
    case ast::Unary::Operator::kMinus:
      return negative(value);
    case ast::Unary::Operator::kPlus:
      break;
  }
  return negative(negative(value));
}

Value Interpreter::eval(const ast::Chain& node) {
  Value value = eval(*node.first);
  Text joined;  // A run of + on strings is appended here: joining pairwise would copy the front again and
                // again.
  bool joining = false;
  for (const auto& [op, operand] : node.rest) {
    const Value right = eval(*operand);
    if (op == ast::Arithmetic::kAdd && as_text(right) && (joining || as_text(value))) {
      if (!joining) joined = *as_text(value);
      joining = true;
      budget().spend_bytes(as_text(right)->size());
      joined.append(*as_text(right));
      continue;
    }
    if (joining) value = string(std::move(joined));
    joining = false;
    joined = {};
    value = arithmetic(heap_, op, value, right);
  }
  return joining ? string(std::move(joined)) : value;
}

Value Interpreter::eval(const ast::Concatenation& node) {
  Text all;
  for (const auto& part : node.parts) all.append(to_text(heap_, eval(*part)));
  return string(std::move(all));
}

Value Interpreter::eval(const ast::Compare& node) {
  Value left = eval(*node.first);
  for (const auto& [op, operand] : node.rest) {
    Value right = eval(*operand);
    if (!compare(heap_, op, left, right)) return false;
    left = std::move(right);
  }
  return true;
}

Value Interpreter::eval(const ast::Logic& node) {
  Value value;
  for (const auto& operand : node.operands) {
    value = eval(*operand);
    if (truth(value) != node.is_and) break;
  }
  return value;
}

Value Interpreter::eval(const ast::Conditional& node) {
  if (truth(eval(*node.condition))) return eval(*node.then);
  if (node.otherwise) return eval(*node.otherwise);
  return undefined("the inline if-expression evaluated to false and has no else");
}

Value Interpreter::apply(const Value& base, const ast::Attribute& suffix) {
  return attribute(base, suffix.name);
}
Value Interpreter::apply(const Value& base, const ast::Item& suffix) { return item(base, eval(*suffix.key)); }

Value Interpreter::apply(const Value& base, const ast::Slice& suffix) {
  const auto bound = [this](const ast::ExpressionPtr& expression) -> Value {
    return expression ? eval(*expression) : Value(None{});
  };
  const Value begin = bound(suffix.begin), end = bound(suffix.end);
  return slice(heap_, base, begin, end, bound(suffix.step));
}

Value Interpreter::apply(const Value& base, const ast::Call& suffix) { return call(base, arguments(suffix)); }

Value Interpreter::apply(const Value& base, const ast::Filter& suffix) {
  return filter(suffix.name, arguments(suffix.arguments, &base));
}

Value Interpreter::apply(const Value& base, const ast::Test& suffix) {
  return test(suffix.name, arguments(suffix.arguments, &base)) != suffix.negated;
}

Value Interpreter::apply_filters(Value value, const std::vector<ast::Filter>& filters) {
  for (const ast::Filter& filter : filters) value = apply(value, filter);
  return value;
}

Arguments Interpreter::arguments(const ast::Call& call, const Value* first) {
  Arguments all;
  if (first) all.positional.push_back(*first);
  for (const auto& value : call.positional) all.positional.push_back(eval(*value));
  for (const auto& [name, value] : call.named) all.named.emplace_back(name, eval(*value));
  if (call.star) {
    for (Value& value : items_of(heap_, eval(*call.star))) all.positional.push_back(std::move(value));
  }
  if (call.double_star) {
    const Value named = eval(*call.double_star);
    const Dict* dict = as<Dict>(named);
    if (!dict) throw Problem("argument after ** must be a mapping");
    budget().spend_values(dict->entries.size());
    for (const auto& [key, value] : dict->entries) {
      if (!as_text(key)) throw Problem("keywords must be strings");
      all.named.emplace_back(as_text(key)->bytes(), value);
    }
  }
  return all;
}

Value Interpreter::call(const Value& callee, Arguments arguments) {
  if (const auto* missing = std::get_if<Undefined>(&callee)) {
    throw Problem(missing->what ? *missing->what : "a value is undefined");
  }
  Object* object = as<Object>(callee);
  if (!object) throw Problem("'" + std::string(type_name(callee)) + "' object is not callable");
  return object->call(*this, std::move(arguments));
}

Value Interpreter::filter(std::string_view name, const Arguments& arguments) {
  const FilterFunction function = find_filter(name);
  if (!function) throw Problem("no filter named '" + std::string(name) + "'");
  budget().spend();
  return function(*this, arguments);
}

bool Interpreter::test(std::string_view name, const Arguments& arguments) {
  const TestFunction function = find_test(name);
  if (!function) throw Problem("no test named '" + std::string(name) + "'");
  budget().spend();
  return function(*this, arguments);
}

Value Interpreter::attribute(const Value& value, std::string_view name) {
  if (const auto* missing = std::get_if<Undefined>(&value)) {
    throw Problem(missing->what ? *missing->what : "a value is undefined");
  }
  if (Object* object = as<Object>(value)) {
    if (auto found = object->attribute(*this, name)) return *found;
  } else if (auto method = find_method(heap_, value, name)) {
    return *method;
  } else if (const Dict* dict = as<Dict>(value)) {
    if (const Value* found = get(*dict, name)) return *found;
  }
  return undefined("'" + std::string(type_name(value)) + " object' has no attribute '" + std::string(name) +
                   "'");
}

Value Interpreter::item(const Value& value, const Value& key) {
  if (auto found = subscript(heap_, value, key)) return *found;
  if (const Text* name = as_text(key)) {
    budget().spend_bytes(name->size());
    if (Object* object = as<Object>(value)) {
      if (auto found = object->attribute(*this, name->bytes())) return *found;
    } else if (auto method = find_method(heap_, value, name->bytes())) {
      return *method;
    }
    return undefined("'" + std::string(type_name(value)) + " object' has no attribute '" +
                     std::string(name->bytes()) + "'");
  }
  return undefined("'" + std::string(type_name(value)) + " object' has no such element");
}

}  // namespace weft::text::jinja
