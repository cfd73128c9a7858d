#include "kv/state_slots.h"

#include <algorithm>

#include "base/check.h"
#include "base/to_size.h"

namespace weft::kv {

StateSlots::StateSlots(int n_sequences)
    : held_(to_size(n_sequences), kNone), n_holders_(to_size(n_slots_for(n_sequences)), 0) {
  before_.reserve(held_.size());
  for (std::int32_t slot = n_slots_for(n_sequences); slot-- > 0;) free_.push_back(slot);
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

/// Sequences hold at most one slot each, and one more each while a batch is under way.
std::int32_t StateSlots::take() {
  WEFT_CHECK(!free_.empty());
  const std::int32_t slot = free_.back();
  free_.pop_back();
  return slot;
}

std::int32_t StateSlots::renew(SeqId seq) {
  remove(seq);
  const std::int32_t slot = take();
  set(seq, slot);
  return slot;
}

void StateSlots::begin() {
  abandon();
  before_ = held_;
  for (const std::int32_t slot : before_) hold(slot);
}

StateSlots::Step StateSlots::step(SeqId seq, std::span<const SeqId> shared_with) {
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
}

void StateSlots::abandon() {
  if (before_.empty()) return;
  for (const std::int32_t slot : held_) release(slot);
  held_ = before_;
  before_.clear();
}

bool StateSlots::consistent() const {
  std::vector<std::int32_t> n(n_holders_.size(), 0);
  for (const auto* slots : {&held_, &before_})
    for (const std::int32_t slot : *slots)
      if (slot != kNone) ++n[to_size(slot)];
  const auto n_free = to_size(std::count(n.begin(), n.end(), 0));
  return n == n_holders_ && free_.size() == n_free &&
         std::all_of(free_.begin(), free_.end(), [&](std::int32_t slot) { return n[to_size(slot)] == 0; });
}

}  // namespace weft::kv
