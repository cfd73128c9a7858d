#include "kv/window_memory.h"

#include <utility>

#include "base/to_size.h"
#include "kv/lanes.h"

namespace weft::kv {
namespace {

Refusal unless(bool can) {
  return can ? nullptr
             : "sliding-window layers have forgotten what it would see next; make the context with a larger "
               "window_rewind (-1 keeps everything)";
}

}  // namespace

WindowMemory::WindowMemory(const Sequences& sequences, int window, int rewind, const Inputs& inputs)
    : pages_(sequences, window, rewind), inputs_(inputs), seen_in_(to_size(sequences.n_sequences()), 0) {}

Refusal WindowMemory::why_not_remove(SeqId seq, Pos begin, Pos end) const {
  return unless(pages_.can_remove(seq, begin, end));
}
Refusal WindowMemory::why_not_copy(SeqId from, SeqId to, Pos begin, Pos end) const {
  return unless(pages_.can_copy(from, to, begin, end));
}
Refusal WindowMemory::why_not_shift(SeqId seq, Pos begin, Pos end, Pos delta) const {
  return unless(pages_.can_shift(seq, begin, end, delta));
}
Refusal WindowMemory::why_not_divide(SeqId seq, Pos begin, Pos end, int divisor) const {
  return unless(pages_.can_divide(seq, begin, end, divisor));
}
Refusal WindowMemory::why_not_take(SeqId seq, Pos pos) const { return unless(pages_.can_take(seq, pos)); }

void WindowMemory::begin_batch() {
  pages_.end_batch();
  ++n_batches_;
}

Refusal WindowMemory::add(const SeqPos& at, std::span<const SeqId> shared_with, bool /*logits*/) {
  const auto begin = [&](SeqId seq) {
    if (std::exchange(seen_in_[to_size(seq)], n_batches_) != n_batches_) pages_.begin_batch(seq, at.pos);
  };
  begin(at.seq);
  for (const SeqId other : shared_with) begin(other);
  return nullptr;
}

void WindowMemory::bind(const PlacedItems& items) {
  const auto& [extents, counts, width] = inputs_.tables;
  for (std::size_t i = 0; i < items.at.size(); ++i) {
    inputs_.cells[i] = pages_.cell(items.cells[i]);
    counts[to_size(items.at[i].seq)] = -1;
  }
  // A sequence's positions ascend: what its first item sees is all that the others see.
  for (const SeqPos& at : items.at) {
    const auto seq = to_size(at.seq);
    if (counts[seq] >= 0) continue;
    const auto n = to_size(width);
    counts[seq] = pages_.fill_row(at.seq, at.pos, extents.subspan(seq * n, n));
  }
  for (std::size_t n = 0; n < items.hidden.size(); ++n) {
    inputs_.hidden[n] = items.hidden[n];
    if (items.hidden[n].row >= 0) inputs_.hidden[n].page = pages_.page(items.hidden[n].page);
  }
}

std::vector<std::int32_t> WindowMemory::rows_of(const Snapshot& snapshot, std::span<const std::int32_t> cells,
                                                std::vector<std::uint64_t>& kept) const {
  std::vector<std::int32_t> rows;
  auto cell = cells.begin();
  for (std::size_t p = 0; p < snapshot.pages.size(); ++p) {
    for_each_lane(snapshot.pages[p], [&](int lane) {
      const std::int32_t at = pages_.cell(*cell++);
      if (at < 0)
        kept[p] &= ~bit(lane);
      else
        rows.push_back(at);
    });
  }
  return rows;
}

std::vector<std::int32_t> WindowMemory::restored(const Snapshot& snapshot,
                                                 std::span<const std::int32_t> cells,
                                                 std::span<const std::uint64_t> kept) {
  std::vector<std::int32_t> rows;
  rows.reserve(cells.size());
  auto cell = cells.begin();
  for (std::size_t p = 0; p < snapshot.pages.size(); ++p) {
    for_each_lane(snapshot.pages[p], [&](int lane) {
      if ((kept[p] & bit(lane)) == 0) return pages_.leave_out(*cell++);
      pages_.store(*cell);
      rows.push_back(pages_.cell(*cell++));
    });
  }
  return rows;
}

}  // namespace weft::kv
