#pragma once
// The source form of a language: expressions and named rules, independent of a vocabulary.
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "grammar/char_set.h"
#include "weft/grammar.h"

namespace weft::grammar {

using NodeId = std::uint32_t;
using RuleId = std::uint32_t;

inline constexpr std::int32_t kUnlimited = -1;  ///< Of Node::most.
/// Limit of nested expressions; a reference to a rule counts as one.
inline constexpr int kMaxNodeDepth = 512;

enum class NodeKind : std::uint8_t {
  kBytes,     ///< A string: `begin`, `size` in Language::bytes.
  kClass,     ///< A character, as UTF-8: `begin`, `size` in Language::ranges.
  kSequence,  ///< `begin`, `size` in Language::children, as for all that follow.
  kChoice,    ///< Without children: nothing matches.
  kRepeat,    ///< One child, `least` to `most` times.
  kRule,      ///< A reference to the rule `begin`.
  kTag,       ///< A special token by its spelling, as kBytes.
  kFreeText,  ///< Children: tag, what follows it, tag, ... See Grammar::free_text.
  kUntil,     ///< One tag: any bytes up to its first occurrence, and the tag.
  kBoth,      ///< The intersection of both children. They are regular: no rule in them calls itself.
};

struct Node {
  NodeKind kind = NodeKind::kSequence;
  std::uint16_t depth = 1;
  std::int32_t least = 0, most = 0;
  std::uint32_t begin = 0, size = 0;
};

/// Children of a node have lower ids than the node.
struct Language {
  std::vector<Node> nodes;
  std::vector<NodeId> children;
  std::vector<CharRange> ranges;
  std::string bytes;
  struct Rule {
    std::string name;  ///< For messages.
    NodeId body = 0;
  };
  std::vector<Rule> rules;
  NodeId root = 0;

  std::span<const NodeId> children_of(const Node& node) const {
    return std::span(children).subspan(node.begin, node.size);
  }
  std::string_view text_of(const Node& node) const {
    return std::string_view(bytes).substr(node.begin, node.size);
  }
  std::span<const CharRange> ranges_of(const Node& node) const {
    return std::span(ranges).subspan(node.begin, node.size);
  }
};

/// Builds one. Throws Error kInvalidArgument where expressions are nested beyond kMaxNodeDepth.
class Builder {
 public:
  NodeId bytes(std::string_view text);
  NodeId character(const CharSet& set);
  NodeId sequence(std::span<const NodeId> parts);
  NodeId sequence(std::initializer_list<NodeId> parts) { return sequence(std::span(parts)); }
  NodeId choice(std::span<const NodeId> parts);
  NodeId choice(std::initializer_list<NodeId> parts) { return choice(std::span(parts)); }
  NodeId repeat(NodeId part, std::int32_t least, std::int32_t most);
  NodeId optional(NodeId part) { return repeat(part, 0, 1); }
  NodeId tag(std::string_view text);
  NodeId free_text(std::span<const NodeId> tags_and_parts, std::int32_t least, std::int32_t most);
  NodeId until(NodeId tag);
  NodeId both(NodeId a, NodeId b);
  NodeId empty() { return sequence(std::span<const NodeId>()); }
  NodeId nothing() { return choice(std::span<const NodeId>()); }

  /// One or more parts: any of `parts` in their order, then any number of `others`, with separators between.
  /// Shares rules, so its size is linear in the number of parts.
  NodeId some_of(std::span<const NodeId> parts, NodeId separator, std::optional<NodeId> others);

  RuleId declare(std::string name);
  void define(RuleId rule, NodeId body) { language_.rules[rule].body = body; }
  NodeId rule(RuleId rule);

  /// Copies another language into this one and returns its root.
  NodeId append(const Language& other);

  std::size_t n_nodes() const { return language_.nodes.size(); }
  Language finish(NodeId root);

 private:
  NodeId add(Node node);
  NodeId add_parent(NodeKind kind, std::span<const NodeId> children, std::int32_t least = 0,
                    std::int32_t most = 0);

  Language language_;
};

}  // namespace weft::grammar

namespace weft {

struct Grammar::Rules {
  grammar::Language language;
};

}  // namespace weft
