#pragma once
// What layers that see a window of positions keep: bookkeeping only, no tensors.
//
// Such layers have caches of their own, whose pages are handed out here, the lowest free one first: so their
// memory stays as small as what they need. A page of the sequences has a window page as long as some window
// reaches it; then its rows fade, while full layers keep theirs. A text goes on only where its window is
// whole, so operations that would end where it has faded are to be refused before anything is changed: the
// `can_` functions tell.
//
// This class knows nothing of how sequences work. It watches what is written where: the moves that sequences
// owe and the tokens that are stored, in the order in which the device carries them out, tell for each cell
// whether its rows are there. So packing, private copies and shifts need no rules of their own, and cells
// that are kept and cells that have faded may share a page. Each page has at most one window page, and there
// are as many: they cannot run out.
//
// Windows keep what is written, not what is held. Layers with a sliding window have caches of their own,
// whose pages (src/kv/window_pages.h) are handed out lowest first and taken back once no window, nor what a
// rewind needs, reaches them. Whether a cell's rows are there follows from what was stored and moved, in the
// device's order; so sharing, packing and shifting have no rules for it. What would end where a window is
// gone is refused before it begins.
#include <cstdint>
#include <span>
#include <vector>

#include "kv/sequences.h"

namespace weft::kv {

class WindowPages {
 public:
  /// For layers that see the last `window` positions, a row's own included. Texts can be cut back by `rewind`
  /// tokens at any time. `sequences` must outlive it.
  WindowPages(const Sequences& sequences, int window, int rewind);

  /// Where the cell's rows lie in window caches; -1 where they have faded.
  std::int32_t cell(std::int32_t cell) const;
  /// The window page of a page, -1: none.
  std::int32_t page(std::int32_t page) const { return window_pages_[static_cast<std::size_t>(page)]; }

  // What is written, in the device's order.
  /// The moves that the sequences have logged since: each gets its like in window caches, where nothing moves
  /// (from cell 0 to itself) where the rows have faded.
  void follow(MoveLog& moves);
  /// A token is stored, or a row written.
  void store(std::int32_t cell);
  /// A cell is taken whose rows are not there (of a saved state).
  void leave_out(std::int32_t cell);

  // Whether texts still go on after an operation of Sequences (with the same arguments).
  bool can_remove(SeqId seq, Pos begin, Pos end) const;
  bool can_copy(SeqId from, SeqId to, Pos begin, Pos end) const;
  bool can_shift(SeqId seq, Pos begin, Pos end, Pos delta) const;
  bool can_divide(SeqId seq, Pos begin, Pos end, int divisor) const;
  /// Whether a text of these extents could go on where only the cells `kept` (by the extents' pages) are
  /// there.
  bool is_whole(std::span<const Extent> extents, std::span<const std::uint64_t> kept) const;
  /// Whether a token at `pos` would find what it sees.
  bool can_take(SeqId seq, Pos pos) const;

  // A batch: until end_batch(), its sequences can also be cut back to where they were. Call before their
  // first token is taken, with its position.
  void begin_batch(SeqId seq, Pos first);
  void end_batch();

  /// Frees pages that no window reaches. Only between steps: what is freed may be written to by the next.
  void evict();
  /// The same once enough pages were taken to make it worth while, so that it costs a share of each.
  void evict_now_and_then();

  /// The extents that a row at position `pos` or later sees, as they lie in window caches. Returns their
  /// number.
  int fill_row(SeqId seq, Pos pos, std::span<Extent> row) const;

  int n_in_use() const { return static_cast<int>(in_use_.size()); }
  int n_touched() const { return n_touched_; }  ///< Window pages that were ever in use: the first ones.

  /// Whether all counts agree, and every sequence's window is whole; for tests and audits.
  bool consistent() const;

 private:
  /// A range of a text, and where its positions come to stand.
  struct Piece {
    SeqId seq = 0;
    Pos begin = 0, end = kEndOfPositions;
    Pos delta = 0;
    int divisor = 1;
  };
  /// Whether a text of these pieces, the last one first, has all rows that its next token sees.
  bool goes_on(std::span<const Piece> pieces) const;
  /// Marks pages in which the sequence has positions [begin, end).
  void reach(SeqId seq, Pos begin, Pos end);
  Pos window_of_next(Pos next) const { return next - window_ + 1; }
  std::uint64_t& kept(std::int32_t page) { return kept_[static_cast<std::size_t>(page)]; }
  std::uint64_t kept(std::int32_t page) const { return kept_[static_cast<std::size_t>(page)]; }

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
  std::uint64_t n_fades_ = 0;
  struct Anchor {
    SeqId seq;
    Pos begin, end;
  };
  std::vector<Anchor> anchors_;  // Of the batch under way.
};

}  // namespace weft::kv
