#pragma once
// The compiled form of a grammar: a deterministic automaton over bytes for each rule that is called. Calls
// and special tokens are further edges. A state is ambiguous only if it has calls: they may match the same
// bytes as its other edges.
#include <cstdint>
#include <span>
#include <vector>

#include "weft/types.h"

namespace weft::grammar {

using StateId = std::uint32_t;
inline constexpr StateId kNoState = 0xFFFFFFFF;

struct ByteEdge {
  StateId to;
  std::uint8_t low, high;  ///< Both included.
};
struct CallEdge {
  std::uint32_t callee;  ///< Its first state. While the automaton is built: the rule.
  StateId to;            ///< The state after the call.
};
struct TokenEdge {
  Token token;
  StateId to;
};

/// Immutable once built. No callee matches the empty string, and every state can reach an accepting one.
struct Automaton {
  struct State {
    /// Index of the first edge; they end where the next state's edges begin.
    std::uint32_t bytes, calls, tokens;
    bool accepts;  ///< The rule may end here.
  };
  std::vector<State> states;
  std::vector<ByteEdge> byte_edges;  ///< A state's edges are ascending and do not overlap.
  std::vector<CallEdge> call_edges;
  std::vector<TokenEdge> token_edges;
  StateId start = 0;
  bool allows_empty = false;  ///< The empty string is in the language.

  std::size_t n_states() const { return states.size(); }
  std::span<const ByteEdge> bytes_of(StateId s) const {
    return edges(byte_edges, states[s].bytes,
                 s + 1 < states.size() ? states[s + 1].bytes : byte_edges.size());
  }
  std::span<const CallEdge> calls_of(StateId s) const {
    return edges(call_edges, states[s].calls,
                 s + 1 < states.size() ? states[s + 1].calls : call_edges.size());
  }
  std::span<const TokenEdge> tokens_of(StateId s) const {
    return edges(token_edges, states[s].tokens,
                 s + 1 < states.size() ? states[s + 1].tokens : token_edges.size());
  }
  StateId next(StateId s, std::uint8_t byte) const {
    for (const ByteEdge& edge : bytes_of(s)) {
      if (byte > edge.high) continue;
      return byte >= edge.low ? edge.to : kNoState;
    }
    return kNoState;
  }
  /// Nothing follows this state, so a call that returns here needs no stack frame.
  bool only_accepts(StateId s) const {
    return bytes_of(s).empty() && calls_of(s).empty() && tokens_of(s).empty();
  }
  std::size_t bytes() const {
    return states.size() * sizeof(State) + byte_edges.size() * sizeof(ByteEdge) +
           call_edges.size() * sizeof(CallEdge) + token_edges.size() * sizeof(TokenEdge);
  }

 private:
  template <typename Edge>
  static std::span<const Edge> edges(const std::vector<Edge>& all, std::size_t begin, std::size_t end) {
    return std::span(all).subspan(begin, end - begin);
  }
};

}  // namespace weft::grammar
