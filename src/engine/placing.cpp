#include "engine/placing.h"

#include <algorithm>
#include <string>

#include "engine/refuse.h"

namespace weft::engine {

void Placing::begin(std::span<const kv::Place> places) {
  places_.assign(places.begin(), places.end());
  cells_.resize(places.size());
}

bool Placing::place_step(const Batch& batch, int begin) {
  if (windows_ != nullptr) windows_->evict_now_and_then();
  for (int limit = batch.size();;) {
    ++step_number_;
    step_ = {.begin = begin, .end = begin};
    forks_.assign(sequences_.moves().size(), false);
    bool conflict = false;
    for (int i = begin; i < limit && i - begin < n_ubatch_ && !conflict; ++i) {
      if (batch[i].logits && step_.n_outputs == n_outputs_) break;
      const std::size_t n_before = sequences_.moves().size();
      if (!take(batch, i)) {
        give_back(batch, begin, i + 1);
        return false;
      }
      conflict = !joins_step(n_before, cell(i));
      step_.end = i + 1;
      step_.n_outputs += batch[i].logits ? 1 : 0;
    }
    if (!conflict) return true;
    limit = step_.end - 1;
    give_back(batch, begin, step_.end);
  }
}

/// A cell for an item, shared with all its sequences.
bool Placing::take(const Batch& batch, int i) {
  const kv::Place& own = place(i);
  bool taken = sequences_.take({&own, 1}, {&cells_[static_cast<std::size_t>(i)], 1});
  first_follow_ = sequences_.moves().size();
  if (windows_ != nullptr && taken) {
    windows_->follow_moves();
    windows_->store(cell(i));
  }
  for (const SeqId other : batch.shared_with(i)) taken = taken && sequences_.follow(own.seq, other, own.pos);
  if (windows_ != nullptr) windows_->follow_moves();
  return taken;
}

/// Whether an item that takes this cell, and owes the moves from `first_move` on, can be part of the last
/// step; notes which of the moves are forks.
bool Placing::joins_step(std::size_t first_move, std::int32_t cell) {
  const auto filled = [&](std::int32_t c) -> std::uint64_t& {
    return filled_by_[static_cast<std::size_t>(c)];
  };
  const auto moves = sequences_.moves();
  forks_.resize(moves.size(), false);
  int n_forks = 0;
  for (std::size_t m = first_move; m < moves.size(); ++m) {
    forks_[m] = filled(moves[m].from) == step_number_ || filled(moves[m].to) == step_number_ ||
                (m >= first_follow_ && moves[m].from == cell);
    n_forks += forks_[m] ? 1 : 0;
    if (forks_[m]) filled(moves[m].to) = step_number_;
  }
  if (filled(cell) == step_number_ || step_.n_forks + n_forks > kMovesPerStep) return false;
  filled(cell) = step_number_;
  step_.n_forks += n_forks;
  return true;
}

void Placing::give_back(const Batch& batch, int begin, int end) {
  forks_.clear();  // What is still owed comes before all tokens to come.
  waiting_forks_ = false;
  for (int i = begin; i < end; ++i) {
    const kv::Place& own = place(i);
    sequences_.remove(own.seq, own.pos, own.pos + 1);
    for (const SeqId other : batch.shared_with(i)) sequences_.remove(other, own.pos, own.pos + 1);
  }
}

bool Placing::shares_sequence(const Batch& batch, int i, int j) const {
  const auto others = batch.shared_with(j);
  return batch[j].seq == batch[i].seq ||
         std::find(others.begin(), others.end(), batch[i].seq) != others.end();
}

void Placing::check_what_is_seen(const Batch& batch) const {
  for (int i = step_.begin; i < step_.end; ++i) {
    if (batch[i].sees_to <= place(i).pos + 1) continue;
    for (int later = step_.end; later < batch.size(); ++later)
      if (place(later).pos < batch[i].sees_to && shares_sequence(batch, i, later))
        refuse("item " + std::to_string(i) + " of the batch sees item " + std::to_string(later) +
               ", which is of a later step; use a larger ubatch (" + std::to_string(n_ubatch_) +
               " tokens now)");
  }
}

namespace {

void write_move(const MoveInputs& inputs, std::size_t at, const kv::CellMove& move) {
  inputs.from[at] = move.from;
  inputs.to[at] = move.to;
  inputs.deltas[at] = move.delta;
}

void write_fork(const MoveInputs& inputs, std::size_t at, const kv::CellMove& move) {
  inputs.fork_from[at] = move.from;
  inputs.fork_to[at] = move.to;
}

}  // namespace

Placing::BoundMoves Placing::bind_moves(const MoveInputs& full, const MoveInputs& windowed) {
  const std::span<const kv::CellMove> moves = sequences_.moves();
  const std::size_t n_owed = moves.size();
  // Moves that do not fit go in a step of their own. Then the forks among them wait: they are behind all
  // moves.
  std::size_t end = n_moves_bound_;
  BoundMoves n;
  for (; end < n_owed; ++end) {
    const bool is_fork = end < forks_.size() && forks_[end];
    if (is_fork) continue;
    if (n.n_moves == kMovesPerStep) break;
    const auto at = static_cast<std::size_t>(n.n_moves++);
    write_move(full, at, moves[end]);
    if (windows_ != nullptr) write_move(windowed, at, windows_->moves()[end]);
  }
  if (end < n_owed) {
    waiting_forks_ = true;
  } else {
    for (std::size_t m = waiting_forks_ ? 0 : n_moves_bound_; m < n_owed && m < forks_.size(); ++m) {
      if (!forks_[m]) continue;
      const auto at = static_cast<std::size_t>(n.n_forks++);
      write_fork(full, at, moves[m]);
      if (windows_ != nullptr) write_fork(windowed, at, windows_->moves()[m]);
      forks_[m] = false;
    }
    waiting_forks_ = false;
  }
  n_moves_bound_ = end;
  return n;
}

void Placing::clear_moves() {
  sequences_.clear_moves();
  if (windows_ != nullptr) windows_->clear_moves();
  forks_.clear();
  n_moves_bound_ = 0;
}

}  // namespace weft::engine
