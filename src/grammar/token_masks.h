#pragma once
// Computes which tokens may follow in a configuration. The part of a state's mask that does not depend on the
// call stack is computed once, when the state is first used. The rest is a small tree of the ends of tokens,
// which is walked each time.
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "grammar/automaton.h"
#include "grammar/configuration.h"
#include "grammar/token_trie.h"
#include "grammar/walker.h"

namespace weft::grammar {

/// The tokens that a state allows, with the part that depends on the call stack.
struct TokenMask {
  std::vector<std::uint32_t> bits;  ///< One for each token, or
  std::vector<Token> tokens;        ///< a list, where they are few.
  /// The remaining bytes of tokens after a place where the state's rule may end.
  TokenTrie behind;
  /// `behind` would be too large: all tokens are walked each time.
  bool is_partial = false;

  std::size_t size() const {
    return sizeof(*this) + bits.size() * sizeof(std::uint32_t) + tokens.size() * sizeof(Token) +
           behind.bytes();
  }
};

/// Returns the class of each state. States that allow the same tokens have one class and share a mask.
std::vector<std::uint32_t> find_mask_classes(const Automaton& automaton, std::size_t max_token_bytes);

/// Used by any number of threads. The arguments must outlive it.
class TokenMasks {
 public:
  /// Keeps up to `kept_bytes` of masks. If a new mask exceeds them, all others are dropped.
  TokenMasks(const Automaton& automaton, const TokenTrie& trie, int n_vocab, std::size_t kept_bytes);

  /// Sets the bits of all tokens that may follow, end tokens aside. `walker` belongs to the caller.
  void fill(const Configuration& from, Walker& walker, Stepper& stepper,
            std::span<std::uint32_t> allowed) const;
  /// Makes at most `most` of the expensive masks in advance. Before other threads use the object.
  void prepare(int most) const;
  std::size_t bytes() const;

 private:
  std::shared_ptr<const TokenMask> of(StateId state) const;
  TokenMask make(StateId state) const;

  const Automaton& automaton_;
  const TokenTrie& trie_;
  const int n_vocab_;
  const std::size_t kept_bytes_;
  const std::vector<std::uint32_t> classes_;

  mutable std::mutex mutex_;
  mutable std::vector<std::shared_ptr<const TokenMask>> masks_;  // By class.
  mutable std::size_t bytes_ = 0;
};

}  // namespace weft::grammar
