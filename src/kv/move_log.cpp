#include "kv/move_log.h"

#include <algorithm>

#include "base/check.h"
#include "base/to_size.h"
#include "kv/lanes.h"

namespace weft::kv {
namespace {

void write_move(const MoveInputs& inputs, std::size_t at, const CellMove& move) {
  if (inputs.from.empty()) return;
  inputs.from[at] = move.from;
  inputs.to[at] = move.to;
  inputs.deltas[at] = move.delta;
}

void write_fork(const MoveInputs& inputs, std::size_t at, const CellMove& move) {
  if (inputs.fork_from.empty()) return;
  inputs.fork_from[at] = move.from;
  inputs.fork_to[at] = move.to;
}

}  // namespace

void MoveLog::reserve(std::size_t n) {
  const std::size_t needed = entries_.size() + n;
  if (needed > entries_.capacity()) entries_.reserve(std::max(needed, 2 * entries_.capacity()));
}

void MoveLog::add(const CellMove& move) {
  const bool fork = filled(move.from) == ubatch_ || filled(move.to) == ubatch_;
  entries_.push_back({.move = move, .there = {}, .fork = fork});
  if (!fork) return;
  filled(move.from) = filled(move.to) = ubatch_;
  ++n_forks_;
}

void MoveLog::insert(std::size_t index, const CellMove& move) {
  WEFT_CHECK(index >= n_followed_ && n_forks_ == 0);
  entries_.insert(entries_.begin() + static_cast<std::ptrdiff_t>(index), {.move = move, .there = {}});
}

bool MoveLog::store(std::int32_t cell) {
  if (filled(cell) == ubatch_) return false;
  filled(cell) = ubatch_;
  return true;
}

void MoveLog::close_ubatch() {
  ++ubatch_;
  if (n_forks_ == 0) return;
  for (Entry& entry : entries_) entry.fork = false;
  n_forks_ = 0;
}

MoveLog::Part MoveLog::begin(const MoveInputs& inputs, const MoveInputs& there) {
  Part part;
  part.last = entries_.size() - to_size(n_forks_) <= inputs.from.size();
  for (Entry& entry : entries_) {
    if (entry.fork) {
      if (!part.last) continue;
      const auto at = to_size(part.n_forks++);
      write_fork(inputs, at, entry.move);
      write_fork(there, at, entry.there);
    } else {
      const auto at = to_size(part.n_moves);
      if (at == inputs.from.size()) break;
      ++part.n_moves;
      write_move(inputs, at, entry.move);
      write_move(there, at, entry.there);
    }
    entry.under_way = true;
  }
  return part;
}

void MoveLog::drop_what_is_under_way() {
  n_followed_ -=
      to_size(std::count_if(entries_.begin(), entries_.begin() + static_cast<std::ptrdiff_t>(n_followed_),
                            [](const Entry& entry) { return entry.under_way; }));
  n_forks_ -= static_cast<int>(std::count_if(
      entries_.begin(), entries_.end(), [](const Entry& entry) { return entry.under_way && entry.fork; }));
  std::erase_if(entries_, [](const Entry& entry) { return entry.under_way; });
}

void MoveLog::commit() {
  if (!entries_.empty()) drop_what_is_under_way();
  if (entries_.empty()) close_ubatch();
}

bool MoveLog::abandon(std::span<std::uint64_t> unsure) noexcept {
  const auto mask_of = [&](std::int32_t cell) -> std::uint64_t& {
    return unsure[to_size(cell / kPageCells)];
  };
  bool any = false;
  for (const Entry& entry : entries_) {
    const bool reads_unsure = (mask_of(entry.move.from) & bit(entry.move.from % kPageCells)) != 0;
    if (entry.under_way || reads_unsure) mask_of(entry.move.to) |= bit(entry.move.to % kPageCells);
    any = any || entry.under_way;
  }
  if (any) drop_what_is_under_way();
  close_ubatch();
  return any;
}

}  // namespace weft::kv
