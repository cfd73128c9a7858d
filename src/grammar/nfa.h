#pragma once
// The nondeterministic automaton between a language and its deterministic one, and the conversion.
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
    std::uint32_t next;   ///< The next edge of the same state, or kNoEdge.
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

/// Adds a deterministic automaton for the strings that lead from `from` to `to`. Returns its first state, to
/// which no edge leads back. The callees of its calls are rule ids.
StateId determinise(const Nfa& nfa, StateId from, StateId to, Budget& budget, Automaton& out);

/// Adds the intersection of two automata without calls to `nfa`, from `from` to `to`.
void add_both(const Automaton& a, const Automaton& b, Budget& budget, Nfa& nfa, StateId from, StateId to);

}  // namespace weft::grammar
