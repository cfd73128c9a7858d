// GBNF: llama.cpp's way to write grammars.
#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "grammar/budget.h"
#include "grammar/language.h"
#include "grammar/reader.h"
#include "weft/grammar.h"

namespace weft {
namespace grammar {
namespace {

constexpr int kMaxGroups = 200;  // Limit of nested groups, independent of GrammarLimits.

bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

class Parser {
 public:
  Parser(std::string_view source, const GrammarLimits& limits)
      : in_(source), budget_(limits), max_depth_(std::min(limits.depth, kMaxGroups)) {}

  Language run() {
    skip_space(true);
    while (!in_.at_end()) {
      parse_rule();
      skip_space(true);
    }
    const auto missing = std::min_element(rules_.begin(), rules_.end(), [](const auto& a, const auto& b) {
      return std::pair(a.second.defined, a.second.used_at) < std::pair(b.second.defined, b.second.used_at);
    });
    if (missing != rules_.end() && !missing->second.defined)
      refuse("the GBNF grammar has no rule \"" + missing->first + "\", which " +
             line_and_column(in_.source(), missing->second.used_at) + " uses: write " + missing->first +
             " ::= ...");
    const auto root = rules_.find("root");
    if (root == rules_.end())
      refuse("the GBNF grammar has no rule \"root\", where matching starts: write root ::= ...");
    return builder_.finish(builder_.rule(root->second.id));
  }

 private:
  struct Rule {
    RuleId id = 0;
    bool defined = false;
    std::size_t used_at = 0;
  };

  [[noreturn]] void fail(const std::string& message) const {
    refuse("GBNF grammar, " + line_and_column(in_.source(), in_.position()) + ": " + message);
  }

  void skip_space(bool over_lines) {
    while (!in_.at_end()) {
      const char c = in_.peek();
      if (c == '#') {
        while (!in_.at_end() && in_.peek() != '\n' && in_.peek() != '\r') in_.skip();
      } else if (c == ' ' || c == '\t' || (over_lines && (c == '\n' || c == '\r'))) {
        in_.skip();
      } else {
        break;
      }
    }
  }

  std::string name() {
    const std::size_t begin = in_.position();
    while (is_name(in_.peek())) in_.skip();
    if (in_.position() == begin) fail("expected the name of a rule (letters, digits, - and _)");
    return std::string(in_.source().substr(begin, in_.position() - begin));
  }

  Rule& rule(const std::string& rule_name) {
    const auto [at, added] = rules_.try_emplace(rule_name);
    if (added) at->second.id = builder_.declare(rule_name);
    return at->second;
  }

  void parse_rule() {
    const std::string rule_name = name();
    skip_space(false);
    if (!in_.starts_with("::=")) fail("expected ::= after the name of the rule \"" + rule_name + "\"");
    in_.skip(3);
    skip_space(true);
    if (rule(rule_name).defined) fail("the rule \"" + rule_name + "\" is defined twice");
    rule(rule_name).defined = true;
    const NodeId body = alternatives(0);
    builder_.define(rule(rule_name).id, body);
    if (!in_.at_end() && in_.peek() != '\n' && in_.peek() != '\r') fail("expected an operator or a new line");
  }

  /// Outside of groups, what follows on the next line belongs to the rule where it begins with |.
  bool next_alternative(int depth) {
    const Reader before = in_;
    skip_space(true);
    if (in_.take('|')) {
      skip_space(true);
      return true;
    }
    if (depth == 0) in_ = before;
    return false;
  }

  NodeId alternatives(int depth) {
    std::vector<NodeId> choices;
    do choices.push_back(sequence(depth));
    while (next_alternative(depth));
    return builder_.choice(choices);
  }

  NodeId sequence(int depth) {
    std::vector<NodeId> parts;
    while (true) {
      skip_space(depth > 0);
      const char c = in_.peek();
      if (in_.at_end() || c == '|' || c == ')' || c == '\n' || c == '\r') break;
      budget_.spend();
      if (c == '*' || c == '+' || c == '?' || c == '{') {
        if (parts.empty()) fail(std::string("expected something to repeat before ") + c);
        parts.back() = repetition(parts.back());
      } else {
        parts.push_back(symbol(depth));
      }
    }
    return builder_.sequence(parts);
  }

  NodeId symbol(int depth) {
    if (in_.take('"')) return builder_.bytes(literal());
    if (in_.take('[')) return builder_.character(char_class());
    if (in_.take('.')) return builder_.character(CharSet::all());
    if (in_.peek() == '<') return token();
    if (is_name(in_.peek())) {
      const std::size_t at = in_.position();
      Rule& used = rule(name());
      if (!used.defined && used.used_at == 0) used.used_at = at;
      return builder_.rule(used.id);
    }
    if (!in_.take('(')) fail("expected a rule's name, a \"literal\", a [class], . or a (group)");
    if (depth >= max_depth_) fail("groups are nested deeper than " + std::to_string(max_depth_) + " levels");
    skip_space(true);
    const NodeId group = alternatives(depth + 1);
    skip_space(true);
    if (!in_.take(')')) fail("expected ) at the end of the group");
    return group;
  }

  /// <name>: a special token.
  NodeId token() {
    const std::size_t begin = in_.position();
    while (!in_.at_end() && in_.peek() != '>' && in_.peek() != '\n') in_.skip();
    if (!in_.take('>')) fail("expected > at the end of the token's name");
    const std::string_view text = in_.source().substr(begin, in_.position() - begin);
    if (text.size() < 3 || text[1] == '[')
      fail("a special token must be written as in the vocabulary, e.g. <think>; ids are not supported");
    return builder_.tag(text);
  }

  char32_t character() {
    if (!in_.take('\\')) {
      const auto c = in_.character();
      if (!c) fail("the grammar is not valid UTF-8");
      return *c;
    }
    const char c = in_.peek();
    in_.skip(in_.at_end() ? 0 : 1);
    std::optional<char32_t> code;
    switch (c) {
      case 't':
        return '\t';
      case 'r':
        return '\r';
      case 'n':
        return '\n';
      case '\\':
      case '"':
      case '[':
      case ']':
      case '-':
      case '^':
        return static_cast<char32_t>(c);
      case 'x':
        code = in_.hexadecimal(2);
        break;
      case 'u':
        code = in_.hexadecimal(4);
        break;
      case 'U':
        code = in_.hexadecimal(8);
        break;
      default:
        fail("unknown escape; known ones are \\t \\r \\n \\\\ \\\" \\[ \\] \\xHH \\uHHHH \\UHHHHHHHH");
    }
    if (!code || *code > kLastCharacter || (*code >= 0xD800 && *code <= 0xDFFF))
      fail(
          "the escape is not a valid character; write \\xHH, \\uHHHH or \\UHHHHHHHH with hexadecimal digits");
    return *code;
  }

  std::string literal() {
    std::string text;
    while (!in_.take('"')) {
      if (in_.at_end()) fail("expected \" at the end of the literal");
      text::append_utf8(text, character());
    }
    return text;
  }

  CharSet char_class() {
    CharSet set;
    const bool negated = in_.take('^');
    while (!in_.take(']')) {
      if (in_.at_end()) fail("expected ] at the end of the class");
      const char32_t low = character();
      char32_t high = low;
      if (in_.peek() == '-' && in_.peek(1) != ']') {
        in_.skip();
        if (in_.at_end()) fail("expected a character at the end of the range");
        high = character();
        if (high < low) fail("the range ends before it begins; swap its characters");
      }
      set.add(low, high);
    }
    return negated ? set.negated() : set;
  }

  NodeId repetition(NodeId part) {
    if (in_.take('*')) return builder_.repeat(part, 0, kUnlimited);
    if (in_.take('+')) return builder_.repeat(part, 1, kUnlimited);
    if (in_.take('?')) return builder_.repeat(part, 0, 1);
    in_.skip();
    skip_space(true);
    const auto least = in_.number();
    skip_space(true);
    int most = least.value_or(0);
    if (in_.take(',')) {
      skip_space(true);
      most = in_.number().value_or(kUnlimited);
      skip_space(true);
    } else if (!least) {
      fail("expected a number of repetitions, as in {2}, {2,} or {2,5}");
    }
    if (!in_.take('}')) fail("expected } at the end of the number of repetitions");
    if (most != kUnlimited && most < least.value_or(0))
      fail("a repetition's second number must not be below the first");
    return builder_.repeat(part, least.value_or(0), most);
  }

  Reader in_;
  Budget budget_;
  const int max_depth_;
  Builder builder_;
  std::unordered_map<std::string, Rule> rules_;
};

}  // namespace
}  // namespace grammar

Grammar Grammar::gbnf(std::string_view source, const GrammarLimits& limits) {
  grammar::check_source(source, limits, "the GBNF grammar");
  return Grammar(std::make_shared<const Rules>(Rules{grammar::Parser(source, limits).run()}));
}

}  // namespace weft
