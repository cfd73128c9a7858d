#include "backend/arena.h"

#include <algorithm>
#include <numeric>

namespace weft {

ArenaLayout lay_out(std::span<const Lifetime> lifetimes, std::size_t alignment) {
  const auto aligned = [alignment](std::size_t n) { return (n + alignment - 1) / alignment * alignment; };
  std::vector<std::size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return lifetimes[a].bytes > lifetimes[b].bytes; });

  ArenaLayout layout;
  layout.offsets.assign(lifetimes.size(), 0);
  std::vector<std::size_t> placed;
  std::vector<std::pair<std::size_t, std::size_t>> taken;  // [begin, end) of those alive at the same time
  for (const std::size_t i : order) {
    taken.clear();
    for (const std::size_t j : placed) {
      if (lifetimes[i].first <= lifetimes[j].last && lifetimes[j].first <= lifetimes[i].last)
        taken.emplace_back(layout.offsets[j], layout.offsets[j] + aligned(lifetimes[j].bytes));
    }
    std::sort(taken.begin(), taken.end());
    std::size_t offset = 0;
    for (const auto& [begin, end] : taken) {
      if (offset + aligned(lifetimes[i].bytes) <= begin) break;
      offset = std::max(offset, end);
    }
    layout.offsets[i] = offset;
    layout.bytes = std::max(layout.bytes, offset + aligned(lifetimes[i].bytes));
    placed.push_back(i);
  }
  return layout;
}

}  // namespace weft
