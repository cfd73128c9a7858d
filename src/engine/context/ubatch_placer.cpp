#include "engine/context/ubatch_placer.h"

#include <algorithm>
#include <string>

#include "base/check.h"
#include "base/to_size.h"
#include "engine/graph_sizes.h"
#include "engine/refuse.h"

namespace weft::engine {

// An item alone in its ubatch has at most one fork for each further sequence: that must fit.
static_assert(kMovesPerStep >= kMaxSequences - 1);

void UbatchPlacer::begin(const Batch& batch, std::span<const kv::SeqPos> positions, int n_ubatch) {
  n_ubatch_ = n_ubatch;
  positions_.assign(positions.begin(), positions.end());
  cells_.resize(positions.size());
  for (int i = 0; i < batch.size(); ++i) {
    seen_[to_size(batch[i].seq)] = {};
    for (const SeqId other : batch.shared_with(i)) seen_[to_size(other)] = {};
  }
}

bool UbatchPlacer::place(const Batch& batch, int begin) {
  for (const auto& memory : cache_.memories()) memory->begin_ubatch();
  for (int limit = batch.size();;) {
    const Taken taken = place_up_to(batch, begin, limit);
    if (taken == Taken::kYes) break;
    give_back(batch, begin, ubatch_.end + 1);
    if (taken == Taken::kCacheFull) return false;
    limit = ubatch_.end;  // Repeat without the item that has to wait.
    WEFT_CHECK(limit > begin);
  }
  check_what_is_seen(batch);
  return true;
}

UbatchPlacer::Taken UbatchPlacer::place_up_to(const Batch& batch, int begin, int limit) {
  ubatch_ = {.begin = begin, .end = begin};
  cache_.sequences().moves().begin_ubatch();
  limit = std::min(limit, begin + n_ubatch_);
  for (; ubatch_.end < limit; ++ubatch_.end) {
    if (batch[ubatch_.end].options.logits && ubatch_.n_outputs == n_outputs_) break;
    if (const Taken taken = take(batch, ubatch_.end); taken != Taken::kYes) return taken;
    ubatch_.n_outputs += batch[ubatch_.end].options.logits ? 1 : 0;
  }
  return Taken::kYes;
}

/// A cell for an item, shared with all its sequences.
UbatchPlacer::Taken UbatchPlacer::take(const Batch& batch, int i) {
  const kv::SeqPos& own = at(i);
  kv::MoveLog& moves = cache_.sequences().moves();
  if (!cache_.sequences().take({&own, 1}, {&cells_[to_size(i)], 1})) return Taken::kCacheFull;
  cache_.follow_moves();
  if (!moves.store(cell(i))) return Taken::kNextUbatch;
  for (const auto& memory : cache_.memories()) memory->store(cell(i));
  for (const SeqId other : batch.shared_with(i))
    if (!cache_.sequences().share(own.seq, other, own.pos)) return Taken::kCacheFull;
  cache_.follow_moves();
  return moves.n_forks() <= kMovesPerStep ? Taken::kYes : Taken::kNextUbatch;
}

void UbatchPlacer::give_back(const Batch& batch, int begin, int end) {
  cache_.sequences().moves().drop_ubatch();
  for (int i = begin; i < end; ++i) {
    const kv::SeqPos& own = at(i);
    cache_.sequences().give_back(own.seq, own.pos);
    for (const SeqId other : batch.shared_with(i)) cache_.sequences().give_back(other, own.pos);
  }
  cache_.follow_moves();
}

kv::PlacedItems UbatchPlacer::items() const {
  const auto first = to_size(ubatch_.begin);
  const auto n = to_size(ubatch_.end - ubatch_.begin);
  return {.first = ubatch_.begin,
          .at = std::span(positions_).subspan(first, n),
          .cells = std::span(cells_).subspan(first, n),
          .hidden = {}};
}

void UbatchPlacer::check_what_is_seen(const Batch& batch) {
  const auto seen = [&](SeqId seq) -> Seen& { return seen_[to_size(seq)]; };
  const auto check = [&](int i, SeqId seq) {
    if (at(i).pos >= seen(seq).end) return;
    refuse("item " + std::to_string(seen(seq).item) + " of the batch attends to item " + std::to_string(i) +
           ", which belongs to a later step; use a larger n_ubatch (" + std::to_string(n_ubatch_) +
           " tokens now)");
  };
  for (int i = ubatch_.begin; i < ubatch_.end; ++i) {
    check(i, batch[i].seq);
    for (const SeqId other : batch.shared_with(i)) check(i, other);
  }
  for (int i = ubatch_.begin; i < ubatch_.end; ++i)
    if (batch[i].options.attend_to > seen(batch[i].seq).end)
      seen(batch[i].seq) = {batch[i].options.attend_to, i};
}

}  // namespace weft::engine
