#pragma once
// Runs a template's tree. One Interpreter renders once, on one thread; the tree and the variables must
// outlive it.
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/limits.h"
#include "text/jinja/value.h"

namespace weft::text::jinja {

class Interpreter {
 public:
  Interpreter(Heap& heap, const Dict& variables) : heap_(heap), variables_(variables) {}

  /// Throws Problem.
  Text run(const ast::Block& program);
  /// The line of the statement or expression that ran last: the source of a Problem.
  int line() const { return line_; }

  // For filters, tests and functions:
  Heap& heap() { return heap_; }
  Budget& budget() { return heap_.budget; }
  Value call(const Value& callee, Arguments arguments);
  Value filter(std::string_view name, const Arguments& arguments);
  bool test(std::string_view name, const Arguments& arguments);
  Value attribute(const Value& value, std::string_view name);  ///< value.name
  Value item(const Value& value, const Value& key);            ///< value[key]

 private:
  enum class Flow { kNext, kBreak, kContinue };

  /// Variables of a block. A scope that a macro can still see after its block has ended is `captured`; others
  /// are reused.
  struct Scope final : HeapItem {
    Scope* parent = nullptr;
    std::vector<std::pair<std::string_view, Value>> variables;
    bool captured = false;
  };
  class InnerScope;
  class Capture;
  class MacroObject;
  class LoopObject;

  Flow run_block(const ast::Block& block);
  Flow run_scoped(const ast::Block& block);
  Flow run(const ast::Statement& statement);
  Flow run(const ast::Data& node);
  Flow run(const ast::Output& node);
  Flow run(const ast::If& node);
  Flow run(const ast::For& node);
  Flow run(const ast::Set& node);
  Flow run(const ast::SetBlock& node);
  Flow run(const ast::Macro& node);
  Flow run(const ast::CallBlock& node);
  Flow run(const ast::FilterBlock& node);
  Flow run(const ast::With& node);
  Flow run(const ast::Break& node);
  Flow run(const ast::Continue& node);
  Text call_macro(const ast::Macro& macro, Scope* closure, Arguments arguments);
  Value make_macro(const ast::Macro& macro);
  Flow run_loop(const ast::For& node, const Value& iterable, std::int64_t depth);
  Text call_loop(const LoopObject& loop, const Value& iterable);
  std::vector<Value> loop_items(const ast::For& node, const Value& iterable);
  /// The scope, for users that may outlive its block.
  Scope* captured_scope();

  Value eval(const ast::Expression& expression);
  Value eval(const ast::Constant& node);
  Value eval(const ast::Name& node);
  Value eval(const ast::ListLiteral& node);
  Value eval(const ast::DictLiteral& node);
  Value eval(const ast::Postfix& node);
  Value eval(const ast::Unary& node);
  Value eval(const ast::Chain& node);
  Value eval(const ast::Concatenation& node);
  Value eval(const ast::Compare& node);
  Value eval(const ast::Logic& node);
  Value eval(const ast::Conditional& node);
  Value apply(const Value& base, const ast::Attribute& suffix);
  Value apply(const Value& base, const ast::Item& suffix);
  Value apply(const Value& base, const ast::Slice& suffix);
  Value apply(const Value& base, const ast::Call& suffix);
  Value apply(const Value& base, const ast::Filter& suffix);
  Value apply(const Value& base, const ast::Test& suffix);
  Value apply_filters(Value value, const std::vector<ast::Filter>& filters);
  Arguments arguments(const ast::Call& call, const Value* first = nullptr);

  Value lookup(std::string_view name);
  void define(std::string_view name, Value value);
  void assign(const ast::Target& target, const Value& value);
  void write(const Text& text);

  Heap& heap_;
  const Dict& variables_;
  Scope* scope_ = nullptr;
  std::vector<Scope*> free_scopes_;
  Text* out_ = nullptr;
  int depth_ = 0;
  int n_calls_ = 0;
  int line_ = 0;
};

}  // namespace weft::text::jinja
