#include "text/jinja/parser.h"

#include <initializer_list>
#include <string_view>
#include <utility>

#include "text/jinja/parser_base.h"

namespace weft::text::jinja {
namespace {

/// Jinja's tags that chat templates do not need, and the advice in the error.
struct MissingTag {
  std::string_view name, instead;
};
constexpr MissingTag kMissingTags[] = {
    {"block", "it is for templates that others extend; write its content without the tag"},
    {"extends", "a chat template stands alone; write what it extends in its place"},
    {"include", "a chat template stands alone; write what it includes in its place"},
    {"import", "a chat template stands alone; write the macros into it"},
    {"from", "a chat template stands alone; write the macros into it"},
    {"autoescape", "nothing is escaped by itself; use the filter escape where that is wanted"},
    {"do", "use {% set name = ... %} with a name that nothing reads"},
    {"trans", "nothing is translated; write the text without the tag"},
    {"debug", "print what you want to see with {{ ... }}"}};

class StatementParser {
 public:
  explicit StatementParser(std::vector<Token> tokens) : tokens_(std::move(tokens)), expressions_(tokens_) {}

  ast::Block run() {
    try {
      return block({});
    } catch (const SyntaxProblem&) {
      throw;
    } catch (const Problem& problem) {  // Too deep nesting; this Problem has no line.
      tokens_.fail(problem.what());
    }
  }

 private:
  // Parses up to {% end %}, where `end` is one of `ends`. Consumes the name, but not the rest of its tag.
  ast::Block block(std::initializer_list<std::string_view> ends) {
    const Level level(expressions_.depth, kMaxNesting, "blocks");
    ast::Block body;
    while (!tokens_.at(TokenKind::kEnd)) {
      const int line = tokens_.line();
      if (tokens_.at(TokenKind::kData)) {
        body.push_back({ast::Data{make_data(tokens_.take().text)}, line});
      } else if (tokens_.at(TokenKind::kVariableBegin)) {
        tokens_.take();
        ast::Output output;
        output.values.push_back(expressions_.tuple());
        tokens_.expect(TokenKind::kVariableEnd, "}}");
        body.push_back({std::move(output), line});
      } else {
        tokens_.expect(TokenKind::kBlockBegin, "a tag");
        for (std::string_view end : ends) {
          if (tokens_.at_name(end)) {
            ended_by_ = tokens_.take().text;
            return body;
          }
        }
        statement(body);
      }
    }
    if (ends.size() != 0) tokens_.fail("{% " + std::string(*(ends.end() - 1)) + " %} is missing");
    return body;
  }

  static String make_data(std::string bytes) { return std::make_shared<const Text>(Text(bytes, true)); }

  // The rest of an opening tag, the body and the closing tag.
  ast::Block body_until(std::string_view end) {
    close_tag();
    ast::Block body = block({end});
    close_tag();
    return body;
  }
  void close_tag() { tokens_.expect(TokenKind::kBlockEnd, "%}"); }

  void statement(ast::Block& body) {
    const int line = tokens_.line();
    const std::string name = tokens_.expect_any_name();
    const auto add = [&](auto node) { body.push_back({std::move(node), line}); };
    if (name == "if") return add(if_statement());
    if (name == "for") return add(for_statement());
    if (name == "set") return set_statement(body, line);
    if (name == "macro") return add(macro());
    if (name == "call") return add(call_block());
    if (name == "filter") return add(filter_block());
    if (name == "with") return add(with_block());
    if (name == "print") return add(print());
    if (name == "generation") {  // Marks a model's output for training: just a scope here.
      return add(ast::With{{}, {}, body_until("endgeneration")});
    }
    if (name == "break" || name == "continue") {
      if (!in_loop_) tokens_.fail("'" + name + "' outside of a loop");
      close_tag();
      if (name == "break") return add(ast::Break{});
      return add(ast::Continue{});
    }
    for (const MissingTag& missing : kMissingTags)
      if (missing.name == name)
        tokens_.fail("{% " + name + " %} is not supported: " + std::string(missing.instead));
    tokens_.fail("the tag '" + name + "' is not known here");
  }

  ast::If if_statement() {
    ast::If node;
    do {
      ast::ExpressionPtr condition = expressions_.tuple(false);
      close_tag();
      ast::Block body = block({"elif", "else", "endif"});
      node.branches.emplace_back(std::move(condition), std::move(body));
    } while (ended_by_ == "elif");
    if (ended_by_ == "else") {
      close_tag();
      node.otherwise = block({"endif"});
    }
    close_tag();
    return node;
  }

  ast::For for_statement() {
    ast::For node;
    node.target = expressions_.target(false);
    tokens_.expect_name("in");
    node.iterable = expressions_.tuple(false);
    if (tokens_.skip_name("if")) node.condition = expressions_.expression();
    node.recursive = tokens_.skip_name("recursive");
    close_tag();
    const bool outer = std::exchange(in_loop_, true);
    node.body = block({"else", "endfor"});
    in_loop_ = outer;
    if (ended_by_ == "else") {
      close_tag();
      node.otherwise = block({"endfor"});
    }
    close_tag();
    return node;
  }

  void set_statement(ast::Block& body, int line) {
    ast::Target target = expressions_.target(true);
    if (tokens_.skip_operator("=")) {
      ast::ExpressionPtr value = expressions_.tuple();
      close_tag();
      body.push_back({ast::Set{std::move(target), std::move(value)}, line});
      return;
    }
    std::vector<ast::Filter> filters = expressions_.filters(false);
    body.push_back({ast::SetBlock{std::move(target), std::move(filters), body_until("endset")}, line});
  }

  ast::Parameters parameters() {
    ast::Parameters all;
    tokens_.expect_operator("(");
    while (!tokens_.at_operator(")")) {
      if (!all.names.empty()) tokens_.expect_operator(",");
      all.names.push_back(tokens_.expect_any_name());
      if (tokens_.skip_operator("=")) {
        all.defaults.push_back(expressions_.expression());
      } else if (!all.defaults.empty()) {
        tokens_.fail("a parameter without default after one with default");
      }
    }
    tokens_.expect_operator(")");
    return all;
  }

  // Reads a macro's body and notes which special names it uses.
  void macro_body(ast::Macro& macro, std::string_view end) {
    const auto outer = std::exchange(expressions_.special, {});
    const bool outer_loop = std::exchange(in_loop_, false);
    macro.body = body_until(end);
    in_loop_ = outer_loop;
    macro.takes_varargs = expressions_.special.varargs;
    macro.takes_kwargs = expressions_.special.kwargs;
    macro.takes_caller = expressions_.special.caller;
    expressions_.special = outer;
  }

  ast::Macro macro() {
    ast::Macro node;
    node.name = tokens_.expect_any_name();
    node.parameters = parameters();
    macro_body(node, "endmacro");
    return node;
  }

  ast::CallBlock call_block() {
    ast::CallBlock node;
    node.caller.name = "caller";
    if (tokens_.at_operator("(")) node.caller.parameters = parameters();
    node.call = expressions_.expression();
    const auto* postfix = std::get_if<ast::Postfix>(&node.call->what);
    if (!postfix || !std::holds_alternative<ast::Call>(postfix->suffixes.back().what)) {
      tokens_.fail("{% call %} needs a call of a macro");
    }
    macro_body(node.caller, "endcall");
    return node;
  }

  ast::FilterBlock filter_block() {
    ast::FilterBlock node;
    node.filters = expressions_.filters(true);
    node.body = body_until("endfilter");
    return node;
  }

  ast::With with_block() {
    ast::With node;
    while (!tokens_.at(TokenKind::kBlockEnd)) {
      if (!node.targets.empty()) tokens_.expect_operator(",");
      ast::Target target;
      target.name = tokens_.expect_any_name();
      node.targets.push_back(std::move(target));
      tokens_.expect_operator("=");
      node.values.push_back(expressions_.expression());
    }
    node.body = body_until("endwith");
    return node;
  }

  ast::Output print() {
    ast::Output node;
    while (!tokens_.at(TokenKind::kBlockEnd)) {
      if (!node.values.empty()) tokens_.expect_operator(",");
      node.values.push_back(expressions_.expression());
    }
    close_tag();
    return node;
  }

  TokenStream tokens_;
  ExpressionParser expressions_;
  std::string ended_by_;
  bool in_loop_ = false;
};

}  // namespace

ast::Block parse(std::string_view source) {
  if (source.size() > kMaxSourceBytes) {
    throw SyntaxProblem("longer than " + std::to_string(kMaxSourceBytes) + " bytes", 1);
  }
  return StatementParser(tokenize(source)).run();
}

}  // namespace weft::text::jinja
