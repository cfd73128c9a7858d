#pragma once
// Runs an automaton over all strings of a trie at once. Configurations are numbered, and steps between them
// are cached.
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "grammar/configuration.h"
#include "grammar/token_trie.h"

namespace weft::grammar {

/// Used by one thread. The arguments must outlive it.
class Walker {
 public:
  /// The number of a configuration, and whether the input may end in it.
  using PlaceId = std::uint32_t;
  static constexpr PlaceId kDead = 0;  ///< No input leads here.
  static bool ends(PlaceId place) { return (place & kEnds) != 0; }

  Walker(const Automaton& automaton, Stacks& stacks);

  /// Forgets all configurations. Required whenever their stacks are dropped.
  void forget();

  /// Walks a tree from `start`. For each node that is reached calls reached(node, place), for each first one
  /// that is not, dead(node). The walker may forget all places on the way. Throws Error kInvalidArgument if
  /// the grammar is so ambiguous that the walk exceeds kMaxWork.
  template <typename Reached, typename Dead>
  void walk(const TokenTrie& trie, const Configuration& start, Reached&& reached, Dead&& dead) {
    if (trie.size() <= 1) return;
    work_ = 0;
    if (is_full()) forget();
    path_.assign(trie.max_depth() + 1, kDead);
    rows_on_path_.resize(path_.size());
    path_[0] = place_of(start);
    rows_on_path_[0] = row_of(path_[0]);
    for (std::size_t n = 1; n < trie.size();) {
      const TokenTrie::Node& node = trie[n];
      PlaceId place = (*rows_on_path_[node.depth - 1u])[node.byte];
      if (place == kUnknown) [[unlikely]] {
        place = find_next(path_[node.depth - 1u], node.byte);
        if (is_full()) {
          path_[node.depth] = place;
          keep_only(std::span(path_).first(node.depth + 1u));
          place = path_[node.depth];
        }
      }
      if (place == kDead) {
        dead(n);
        n = node.behind;
        continue;
      }
      path_[node.depth] = place;
      rows_on_path_[node.depth] = row_of(place);
      reached(n, place);
      ++n;
    }
  }

 private:
  using Row = std::array<PlaceId, 256>;
  static constexpr PlaceId kUnknown = 0xFFFFFFFF, kEnds = 0x80000000;
  static constexpr std::size_t kMaxPlaces = 2048;
  static constexpr std::size_t kMaxItems = std::size_t{1} << 16;
  static constexpr std::size_t kMaxWork = std::size_t{1} << 22;  // Items stepped in one walk.

  PlaceId place_of(const Configuration& configuration);
  PlaceId find_next(PlaceId place, std::uint8_t byte);
  Row* row_of(PlaceId place) const { return rows_[place & ~kEnds].get(); }
  bool is_full() const { return places_.size() > kMaxPlaces || n_items_ > kMaxItems; }
  void keep_only(std::span<PlaceId> places);

  Stepper stepper_;
  std::vector<Configuration> places_;
  std::vector<std::unique_ptr<Row>> rows_;  // More than there are places: kept for the next ones.
  std::unordered_multimap<std::uint64_t, PlaceId> index_;
  std::size_t n_items_ = 0;
  std::size_t work_ = 0;
  Configuration scratch_;
  std::vector<PlaceId> path_;
  std::vector<const Row*> rows_on_path_;
};

}  // namespace weft::grammar
