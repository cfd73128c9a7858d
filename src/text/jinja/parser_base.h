#pragma once
// Shared by the parsers of expressions and statements: the position in the tokens, and the nesting so far.
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/lexer.h"
#include "text/jinja/limits.h"

namespace weft::text::jinja {

class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& current() const { return tokens_[position_]; }
  const Token& next() const { return tokens_[position_ + 1 < tokens_.size() ? position_ + 1 : position_]; }
  int line() const { return current().line; }
  Token take() {
    return position_ + 1 < tokens_.size() ? std::move(tokens_[position_++]) : tokens_[position_];
  }

  static bool is(const Token& token, TokenKind kind, std::string_view text) {
    return token.kind == kind && token.text == text;
  }
  bool at(TokenKind kind) const { return current().kind == kind; }
  bool at_name(std::string_view name) const { return is(current(), TokenKind::kName, name); }
  bool at_operator(std::string_view op) const { return is(current(), TokenKind::kOperator, op); }
  bool skip_name(std::string_view name) { return at_name(name) && (take(), true); }
  bool skip_operator(std::string_view op) { return at_operator(op) && (take(), true); }
  void expect_operator(std::string_view op) {
    if (!skip_operator(op)) fail("expected '" + std::string(op) + "', found " + describe());
  }
  void expect_name(std::string_view name) {
    if (!skip_name(name)) fail("expected '" + std::string(name) + "', found " + describe());
  }
  std::string expect_any_name() {
    if (!at(TokenKind::kName)) fail("expected a name, found " + describe());
    return take().text;
  }
  void expect(TokenKind kind, std::string_view what) {
    if (!at(kind)) fail("expected " + std::string(what) + ", found " + describe());
    take();
  }

  std::string describe() const {
    switch (current().kind) {
      case TokenKind::kEnd:
        return "the end of the template";
      case TokenKind::kBlockEnd:
        return "%}";
      case TokenKind::kVariableEnd:
        return "}}";
      case TokenKind::kString:
        return "a string";
      default:
        return "'" + current().text + "'";
    }
  }
  [[noreturn]] void fail(const std::string& what) const { throw SyntaxProblem(what, line()); }

 private:
  std::vector<Token> tokens_;
  std::size_t position_ = 0;
};

class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& tokens) : tokens_(tokens) {}

  ast::ExpressionPtr expression(bool with_conditional = true);
  /// One expression, or several with commas as a tuple. Ends before the name `end`.
  ast::ExpressionPtr tuple(bool with_conditional = true, bool may_be_empty = false);
  ast::Target target(bool with_namespace);
  ast::Call call_arguments();
  /// "|a(...)|b"; with `inline_first` the first comes without its bar.
  std::vector<ast::Filter> filters(bool inline_first);

  /// The names among varargs, kwargs and caller that were used since the last reset: a macro must accept
  /// these.
  struct Special {
    bool varargs = false, kwargs = false, caller = false;
  };
  Special special;
  int depth = 0;

 private:
  ast::ExpressionPtr disjunction();
  ast::ExpressionPtr conjunction();
  ast::ExpressionPtr negation();
  ast::ExpressionPtr comparison();
  ast::ExpressionPtr sum();
  ast::ExpressionPtr concatenation();
  ast::ExpressionPtr product();
  ast::ExpressionPtr power();
  ast::ExpressionPtr unary(bool with_filters = true);
  ast::ExpressionPtr primary();
  ast::ExpressionPtr name();
  ast::ExpressionPtr number();
  ast::ExpressionPtr list();
  ast::ExpressionPtr dict();
  ast::ExpressionPtr with_suffixes(ast::ExpressionPtr base, bool with_filters);
  ast::Suffix attribute();
  ast::Suffix subscript();
  ast::Suffix test();
  bool at_tuple_end() const;
  ast::Target single_target(bool with_namespace);

  TokenStream& tokens_;
};

}  // namespace weft::text::jinja
