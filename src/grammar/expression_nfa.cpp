#include "grammar/expression_nfa.h"

#include <algorithm>
#include <map>
#include <string>

#include "grammar/tag_matcher.h"

namespace weft::grammar {
namespace {

constexpr int kMaxCopied = 64;  // Rules within each other that are copied.

}  // namespace

void ExpressionNfa::add(NodeId id, StateId from, StateId to) {
  const Node& node = language_.nodes[id];
  switch (node.kind) {
    case NodeKind::kBytes:
      return add_text(language_.text_of(node), false, from, to);
    case NodeKind::kTag:
      return add_text(language_.text_of(node), true, from, to);
    case NodeKind::kClass:
      return add_class(node, from, to);
    case NodeKind::kSequence: {
      if (node.size == 0) return nfa_.add_empty(from, to);
      StateId at = from;
      for (std::uint32_t i = 0; i < node.size; ++i) {
        const StateId next = i + 1 == node.size ? to : nfa_.add_state();
        add(language_.children[node.begin + i], at, next);
        at = next;
      }
      return;
    }
    case NodeKind::kChoice:
      for (const NodeId child : language_.children_of(node)) add(child, from, to);
      return;
    case NodeKind::kRepeat:
      return add_repeat(node, from, to);
    case NodeKind::kRule:
      return add_rule(node, from, to);
    case NodeKind::kFreeText:
    case NodeKind::kUntil:
      return add_free_text(node, from, to);
    case NodeKind::kBoth:
      return add_both(node, from, to);
  }
}

void ExpressionNfa::add_text(std::string_view text, bool is_tag, StateId from, StateId to) {
  if (text.empty()) return nfa_.add_empty(from, to);
  StateId at = from;
  for (std::size_t i = 0; i < text.size();) {
    const SpecialTokens::Match special =
        is_tag ? special_.at_begin_of(text.substr(i)) : SpecialTokens::Match{};
    const std::size_t size = special.token == kNoToken ? 1 : special.size;
    const StateId next = i + size == text.size() ? to : nfa_.add_state();
    const auto byte = static_cast<std::uint8_t>(text[i]);
    if (special.token == kNoToken) {
      nfa_.add_bytes(at, next, byte, byte);
    } else {
      nfa_.add_token(at, next, special.token);
    }
    at = next;
    i += size;
  }
}

void ExpressionNfa::add_class(const Node& node, StateId from, StateId to) {
  std::vector<Utf8Range> ranges;
  for (const CharRange& range : language_.ranges_of(node)) append_utf8_ranges(range, ranges);
  // Equal ends are shared, or a class of all characters would take many states.
  std::map<std::string, StateId> ends = {{std::string(), to}};
  for (const Utf8Range& range : ranges) {
    std::string end;
    for (int i = range.size - 1; i >= 0; --i) {
      const Utf8Range::Bytes bytes = range.bytes[i];
      const StateId next = ends.at(end);
      end += static_cast<char>(bytes.low);
      end += static_cast<char>(bytes.high);
      if (i == 0) {
        nfa_.add_bytes(from, next, bytes.low, bytes.high);
      } else if (!ends.contains(end)) {
        const StateId here = nfa_.add_state();
        ends.emplace(end, here);
        nfa_.add_bytes(here, next, bytes.low, bytes.high);
      }
    }
  }
}

void ExpressionNfa::add_repeat(const Node& node, StateId from, StateId to) {
  const NodeId child = language_.children[node.begin];
  StateId at = from;
  for (std::int32_t i = 0; i < node.least; ++i) {
    const StateId next = nfa_.add_state();
    add(child, at, next);
    at = next;
  }
  if (node.most == kUnlimited) {
    const StateId loop = nfa_.add_state();
    nfa_.add_empty(at, loop);
    add(child, loop, loop);
    at = loop;
  } else {
    for (std::int32_t i = node.least; i < node.most; ++i) {
      const StateId next = nfa_.add_state();
      nfa_.add_empty(at, to);
      add(child, at, next);
      at = next;
    }
  }
  nfa_.add_empty(at, to);
}

void ExpressionNfa::add_rule(const Node& node, StateId from, StateId to) {
  const RuleFacts& facts = facts_[node.begin];
  const Language::Rule& rule = language_.rules[node.begin];
  if (facts.is_inlined || copies_all_) {
    if (n_copied_ == kMaxCopied)
      refuse("the rule \"" + rule.name + "\" is used in a pattern that must be regular, but calls itself");
    ++n_copied_;
    add(rule.body, from, to);
    --n_copied_;
    return;
  }
  nfa_.add_call(from, to, node.begin);
  if (facts.nullable) nfa_.add_empty(from, to);
}

/// Adds a copy of the matcher for each number of tags that were read. The end of a tag leads to the
/// expression that follows it, and that to the next copy.
void ExpressionNfa::add_free_text(const Node& node, StateId from, StateId to) {
  const auto children = language_.children_of(node);
  const bool until = node.kind == NodeKind::kUntil;
  const std::size_t step = until ? 1 : 2;
  std::vector<std::string_view> tags;
  for (std::size_t i = 0; i < children.size(); i += step)
    tags.push_back(language_.text_of(language_.nodes[children[i]]));
  const TagMatcher matcher(tags, budget_);
  std::vector<std::pair<Token, std::string_view>> special;
  for (const std::string_view tag : tags)
    for (const auto& found : special_.within(tag))
      if (std::find(special.begin(), special.end(), found) == special.end()) special.push_back(found);

  const bool limited = !until && node.most != kUnlimited;
  const std::int32_t n_levels = until ? 1 : limited ? node.most + 1 : node.least + 1;
  std::vector<StateId> level(matcher.size()), next_level(matcher.size());
  for (StateId& s : level) s = nfa_.add_state();
  nfa_.add_empty(from, level[0]);
  for (std::int32_t n = 0; n < n_levels; ++n) {
    const bool last = n + 1 == n_levels;
    const bool reads_tags = until || !(limited && last);
    if (!last)
      for (StateId& s : next_level) s = nfa_.add_state();
    const StateId behind = until ? to : last ? level[0] : next_level[0];
    // The expression after a tag is added once. All states that complete the tag lead to it.
    std::vector<StateId> parts(tags.size(), kNoState);
    const auto begin_of_part = [&](std::uint32_t tag) {
      if (until) return behind;
      if (parts[tag] == kNoState) {
        parts[tag] = nfa_.add_state();
        add(children[tag * 2 + 1], parts[tag], behind);
      }
      return parts[tag];
    };
    for (TagMatcher::NodeIndex m = 0; m < matcher.size(); ++m) {
      if (!matcher.tags_at(m).empty()) continue;
      if (!until && n >= node.least) nfa_.add_empty(level[m], to);
      for (int low = 0; low < 256;) {
        const TagMatcher::NodeIndex target = matcher.next(m, static_cast<std::uint8_t>(low));
        int high = low;
        while (high < 255 && matcher.next(m, static_cast<std::uint8_t>(high + 1)) == target) ++high;
        const auto first = static_cast<std::uint8_t>(low), final = static_cast<std::uint8_t>(high);
        if (matcher.tags_at(target).empty()) {
          nfa_.add_bytes(level[m], level[target], first, final);
        } else if (reads_tags) {
          for (const std::uint32_t tag : matcher.tags_at(target))
            nfa_.add_bytes(level[m], begin_of_part(tag), first, final);
        }
        low = high + 1;
      }
      if (!reads_tags) continue;
      // A special token is allowed where all of it belongs to a tag.
      for (const auto& [token, written] : special) {
        TagMatcher::NodeIndex target = m;
        bool ended = false;
        for (std::size_t i = 0; i < written.size() && !ended; ++i) {
          target = matcher.next(target, static_cast<std::uint8_t>(written[i]));
          ended = !matcher.tags_at(target).empty() && i + 1 < written.size();
        }
        if (ended || matcher.depth(target) < written.size()) continue;
        if (matcher.tags_at(target).empty()) nfa_.add_token(level[m], level[target], token);
        for (const std::uint32_t tag : matcher.tags_at(target))
          nfa_.add_token(level[m], begin_of_part(tag), token);
      }
    }
    if (!last) level.swap(next_level);
  }
}

Automaton ExpressionNfa::regular(NodeId id) {
  Nfa nfa(budget_);
  ExpressionNfa inner(language_, facts_, special_, budget_, nfa);
  inner.copies_all_ = true;
  inner.n_copied_ = n_copied_;
  const StateId from = nfa.add_state(), to = nfa.add_state();
  inner.add(id, from, to);
  Automaton automaton;
  automaton.start = determinise(nfa, from, to, budget_, automaton);
  return automaton;
}

void ExpressionNfa::add_both(const Node& node, StateId from, StateId to) {
  const auto children = language_.children_of(node);
  grammar::add_both(regular(children[0]), regular(children[1]), budget_, nfa_, from, to);
}

}  // namespace weft::grammar
