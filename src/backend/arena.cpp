#include "backend/arena.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "base/to_size.h"

namespace weft {
namespace {

/// Offsets that are taken: parts in their order, joined where they touch.
class Taken {
 public:
  void add(std::size_t begin, std::size_t end) {
    auto first = std::partition_point(parts_.begin(), parts_.end(),
                                      [&](const auto& part) { return part.second < begin; });
    auto last = first;
    for (; last != parts_.end() && last->first <= end; ++last) {
      begin = std::min(begin, last->first);
      end = std::max(end, last->second);
    }
    if (first == last) {
      parts_.emplace(first, begin, end);
    } else {
      *first = {begin, end};
      parts_.erase(first + 1, last);
    }
  }
  /// The first offset, not before `offset`, with `bytes` free bytes.
  std::size_t free_from(std::size_t offset, std::size_t bytes) const {
    auto part =
        std::partition_point(parts_.begin(), parts_.end(), [&](const auto& p) { return p.second <= offset; });
    for (; part != parts_.end() && part->first < offset + bytes; ++part) offset = part->second;
    return offset;
  }
  bool empty() const { return parts_.empty(); }

 private:
  std::vector<std::pair<std::size_t, std::size_t>> parts_;
};

/// What is taken in each phase: a binary tree over the phases, so that a life is a few nodes, however long.
class TakenByPhase {
 public:
  explicit TakenByPhase(int n_phases)
      : n_leaves_(std::bit_ceil(to_size(std::max(n_phases, 1)))), nodes_(2 * n_leaves_) {}

  void add(const Lifetime& life, std::size_t begin, std::size_t end) {
    for_each_whole(life, [&](Node& node) {
      node.throughout.add(begin, end);
      node.sometimes.add(begin, end);
    });
    for_each_above(life, [&](Node& node) { node.sometimes.add(begin, end); });
  }

  /// The lowest offset with `bytes` free bytes in all phases of a life.
  std::size_t lowest(const Lifetime& life, std::size_t bytes) {
    among_.clear();
    const auto note = [&](const Taken& taken) {
      if (!taken.empty()) among_.push_back(&taken);
    };
    for_each_whole(life, [&](const Node& node) { note(node.sometimes); });
    for_each_above(life, [&](const Node& node) { note(node.throughout); });
    std::size_t offset = 0;
    for (bool moved = true; std::exchange(moved, false);)
      for (const Taken* taken : among_) {
        const std::size_t next = taken->free_from(offset, bytes);
        moved = moved || next != offset;
        offset = next;
      }
    return offset;
  }

 private:
  struct Node {
    Taken throughout;  // Taken by values that are alive in all of its phases.
    Taken sometimes;   // In any; not noted where it is throughout a node above.
  };

  /// The largest nodes whose phases are all of the life.
  template <typename F>
  void for_each_whole(const Lifetime& life, F f) {
    std::size_t begin = to_size(life.first) + n_leaves_;
    std::size_t end = to_size(life.last) + n_leaves_ + 1;
    for (; begin < end; begin /= 2, end /= 2) {
      if (begin % 2 == 1) f(nodes_[begin++]);
      if (end % 2 == 1) f(nodes_[--end]);
    }
  }
  /// The nodes of its first and its last phase, and all above them, which are all above those.
  template <typename F>
  void for_each_above(const Lifetime& life, F f) {
    std::size_t first = to_size(life.first) + n_leaves_;
    std::size_t last = to_size(life.last) + n_leaves_;
    for (; first != last; first /= 2, last /= 2) {
      f(nodes_[first]);
      f(nodes_[last]);
    }
    for (; first > 0; first /= 2) f(nodes_[first]);
  }

  std::size_t n_leaves_;
  std::vector<Node> nodes_;  // The root is the second; the leaves come last.
  std::vector<const Taken*> among_;
};

}  // namespace

ArenaLayout lay_out(std::span<const Lifetime> lifetimes, std::size_t alignment) {
  std::vector<std::size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return lifetimes[a].bytes > lifetimes[b].bytes; });
  int n_phases = 0;
  for (const Lifetime& life : lifetimes) n_phases = std::max(n_phases, life.last + 1);

  ArenaLayout layout;
  layout.offsets.assign(lifetimes.size(), 0);
  TakenByPhase taken(n_phases);
  for (const std::size_t i : order) {
    const std::size_t bytes = (lifetimes[i].bytes + alignment - 1) / alignment * alignment;
    if (bytes == 0) break;  // As are all that follow.
    const std::size_t offset = taken.lowest(lifetimes[i], bytes);
    taken.add(lifetimes[i], offset, offset + bytes);
    layout.offsets[i] = offset;
    layout.bytes = std::max(layout.bytes, offset + bytes);
  }
  return layout;
}

}  // namespace weft
