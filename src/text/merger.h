#pragma once
// The merge loop of BPE and SentencePiece. Among all neighbouring symbols, the pair with the lowest rank is
// merged; among equal ranks, the leftmost pair. This repeats until no pair has a rank.
//
// A short word is searched from left to right for each merge. A long one (a book without spaces, a megabyte
// of one letter) keeps a list of positions for each rank. Merging a rank is one pass over its list from left
// to right. Merges create new pairs. Most have a higher rank and join the list of that rank; the few others
// go through a heap. So pairs merge in the order of a single heap of all pairs. The total time is O(n log n).
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <queue>
#include <string_view>
#include <vector>

#include "weft/types.h"

namespace weft::text {

inline constexpr std::uint32_t kNoRank = std::numeric_limits<std::uint32_t>::max();

/// The merge of two neighbours; kNoRank if they do not merge.
struct Pair {
  std::uint32_t rank = kNoRank;
  Token id = kNoToken;
};

struct Symbol {
  std::uint32_t begin = 0;  ///< In the word; it ends where the next begins.
  Token id = kNoToken;      ///< kNoToken if no token has this string.
  Pair pair = {};           ///< With its right neighbour. Set by the merger.
};

/// `Pairs` has `Pair find(std::string_view word, const Symbol& left, const Symbol& right, std::size_t end)
/// const`, where `end` is the end of the right symbol, and `std::size_t n_ranks() const`. A merger holds
/// scratch memory: use one per thread.
template <class Pairs>
class Merger {
 public:
  explicit Merger(const Pairs& pairs) : pairs_(pairs) {}

  /// The symbols of a word of less than 4 GiB before merging. The caller fills them in, in order, and calls
  /// merge().
  std::vector<Symbol>& symbols() { return symbols_; }
  void merge(std::string_view word) {
    if (symbols_.size() < 2) return;
    symbols_.push_back({static_cast<std::uint32_t>(word.size()), kNoToken, {}});
    if (symbols_.size() <= kShort)
      merge_short(word);
    else
      merge_long(word);
    symbols_.pop_back();
  }

  /// Pairs looked up and positions visited so far.
  std::uint64_t steps() const { return steps_; }

 private:
  static constexpr std::size_t kShort = 48;
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

  Pair look(std::string_view word, const Symbol& left, const Symbol& right, std::size_t end) {
    ++steps_;
    return pairs_.find(word, left, right, end);
  }

  void merge_short(std::string_view word) {
    Symbol* s = symbols_.data();
    std::size_t n = symbols_.size() - 1;  // The last symbol marks the word's end.
    for (std::size_t i = 0; i + 1 < n; ++i) s[i].pair = look(word, s[i], s[i + 1], s[i + 2].begin);
    for (;;) {
      std::size_t best = 0;
      for (std::size_t i = 1; i + 1 < n; ++i)
        if (s[i].pair.rank < s[best].pair.rank) best = i;
      if (n < 2 || s[best].pair.rank == kNoRank) break;
      s[best].id = s[best].pair.id;
      std::copy(s + best + 2, s + n + 1, s + best + 1);
      --n;
      s[best].pair = best + 1 < n ? look(word, s[best], s[best + 1], s[best + 2].begin) : Pair{};
      if (best > 0) s[best - 1].pair = look(word, s[best - 1], s[best], s[best + 1].begin);
    }
    symbols_.resize(n + 1);
  }

  void merge_long(std::string_view word) {
    const auto n = static_cast<std::uint32_t>(symbols_.size() - 1);
    next_.resize(n + 1);
    previous_.resize(n + 1);
    for (std::uint32_t i = 0; i <= n; ++i) {
      next_[i] = i + 1;
      previous_[i] = i - 1;  // The first symbol has kNone.
    }
    lists_.resize(pairs_.n_ranks(), kNone);
    places_.clear();
    merging_ = 0;
    // No rank is being merged yet, so pairs of rank 0 must join a list as well.
    for (std::uint32_t i = 0; i + 1 < n; ++i) add(i, look_at(word, i), true);

    while (!ranks_.empty()) {
      merging_ = ranks_.top();
      ranks_.pop();
      batch_.clear();
      for (std::uint32_t i = lists_[merging_]; i != kNone; i = places_[i].next)
        batch_.push_back(places_[i].at);
      lists_[merging_] = kNone;
      std::reverse(batch_.begin(), batch_.end());
      if (!std::is_sorted(batch_.begin(), batch_.end())) std::sort(batch_.begin(), batch_.end());
      for (const std::uint32_t at : batch_) {
        drain(word, key(merging_, at));
        merge_at(word, merging_, at);
      }
    }
    merging_ = kNoRank;
    drain(word, std::numeric_limits<std::uint64_t>::max());

    std::size_t kept = 0;
    for (std::uint32_t i = 0; i < n; i = next_[i]) symbols_[kept++] = symbols_[i];
    symbols_.resize(kept + 1);
  }

  static std::uint64_t key(std::uint32_t rank, std::uint32_t at) { return std::uint64_t{rank} << 32 | at; }

  /// The pair of symbol i with its right neighbour, which must be there.
  Pair look_at(std::string_view word, std::uint32_t i) {
    const std::uint32_t right = next_[i];
    return look(word, symbols_[i], symbols_[right], symbols_[next_[right]].begin);
  }

  void add(std::uint32_t at, Pair pair, bool seeding) {
    symbols_[at].pair = pair;
    if (pair.rank == kNoRank) return;
    if (pair.rank <= merging_ && !seeding) {
      early_.push(key(pair.rank, at));
      return;
    }
    std::uint32_t& list = lists_[pair.rank];
    if (list == kNone) ranks_.push(pair.rank);
    places_.push_back({at, list});
    list = static_cast<std::uint32_t>(places_.size() - 1);
  }

  /// Merges all early pairs that precede a position in the order.
  void drain(std::string_view word, std::uint64_t before) {
    while (!early_.empty() && early_.top() < before) {
      const std::uint64_t top = early_.top();
      early_.pop();
      merge_at(word, static_cast<std::uint32_t>(top >> 32), static_cast<std::uint32_t>(top));
    }
  }

  void merge_at(std::string_view word, std::uint32_t rank, std::uint32_t at) {
    ++steps_;
    if (symbols_[at].pair.rank != rank) return;  // One of the two symbols has merged with another neighbour.
    const auto n = static_cast<std::uint32_t>(symbols_.size() - 1);
    const std::uint32_t right = next_[at];
    symbols_[at].id = symbols_[at].pair.id;
    symbols_[right].pair = {};
    next_[at] = next_[right];
    previous_[next_[at]] = at;
    add(at, next_[at] < n ? look_at(word, at) : Pair{}, false);
    if (previous_[at] != kNone) add(previous_[at], look_at(word, previous_[at]), false);
  }

  struct Place {
    std::uint32_t at, next;
  };
  template <class T>
  using MinHeap = std::priority_queue<T, std::vector<T>, std::greater<T>>;

  const Pairs& pairs_;
  std::vector<Symbol> symbols_;
  std::uint64_t steps_ = 0;
  // For long words only:
  std::vector<std::uint32_t> next_, previous_;
  std::vector<std::uint32_t> lists_;  ///< By rank: its last position; all kNone between two words.
  std::vector<Place> places_;
  MinHeap<std::uint32_t> ranks_;  ///< Ranks with a list.
  std::vector<std::uint32_t> batch_;
  std::uint32_t merging_ = 0;
  MinHeap<std::uint64_t> early_;
};

}  // namespace weft::text
