#pragma once
// Many texts that begin alike, read by an automaton at once: configurations are numbered, and steps between
// them are remembered.
#include <array>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "grammar/configuration.h"
#include "grammar/token_trie.h"

namespace weft::grammar {

/// Used by one thread. What it is given must outlive it.
class Walker {
 public:
  using PlaceId = std::uint32_t;
  static constexpr PlaceId kDead = 0;  ///< No text leads here.

  Walker(const Automaton& automaton, Stacks& stacks);

  /// The configuration's number. Numbers are good until forget().
  PlaceId place_of(const Configuration& configuration);
  PlaceId next(PlaceId place, std::uint8_t byte) {
    const PlaceId known = rows_[place][byte];
    return known != kUnknown ? known : find_next(place, byte);
  }
  const Configuration& at(PlaceId place) const { return places_[place]; }
  bool ends(PlaceId place) const { return places_[place].ended; }
  void forget();

  /// Walks from `start`. For each node that is reached calls reached(node, place), for each first one that is
  /// not, dead(node). The walker may forget all places on the way. Throws Error kInvalidArgument where the
  /// grammar is so ambiguous that the walk takes too long for those who wait for it.
  template <typename Reached, typename Dead>
  void walk(const TokenTrie& trie, const Configuration& start, Reached&& reached, Dead&& dead) {
    if (trie.size() <= 1) return;
    work_ = 0;
    if (is_full()) forget();
    path_.assign(trie.max_depth() + 1, kDead);
    path_[0] = place_of(start);
    for (std::size_t n = 1; n < trie.size();) {
      const TokenTrie::Node& node = trie[n];
      const PlaceId place = next(path_[node.depth - 1u], node.byte);
      if (place == kDead) {
        dead(n);
        n = node.behind;
        continue;
      }
      path_[node.depth] = place;
      reached(n, place);
      if (is_full()) keep_only(std::span(path_).first(node.depth + 1u));
      ++n;
    }
  }

 private:
  static constexpr PlaceId kUnknown = 0xFFFFFFFF;
  static constexpr std::size_t kMaxPlaces = 2048;
  static constexpr std::size_t kMaxItems = std::size_t{1} << 16;
  static constexpr std::size_t kMaxWork = std::size_t{1} << 22;  // Items stepped in one walk.

  PlaceId find_next(PlaceId place, std::uint8_t byte);
  bool is_full() const { return places_.size() > kMaxPlaces || n_items_ > kMaxItems; }
  void keep_only(std::span<PlaceId> places);

  Stepper stepper_;
  std::vector<Configuration> places_;
  std::vector<std::array<PlaceId, 256>> rows_;
  std::unordered_multimap<std::uint64_t, PlaceId> index_;
  std::size_t n_items_ = 0;
  std::size_t work_ = 0;
  Configuration scratch_;
  std::vector<PlaceId> path_;
};

}  // namespace weft::grammar
