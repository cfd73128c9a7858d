#pragma once
// Placing a batch: its cells, step by step, and the moves that are owed before and behind a step's tokens.
#include <cstdint>
#include <span>
#include <vector>

#include "engine/graph_sizes.h"
#include "kv/sequences.h"
#include "kv/window_pages.h"
#include "weft/context.h"

namespace weft::engine {

/// Where a step's moves and forks are written for the device. Empty: nowhere.
struct MoveInputs {
  std::span<std::int32_t> from, to, deltas, fork_from, fork_to;
};

/// What it is given must outlive it; `windows` is null where no layer keeps a window only.
class Placing {
 public:
  Placing(kv::Sequences& sequences, kv::WindowPages* windows, int n_cells, int n_ubatch, int n_outputs)
      : sequences_(sequences),
        windows_(windows),
        n_ubatch_(n_ubatch),
        n_outputs_(n_outputs),
        filled_by_(static_cast<std::size_t>(n_cells)) {}

  /// A part of the batch that is one run of the plan.
  struct Step {
    int begin = 0, end = 0;  ///< Items
    int n_outputs = 0;
    int n_forks = 0;
  };

  /// A new batch, whose items stand at these places.
  void begin(std::span<const kv::Place> places);
  const kv::Place& place(int item) const { return places_[static_cast<std::size_t>(item)]; }
  std::int32_t cell(int item) const { return cells_[static_cast<std::size_t>(item)]; }
  const Step& step() const { return step_; }  ///< The last one that was placed.

  /// Takes the cells of the batch's next step. Step by step, because what attention reads is how sequences
  /// stand when the step runs. False where the cache is full: then the step has taken nothing.
  ///
  /// Taking a cell may owe moves (a shared page gets a copy, sparse ones are packed). They come before the
  /// tokens of their step are stored, except for those that have to do with a cell which the step itself
  /// fills: such forks come behind. An item whose cell the step has filled already cannot be part of it.
  bool place_step(const Batch& batch, int begin);
  /// Gives back the cells that items [begin, end) took.
  void give_back(const Batch& batch, int begin, int end);
  /// Whether item i's own sequence holds item j.
  bool shares_sequence(const Batch& batch, int i, int j) const;
  /// Items that look ahead must find what they see stored by their step: throws Error.
  void check_what_is_seen(const Batch& batch) const;

  // The moves that are owed, in pieces: bind_moves until nothing is left, each followed by a run of the plan.
  struct BoundMoves {
    std::int64_t n_moves = 0, n_forks = 0;
  };
  /// Writes the next of the moves that are owed; the forks come with the last of them.
  BoundMoves bind_moves(const MoveInputs& full, const MoveInputs& windowed);
  /// Whether all that is owed was bound.
  bool all_moves_bound() const { return n_moves_bound_ == sequences_.moves().size(); }
  /// All of it was carried out.
  void clear_moves();

 private:
  bool take(const Batch& batch, int i);
  bool joins_step(std::size_t first_move, std::int32_t cell);

  kv::Sequences& sequences_;
  kv::WindowPages* const windows_;
  const int n_ubatch_;
  const int n_outputs_;
  std::vector<kv::Place> places_;    // Of the batch's items ...
  std::vector<std::int32_t> cells_;  // ... and their cells.
  Step step_;
  std::vector<bool> forks_;  // By move of sequences_.moves(): comes behind the tokens of its step.
  std::vector<std::uint64_t> filled_by_;  // By cell: the last step that filled it.
  std::uint64_t step_number_ = 0;
  std::size_t first_follow_ = 0;   // Of the moves that the last item owes, those to the others that have it.
  std::size_t n_moves_bound_ = 0;  // Of sequences_.moves().
  bool waiting_forks_ = false;     // Some before n_moves_bound_ were not bound yet.
};

}  // namespace weft::engine
