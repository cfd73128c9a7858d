#include <bit>
#include <cstdint>
#include <utility>

#include "base/to_size.h"
#include "engine/context/kv_cache.h"

namespace weft::engine {

std::vector<CellRun> cell_runs(const kv::Sequences& sequences) {
  static_assert(KvCache::kCellsOfPage == kPageCells);
  struct Holder {
    SeqId seq;
    std::uint64_t mask;
  };
  std::vector<std::vector<Holder>> holders(to_size(sequences.pages_touched()));
  for (SeqId seq = 0; seq < sequences.n_sequences(); ++seq)
    for (const Extent& extent : sequences.extents(seq)) {
      std::vector<Holder>& of_page = holders[to_size(extent.page)];
      if (of_page.empty() || of_page.back().seq != seq) of_page.push_back({seq, 0});
      of_page.back().mask |= extent.mask;
    }
  std::vector<CellRun> runs;
  for (std::size_t page = 0; page < holders.size(); ++page) {
    std::uint64_t begins = 1;  // Bit i: lane i is held by other sequences than the lane before.
    for (const Holder& holder : holders[page]) begins |= holder.mask ^ holder.mask << 1;
    while (begins != 0 && !holders[page].empty()) {
      const int lane = std::countr_zero(begins);
      begins &= begins - 1;
      const int end = begins != 0 ? std::countr_zero(begins) : kPageCells;
      CellRun run{static_cast<int>(page) * kPageCells + lane, end - lane, {}};
      for (const Holder& holder : holders[page])
        if ((holder.mask >> lane & 1u) != 0) run.sequences.push_back(holder.seq);
      if (run.sequences.empty()) continue;
      if (!runs.empty() && runs.back().first + runs.back().n == run.first &&
          runs.back().sequences == run.sequences) {
        runs.back().n += run.n;
      } else {
        runs.push_back(std::move(run));
      }
    }
  }
  return runs;
}

}  // namespace weft::engine
