#include <array>
#include <charconv>
#include <type_traits>

#include "text/jinja/parser_base.h"

namespace weft::text::jinja {
namespace {

using ast::Arithmetic;
using ast::ExpressionPtr;

template <class Node>
ExpressionPtr make(Node node, int line) {
  return std::make_unique<ast::Expression>(ast::Expression{std::move(node), line});
}

}  // namespace

ExpressionPtr ExpressionParser::expression(bool with_conditional) {
  const Level level(depth, kMaxNesting, "expressions");
  const int line = tokens_.line();
  ExpressionPtr value = disjunction();
  if (!with_conditional || !tokens_.skip_name("if")) return value;
  ExpressionPtr condition = disjunction();
  ExpressionPtr otherwise = tokens_.skip_name("else") ? expression() : nullptr;
  return make(ast::Conditional{std::move(condition), std::move(value), std::move(otherwise)}, line);
}

ExpressionPtr ExpressionParser::disjunction() {
  const int line = tokens_.line();
  ExpressionPtr first = conjunction();
  if (!tokens_.at_name("or")) return first;
  ast::Logic logic{false, {}};
  logic.operands.push_back(std::move(first));
  while (tokens_.skip_name("or")) logic.operands.push_back(conjunction());
  return make(std::move(logic), line);
}

ExpressionPtr ExpressionParser::conjunction() {
  const int line = tokens_.line();
  ExpressionPtr first = negation();
  if (!tokens_.at_name("and")) return first;
  ast::Logic logic{true, {}};
  logic.operands.push_back(std::move(first));
  while (tokens_.skip_name("and")) logic.operands.push_back(negation());
  return make(std::move(logic), line);
}

ExpressionPtr ExpressionParser::negation() {
  const int line = tokens_.line();
  if (!tokens_.skip_name("not")) return comparison();
  const Level level(depth, kMaxNesting, "expressions");
  return make(ast::Unary{ast::Unary::Operator::kNot, negation()}, line);
}

ExpressionPtr ExpressionParser::comparison() {
  using ast::Comparison;
  constexpr std::array<std::pair<std::string_view, Comparison>, 6> kOperators = {{
      {"==", Comparison::kEqual},
      {"!=", Comparison::kNotEqual},
      {"<", Comparison::kLess},
      {"<=", Comparison::kLessEqual},
      {">", Comparison::kGreater},
      {">=", Comparison::kGreaterEqual},
  }};
  const int line = tokens_.line();
  ast::Compare compare{sum(), {}};
  while (true) {
    const std::size_t n_before = compare.rest.size();
    for (const auto& [op, what] : kOperators) {
      if (tokens_.skip_operator(op)) compare.rest.emplace_back(what, sum());
    }
    if (tokens_.skip_name("in")) {
      compare.rest.emplace_back(Comparison::kIn, sum());
    } else if (tokens_.at_name("not") && TokenStream::is(tokens_.next(), TokenKind::kName, "in")) {
      tokens_.take();
      tokens_.take();
      compare.rest.emplace_back(Comparison::kNotIn, sum());
    }
    if (compare.rest.size() == n_before) break;
  }
  if (compare.rest.empty()) return std::move(compare.first);
  return make(std::move(compare), line);
}

ExpressionPtr ExpressionParser::sum() {
  const int line = tokens_.line();
  ast::Chain chain{concatenation(), {}};
  while (tokens_.at_operator("+") || tokens_.at_operator("-")) {
    const auto op = tokens_.take().text == "+" ? Arithmetic::kAdd : Arithmetic::kSubtract;
    chain.rest.emplace_back(op, concatenation());
  }
  if (chain.rest.empty()) return std::move(chain.first);
  return make(std::move(chain), line);
}

ExpressionPtr ExpressionParser::concatenation() {
  const int line = tokens_.line();
  ExpressionPtr first = product();
  if (!tokens_.at_operator("~")) return first;
  ast::Concatenation all;
  all.parts.push_back(std::move(first));
  while (tokens_.skip_operator("~")) all.parts.push_back(product());
  return make(std::move(all), line);
}

ExpressionPtr ExpressionParser::product() {
  constexpr std::array<std::pair<std::string_view, Arithmetic>, 4> kOperators = {{
      {"*", Arithmetic::kMultiply},
      {"/", Arithmetic::kDivide},
      {"//", Arithmetic::kFloorDivide},
      {"%", Arithmetic::kModulo},
  }};
  const int line = tokens_.line();
  ast::Chain chain{power(), {}};
  for (std::size_t n_before = 0;; n_before = chain.rest.size()) {
    for (const auto& [op, what] : kOperators) {
      if (tokens_.skip_operator(op)) chain.rest.emplace_back(what, power());
    }
    if (chain.rest.size() == n_before) break;
  }
  if (chain.rest.empty()) return std::move(chain.first);
  return make(std::move(chain), line);
}

ExpressionPtr ExpressionParser::power() {
  const int line = tokens_.line();
  ast::Chain chain{unary(), {}};
  while (tokens_.skip_operator("**")) chain.rest.emplace_back(Arithmetic::kPower, unary());
  if (chain.rest.empty()) return std::move(chain.first);
  return make(std::move(chain), line);
}

ExpressionPtr ExpressionParser::unary(bool with_filters) {
  const int line = tokens_.line();
  ExpressionPtr value;
  if (tokens_.at_operator("-") || tokens_.at_operator("+")) {
    const Level level(depth, kMaxNesting, "expressions");
    using Operator = ast::Unary::Operator;
    const auto op = tokens_.take().text == "-" ? Operator::kMinus : Operator::kPlus;
    value = make(ast::Unary{op, unary(false)}, line);
  } else {
    value = primary();
  }
  return with_suffixes(std::move(value), with_filters);
}

ExpressionPtr ExpressionParser::primary() {
  const int line = tokens_.line();
  switch (tokens_.current().kind) {
    case TokenKind::kName:
      return name();
    case TokenKind::kInteger:
    case TokenKind::kFloat:
      return number();
    case TokenKind::kString: {
      std::string bytes = tokens_.take().text;
      while (tokens_.at(TokenKind::kString)) bytes += tokens_.take().text;  // "a" "b" is "ab".
      return make(ast::Constant{string(Text(bytes, true))}, line);
    }
    default:
      break;
  }
  if (tokens_.skip_operator("(")) {
    ExpressionPtr value = tuple(true, true);
    tokens_.expect_operator(")");
    return value;
  }
  if (tokens_.at_operator("[")) return list();
  if (tokens_.at_operator("{")) return dict();
  tokens_.fail("expected an expression, found " + tokens_.describe());
}

ExpressionPtr ExpressionParser::name() {
  const int line = tokens_.line();
  std::string name = tokens_.take().text;
  if (name == "true" || name == "True") return make(ast::Constant{true}, line);
  if (name == "false" || name == "False") return make(ast::Constant{false}, line);
  if (name == "none" || name == "None") return make(ast::Constant{None{}}, line);
  special.varargs = special.varargs || name == "varargs";
  special.kwargs = special.kwargs || name == "kwargs";
  special.caller = special.caller || name == "caller";
  return make(ast::Name{std::move(name)}, line);
}

ExpressionPtr ExpressionParser::number() {
  const Token token = tokens_.take();
  const char* const end = token.text.data() + token.text.size();
  const auto check = [&](std::from_chars_result read) {
    if (read.ec != std::errc() || read.ptr != end)
      tokens_.fail("the number " + token.text + " does not fit into 64 bits" +
                   (token.kind == TokenKind::kInteger ? "; write it as a float, or as a string" : ""));
  };
  if (token.kind == TokenKind::kFloat) {
    double value = 0.0;
    check(std::from_chars(token.text.data(), end, value));
    return make(ast::Constant{value}, token.line);
  }
  std::int64_t value = 0;
  check(std::from_chars(token.text.data(), end, value));
  return make(ast::Constant{value}, token.line);
}

bool ExpressionParser::at_tuple_end() const {
  return tokens_.at(TokenKind::kVariableEnd) || tokens_.at(TokenKind::kBlockEnd) ||
         tokens_.at_operator(")") || tokens_.at_name("in");
}

ExpressionPtr ExpressionParser::tuple(bool with_conditional, bool may_be_empty) {
  const int line = tokens_.line();
  ast::ListLiteral all{{}, true};
  bool has_comma = false;
  while (!at_tuple_end()) {
    all.items.push_back(expression(with_conditional));
    if (!tokens_.skip_operator(",")) break;
    has_comma = true;
  }
  if (!has_comma && all.items.size() == 1) return std::move(all.items.front());
  if (!has_comma && !may_be_empty) tokens_.fail("expected an expression, found " + tokens_.describe());
  return make(std::move(all), line);
}

ExpressionPtr ExpressionParser::list() {
  const int line = tokens_.line();
  tokens_.expect_operator("[");
  ast::ListLiteral all;
  while (!tokens_.at_operator("]")) {
    all.items.push_back(expression());
    if (!tokens_.skip_operator(",")) break;
  }
  tokens_.expect_operator("]");
  return make(std::move(all), line);
}

ExpressionPtr ExpressionParser::dict() {
  const int line = tokens_.line();
  tokens_.expect_operator("{");
  ast::DictLiteral all;
  while (!tokens_.at_operator("}")) {
    ExpressionPtr key = expression();
    tokens_.expect_operator(":");
    all.entries.emplace_back(std::move(key), expression());
    if (!tokens_.skip_operator(",")) break;
  }
  tokens_.expect_operator("}");
  return make(std::move(all), line);
}

ExpressionPtr ExpressionParser::with_suffixes(ExpressionPtr base, bool with_filters) {
  const int line = tokens_.line();
  std::vector<ast::Suffix> suffixes;
  bool filtered = false;  // After a filter or test, only calls, filters and tests may follow.
  while (true) {
    const int here = tokens_.line();
    if (!filtered && tokens_.at_operator(".")) {
      suffixes.push_back(attribute());
    } else if (!filtered && tokens_.at_operator("[")) {
      suffixes.push_back(subscript());
    } else if (tokens_.at_operator("(")) {
      suffixes.push_back({call_arguments(), here});
    } else if (with_filters && tokens_.at_operator("|")) {
      for (ast::Filter& filter : filters(false)) suffixes.push_back({std::move(filter), here});
      filtered = true;
    } else if (with_filters && tokens_.at_name("is")) {
      suffixes.push_back(test());
      filtered = true;
    } else {
      break;
    }
  }
  if (suffixes.empty()) return base;
  return make(ast::Postfix{std::move(base), std::move(suffixes)}, line);
}

ast::Suffix ExpressionParser::attribute() {
  const int line = tokens_.line();
  tokens_.expect_operator(".");
  if (tokens_.at(TokenKind::kInteger)) return {ast::Item{number()}, line};
  return {ast::Attribute{tokens_.expect_any_name()}, line};
}

ast::Suffix ExpressionParser::subscript() {
  const int line = tokens_.line();
  tokens_.expect_operator("[");
  ExpressionPtr first;
  if (!tokens_.at_operator(":")) first = expression();
  if (!tokens_.skip_operator(":")) {
    if (tokens_.at_operator(",")) {  // a[b, c] has a tuple as its key.
      ast::ListLiteral key{{}, true};
      key.items.push_back(std::move(first));
      while (tokens_.skip_operator(",")) key.items.push_back(expression());
      first = make(std::move(key), line);
    }
    tokens_.expect_operator("]");
    return {ast::Item{std::move(first)}, line};
  }
  ast::Slice slice{std::move(first), nullptr, nullptr};
  if (!tokens_.at_operator(":") && !tokens_.at_operator("]")) slice.end = expression();
  if (tokens_.skip_operator(":") && !tokens_.at_operator("]")) slice.step = expression();
  tokens_.expect_operator("]");
  return {std::move(slice), line};
}

ast::Suffix ExpressionParser::test() {
  const int line = tokens_.line();
  tokens_.expect_name("is");
  ast::Test test;
  test.negated = tokens_.skip_name("not");
  test.name = tokens_.expect_any_name();
  const bool operand_follows = tokens_.at(TokenKind::kName) || tokens_.at(TokenKind::kString) ||
                               tokens_.at(TokenKind::kInteger) || tokens_.at(TokenKind::kFloat) ||
                               tokens_.at_operator("[") || tokens_.at_operator("{");
  // Jinja would parse "if" after a test as the test's argument, which no template intends.
  const bool keyword =
      tokens_.at_name("else") || tokens_.at_name("or") || tokens_.at_name("and") || tokens_.at_name("if");
  if (tokens_.at_operator("(")) {
    test.arguments = call_arguments();
  } else if (operand_follows && !keyword) {
    if (tokens_.at_name("is")) tokens_.fail("tests with 'is' cannot be chained");
    test.arguments.positional.push_back(with_suffixes(primary(), false));
  }
  return {std::move(test), line};
}

ast::Call ExpressionParser::call_arguments() {
  tokens_.expect_operator("(");
  ast::Call call;
  while (!tokens_.at_operator(")")) {
    if (tokens_.skip_operator("*")) {
      if (call.star || call.double_star) tokens_.fail("arguments in a wrong order");
      call.star = expression();
    } else if (tokens_.skip_operator("**")) {
      if (call.double_star) tokens_.fail("arguments in a wrong order");
      call.double_star = expression();
    } else if (tokens_.at(TokenKind::kName) && TokenStream::is(tokens_.next(), TokenKind::kOperator, "=")) {
      if (call.double_star) tokens_.fail("arguments in a wrong order");
      std::string name = tokens_.take().text;
      tokens_.take();
      call.named.emplace_back(std::move(name), expression());
    } else {
      if (call.star || call.double_star || !call.named.empty()) tokens_.fail("arguments in a wrong order");
      call.positional.push_back(expression());
    }
    if (!tokens_.skip_operator(",")) break;
  }
  tokens_.expect_operator(")");
  return call;
}

std::vector<ast::Filter> ExpressionParser::filters(bool inline_first) {
  std::vector<ast::Filter> all;
  while (inline_first || tokens_.skip_operator("|")) {
    inline_first = false;
    ast::Filter filter{tokens_.expect_any_name(), {}};
    if (tokens_.at_operator("(")) filter.arguments = call_arguments();
    all.push_back(std::move(filter));
  }
  return all;
}

ast::Target ExpressionParser::single_target(bool with_namespace) {
  ast::Target target;
  if (tokens_.skip_operator("(")) {
    const Level level(depth, kMaxNesting, "targets");
    target = this->target(with_namespace);
    tokens_.expect_operator(")");
    return target;
  }
  target.name = tokens_.expect_any_name();
  if (with_namespace && tokens_.skip_operator(".")) target.attribute = tokens_.expect_any_name();
  return target;
}

ast::Target ExpressionParser::target(bool with_namespace) {
  ast::Target first = single_target(with_namespace);
  if (!tokens_.at_operator(",")) return first;
  ast::Target all;
  all.is_tuple = true;
  all.parts.push_back(std::move(first));
  while (tokens_.skip_operator(",") && !tokens_.at_operator("=") && !at_tuple_end()) {
    all.parts.push_back(single_target(with_namespace));
  }
  return all;
}

}  // namespace weft::text::jinja
