#pragma once
// The moves that caches owe: what operations on sequences leave for the device to do before the next tokens
// are stored.
//
// Operations change the bookkeeping at once and log the moves that make the bytes follow. A move is owed from
// then on; begin() puts it under way in a run of the plan, commit() ends it. What holds:
//
// - Each move is carried out at most once: a key that is turned in place must not be turned twice.
// - In a run: moves, then the ubatch's tokens, then forks; each kind in the order in which it was logged.
//   A fork is a move that reads or writes a cell which a token of the ubatch fills, or which an earlier
//   fork reads or writes. So only forks have to wait for forks.
// - Moves that do not fit into one run go in several. Forks go with the last of them, together with the
//   tokens.
// - What a failed run had under way may be done, half done or not done. It is not tried again: abandon()
//   drops it, and marks the cells whose contents are unknown.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/to_size.h"
#include "weft/types.h"

namespace weft::kv {

/// Copy K and V from one cell to another (or leave them where they are), and turn K by `delta` positions.
struct CellMove {
  std::int32_t from = 0;
  std::int32_t to = 0;
  Pos delta = 0;
};

/// Where the moves and forks of a run are written for the device. Empty: nowhere.
struct MoveInputs {
  std::span<std::int32_t> from, to, deltas, fork_from, fork_to;
};

/// Used by one thread.
class MoveLog {
 public:
  explicit MoveLog(int n_cells) : filled_(to_size(n_cells), 0) {}

  bool empty() const { return entries_.empty(); }
  std::size_t size() const { return entries_.size(); }

  // --- Operations

  /// So many moves can be added without an allocation: for operations that must not stop halfway.
  void reserve(std::size_t n);
  void add(const CellMove& move);
  // During an operation, outside of a ubatch:
  /// Inserts a move before some that the operation has added.
  void insert(std::size_t index, const CellMove& move);
  /// Takes back what the operation has added: all but the first `n`.
  void take_back(std::size_t n) { entries_.resize(n); }

  /// Caches whose cells lie elsewhere: calls `move_there(move)`, which returns the same move in those, for
  /// each that is new since the last call, in order.
  template <typename F>
  void follow(F move_there) {
    for (; n_followed_ < entries_.size(); ++n_followed_)
      entries_[n_followed_].there = move_there(entries_[n_followed_].move);
  }

  // --- Placing a ubatch: begin_ubatch(), then its tokens and the moves they bring, in order

  /// What is owed so far comes before the tokens.
  void begin_ubatch() { close_ubatch(); }
  /// The ubatch stores a token in this cell, after all that was added so far. False where a token or fork of
  /// the ubatch has the cell already: the token cannot be of this ubatch.
  bool store(std::int32_t cell);
  int n_forks() const { return n_forks_; }
  /// The ubatch is not run. Its moves are still owed, before the tokens of any other ubatch.
  void drop_ubatch() { close_ubatch(); }

  // --- Runs of the plan

  struct Part {
    std::int64_t n_moves = 0;
    std::int64_t n_forks = 0;
    bool last = true;  ///< Tokens are stored in this run; before it, only moves are carried out.
  };
  /// Puts the next moves that fit the inputs under way, and writes them to the inputs. The moves that
  /// follow() made of them go to `there`.
  Part begin(const MoveInputs& inputs, const MoveInputs& there);
  /// The run has carried out the moves under way.
  void commit();
  /// The run has failed. Marks cells whose contents are unknown (bit j of unsure[p]: cell j of page p). False
  /// where no move was under way.
  bool abandon(std::span<std::uint64_t> unsure) noexcept;

 private:
  struct Entry {
    CellMove move;
    CellMove there;
    bool fork = false;
    bool under_way = false;
  };
  std::uint64_t& filled(std::int32_t cell) { return filled_[to_size(cell)]; }
  void close_ubatch();
  void drop_what_is_under_way();

  std::vector<Entry> entries_;
  std::size_t n_followed_ = 0;         // Of entries_.
  int n_forks_ = 0;                    // Of entries_.
  std::uint64_t ubatch_ = 1;           // The number of the one that is being placed.
  std::vector<std::uint64_t> filled_;  // By cell: the last ubatch whose tokens or forks have it.
};

}  // namespace weft::kv
