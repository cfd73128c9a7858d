#include "grammar/language.h"

#include <algorithm>

#include "grammar/budget.h"

namespace weft::grammar {

NodeId Builder::add(Node node) {
  language_.nodes.push_back(node);
  return static_cast<NodeId>(language_.nodes.size() - 1);
}

NodeId Builder::add_parent(NodeKind kind, std::span<const NodeId> children, std::int32_t least,
                           std::int32_t most) {
  Node node;
  node.kind = kind;
  node.least = least;
  node.most = most;
  node.begin = static_cast<std::uint32_t>(language_.children.size());
  node.size = static_cast<std::uint32_t>(children.size());
  int depth = 0;
  for (const NodeId child : children) depth = std::max<int>(depth, language_.nodes[child].depth);
  if (++depth > kMaxNodeDepth)
    refuse("the grammar's expressions are nested deeper than " + std::to_string(kMaxNodeDepth) + " levels");
  node.depth = static_cast<std::uint16_t>(depth);
  language_.children.insert(language_.children.end(), children.begin(), children.end());
  return add(node);
}

NodeId Builder::bytes(std::string_view text) {
  Node node;
  node.kind = NodeKind::kBytes;
  node.begin = static_cast<std::uint32_t>(language_.bytes.size());
  node.size = static_cast<std::uint32_t>(text.size());
  language_.bytes += text;
  return add(node);
}

NodeId Builder::character(const CharSet& set) {
  Node node;
  node.kind = NodeKind::kClass;
  node.begin = static_cast<std::uint32_t>(language_.ranges.size());
  node.size = static_cast<std::uint32_t>(set.ranges().size());
  language_.ranges.insert(language_.ranges.end(), set.ranges().begin(), set.ranges().end());
  return add(node);
}

NodeId Builder::sequence(std::span<const NodeId> parts) {
  return parts.size() == 1 ? parts[0] : add_parent(NodeKind::kSequence, parts);
}

NodeId Builder::choice(std::span<const NodeId> parts) {
  return parts.size() == 1 ? parts[0] : add_parent(NodeKind::kChoice, parts);
}

NodeId Builder::repeat(NodeId part, std::int32_t least, std::int32_t most) {
  return add_parent(NodeKind::kRepeat, std::span(&part, 1), least, most);
}

NodeId Builder::tag(std::string_view text) {
  const NodeId id = bytes(text);
  language_.nodes[id].kind = NodeKind::kTag;
  return id;
}

NodeId Builder::free_text(std::span<const NodeId> tags_and_parts, std::int32_t least, std::int32_t most) {
  return add_parent(NodeKind::kFreeText, tags_and_parts, least, most);
}

NodeId Builder::until(NodeId tag) { return add_parent(NodeKind::kUntil, std::span(&tag, 1)); }

NodeId Builder::both(NodeId a, NodeId b) {
  const NodeId parts[] = {a, b};
  return add_parent(NodeKind::kBoth, parts);
}

NodeId Builder::some_of(std::span<const NodeId> parts, NodeId separator, std::optional<NodeId> others) {
  const auto shared = [&](NodeId body) {
    const RuleId id = declare("some of");
    define(id, body);
    return rule(id);
  };
  // From the last part to the first: what may follow the part, and the list that begins at it or later.
  NodeId behind = others ? shared(repeat(sequence({separator, *others}), 0, kUnlimited)) : empty();
  std::optional<NodeId> from_here;
  if (others) from_here = shared(sequence({*others, behind}));
  for (std::size_t i = parts.size(); i-- > 0;) {
    const NodeId this_first = sequence({parts[i], behind});
    from_here = shared(from_here ? choice({this_first, *from_here}) : this_first);
    if (i > 0) behind = shared(sequence({optional(sequence({separator, parts[i]})), behind}));
  }
  return from_here ? *from_here : nothing();
}

RuleId Builder::declare(std::string name) {
  language_.rules.push_back({std::move(name), 0});
  return static_cast<RuleId>(language_.rules.size() - 1);
}

NodeId Builder::rule(RuleId rule) {
  Node node;
  node.kind = NodeKind::kRule;
  node.begin = rule;
  return add(node);
}

NodeId Builder::append(const Language& other) {
  const auto n_nodes = static_cast<NodeId>(language_.nodes.size());
  const auto n_children = static_cast<std::uint32_t>(language_.children.size());
  const auto n_ranges = static_cast<std::uint32_t>(language_.ranges.size());
  const auto n_bytes = static_cast<std::uint32_t>(language_.bytes.size());
  const auto n_rules = static_cast<RuleId>(language_.rules.size());
  for (Node node : other.nodes) {
    switch (node.kind) {
      case NodeKind::kBytes:
      case NodeKind::kTag:
        node.begin += n_bytes;
        break;
      case NodeKind::kClass:
        node.begin += n_ranges;
        break;
      case NodeKind::kRule:
        node.begin += n_rules;
        break;
      default:
        node.begin += n_children;
    }
    language_.nodes.push_back(node);
  }
  for (const NodeId child : other.children) language_.children.push_back(child + n_nodes);
  language_.ranges.insert(language_.ranges.end(), other.ranges.begin(), other.ranges.end());
  language_.bytes += other.bytes;
  for (const Language::Rule& rule : other.rules) language_.rules.push_back({rule.name, rule.body + n_nodes});
  return other.root + n_nodes;
}

Language Builder::finish(NodeId root) {
  language_.root = root;
  return std::move(language_);
}

}  // namespace weft::grammar
