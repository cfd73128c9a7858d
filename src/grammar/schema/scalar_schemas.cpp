// Strings and numbers of schemas.
#include <algorithm>

#include "grammar/pattern.h"
#include "grammar/schema/decimal.h"
#include "grammar/schema/formats.h"
#include "grammar/schema/schema_writer.h"

namespace weft::grammar {
namespace {

constexpr std::int64_t kBlock = 256;        // Characters of a rule that long strings are counted in.
constexpr std::int64_t kWrittenOut = 1024;  // Up to here each character has states of its own.

/// A character of a string, as JSON may write it.
NodeId any_escape(Builder& b) {
  const CharSet hex({{'0', '9'}, {'A', 'F'}, {'a', 'f'}});
  const CharSet short_escapes(
      {{'"', '"'}, {'\\', '\\'}, {'/', '/'}, {'b', 'b'}, {'f', 'f'}, {'n', 'n'}, {'r', 'r'}, {'t', 't'}});
  const NodeId digit = b.character(hex);
  // Surrogates stand in pairs only.
  const NodeId d = b.character(CharSet({{'D', 'D'}, {'d', 'd'}}));
  const NodeId plain = b.choice(
      {b.sequence(
           {b.character(CharSet({{'0', '9'}, {'A', 'C'}, {'E', 'F'}, {'a', 'c'}, {'e', 'f'}})), digit}),
       b.sequence({d, b.character(CharSet({{'0', '7'}}))})});
  const NodeId pair =
      b.sequence({d, b.character(CharSet({{'8', '9'}, {'A', 'B'}, {'a', 'b'}})), digit, digit, b.bytes("\\u"),
                  d, b.character(CharSet({{'C', 'F'}, {'c', 'f'}})), digit, digit});
  return b.sequence(
      {b.bytes("\\"),
       b.choice({b.character(short_escapes),
                 b.sequence({b.bytes("u"), b.choice({b.sequence({plain, digit, digit}), pair})})})});
}

CharSet plain_characters() { return CharSet({{0, 0x1F}, {'"', '"'}, {'\\', '\\'}}).negated(); }

}  // namespace

NodeId SchemaWriter::any_string() {
  return shared("string", [&] {
    const NodeId one = builder_.choice({builder_.character(plain_characters()), any_escape(builder_)});
    return builder_.sequence(
        {builder_.bytes("\""), builder_.repeat(one, 0, kUnlimited), builder_.bytes("\"")});
  });
}

bool SchemaWriter::limits_strings(const Keywords& k) const {
  if (k.min_length > 0 || k.max_length >= 0 || !k.patterns.empty()) return true;
  return std::any_of(k.formats.begin(), k.formats.end(),
                     [&](ValueId format) { return find_format(tree_[format].text) != nullptr; });
}

/// Long counts are counted in blocks, which are rules: the states stay few.
NodeId SchemaWriter::characters(NodeId one, std::int64_t least, std::int64_t most) {
  Builder& b = builder_;
  const auto repeat = [&](NodeId part, std::int64_t from, std::int64_t to) {
    return b.repeat(part, static_cast<std::int32_t>(from), static_cast<std::int32_t>(to));
  };
  if (std::max(least, most) <= kWrittenOut) return repeat(one, least, most);
  const NodeId block = shared("characters", [&] { return repeat(one, kBlock, kBlock); });
  std::vector<NodeId> parts = {repeat(block, least / kBlock, least / kBlock),
                               repeat(one, least % kBlock, least % kBlock)};
  if (most < 0) {
    parts.push_back(repeat(one, 0, kUnlimited));
  } else {
    const std::int64_t rest = most - least, blocks = rest / kBlock;
    std::vector<NodeId> choices = {
        b.sequence({repeat(block, blocks, blocks), repeat(one, 0, rest % kBlock)})};
    if (blocks > 0) choices.push_back(b.sequence({repeat(block, 0, blocks - 1), repeat(one, 0, kBlock - 1)}));
    parts.push_back(b.choice(choices));
  }
  return b.sequence(parts);
}

/// What stands between the quotes, one expression for each keyword.
std::vector<NodeId> SchemaWriter::string_contents(const Keywords& k) {
  std::vector<NodeId> contents;
  const NodeId any = add_json_character(CharSet::all(), builder_);
  for (const ValueId pattern : k.patterns) {
    PatternOptions options;
    options.anywhere = true;
    options.in_json = true;
    options.name = "JSON schema, " + tree_.pointer_to(pattern);
    contents.push_back(add_pattern(tree_[pattern].text, options, budget_, builder_));
  }
  for (const ValueId name : k.formats) {
    const StringFormat* format = find_format(tree_[name].text);
    if (format == nullptr) continue;
    if (format->pattern.empty())
      reader_.fail(name, "the format \"" + tree_[name].text + "\" is not supported; write a pattern instead");
    PatternOptions options;
    options.in_json = true;
    contents.push_back(add_pattern(format->pattern, options, budget_, builder_));
    if (format->max_length > 0) contents.push_back(builder_.repeat(any, 0, format->max_length));
  }
  if (k.min_length > 0 || k.max_length >= 0) {
    if (contents.empty()) {
      const CharSet escapes(
          {{'"', '"'}, {'\\', '\\'}, {'/', '/'}, {'b', 'b'}, {'f', 'f'}, {'n', 'n'}, {'r', 'r'}, {'t', 't'}});
      const NodeId one =
          builder_.choice({builder_.character(plain_characters()),
                           builder_.sequence({builder_.bytes("\\"), builder_.character(escapes)})});
      contents.push_back(characters(one, k.min_length, k.max_length));
    } else {
      contents.push_back(builder_.repeat(any, static_cast<std::int32_t>(k.min_length),
                                         static_cast<std::int32_t>(k.max_length)));
    }
  }
  return contents;
}

NodeId SchemaWriter::string(const Keywords& k) {
  if (!limits_strings(k)) return any_string();
  if (k.max_length >= 0 && k.max_length < k.min_length) return builder_.nothing();
  return builder_.sequence({builder_.bytes("\""), all_of(string_contents(k)), builder_.bytes("\"")});
}

bool SchemaWriter::limits_numbers(const Keywords& k) const {
  return !k.at_least.empty() || !k.at_most.empty() || !k.multiples.empty();
}

std::vector<NodeId> SchemaWriter::number_limits(const Keywords& k) {
  std::vector<NodeId> limits;
  const auto decimal = [&](ValueId at) {
    const auto parsed = parse_decimal(reader_.number(at));
    if (!parsed) reader_.fail(at, "a number with too many digits");
    return *parsed;
  };
  for (const NumberBound& bound : k.at_least)
    limits.push_back(add_bounded(decimal(bound.at), bound.exclusive, true, builder_));
  for (const NumberBound& bound : k.at_most)
    limits.push_back(add_bounded(decimal(bound.at), bound.exclusive, false, builder_));
  for (const ValueId step : k.multiples) {
    const auto multiple = add_multiple(decimal(step), builder_);
    if (!multiple) reader_.fail(step, "multipleOf is supported for 2, 5 and powers of ten");
    limits.push_back(*multiple);
  }
  return limits;
}

NodeId SchemaWriter::number(const Keywords& k, bool integer) {
  if (!limits_numbers(k)) return add_number(integer, integer, builder_);
  std::vector<NodeId> parts = number_limits(k);
  parts.insert(parts.begin(), add_number(integer, true, builder_));
  return all_of(parts);
}

}  // namespace weft::grammar
