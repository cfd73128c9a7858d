#include "grammar/rule_facts.h"

#include <algorithm>

namespace weft::grammar {
namespace {

constexpr std::int64_t kMany = std::int64_t{1} << 40;  // Sizes are cut off here.
constexpr std::int64_t kSmall = 160;       // States of a rule that is copied to wherever it is used ...
constexpr std::int64_t kSmallOnce = 8192;  // ... and of one that is used once.
constexpr int kMaxInlinedDepth = 64;       // Depth limit of copied expressions.
constexpr std::int64_t kManyWide = 3;      // Characters of wide classes that make a rule be called.
constexpr char32_t kWide = 32;             // Characters that make a class wide.

struct NodeFacts {
  std::int64_t size = 1;
  std::int64_t n_wide = 0;  // Characters of wide classes, at most.
  int depth = 1;
};

class Finder {
 public:
  Finder(const Language& language, Budget& budget)
      : language_(language), budget_(budget), n_rules_(language.rules.size()) {}

  std::vector<RuleFacts> run() {
    facts_.resize(n_rules_ + 1);  // The last entry is the root.
    rules_.resize(n_rules_ + 1);
    find_nodes();
    find_nullable();
    find_inlined();
    facts_.pop_back();
    return std::move(facts_);
  }

 private:
  struct Rule {
    bool used = false;
    std::vector<NodeId> nodes;                  // Ascending: children first.
    std::vector<std::uint32_t> users, callees;  // Once for each use.
    std::size_t n_open = 0;                     // Callees without facts.
    NodeFacts whole;
  };

  NodeId body(std::size_t rule) const {
    return rule == n_rules_ ? language_.root : language_.rules[rule].body;
  }

  void find_nodes() {
    std::vector<std::uint32_t> seen(language_.nodes.size(), 0xFFFFFFFF);
    repeated_ = seen;
    std::vector<std::uint32_t> open = {static_cast<std::uint32_t>(n_rules_)};
    rules_[n_rules_].used = true;
    std::vector<NodeId> todo;
    while (!open.empty()) {
      const std::uint32_t id = open.back();
      open.pop_back();
      Rule& rule = rules_[id];
      todo = {body(id)};
      while (!todo.empty()) {
        const NodeId n = todo.back();
        todo.pop_back();
        budget_.spend();
        if (std::exchange(seen[n], id) == id) continue;
        rule.nodes.push_back(n);
        const Node& node = language_.nodes[n];
        if (node.kind == NodeKind::kRule) {
          if (!std::exchange(rules_[node.begin].used, true)) open.push_back(node.begin);
        } else if (has_children(node)) {
          for (const NodeId child : language_.children_of(node)) todo.push_back(child);
        }
      }
      std::sort(rule.nodes.begin(), rule.nodes.end());
      find_uses(id);
    }
  }

  /// A rule within a repetition that is written out is used more than once.
  void find_uses(std::uint32_t id) {
    Rule& rule = rules_[id];
    for (auto n = rule.nodes.rbegin(); n != rule.nodes.rend(); ++n) {
      const Node& node = language_.nodes[*n];
      const bool repeated = repeated_[*n] == id;
      if (node.kind == NodeKind::kRule) {
        for (int i = 0; i < (repeated ? 2 : 1); ++i) {
          rule.callees.push_back(node.begin);
          rules_[node.begin].users.push_back(id);
        }
      } else if (has_children(node)) {
        const bool repeats = node.kind == NodeKind::kRepeat && std::max(node.least, node.most) > 1;
        if (repeated || repeats)
          for (const NodeId child : language_.children_of(node)) repeated_[child] = id;
      }
    }
  }

  static bool has_children(const Node& node) {
    return node.kind != NodeKind::kBytes && node.kind != NodeKind::kClass && node.kind != NodeKind::kTag &&
           node.kind != NodeKind::kRule;
  }

  void find_nullable() {
    std::vector<char> nullable(language_.nodes.size(), 0);
    std::vector<std::uint32_t> open;
    for (std::uint32_t id = 0; id <= n_rules_; ++id)
      if (rules_[id].used) open.push_back(id);
    while (!open.empty()) {
      const std::uint32_t id = open.back();
      open.pop_back();
      if (facts_[id].nullable) continue;
      for (const NodeId n : rules_[id].nodes) {
        budget_.spend();
        nullable[n] = is_nullable(language_.nodes[n], nullable) ? 1 : 0;
      }
      if (nullable[body(id)] == 0) continue;
      facts_[id].nullable = true;
      open.insert(open.end(), rules_[id].users.begin(), rules_[id].users.end());
    }
  }

  bool is_nullable(const Node& node, const std::vector<char>& nullable) const {
    if (!has_children(node))
      return node.kind == NodeKind::kBytes  ? node.size == 0
             : node.kind == NodeKind::kRule ? facts_[node.begin].nullable
                                            : false;
    const auto children = language_.children_of(node);
    const auto yes = [&](NodeId child) { return nullable[child] != 0; };
    switch (node.kind) {
      case NodeKind::kChoice:
        return std::any_of(children.begin(), children.end(), yes);
      case NodeKind::kRepeat:
        return node.least == 0 || yes(children[0]);
      case NodeKind::kFreeText:
        return node.least == 0;
      case NodeKind::kUntil:
        return false;
      default:
        return std::all_of(children.begin(), children.end(), yes);
    }
  }

  void find_inlined() {
    std::vector<NodeFacts> nodes(language_.nodes.size());
    std::vector<std::uint32_t> open;
    for (std::uint32_t id = 0; id <= n_rules_; ++id) {
      rules_[id].n_open = rules_[id].callees.size();
      if (rules_[id].used && rules_[id].n_open == 0) open.push_back(id);
    }
    // A rule's turn comes when all that it calls have had theirs; one that calls itself has none.
    while (!open.empty()) {
      const std::uint32_t id = open.back();
      open.pop_back();
      Rule& rule = rules_[id];
      for (const NodeId n : rule.nodes) {
        budget_.spend();
        nodes[n] = facts_of(language_.nodes[n], nodes);
      }
      rule.whole = nodes[body(id)];
      const bool once = rule.users.size() == 1;
      facts_[id].is_inlined = rule.whole.size <= (once ? kSmallOnce : kSmall) &&
                              rule.whole.depth <= kMaxInlinedDepth && (once || rule.whole.n_wide < kManyWide);
      for (const std::uint32_t user : rule.users)
        if (--rules_[user].n_open == 0) open.push_back(user);
    }
  }

  NodeFacts facts_of(const Node& node, const std::vector<NodeFacts>& nodes) const {
    NodeFacts facts;
    if (node.kind == NodeKind::kBytes || node.kind == NodeKind::kTag) {
      facts.size = node.size + 1;
      return facts;
    }
    if (node.kind == NodeKind::kClass) {
      char32_t n = 0;
      bool ascii = true;
      for (const CharRange& range : language_.ranges_of(node)) {
        n += range.high - range.low + 1;
        ascii = ascii && range.high < 0x80;
      }
      facts.size = ascii ? 1 : 8;
      facts.n_wide = n >= kWide ? 1 : 0;
      return facts;
    }
    if (node.kind == NodeKind::kRule) {
      const Rule& callee = rules_[node.begin];
      if (facts_[node.begin].is_inlined) facts = callee.whole;
      ++facts.depth;
      return facts;
    }
    for (const NodeId child : language_.children_of(node)) {
      facts.size = std::min(kMany, facts.size + nodes[child].size);
      facts.n_wide =
          std::min(kMany, node.kind == NodeKind::kChoice ? std::max(facts.n_wide, nodes[child].n_wide)
                                                         : facts.n_wide + nodes[child].n_wide);
      facts.depth = std::max(facts.depth, nodes[child].depth);
    }
    ++facts.depth;
    if (node.kind == NodeKind::kRepeat) {
      facts.size = times(facts.size, std::max({node.least, node.most, 1}));
      facts.n_wide = times(facts.n_wide, node.most < 0 ? kManyWide : node.most);
    }
    if (node.kind == NodeKind::kFreeText || node.kind == NodeKind::kUntil) facts.n_wide = kManyWide;
    if (node.kind == NodeKind::kFreeText)
      facts.size = times(facts.size, std::int64_t{std::max(node.least, node.most)} + 1);
    if (node.kind == NodeKind::kBoth) facts.size = times(facts.size, facts.size);
    return facts;
  }

  static std::int64_t times(std::int64_t a, std::int64_t b) {
    return b != 0 && a > kMany / b ? kMany : a * b;
  }

  const Language& language_;
  Budget& budget_;
  const std::size_t n_rules_;
  std::vector<RuleFacts> facts_;
  std::vector<Rule> rules_;
  std::vector<std::uint32_t> repeated_;  // For each node the rule in which it is repeated.
};

}  // namespace

std::vector<RuleFacts> find_facts(const Language& language, Budget& budget) {
  return Finder(language, budget).run();
}

}  // namespace weft::grammar
