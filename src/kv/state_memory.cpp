#include "kv/state_memory.h"

#include <algorithm>

#include "base/to_size.h"

namespace weft::kv {

bool StateMemory::has_all(SeqId seq, Pos begin, Pos end) const {
  return !is_empty(seq) && begin <= sequences_.min_pos(seq) && end >= sequences_.next_pos(seq);
}

bool StateMemory::has_nothing(SeqId seq, Pos begin, Pos end) const {
  return is_empty(seq) || end <= sequences_.min_pos(seq) || begin >= sequences_.next_pos(seq) || begin >= end;
}

bool StateMemory::has_kept(SeqId seq, Pos begin, Pos end) const {
  return !is_empty(seq) && begin <= sequences_.min_pos(seq) && slots_.keeps(seq, end);
}

Refusal StateMemory::why_not_remove(SeqId seq, Pos begin, Pos end) const {
  if (has_all(seq, begin, end) || has_nothing(seq, begin, end)) return nullptr;
  if (end >= sequences_.next_pos(seq) && slots_.keeps(seq, begin)) return nullptr;
  return "this model has recurrent layers, whose state stands for the whole text, and the state there is not "
         "kept (state_rewind); remove all of it, or go back to a copy made before";
}

Refusal StateMemory::why_not_copy(SeqId from, SeqId to, Pos begin, Pos end) const {
  if (has_nothing(from, begin, end) && has_nothing(to, begin, end)) return nullptr;
  if ((is_empty(from) || has_all(from, begin, end) || has_kept(from, begin, end)) &&
      (is_empty(to) || has_all(to, begin, end)))
    return nullptr;
  return "this model has recurrent layers, whose state stands for the whole text: "
         "a part of it can neither be copied nor replaced; copy all of it";
}

Refusal StateMemory::why_not_shift(SeqId, Pos, Pos, Pos) const {
  return "this model has recurrent layers, whose state stands for the whole text; "
         "remove it and decode it at its new positions";
}

Refusal StateMemory::why_not_divide(SeqId, Pos, Pos, int) const {
  return "this model has recurrent layers, whose state stands for the whole text";
}

Refusal StateMemory::why_not_take(SeqId seq, Pos pos) const {
  if (pos >= sequences_.next_pos(seq)) return nullptr;
  return "it is before the end of the text; this model has recurrent layers, which read text in order";
}

void StateMemory::removed(SeqId seq, Pos begin) {
  const Pos next = sequences_.next_pos(seq);
  if (next == 0) {
    slots_.remove(seq);
  } else if (begin < next) {  // The later tokens move up.
    slots_.drop_kept(seq);
  } else if (const Pos kept = slots_.first_kept(seq, next); kept >= 0) {
    slots_.copy_kept(seq, seq, kept);
  }
}

void StateMemory::copied(SeqId from, SeqId to, Pos begin, Pos end) {
  if (from == to) return;
  if (is_empty(to)) {
    slots_.remove(to);
  } else if (has_all(from, begin, end)) {
    slots_.copy(from, to);
  } else if (has_kept(from, begin, end)) {
    slots_.copy_kept(from, to, end);
  }
}

void StateMemory::begin_batch() {
  slots_.begin();
  steps_.clear();
}

Refusal StateMemory::add(const SeqPos& at, std::span<const SeqId> shared_with, bool logits) {
  for (const SeqId other : shared_with)
    if (!slots_.same_text(at.seq, other))
      return "it is shared by sequences whose earlier tokens are not shared; "
             "this model has recurrent layers: add it to each";
  steps_.push_back({});
  steps_.back() = slots_.step(at.seq, shared_with, logits ? at.pos : -1);
  return nullptr;
}

void StateMemory::bind(const PlacedItems& items) {
  for (std::size_t i = 0; i < items.at.size(); ++i) {
    const StateSlots::Step& step = steps_[to_size(items.first) + i];
    inputs_.from[i] = step.from;
    inputs_.to[i] = step.to;
  }
}

void StateMemory::end_batch(bool computed) {
  if (computed) {
    slots_.commit();
  } else {
    slots_.abandon();
  }
}

std::vector<std::int32_t> StateMemory::rows_of(const Snapshot& snapshot, std::span<const std::int32_t>,
                                               std::vector<std::uint64_t>&) const {
  std::vector<std::int32_t> rows;
  for (const Snapshot::Text& text : snapshot.texts)
    if (!text.extents.empty()) rows.push_back(slots_.slot(text.seq));
  return rows;
}

std::vector<std::int32_t> StateMemory::restored(const Snapshot& snapshot, std::span<const std::int32_t>,
                                                std::span<const std::uint64_t>) {
  std::vector<std::int32_t> rows;
  rows.reserve(snapshot.texts.size());
  for (const Snapshot::Text& text : snapshot.texts) {
    slots_.remove(text.seq);
    if (!text.extents.empty()) rows.push_back(slots_.renew(text.seq));
  }
  return rows;
}

bool StateMemory::consistent() const {
  for (SeqId seq = 0; seq < sequences_.n_sequences(); ++seq)
    if ((slots_.slot(seq) == StateSlots::kNone) != is_empty(seq)) return false;
  return slots_.consistent();
}

}  // namespace weft::kv
