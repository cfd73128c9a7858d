#include "kv/state_slots.h"

#include <algorithm>

#include "base/check.h"
#include "base/to_size.h"

namespace weft::kv {

StateSlots::StateSlots(int n_sequences, int n_kept)
    : held_(to_size(n_sequences), kNone),
      n_holders_(to_size(n_slots_for(n_sequences, n_kept)), 0),
      max_kept_(to_size(n_kept)) {
  before_.reserve(held_.size());
  kept_.reserve(max_kept_);
  for (std::int32_t slot = n_slots_for(n_sequences, n_kept); slot-- > 0;) free_.push_back(slot);
}

void StateSlots::hold(std::int32_t slot) {
  if (slot != kNone) ++n_holders_[to_size(slot)];
}

void StateSlots::release(std::int32_t slot) {
  if (slot != kNone && --n_holders_[to_size(slot)] == 0) free_.push_back(slot);
}

void StateSlots::set(SeqId seq, std::int32_t slot) {
  std::int32_t& held = held_[to_size(seq)];
  hold(slot);
  release(held);
  held = slot;
}

/// Sequences hold at most one slot each, and one more each while a batch is under way. Kept states hold at
/// most one each.
std::int32_t StateSlots::take() {
  WEFT_CHECK(!free_.empty());
  const std::int32_t slot = free_.back();
  free_.pop_back();
  return slot;
}

void StateSlots::remove(SeqId seq) {
  set(seq, kNone);
  drop_kept(seq);
}

void StateSlots::copy(SeqId from, SeqId to) {
  if (from == to) return;
  set(to, slot(from));
  drop_kept(to);
}

std::int32_t StateSlots::renew(SeqId seq) {
  remove(seq);
  const std::int32_t slot = take();
  set(seq, slot);
  return slot;
}

// --- Kept states

std::int32_t StateSlots::kept_slot(SeqId seq, Pos pos) const {
  const auto found = std::find_if(kept_.begin(), kept_.end(),
                                  [&](const Kept& kept) { return kept.seq == seq && kept.pos == pos; });
  return found == kept_.end() ? kNone : found->slot;
}

Pos StateSlots::first_kept(SeqId seq, Pos pos) const {
  Pos first = -1;
  for (const Kept& kept : kept_)
    if (kept.seq == seq && kept.pos >= pos && (first < 0 || kept.pos < first)) first = kept.pos;
  return first;
}

void StateSlots::copy_kept(SeqId from, SeqId to, Pos pos) {
  const std::int32_t slot = kept_slot(from, pos);
  WEFT_CHECK(slot != kNone);
  set(to, slot);
  drop_kept(to, from == to ? pos : 0);
}

template <typename F>
void StateSlots::drop_kept_if(F is_dropped) {
  std::erase_if(kept_, [&](const Kept& kept) {
    if (!is_dropped(kept)) return false;
    release(kept.slot);
    return true;
  });
}

void StateSlots::drop_kept(SeqId seq, Pos pos) {
  drop_kept_if([&](const Kept& kept) { return kept.seq == seq && kept.pos >= pos; });
}

/// The oldest kept state of earlier batches makes room. States of this batch stay, because its first tokens
/// are drafts, and later ones are prompts.
void StateSlots::keep(SeqId seq, Pos pos) {
  if (max_kept_ == 0 || slot(seq) == kNone) return;
  if (kept_.size() == max_kept_) {
    const auto oldest =
        std::find_if(kept_.begin(), kept_.end(), [](const Kept& kept) { return !kept.is_new; });
    if (oldest == kept_.end()) return;
    release(oldest->slot);
    kept_.erase(oldest);
  }
  hold(slot(seq));
  kept_.push_back({seq, pos, slot(seq), true});
}

// --- A batch

void StateSlots::begin() {
  abandon();
  before_ = held_;
  for (const std::int32_t slot : before_) hold(slot);
}

StateSlots::Step StateSlots::step(SeqId seq, std::span<const SeqId> shared_with, Pos keep_at) {
  if (keep_at >= 0) {
    keep(seq, keep_at);
    for (const SeqId other : shared_with) keep(other, keep_at);
  }
  const std::int32_t from = slot(seq);
  const auto n_own = static_cast<std::int32_t>(1 + shared_with.size());
  // In place if the slot belongs only to this batch.
  if (from != kNone && n_holders_[to_size(from)] == n_own) return {from, from};
  const std::int32_t to = take();
  set(seq, to);
  for (const SeqId other : shared_with) set(other, to);
  return {from, to};
}

void StateSlots::commit() {
  for (const std::int32_t slot : before_) release(slot);
  before_.clear();
  for (Kept& kept : kept_) kept.is_new = false;
}

void StateSlots::abandon() {
  if (before_.empty()) return;
  for (const std::int32_t slot : held_) release(slot);
  held_ = before_;
  before_.clear();
  drop_kept_if([](const Kept& kept) { return kept.is_new; });
}

bool StateSlots::consistent() const {
  std::vector<std::int32_t> n(n_holders_.size(), 0);
  for (const auto* slots : {&held_, &before_})
    for (const std::int32_t slot : *slots)
      if (slot != kNone) ++n[to_size(slot)];
  for (const Kept& kept : kept_) {
    if (kept.is_new && before_.empty()) return false;
    ++n[to_size(kept.slot)];
  }
  const auto n_free = to_size(std::count(n.begin(), n.end(), 0));
  return n == n_holders_ && free_.size() == n_free &&
         std::all_of(free_.begin(), free_.end(), [&](std::int32_t slot) { return n[to_size(slot)] == 0; });
}

}  // namespace weft::kv
