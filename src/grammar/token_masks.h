#pragma once
// Which tokens may follow where a text stands. What a state says of a token without regard to the calls that
// it is within is found once, when the state is met first; what depends on them is a small tree of the
// tokens' ends, walked each time.
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

/// What a state allows, together with what stands behind its rule.
struct TokenMask {
  std::vector<std::uint32_t> bits;  ///< One for each token, or
  std::vector<Token> tokens;        ///< a list, where they are few.
  TokenTrie behind;                 ///< What tokens hold behind a place where the state's rule may end.
  /// There would be too much behind: all tokens have to be walked each time.
  bool is_partial = false;

  std::size_t size() const {
    return sizeof(*this) + bits.size() * sizeof(std::uint32_t) + tokens.size() * sizeof(Token) +
           behind.bytes();
  }
};

/// States that no token tells apart have one class, and share a mask.
std::vector<std::uint32_t> find_mask_classes(const Automaton& automaton, std::size_t max_token_bytes);

/// Used by any number of threads. What it is given must outlive it.
class TokenMasks {
 public:
  /// Masks are kept in `kept_bytes`; when those are full, masks are made again.
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
