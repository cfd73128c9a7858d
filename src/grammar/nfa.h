#pragma once
// The nondeterministic form between a description and its automaton, and how that is made from it.
#include <cstdint>
#include <vector>

#include "grammar/automaton.h"
#include "grammar/budget.h"

namespace weft::grammar {

class Nfa {
 public:
  enum class EdgeKind : std::uint8_t { kEmpty, kBytes, kCall, kToken };
  static constexpr std::uint32_t kNoEdge = 0xFFFFFFFF;
  struct Edge {
    StateId to;
    std::uint32_t next;   ///< Of the same state, or kNoEdge.
    std::uint32_t value;  ///< kBytes: low | high << 8; kCall: the rule; kToken: the token.
    EdgeKind kind;
  };

  explicit Nfa(Budget& budget) : budget_(&budget) {}

  StateId add_state() {
    budget_->add_states(1);
    first_.push_back(kNoEdge);
    return static_cast<StateId>(first_.size() - 1);
  }
  void add_empty(StateId from, StateId to) { add(from, to, EdgeKind::kEmpty, 0); }
  void add_bytes(StateId from, StateId to, std::uint8_t low, std::uint8_t high) {
    add(from, to, EdgeKind::kBytes, static_cast<std::uint32_t>(low | high << 8));
  }
  void add_call(StateId from, StateId to, std::uint32_t rule) { add(from, to, EdgeKind::kCall, rule); }
  void add_token(StateId from, StateId to, Token token) {
    add(from, to, EdgeKind::kToken, static_cast<std::uint32_t>(token));
  }

  std::size_t n_states() const { return first_.size(); }
  std::uint32_t first_edge(StateId s) const { return first_[s]; }
  const Edge& edge(std::uint32_t e) const { return edges_[e]; }

 private:
  void add(StateId from, StateId to, EdgeKind kind, std::uint32_t value) {
    budget_->spend();
    edges_.push_back({to, first_[from], value, kind});
    first_[from] = static_cast<std::uint32_t>(edges_.size() - 1);
  }

  Budget* budget_;
  std::vector<std::uint32_t> first_;
  std::vector<Edge> edges_;
};

/// Adds a deterministic automaton for the texts that lead from `from` to `to`; its first state. No edge leads
/// back to that one. What its calls call are rules.
StateId determinise(const Nfa& nfa, StateId from, StateId to, Budget& budget, Automaton& out);

/// Adds to `nfa` what two automata without calls both match, from `from` to `to`.
void add_both(const Automaton& a, const Automaton& b, Budget& budget, Nfa& nfa, StateId from, StateId to);

}  // namespace weft::grammar
