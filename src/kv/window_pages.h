#pragma once
// What layers that see a window of positions keep: bookkeeping only, no tensors.
//
// Such layers have their own caches. Their pages are assigned here, the lowest free one first, so the memory
// in use stays small. A page of the sequences has a window page as long as some window, or a rewind, reaches
// it. Then its rows are evicted, while full layers keep theirs. A sequence can continue only where its whole
// window is there. Operations after which it could not must be refused before any change: see the `can_`
// functions.
//
// This class does not depend on how sequences work. It follows the moves that sequences owe and the tokens
// that are stored, in the order in which the device executes them. From these it knows for each cell whether
// its rows are there. So packing, private copies and shifts need no rules of their own. Kept and evicted
// cells may share a page. Each page has at most one window page, and there are as many: they cannot run out.
#include <cstdint>
#include <span>
#include <vector>

#include "base/to_size.h"
#include "kv/sequences.h"

namespace weft::kv {

class WindowPages {
 public:
  /// For layers that see the last `window` positions, a row's own included. Texts can be cut back by `rewind`
  /// tokens at any time. `sequences` must outlive it.
  WindowPages(const Sequences& sequences, int window, int rewind);

  /// The place of the cell's rows in window caches; -1 where they were evicted.
  std::int32_t cell(std::int32_t cell) const;
  /// The window page of a page, -1: none.
  std::int32_t page(std::int32_t page) const { return window_pages_[to_size(page)]; }

  // What is written, in the device's order.
  /// The moves that the sequences have logged since: each gets its like in window caches, where nothing moves
  /// (from cell 0 to itself) where the rows have faded.
  void follow(MoveLog& moves);
  /// A token is stored, or a row written.
  void store(std::int32_t cell);
  /// A cell is taken whose rows are not there (of a saved state).
  void leave_out(std::int32_t cell);

  // Whether sequences can still continue after an operation of Sequences (with the same arguments).
  bool can_remove(SeqId seq, Pos begin, Pos end) const;
  bool can_copy(SeqId from, SeqId to, Pos begin, Pos end) const;
  bool can_shift(SeqId seq, Pos begin, Pos end, Pos delta) const;
  bool can_divide(SeqId seq, Pos begin, Pos end, int divisor) const;
  /// Whether a sequence with these extents could continue if only the cells `kept` (by the extents' pages)
  /// are there.
  bool is_whole(std::span<const Extent> extents, std::span<const std::uint64_t> kept) const;
  /// Whether the rows that a token at `pos` sees are there.
  bool can_take(SeqId seq, Pos pos) const;

  // A batch: until end_batch(), its sequences can also be cut back to where they were. Call before their
  // first token is taken, with its position.
  void begin_batch(SeqId seq, Pos first);
  void end_batch();

  /// Frees pages that no window reaches. Call it only between steps: the next step may write to freed pages.
  void evict();
  /// The same once enough pages were taken to make it worth while, so that it costs a share of each.
  void evict_now_and_then();

  /// The extents in window caches that a row at position `pos` or later sees. Returns their number.
  int fill_row(SeqId seq, Pos pos, std::span<Extent> row) const;

  std::int64_t max_rows_each() const;  ///< In whole pages: of a window and a rewind.
  int n_in_use() const { return static_cast<int>(in_use_.size()); }
  int n_touched() const { return n_touched_; }  ///< Window pages that were ever in use: the first ones.

  /// Whether all counts agree, and every sequence's window is whole; for tests and audits.
  bool consistent() const;

 private:
  /// A range of a sequence, and its new positions.
  struct Piece {
    SeqId seq = 0;
    Pos begin = 0, end = kEndOfPositions;
    Pos delta = 0;
    int divisor = 1;
  };
  /// Whether a sequence of these pieces, the last one first, has all rows that its next token sees.
  bool goes_on(std::span<const Piece> pieces) const;
  /// Marks pages in which the sequence has positions [begin, end).
  void reach(SeqId seq, Pos begin, Pos end);
  Pos window_of_next(Pos next) const { return next - window_ + 1; }
  std::uint64_t& kept(std::int32_t page) { return kept_[to_size(page)]; }
  std::uint64_t kept(std::int32_t page) const { return kept_[to_size(page)]; }

  const Sequences& sequences_;
  const int window_;
  const int rewind_;
  // By page.
  std::vector<std::int32_t> window_pages_;
  std::vector<std::uint64_t> kept_;     // Cells whose rows are there.
  std::vector<std::uint64_t> reached_;  // The last evict() that found it reached.

  std::vector<std::int32_t> in_use_;  // Pages that have a window page.
  std::vector<std::int32_t> free_;    // Window pages below n_touched_, a heap: the lowest first.
  int n_touched_ = 0;
  int n_taken_ = 0;  // Since the last evict().
  std::uint64_t n_evictions_ = 0;
  struct Anchor {
    SeqId seq;
    Pos begin, end;
  };
  std::vector<Anchor> anchors_;  // Of the batch under way.
};

}  // namespace weft::kv
