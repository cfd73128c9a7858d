#pragma once
// Expressions of a language to an NFA.
#include <vector>

#include "grammar/language.h"
#include "grammar/nfa.h"
#include "grammar/rule_facts.h"
#include "grammar/special_tokens.h"

namespace weft::grammar {

/// Everything it is given must outlive it.
class ExpressionNfa {
 public:
  ExpressionNfa(const Language& language, const std::vector<RuleFacts>& facts, const SpecialTokens& special,
                Budget& budget, Nfa& nfa)
      : language_(language), facts_(facts), special_(special), budget_(budget), nfa_(nfa) {}

  /// Adds what the node matches between two states.
  void add(NodeId id, StateId from, StateId to);

 private:
  void add_class(const Node& node, StateId from, StateId to);
  void add_repeat(const Node& node, StateId from, StateId to);
  void add_rule(const Node& node, StateId from, StateId to);
  void add_text(std::string_view text, bool is_tag, StateId from, StateId to);
  void add_free_text(const Node& node, StateId from, StateId to);
  void add_both(const Node& node, StateId from, StateId to);
  Automaton regular(NodeId id);

  const Language& language_;
  const std::vector<RuleFacts>& facts_;
  const SpecialTokens& special_;
  Budget& budget_;
  Nfa& nfa_;
  bool copies_all_ = false;  // Copies all rules instead of calling them.
  int n_copied_ = 0;         // Rules that are being copied.
};

}  // namespace weft::grammar
