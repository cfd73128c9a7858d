#include "grammar/compile.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/to_size.h"
#include "grammar/expression_nfa.h"
#include "grammar/nfa.h"
#include "grammar/rule_facts.h"

namespace weft::grammar {
namespace {

class Compiler {
 public:
  Compiler(const Language& language, const SpecialTokens& special, Budget& budget)
      : language_(language),
        special_(special),
        budget_(budget),
        facts_(find_facts(language, budget)),
        starts_(language.rules.size(), kNoState) {}

  Automaton run() {
    raw_.start = add_expression(language_.root);
    raw_.allows_empty = raw_.states[raw_.start].accepts;
    raw_.states[raw_.start].accepts = false;
    // The call edges of existing states name the rules that are still to be compiled.
    for (std::size_t seen = 0; seen < raw_.call_edges.size(); ++seen) {
      const std::uint32_t rule = raw_.call_edges[seen].callee;
      if (starts_[rule] != kNoState) continue;
      starts_[rule] = add_expression(language_.rules[rule].body);
      raw_.states[starts_[rule]].accepts = false;  // An empty edge in the caller covers the empty match.
    }
    for (CallEdge& edge : raw_.call_edges) edge.callee = starts_[edge.callee];
    Automaton automaton = without_dead_ends();
    refuse_left_recursion(automaton);
    return automaton;
  }

 private:
  StateId add_expression(NodeId id) {
    Nfa nfa(budget_);
    const StateId from = nfa.add_state(), to = nfa.add_state();
    ExpressionNfa(language_, facts_, special_, budget_, nfa).add(id, from, to);
    return determinise(nfa, from, to, budget_, raw_);
  }

  /// States from which the rule's end can be reached, calls included.
  std::vector<char> productive() {
    const std::size_t n = raw_.n_states();
    // Edges backwards: the states that depend on a state. A call depends on two.
    std::vector<std::pair<StateId, StateId>> waiting;  // (state, dependent state)
    std::vector<char> result(n, 0);
    std::vector<StateId> open;
    for (StateId s = 0; s < n; ++s) {
      for (const ByteEdge& edge : raw_.bytes_of(s)) waiting.emplace_back(edge.to, s);
      for (const TokenEdge& edge : raw_.tokens_of(s)) waiting.emplace_back(edge.to, s);
      for (const CallEdge& edge : raw_.calls_of(s)) {
        waiting.emplace_back(edge.to, s);
        waiting.emplace_back(edge.callee, s);
      }
      if (raw_.states[s].accepts) open.push_back(s);
    }
    budget_.spend(static_cast<std::int64_t>(waiting.size()) + 1);
    std::sort(waiting.begin(), waiting.end());
    const auto ends = [&](StateId s) {
      const auto good = [&](StateId to) { return result[to] != 0; };
      const auto bytes = raw_.bytes_of(s);
      const auto tokens = raw_.tokens_of(s);
      const auto calls = raw_.calls_of(s);
      return raw_.states[s].accepts ||
             std::any_of(bytes.begin(), bytes.end(), [&](const ByteEdge& e) { return good(e.to); }) ||
             std::any_of(tokens.begin(), tokens.end(), [&](const TokenEdge& e) { return good(e.to); }) ||
             std::any_of(calls.begin(), calls.end(),
                         [&](const CallEdge& e) { return good(e.to) && good(e.callee); });
    };
    while (!open.empty()) {
      const StateId s = open.back();
      open.pop_back();
      budget_.spend(static_cast<std::int64_t>(raw_.bytes_of(s).size() + raw_.calls_of(s).size()) + 1);
      if (result[s] != 0 || !ends(s)) continue;
      result[s] = 1;
      for (auto at = std::lower_bound(waiting.begin(), waiting.end(), std::pair<StateId, StateId>(s, 0));
           at != waiting.end() && at->first == s; ++at)
        open.push_back(at->second);
    }
    return result;
  }

  Automaton without_dead_ends() {
    const std::vector<char> good = productive();
    if (good[raw_.start] == 0 && !raw_.allows_empty)
      refuse("the grammar matches no text: it contradicts itself, or never ends");
    Automaton result;
    result.start = raw_.start;
    result.allows_empty = raw_.allows_empty;
    result.states.reserve(raw_.n_states());
    for (StateId s = 0; s < raw_.n_states(); ++s) {
      result.states.push_back({static_cast<std::uint32_t>(result.byte_edges.size()),
                               static_cast<std::uint32_t>(result.call_edges.size()),
                               static_cast<std::uint32_t>(result.token_edges.size()),
                               raw_.states[s].accepts});
      for (const ByteEdge& edge : raw_.bytes_of(s))
        if (good[edge.to] != 0) result.byte_edges.push_back(edge);
      for (const CallEdge& edge : raw_.calls_of(s))
        if (good[edge.to] != 0 && good[edge.callee] != 0) result.call_edges.push_back(edge);
      for (const TokenEdge& edge : raw_.tokens_of(s))
        if (good[edge.to] != 0) result.token_edges.push_back(edge);
    }
    return result;
  }

  /// A rule that can call itself before it reads a byte would be called without end.
  void refuse_left_recursion(const Automaton& automaton) {
    std::vector<char> mark(automaton.n_states(), 0);  // 1: on the path, 2: done.
    struct Open {
      StateId state;
      std::size_t next;
    };
    std::vector<Open> path;
    for (const StateId first : starts_) {
      if (first == kNoState || mark[first] != 0) continue;
      path.push_back({first, 0});
      mark[first] = 1;
      while (!path.empty()) {
        budget_.spend();
        const StateId state = path.back().state;
        const auto calls = automaton.calls_of(state);
        if (path.back().next == calls.size()) {
          mark[state] = 2;
          path.pop_back();
          continue;
        }
        const StateId callee = calls[path.back().next++].callee;
        if (mark[callee] == 1)
          refuse("the rule \"" + name_of(callee) +
                 "\" begins with itself (left recursion): write repetitions instead, as in "
                 "sum ::= term (\"+\" term)*");
        if (mark[callee] == 0) {
          mark[callee] = 1;
          path.push_back({callee, 0});
        }
      }
    }
  }

  std::string name_of(StateId start) const {
    const auto at = std::find(starts_.begin(), starts_.end(), start);
    return at == starts_.end() ? "root" : language_.rules[to_size(at - starts_.begin())].name;
  }

  const Language& language_;
  const SpecialTokens& special_;
  Budget& budget_;
  const std::vector<RuleFacts> facts_;
  std::vector<StateId> starts_;  // First states of the called rules.
  Automaton raw_;
};

}  // namespace

Automaton compile(const Language& language, const SpecialTokens& special, Budget& budget) {
  return Compiler(language, special, budget).run();
}

}  // namespace weft::grammar
