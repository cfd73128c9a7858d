#pragma once
// The tree of a template. Chains (a + b + c, a.b[c]|d, elif ...) are vectors, not nested nodes, so the tree
// is only as deep as the source has brackets and blocks inside each other (kMaxNesting). Immutable after
// parsing.
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "text/jinja/value.h"

namespace weft::text::jinja::ast {

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

struct Call {  ///< f(positional, named=..., *star, **double_star)
  std::vector<ExpressionPtr> positional;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
  ExpressionPtr star, double_star;
};

// Suffixes of a value: .name  [key]  [a:b:c]  (...)  |filter(...)  is [not] test(...)
struct Attribute {
  std::string name;
};
struct Item {
  ExpressionPtr key;
};
struct Slice {
  ExpressionPtr begin, end, step;  ///< Each may be missing.
};
struct Filter {
  std::string name;
  Call arguments;
};
struct Test {
  std::string name;
  Call arguments;
  bool negated = false;
};
struct Suffix {
  std::variant<Attribute, Item, Slice, Call, Filter, Test> what;
  int line = 0;
};

struct Constant {
  Value value;
};
struct Name {
  std::string name;
};
struct ListLiteral {
  std::vector<ExpressionPtr> items;
  bool is_tuple = false;
};
struct DictLiteral {
  std::vector<std::pair<ExpressionPtr, ExpressionPtr>> entries;
};
struct Postfix {
  ExpressionPtr base;
  std::vector<Suffix> suffixes;
};
struct Unary {
  enum class Operator : std::uint8_t { kNot, kMinus, kPlus } op;
  ExpressionPtr operand;
};
enum class Arithmetic : std::uint8_t { kAdd, kSubtract, kMultiply, kDivide, kFloorDivide, kModulo, kPower };
struct Chain {  ///< Operators of one precedence, from the left.
  ExpressionPtr first;
  std::vector<std::pair<Arithmetic, ExpressionPtr>> rest;
};
struct Concatenation {  ///< a ~ b ~ c
  std::vector<ExpressionPtr> parts;
};
enum class Comparison : std::uint8_t {
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kNotIn
};
struct Compare {  ///< a < b < c means a < b and b < c
  ExpressionPtr first;
  std::vector<std::pair<Comparison, ExpressionPtr>> rest;
};
struct Logic {  ///< and / or; the value is the deciding operand.
  bool is_and = false;
  std::vector<ExpressionPtr> operands;
};
struct Conditional {
  ExpressionPtr condition, then, otherwise;  ///< `otherwise` may be missing.
};

struct Expression {
  std::variant<Constant, Name, ListLiteral, DictLiteral, Postfix, Unary, Chain, Concatenation, Compare, Logic,
               Conditional>
      what;
  int line = 0;
};

struct Statement;
using Block = std::vector<Statement>;

struct Target {  ///< name, namespace.name, or several in brackets or with commas.
  std::string name;
  std::string attribute;
  std::vector<Target> parts;
  bool is_tuple = false;
};

struct Parameters {
  std::vector<std::string> names;
  std::vector<ExpressionPtr> defaults;  ///< Of the last defaults.size() names.
};

struct Data {
  String text;
};
struct Output {
  std::vector<ExpressionPtr> values;
};
struct If {
  std::vector<std::pair<ExpressionPtr, Block>> branches;
  Block otherwise;
};
struct For {
  Target target;
  ExpressionPtr iterable, condition;  ///< `condition` may be missing.
  Block body, otherwise;
  bool recursive = false;  ///< The body may call the loop for other items.
};
struct Set {
  Target target;
  ExpressionPtr value;
};
struct SetBlock {
  Target target;
  std::vector<Filter> filters;
  Block body;
};
struct Macro {
  std::string name;
  Parameters parameters;
  Block body;
  bool takes_varargs = false, takes_kwargs = false, takes_caller = false;  ///< The body names them.
};
struct CallBlock {
  Macro caller;
  ExpressionPtr call;
};
struct FilterBlock {
  std::vector<Filter> filters;
  Block body;
};
struct With {
  std::vector<Target> targets;
  std::vector<ExpressionPtr> values;
  Block body;
};
struct Break {};
struct Continue {};

struct Statement {
  std::variant<Data, Output, If, For, Set, SetBlock, Macro, CallBlock, FilterBlock, With, Break, Continue>
      what;
  int line = 0;
};

}  // namespace weft::text::jinja::ast
