// Strings and numbers of schemas.
#include <algorithm>

#include "grammar/pattern.h"
#include "grammar/schema/decimal.h"
#include "grammar/schema/formats.h"
#include "grammar/schema/schema_writer.h"

namespace weft::grammar {
namespace {

constexpr std::int64_t kBlock = 256;  // Repetitions per block of a long count.
/// The longest string whose characters are counted in addition to a pattern: their states multiply.
constexpr std::int64_t kMostWrittenOut = 1024;

/// A character of a string, as JSON may write it.
NodeId any_escape(Builder& b) {
  const CharSet hex({{'0', '9'}, {'A', 'F'}, {'a', 'f'}});
  const CharSet short_escapes(
      {{'"', '"'}, {'\\', '\\'}, {'/', '/'}, {'b', 'b'}, {'f', 'f'}, {'n', 'n'}, {'r', 'r'}, {'t', 't'}});
  const NodeId digit = b.character(hex);
  // Surrogates are allowed in pairs only.
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

NodeId SchemaWriter::block(const std::string& name, NodeId one, std::int64_t size) {
  return shared(name + " * " + std::to_string(size), [&] {
    if (size == kBlock) return builder_.repeat(one, kBlock, kBlock);
    return builder_.repeat(block(name, one, size / kBlock), kBlock, kBlock);
  });
}

NodeId SchemaWriter::up_to(const std::string& name, NodeId one, std::int64_t most) {
  Builder& b = builder_;
  if (most < kBlock) return b.repeat(one, 0, static_cast<std::int32_t>(most));
  return shared(name + " up to " + std::to_string(most), [&] {
    std::int64_t size = kBlock;
    while (most / size >= kBlock) size *= kBlock;
    // All blocks and part of another, or fewer blocks and less than one.
    const auto n = static_cast<std::int32_t>(most / size);
    const NodeId all = b.sequence({b.repeat(block(name, one, size), n, n), up_to(name, one, most % size)});
    const NodeId fewer = b.sequence({b.repeat(block(name, one, size), 0, n - 1), up_to(name, one, size - 1)});
    return b.choice({all, fewer});
  });
}

/// `one`, `least` to `most` times (most < 0: any number). Long counts consist of blocks, which are rules, so
/// the number of states grows logarithmically. `name` identifies `one`.
NodeId SchemaWriter::counted(const std::string& name, NodeId one, std::int64_t least, std::int64_t most) {
  std::vector<NodeId> parts;
  std::int64_t rest = least;
  for (std::int64_t size = kBlock * kBlock * kBlock; size >= kBlock; size /= kBlock) {
    const auto n = static_cast<std::int32_t>(rest / size);
    if (n > 0) parts.push_back(builder_.repeat(block(name, one, size), n, n));
    rest %= size;
  }
  const auto n_single = static_cast<std::int32_t>(rest);
  if (most < 0) {
    parts.push_back(builder_.repeat(one, n_single, kUnlimited));
  } else {
    if (n_single > 0) parts.push_back(builder_.repeat(one, n_single, n_single));
    parts.push_back(up_to(name, one, most - least));
  }
  return builder_.sequence(parts);
}

/// The pattern's expression, or nullopt if it cannot be enforced, which is noted at `at`.
std::optional<NodeId> SchemaWriter::pattern(ValueId at, std::string_view source, bool anywhere,
                                            bool in_json) {
  try {
    return add_pattern(source, {.anywhere = anywhere, .in_json = in_json, .name = "the pattern"}, budget_,
                       builder_);
  } catch (const OverBudget&) {
    throw;
  } catch (const Error& error) {
    budget_.spend(kExceptionWork);
    reader_.leave_free(at, error.what());
    return std::nullopt;
  }
}

/// The patterns and formats of a string, one expression each. `any` is one character.
std::vector<NodeId> SchemaWriter::string_contents(const Keywords& k, NodeId any, bool in_json) {
  std::vector<NodeId> contents;
  for (const ValueId at : k.patterns)
    if (const auto node = pattern(at, tree_[at].text, true, in_json)) contents.push_back(*node);
  for (const ValueId name : k.formats) {
    const StringFormat* format = find_format(tree_[name].text);
    if (format == nullptr) continue;
    if (format->pattern.empty()) {
      reader_.leave_free(name,
                         "the format \"" + tree_[name].text + "\" is not supported; write a pattern instead");
      continue;
    }
    if (const auto node = pattern(name, format->pattern, false, in_json)) contents.push_back(*node);
    if (format->max_length > 0) contents.push_back(builder_.repeat(any, 0, format->max_length));
  }
  return contents;
}

/// Adds the length as one more expression. The states of all expressions multiply.
void SchemaWriter::add_length(const Keywords& k, NodeId any, std::vector<NodeId>& contents) {
  if (k.length_at == kNoValue) return;
  if (std::max(k.min_length, k.max_length) > kMostWrittenOut) {
    reader_.leave_free(k.length_at, "a length above " + std::to_string(kMostWrittenOut) +
                                        " is not supported here: leave out the pattern or the format, or use "
                                        "a smaller length");
    return;
  }
  contents.push_back(
      builder_.repeat(any, static_cast<std::int32_t>(k.min_length), static_cast<std::int32_t>(k.max_length)));
}

bool SchemaWriter::is_format_alone(const Keywords& k) const {
  if (!k.patterns.empty() || k.formats.size() != 1 || k.length_at != kNoValue) return false;
  const StringFormat* const format = find_format(tree_[k.formats[0]].text);
  return format != nullptr && !format->pattern.empty();
}

NodeId SchemaWriter::string(const Keywords& k) {
  if (!limits_strings(k)) return any_string();
  if (k.max_length >= 0 && k.max_length < k.min_length) return builder_.nothing();
  Builder& b = builder_;
  const auto quoted = [&](NodeId inside) { return b.sequence({b.bytes("\""), inside, b.bytes("\"")}); };
  const NodeId any = add_json_character(CharSet::all(), b);
  if (is_format_alone(k))
    return shared("format " + tree_[k.formats[0]].text,
                  [&] { return quoted(all_of(string_contents(k, any, true))); });
  if (std::vector<NodeId> contents = string_contents(k, any, true); !contents.empty()) {
    add_length(k, any, contents);
    return quoted(all_of(contents));
  }
  if (k.length_at == kNoValue) return any_string();
  // Strings of one length are one rule: schemas often repeat them.
  return shared("string of " + std::to_string(k.min_length) + " to " + std::to_string(k.max_length), [&] {
    const CharSet escapes(
        {{'"', '"'}, {'\\', '\\'}, {'/', '/'}, {'b', 'b'}, {'f', 'f'}, {'n', 'n'}, {'r', 'r'}, {'t', 't'}});
    const NodeId one =
        b.choice({b.character(plain_characters()), b.sequence({b.bytes("\\"), b.character(escapes)})});
    return quoted(counted("character", one, k.min_length, k.max_length));
  });
}

bool SchemaWriter::limits_numbers(const Keywords& k) const {
  return !k.at_least.empty() || !k.at_most.empty() || !k.multiples.empty();
}

std::vector<NodeId> SchemaWriter::number_limits(const Keywords& k) {
  std::vector<NodeId> limits;
  const auto decimal = [&](ValueId at) {
    auto parsed = parse_decimal(tree_[at].text);
    if (!parsed) reader_.leave_free(at, "the number has too many digits");
    return parsed;
  };
  for (const NumberBound& bound : k.at_least)
    if (const auto least = decimal(bound.at))
      limits.push_back(add_bounded(*least, bound.exclusive, true, builder_));
  for (const NumberBound& bound : k.at_most)
    if (const auto most = decimal(bound.at))
      limits.push_back(add_bounded(*most, bound.exclusive, false, builder_));
  for (const ValueId at : k.multiples) {
    const auto step = decimal(at);
    if (!step) continue;
    if (const auto multiple = add_multiple(*step, builder_)) {
      limits.push_back(*multiple);
    } else {
      reader_.leave_free(at, "multipleOf is supported only for 2, 5 and powers of ten");
    }
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
