// Statements: control flow, scopes and macros.
#include <algorithm>
#include <optional>

#include "base/to_size.h"
#include "text/jinja/builtins.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/operators.h"

namespace weft::text::jinja {

/// Opens a scope during its lifetime.
class Interpreter::InnerScope {
 public:
  InnerScope(Interpreter& interpreter, Scope* parent)
      : interpreter_(interpreter), outer_(interpreter.scope_) {
    auto& unused = interpreter.free_scopes_;
    Scope* scope = nullptr;
    if (unused.empty()) {
      scope = interpreter.heap_.make<Scope>();
    } else {
      scope = unused.back();
      unused.pop_back();
    }
    scope->parent = parent;
    interpreter.scope_ = scope;
  }
  explicit InnerScope(Interpreter& interpreter) : InnerScope(interpreter, interpreter.scope_) {}
  ~InnerScope() {
    Scope* scope = std::exchange(interpreter_.scope_, outer_);
    if (scope->captured) return;
    scope->variables.clear();
    interpreter_.free_scopes_.push_back(scope);
  }
  InnerScope(const InnerScope&) = delete;
  InnerScope& operator=(const InnerScope&) = delete;

 private:
  Interpreter& interpreter_;
  Scope* outer_;
};

/// Redirects output into `text` during its lifetime.
class Interpreter::Capture {
 public:
  Capture(Interpreter& interpreter, Text& text)
      : interpreter_(interpreter), outer_(std::exchange(interpreter.out_, &text)) {}
  ~Capture() { interpreter_.out_ = outer_; }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

 private:
  Interpreter& interpreter_;
  Text* outer_;
};

class Interpreter::MacroObject final : public Object {
 public:
  MacroObject(const ast::Macro& macro, Scope* closure) : macro_(macro), closure_(closure) {}
  std::string_view type_name() const override { return "macro"; }
  bool callable() const override { return true; }
  Value call(Interpreter& interpreter, Arguments arguments) override {
    return string(interpreter.call_macro(macro_, closure_, std::move(arguments)));
  }
  std::optional<Value> attribute(Interpreter&, std::string_view name) override {
    if (name == "name") return string(Text(macro_.name, true));
    return std::nullopt;
  }

 private:
  const ast::Macro& macro_;
  Scope* closure_;
};

/// The variable `loop`.
class Interpreter::LoopObject final : public Object {
 public:
  std::vector<Value> items;
  std::size_t index = 0;
  std::int64_t depth = 1;               ///< For recursive loops.
  const ast::For* recursive = nullptr;  ///< The loop that a call repeats; null: not recursive.
  Scope* around = nullptr;              ///< The scope of that loop.

  std::string_view type_name() const override { return "loop"; }
  bool callable() const override { return true; }
  Value call(Interpreter& interpreter, Arguments arguments) override {
    const Parameters given("loop", arguments, {"iterable"});
    if (recursive == nullptr) throw Problem("only a loop marked as recursive can be called");
    return string(interpreter.call_loop(*this, given[0]));
  }
  std::optional<Value> attribute(Interpreter& interpreter, std::string_view name) override {
    const auto at = static_cast<std::int64_t>(index), size = static_cast<std::int64_t>(items.size());
    if (name == "index") return at + 1;
    if (name == "index0") return at;
    if (name == "revindex") return size - at;
    if (name == "revindex0") return size - at - 1;
    if (name == "first") return index == 0;
    if (name == "last") return index + 1 >= items.size();
    if (name == "length") return size;
    if (name == "depth") return depth;
    if (name == "depth0") return depth - 1;
    if (name == "previtem") {
      return index > 0 && index <= items.size() ? items[index - 1] : undefined("there is no previous item");
    }
    if (name == "nextitem")
      return index + 1 < items.size() ? items[index + 1] : undefined("there is no next item");
    if (name == "cycle") return function(interpreter.heap(), &LoopObject::cycle, this);
    if (name == "changed") return function(interpreter.heap(), &LoopObject::changed, this);
    return std::nullopt;
  }

 private:
  static Value cycle(Interpreter&, const Value& self, const Arguments& arguments) {
    if (arguments.positional.empty()) throw Problem("loop.cycle needs values");
    return arguments.positional[loop(self).index % arguments.positional.size()];
  }
  static Value changed(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
    LoopObject& it = loop(self);
    const Value now = interpreter.heap().list(arguments.positional, ListKind::kTuple);
    const bool same = it.last_ && equal(interpreter.heap(), *it.last_, now);
    it.last_ = now;
    return !same;
  }
  static LoopObject& loop(const Value& self) { return *static_cast<LoopObject*>(as<Object>(self)); }

  std::optional<Value> last_;
};

Text Interpreter::run(const ast::Block& program) {
  Text out;
  const Capture capture(*this, out);
  const InnerScope scope(*this);
  run_block(program);
  return out;
}

void Interpreter::write(const Text& text) {
  budget().spend_bytes(text.size());
  out_->append(text);
}

Interpreter::Flow Interpreter::run_block(const ast::Block& block) {
  for (const ast::Statement& statement : block) {
    const Flow flow = run(statement);
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::run_scoped(const ast::Block& block) {
  const InnerScope scope(*this);
  return run_block(block);
}

Interpreter::Flow Interpreter::run(const ast::Statement& statement) {
  const Level level(depth_, kMaxDepth, "statements");
  budget().spend();
  line_ = statement.line;
  return std::visit([this](const auto& node) { return run(node); }, statement.what);
}

Interpreter::Flow Interpreter::run(const ast::Data& node) {
  write(*node.text);
  return Flow::kNext;
}

Interpreter::Flow Interpreter::run(const ast::Output& node) {
  for (const auto& value : node.values) write(to_text(heap_, eval(*value)));
  return Flow::kNext;
}

Interpreter::Flow Interpreter::run(const ast::If& node) {
  for (const auto& [condition, body] : node.branches) {
    if (truth(eval(*condition))) return run_block(body);
  }
  return run_block(node.otherwise);
}

std::vector<Value> Interpreter::loop_items(const ast::For& node, const Value& iterable) {
  std::vector<Value> items = items_of(heap_, iterable);
  if (!node.condition) return items;
  const InnerScope scope(*this);
  std::erase_if(items, [&](const Value& item) {
    assign(node.target, item);
    return !truth(eval(*node.condition));
  });
  return items;
}

Interpreter::Flow Interpreter::run(const ast::For& node) { return run_loop(node, eval(*node.iterable), 1); }

Interpreter::Flow Interpreter::run_loop(const ast::For& node, const Value& iterable, std::int64_t depth) {
  auto* loop = heap_.make<LoopObject>();
  loop->depth = depth;
  if (node.recursive) {
    loop->recursive = &node;
    loop->around = captured_scope();
  }
  loop->items = loop_items(node, iterable);
  if (loop->items.empty()) return run_scoped(node.otherwise);
  Flow flow = Flow::kNext;
  for (; loop->index < loop->items.size() && flow != Flow::kBreak; ++loop->index) {
    budget().spend();
    const InnerScope scope(*this);
    define("loop", static_cast<Object*>(loop));
    assign(node.target, loop->items[loop->index]);
    flow = run_block(node.body);
  }
  loop->items = {};  // The loop's object may live longer; its items need not.
  return Flow::kNext;
}

Text Interpreter::call_loop(const LoopObject& loop, const Value& iterable) {
  const Level level(n_calls_, kMaxCalls, "recursive loops");
  const InnerScope scope(*this, loop.around);
  Text out;
  const Capture capture(*this, out);
  run_loop(*loop.recursive, iterable, loop.depth + 1);
  return out;
}

Interpreter::Flow Interpreter::run(const ast::Set& node) {
  assign(node.target, eval(*node.value));
  return Flow::kNext;
}

Interpreter::Flow Interpreter::run(const ast::SetBlock& node) {
  Text text;
  {
    const Capture capture(*this, text);
    run_scoped(node.body);
  }
  assign(node.target, apply_filters(string(std::move(text)), node.filters));
  return Flow::kNext;
}

Interpreter::Flow Interpreter::run(const ast::Macro& node) {
  define(node.name, make_macro(node));
  return Flow::kNext;
}

Interpreter::Flow Interpreter::run(const ast::CallBlock& node) {
  const auto& postfix = std::get<ast::Postfix>(node.call->what);  // Ensured by the parser.
  const Value caller = make_macro(node.caller);
  Value callee = eval(*postfix.base);
  for (std::size_t i = 0; i + 1 < postfix.suffixes.size(); ++i) {
    callee = std::visit([&](const auto& suffix) { return apply(callee, suffix); }, postfix.suffixes[i].what);
  }
  Arguments all = arguments(std::get<ast::Call>(postfix.suffixes.back().what));
  all.named.emplace_back("caller", caller);
  write(to_text(heap_, call(callee, std::move(all))));
  return Flow::kNext;
}

Interpreter::Flow Interpreter::run(const ast::FilterBlock& node) {
  Text text;
  {
    const Capture capture(*this, text);
    run_scoped(node.body);
  }
  write(to_text(heap_, apply_filters(string(std::move(text)), node.filters)));
  return Flow::kNext;
}

Interpreter::Flow Interpreter::run(const ast::With& node) {
  std::vector<Value> values;
  for (const auto& value : node.values) values.push_back(eval(*value));
  const InnerScope scope(*this);
  for (std::size_t i = 0; i < values.size(); ++i) assign(node.targets[i], values[i]);
  return run_block(node.body);
}

Interpreter::Flow Interpreter::run(const ast::Break&) { return Flow::kBreak; }
Interpreter::Flow Interpreter::run(const ast::Continue&) { return Flow::kContinue; }

Interpreter::Scope* Interpreter::captured_scope() {
  for (Scope* scope = scope_; scope && !scope->captured; scope = scope->parent) scope->captured = true;
  return scope_;
}

Value Interpreter::make_macro(const ast::Macro& macro) {
  return static_cast<Object*>(heap_.make<MacroObject>(macro, captured_scope()));
}

Text Interpreter::call_macro(const ast::Macro& macro, Scope* closure, Arguments arguments) {
  const Level level(n_calls_, kMaxCalls, "macro calls");
  const auto& names = macro.parameters.names;
  const auto& defaults = macro.parameters.defaults;
  const auto fail = [&](const std::string& what) { throw Problem("macro '" + macro.name + "' " + what); };
  const InnerScope scope(*this, closure);
  Text out;
  const Capture capture(*this, out);

  Value caller = undefined("No caller defined");
  Dict* extra_named = heap_.make<Dict>();
  std::vector<std::optional<Value>> given(names.size());
  for (std::size_t i = 0; i < std::min(names.size(), arguments.positional.size()); ++i) {
    given[i] = arguments.positional[i];
  }
  for (auto& [name, value] : arguments.named) {
    const auto place = std::find(names.begin(), names.end(), name);
    const auto i = to_size(place - names.begin());
    if (place != names.end()) {
      if (given[i]) fail("got several values for its parameter '" + name + "'");
      given[i] = std::move(value);
    } else if (name == "caller" && macro.takes_caller) {
      caller = std::move(value);
    } else {
      set(heap_, *extra_named, name, std::move(value));
    }
  }
  if (!extra_named->entries.empty() && !macro.takes_kwargs) {
    const Text* name = as_text(extra_named->entries.front().first);
    fail("takes no argument '" + std::string(name->bytes()) + "'");
  }
  const std::size_t n_given = arguments.positional.size();
  if (n_given > names.size() && !macro.takes_varargs) {
    fail("takes at most " + std::to_string(names.size()) + " argument(s)");
  }

  for (std::size_t i = 0; i < names.size(); ++i) {
    if (given[i]) {
      define(names[i], *given[i]);
    } else if (i + defaults.size() >= names.size()) {
      define(names[i], eval(*defaults[i + defaults.size() - names.size()]));
    } else {
      define(names[i], undefined("parameter '" + names[i] + "' was not provided"));
    }
  }
  if (macro.takes_caller) define("caller", caller);
  if (macro.takes_kwargs) define("kwargs", extra_named);
  if (macro.takes_varargs) {
    const auto first =
        arguments.positional.begin() + static_cast<std::ptrdiff_t>(std::min(n_given, names.size()));
    define("varargs", heap_.list({first, arguments.positional.end()}, ListKind::kTuple));
  }
  run_block(macro.body);
  return out;
}

void Interpreter::define(std::string_view name, Value value) {
  auto& variables = scope_->variables;
  budget().spend(variables.size() / 16);
  for (auto& [known, old] : variables) {
    if (known == name) {
      old = std::move(value);
      return;
    }
  }
  variables.emplace_back(name, std::move(value));
}

Value Interpreter::lookup(std::string_view name) {
  for (const Scope* scope = scope_; scope; scope = scope->parent) {
    budget().spend(scope->variables.size() / 16);
    for (const auto& [known, value] : scope->variables) {
      if (known == name) return value;
    }
  }
  if (const Value* value = get(variables_, name)) return *value;
  if (const auto value = find_function(heap_, name)) return *value;
  return undefined("'" + std::string(name) + "' is undefined");
}

void Interpreter::assign(const ast::Target& target, const Value& value) {
  if (!target.attribute.empty()) {
    Dict* attributes = namespace_attributes(lookup(target.name));
    if (!attributes) throw Problem("cannot assign an attribute of '" + target.name + "': it is no namespace");
    return set(heap_, *attributes, target.attribute, value);
  }
  if (!target.is_tuple) return define(target.name, value);
  const std::vector<Value> items = items_of(heap_, value);
  if (items.size() != target.parts.size()) {
    throw Problem("cannot unpack " + std::to_string(items.size()) + " values to " +
                  std::to_string(target.parts.size()) + " names");
  }
  for (std::size_t i = 0; i < items.size(); ++i) assign(target.parts[i], items[i]);
}

}  // namespace weft::text::jinja
