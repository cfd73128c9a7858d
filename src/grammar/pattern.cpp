#include "grammar/pattern.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "base/to_size.h"
#include "grammar/reader.h"
#include "grammar/unicode_classes.h"

namespace weft::grammar {
namespace {

constexpr int kMaxGroups = 200;  // Limit of nested groups, independent of GrammarLimits.

const CharSet& digits() {
  static const CharSet set({{'0', '9'}});
  return set;
}
const CharSet& word_characters() {
  static const CharSet set({{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}});
  return set;
}
const CharSet& white_space() {
  static const CharSet set({{'\t', '\r'},
                            {' ', ' '},
                            {0xA0, 0xA0},
                            {0x1680, 0x1680},
                            {0x2000, 0x200A},
                            {0x2028, 0x2029},
                            {0x202F, 0x202F},
                            {0x205F, 0x205F},
                            {0x3000, 0x3000},
                            {0xFEFF, 0xFEFF}});
  return set;
}
const CharSet& line_ends() {
  static const CharSet set({{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}});
  return set;
}

/// Part of a pattern, and whether it is anchored at the string's begin and end.
struct Part {
  NodeId node = 0;
  bool starts = false, ends = false;
};

class Parser {
 public:
  Parser(std::string_view pattern, const PatternOptions& options, Budget& budget, Builder& builder)
      : in_(pattern),
        options_(options),
        budget_(budget),
        builder_(builder),
        max_depth_(std::min(budget.limits().depth, kMaxGroups)) {}

  NodeId run() {
    const Part all = alternatives(0, true);
    if (!in_.at_end()) fail("an unmatched ): write \\) for the character");
    return complete(all, options_.anywhere, options_.anywhere).node;
  }

 private:
  [[noreturn]] void fail(const std::string& message) const {
    refuse(options_.name + ", byte " + std::to_string(in_.position()) + ": " + message);
  }

  NodeId character(const CharSet& set) {
    return options_.in_json ? add_json_character(set, builder_) : builder_.character(set);
  }
  NodeId any_text() { return builder_.repeat(character(CharSet::all()), 0, kUnlimited); }

  /// Adds any characters on the sides where the part is not anchored.
  Part complete(Part part, bool at_start, bool at_end) {
    std::vector<NodeId> nodes;
    if (at_start && !part.starts) nodes.push_back(any_text());
    nodes.push_back(part.node);
    if (at_end && !part.ends) nodes.push_back(any_text());
    return {builder_.sequence(nodes), part.starts || at_start, part.ends || at_end};
  }

  Part alternatives(int depth, bool at_start) {
    std::vector<Part> parts;
    do parts.push_back(sequence(depth, at_start));
    while (in_.take('|'));
    // If only some alternatives are anchored, the others allow any characters there.
    Part all;
    for (const Part& part : parts) {
      all.starts = all.starts || part.starts;
      all.ends = all.ends || part.ends;
    }
    std::vector<NodeId> nodes;
    for (const Part& part : parts)
      nodes.push_back(complete(part, options_.anywhere && all.starts, options_.anywhere && all.ends).node);
    all.node = builder_.choice(nodes);
    return all;
  }

  Part sequence(int depth, bool at_start) {
    Part all;
    std::vector<NodeId> parts;
    while (!in_.at_end() && in_.peek() != '|' && in_.peek() != ')') {
      budget_.spend();
      if (in_.peek() == '^') {
        if (!at_start || !parts.empty()) fail("^ is supported only at the beginning of a pattern");
        in_.skip();
        all.starts = true;
        continue;
      }
      if (in_.take('$')) {
        all.ends = true;
        continue;
      }
      if (all.ends) fail("$ is supported only at the end of a pattern");
      Part part = term(depth, at_start && parts.empty());
      const NodeId repeated = repetition(part.node);
      if (repeated != part.node && (part.starts || part.ends)) fail("^ and $ cannot be repeated");
      all.starts = all.starts || part.starts;
      all.ends = part.ends;
      parts.push_back(repeated);
    }
    all.node = builder_.sequence(parts);
    return all;
  }

  Part term(int depth, bool at_start) {
    if (in_.take('(')) return group(depth, at_start);
    if (in_.take('[')) return {character(char_class())};
    if (in_.take('.')) return {character(line_ends().negated())};
    if (in_.take('\\')) return {character(escape())};
    const char c = in_.peek();
    if (c == '*' || c == '+' || c == '?')
      fail(std::string("nothing to repeat before ") + c + ": write \\" + c + " for the character");
    return {character(one())};
  }

  Part group(int depth, bool at_start) {
    if (depth >= max_depth_) fail("groups are nested deeper than " + std::to_string(max_depth_) + " levels");
    if (in_.take('?')) {
      if (in_.starts_with("=") || in_.starts_with("!") || in_.starts_with("<=") || in_.starts_with("<!"))
        fail("lookaround is not regular and not supported; describe the matched text itself");
      if (in_.take('<')) {
        while (!in_.at_end() && in_.peek() != '>') in_.skip();
        if (!in_.take('>')) fail("expected > at the end of the group's name");
      } else if (!in_.take(':')) {
        fail("unknown kind of group; known are (...), (?:...) and (?<name>...)");
      }
    }
    const Part part = alternatives(depth + 1, at_start);
    if (!in_.take(')')) fail("expected ) at the end of the group");
    return part;
  }

  CharSet one() {
    const auto c = in_.character();
    if (!c) fail("the pattern is not valid UTF-8");
    return CharSet({{*c, *c}});
  }

  /// Behind a backslash.
  CharSet escape() {
    if (in_.at_end()) fail("a backslash at the end; write \\\\ for the character");
    const char c = in_.peek();
    switch (c) {
      case 'd':
        return in_.skip(), digits();
      case 'D':
        return in_.skip(), digits().negated();
      case 'w':
        return in_.skip(), word_characters();
      case 'W':
        return in_.skip(), word_characters().negated();
      case 's':
        return in_.skip(), white_space();
      case 'S':
        return in_.skip(), white_space().negated();
      case 'p':
      case 'P':
        return in_.skip(), property(c == 'P');
      case 'b':
      case 'B':
        fail("word boundaries (\\b, \\B) are not supported; name the characters that may occur there");
      case 'k':
        fail("backreferences are not regular and not supported");
      default:
        break;
    }
    if (c >= '1' && c <= '9') fail("backreferences are not regular and not supported");
    const char32_t code = character_escape();
    return CharSet({{code, code}});
  }

  char32_t character_escape() {
    const char c = in_.peek();
    std::optional<char32_t> code;
    in_.skip();
    switch (c) {
      case 't':
        return '\t';
      case 'n':
        return '\n';
      case 'v':
        return '\v';
      case 'f':
        return '\f';
      case 'r':
        return '\r';
      case '0':
        return '\0';
      case 'c':
        if ((in_.peek() | 0x20) < 'a' || (in_.peek() | 0x20) > 'z') fail("expected a letter after \\c");
        code = static_cast<char32_t>(in_.peek() & 0x1F);
        in_.skip();
        return *code;
      case 'x':
        code = in_.hexadecimal(2);
        break;
      case 'u':
        code = unicode_escape();
        break;
      default:
        if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) fail(std::string("an unknown escape \\") + c);
        in_ = Reader(in_, in_.position() - 1);
        code = in_.character();
    }
    if (!code || *code > kLastCharacter || (*code >= 0xD800 && *code <= 0xDFFF))
      fail("the escape is not a valid character; write \\xHH, \\uHHHH or \\u{HHHHH} with hexadecimal digits");
    return *code;
  }

  std::optional<char32_t> unicode_escape() {
    if (in_.take('{')) {
      int n = 0;
      while (n < 7 && in_.peek(to_size(n)) != '}') ++n;
      const auto code = n >= 1 && n <= 6 ? in_.hexadecimal(n) : std::nullopt;
      return in_.take('}') ? code : std::nullopt;
    }
    const auto first = in_.hexadecimal(4);
    if (!first || *first < 0xD800 || *first > 0xDBFF || !in_.starts_with("\\u")) return first;
    in_.skip(2);
    const auto second = in_.hexadecimal(4);
    if (!second || *second < 0xDC00 || *second > 0xDFFF) return std::nullopt;
    return 0x10000 + ((*first - 0xD800) << 10) + (*second - 0xDC00);
  }

  CharSet property(bool negated) {
    const std::size_t begin = in_.position();
    if (!in_.take('{')) fail("expected a general category, as in \\p{L}");
    while (!in_.at_end() && in_.peek() != '}') in_.skip();
    const std::string_view name = in_.source().substr(begin + 1, in_.position() - begin - 1);
    const auto set = general_category(name);
    if (!in_.take('}') || !set)
      fail("unknown property; known are general categories, as in \\p{L}, \\p{Lu} or \\p{Nd}");
    budget_.spend(4096);
    return negated ? set->negated() : *set;
  }

  CharSet char_class() {
    CharSet set;
    const bool negated = in_.take('^');
    while (!in_.take(']')) {
      if (in_.at_end()) fail("expected ] at the end of the class; write \\[ for the character");
      const CharSet low = class_member();
      if (in_.peek() != '-' || in_.peek(1) == ']' || in_.peek(1) == '\0') {
        set.add(low);
        continue;
      }
      in_.skip();
      const CharSet high = class_member();
      if (!is_one(low) || !is_one(high)) fail("a range needs a character at each end");
      if (high.ranges()[0].low < low.ranges()[0].low)
        fail("the range ends before it begins; swap its characters");
      set.add(low.ranges()[0].low, high.ranges()[0].low);
    }
    return negated ? set.negated() : set;
  }

  CharSet class_member() {
    if (!in_.take('\\')) return one();
    if (in_.take('b')) return CharSet({{'\b', '\b'}});
    if (in_.take('-')) return CharSet({{'-', '-'}});
    return escape();
  }

  static bool is_one(const CharSet& set) {
    return set.ranges().size() == 1 && set.ranges()[0].low == set.ranges()[0].high;
  }

  /// Reads a quantifier, if one follows, and returns the repeated part.
  NodeId repetition(NodeId part) {
    int least = 0, most = kUnlimited;
    if (in_.take('*')) {
    } else if (in_.take('+')) {
      least = 1;
    } else if (in_.take('?')) {
      most = 1;
    } else if (const auto counts = braces()) {
      least = counts->first;
      most = counts->second;
      if (most != kUnlimited && most < least)
        fail("a repetition's second number must not be below the first");
    } else {
      return part;
    }
    in_.take('?');  // Lazy and greedy repetition match the same strings.
    const char c = in_.peek();
    if (c == '*' || c == '+' || c == '?') fail(std::string("nothing to repeat before ") + c);
    return builder_.repeat(part, least, most);
  }

  /// {2}, {2,} or {2,5}. Other braces are characters.
  std::optional<std::pair<int, int>> braces() {
    const Reader before = in_;
    if (in_.take('{')) {
      if (const auto least = in_.number()) {
        int most = *least;
        if (in_.take(',')) most = in_.number().value_or(kUnlimited);
        if (in_.take('}')) return std::pair(*least, most);
      }
    }
    in_ = before;
    return std::nullopt;
  }

  Reader in_;
  const PatternOptions& options_;
  Budget& budget_;
  Builder& builder_;
  const int max_depth_;
};

}  // namespace

NodeId add_json_character(const CharSet& set, Builder& builder) {
  struct Escape {
    char32_t code;
    std::string_view written;
  };
  constexpr Escape kShort[] = {{'"', "\\\""}, {'\\', "\\\\"}, {'\b', "\\b"}, {'\f', "\\f"},
                               {'\n', "\\n"}, {'\r', "\\r"},  {'\t', "\\t"}};
  std::vector<NodeId> choices;
  const CharSet plain = set.without(CharSet({{0, 0x1F}, {'"', '"'}, {'\\', '\\'}}));
  if (!plain.empty()) choices.push_back(builder.character(plain));
  CharSet rest = set;
  for (const Escape& escape : kShort) {
    if (!set.contains(escape.code)) continue;
    choices.push_back(builder.bytes(escape.written));
    rest = rest.without(CharSet({{escape.code, escape.code}}));
  }
  // Other control characters: \u0000 to \u001f.
  for (char32_t high = 0; high < 2; ++high) {
    CharSet digit;
    for (char32_t low = 0; low < 16; ++low) {
      if (!rest.contains(high * 16 + low)) continue;
      digit.add(low < 10 ? '0' + low : 'a' + low - 10);
      if (low >= 10) digit.add('A' + low - 10);
    }
    if (!digit.empty())
      choices.push_back(
          builder.sequence({builder.bytes(high == 0 ? "\\u000" : "\\u001"), builder.character(digit)}));
  }
  return builder.choice(choices);
}

NodeId add_pattern(std::string_view pattern, const PatternOptions& options, Budget& budget,
                   Builder& builder) {
  return Parser(pattern, options, budget, builder).run();
}

}  // namespace weft::grammar

namespace weft {

Grammar Grammar::regex(std::string_view pattern, const GrammarLimits& limits) {
  grammar::check_source(pattern, limits, "the regular expression");
  grammar::Budget budget(limits);
  grammar::Builder builder;
  const grammar::NodeId root = grammar::add_pattern(pattern, {}, budget, builder);
  return Grammar(std::make_shared<const Rules>(Rules{builder.finish(root)}));
}

}  // namespace weft
