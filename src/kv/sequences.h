#pragma once
// Cells, pages and sequences of a cache: bookkeeping only, no tensors.
//
// A cell holds one token's K and V. Cells come in pages of 64. A sequence is a list of extents in the order
// of their positions. An extent has the cells of one page that the sequence holds, and their positions.
// Sequences with common tokens share cells; a page is freed when no sequence holds a cell of it. Attention
// reads the table of a sequence's extents directly, so idle sequences cost nothing.
//
// The extents of a sequence depend only on the operations on it. A token keeps its place in its page (its
// lane) in any page. Attention sums lane by lane, extent by extent. So its results do not depend on other
// sequences in the cache, on sharing, or on moves of cells.
//
// The cost of an operation is proportional to its changes. Operations for which the device must move or turn
// K and V append moves to a log (move_log.h). The device must execute these moves before the next tokens are
// stored.
//
// What throws std::bad_alloc has changed nothing that a sequence holds.
#include <cstdint>
#include <span>
#include <vector>

#include "base/to_size.h"
#include "kv/move_log.h"
#include "weft/graph/extent.h"
#include "weft/types.h"

namespace weft::kv {

/// What attention reads: `width` extents for each sequence, of which counts[seq] are in use.
struct Tables {
  std::span<Extent> extents;
  std::span<std::int32_t> counts;
  int width = 0;
};

/// Where a token stands: a position of a sequence.
struct SeqPos {
  SeqId seq = 0;
  Pos pos = 0;
};

/// All positions are below it: of tokens, of results of operations, and of saved states.
inline constexpr Pos kEndOfPositions = 1 << 29;
/// The largest divisor of positions: the product of all that were asked for.
inline constexpr std::int64_t kMaxDivisor = 1 << 20;

/// What sequences hold, wherever their pages lie: taken from one cache, put into another (or back).
struct Snapshot {
  struct Text {
    SeqId seq = 0;
    std::vector<Extent> extents;  ///< `page` is an index of `pages`.
  };
  std::vector<Text> texts;
  /// The cells in use of each page. Cells are listed page by page, lane by lane.
  std::vector<std::uint64_t> pages;

  std::int64_t n_cells() const;
  /// Whether it could have been taken from a cache: for snapshots from outside, which must pass before they
  /// are put into one.
  bool well_formed() const;
};

/// Defragmentation that happens by itself, in pieces of this many cells.
inline constexpr int kMovesToMakeRoom = 16 * kPageCells;

class Sequences {
 public:
  /// `n_cells` is the user's limit on cells in use; there are pages for them plus one partly filled page a
  /// sequence.
  Sequences(int n_cells, int n_sequences, Tables tables);
  static int n_pages_for(int n_cells, int n_sequences);

  int n_sequences() const { return static_cast<int>(tables_.counts.size()); }
  int cells_total() const { return n_cells_; }
  int cells_used() const { return cells_used_; }
  int n_pages() const { return static_cast<int>(pages_.size()); }
  int pages_touched() const { return pages_touched_; }  ///< That were ever in use: the first ones.
  int pages_free() const { return static_cast<int>(free_pages_.size()); }
  std::span<const Extent> extents(SeqId seq) const;

  Pos next_pos(SeqId seq) const;  ///< One past the last position, 0 for an empty sequence.
  Pos min_pos(SeqId seq) const;   ///< -1 for an empty sequence.
  bool holds(SeqId seq, Pos pos) const { return cell_of(seq, pos) >= 0; }
  std::int32_t cell_of(SeqId seq, Pos pos) const;  ///< -1 where the sequence does not hold the position.

  /// Takes a cell for each token and writes its number; positions must be free and ascend within a sequence.
  /// Shared pages are copied first where that is needed. False where the cache is full: nothing is taken
  /// then.
  bool take(std::span<const SeqPos> tokens, std::span<std::int32_t> cells);

  // On positions [begin, end) of a sequence. Those that can fail return false where the cache has no room for
  // the copies of shared cells, and have changed nothing then.
  void remove(SeqId seq, Pos begin, Pos end);
  /// `to` gets the tokens of `from` in the range, in place of its own there. No bytes move.
  bool copy(SeqId from, SeqId to, Pos begin, Pos end);
  /// `to` gets the token that `from` holds at `pos`, in the place that its own token would have. Where that
  /// is the same page, the cell is shared; otherwise it is moved to a new cell. False where there is no room.
  bool share(SeqId from, SeqId to, Pos pos);
  /// Takes a token back that was taken or shared: extents that were cut for it are whole again.
  void give_back(SeqId seq, Pos pos);
  /// Removes all sequences but one.
  void keep(SeqId seq);
  /// Adds delta to positions. They must neither meet nor pass positions outside the range, nor go below 0
  /// (can_shift).
  bool shift(SeqId seq, Pos begin, Pos end, Pos delta);
  bool can_shift(SeqId seq, Pos begin, Pos end, Pos delta) const;
  /// Divides positions by `divisor` (> 0), rounding down; several tokens may get the same position. They must
  /// not pass positions before the range (can_divide).
  bool divide(SeqId seq, Pos begin, Pos end, int divisor);
  bool can_divide(SeqId seq, Pos begin, Pos end, int divisor) const;

  /// Moves the cells of sparsely used pages that one extent holds into others', to free whole pages. Each
  /// cell once, at most `max_moves`. Returns the number of pages freed.
  int defragment(int max_moves);

  /// What these sequences hold at positions [begin, end); `cells` gets where each of its cells lies. Cells
  /// that several of them share are in it once.
  Snapshot snapshot(std::span<const SeqId> seqs, std::vector<std::int32_t>& cells, Pos begin = 0,
                    Pos end = kEndOfPositions) const;
  /// Each sequence of the snapshot replaces its contents. `cells` gets the current place of each cell of the
  /// snapshot. The caller must write its K and V, after the moves. The sequences are not intact until the
  /// caller marks them. Tokens keep their lanes, and sequences that shared cells share them. The sequences'
  /// ids differ, and the snapshot is well formed. False where there is no room; then no sequence has changed.
  bool restore(const Snapshot& snapshot, std::vector<std::int32_t>& cells);

  /// What the device must do before the next tokens are stored.
  MoveLog& moves() { return moves_; }
  const MoveLog& moves() const { return moves_; }
  /// A run that had moves under way has failed. Sequences with a cell that it may have written are not intact
  /// until they are empty or restored.
  void abandon_moves() noexcept;
  /// Whether the cells of the sequence are valid.
  void set_intact(SeqId seq) { intact_[to_size(seq)] = true; }
  bool intact(SeqId seq) const { return intact_[to_size(seq)]; }

  /// Whether all counts agree with each other; for tests and audits. Costs the size of the cache.
  bool consistent() const;

 private:
  struct Page {
    std::uint16_t holders[kPageCells] = {};  // Extents that hold each cell.
    std::int32_t n_held = 0;                 // Sum of holders.
  };

  Extent* row(SeqId seq) { return tables_.extents.data() + static_cast<std::ptrdiff_t>(seq) * tables_.width; }
  const Extent* row(SeqId seq) const {
    return tables_.extents.data() + static_cast<std::ptrdiff_t>(seq) * tables_.width;
  }
  std::int32_t& count(SeqId seq) { return tables_.counts[to_size(seq)]; }
  std::int32_t count(SeqId seq) const { return tables_.counts[to_size(seq)]; }
  Page& page(std::int32_t p) { return pages_[to_size(p)]; }

  /// The number of extents whose first position is at most `pos`.
  int upper_bound(SeqId seq, Pos pos) const;
  void insert(SeqId seq, int index, const Extent& extent);
  void erase(SeqId seq, int begin, int end);
  /// Cuts extents so that none reaches across `pos`. False where the table is full.
  bool split_at(SeqId seq, Pos pos);

  void hold(std::int32_t page, std::uint64_t mask);
  void release(std::int32_t page, std::uint64_t mask);
  int n_shared(const Extent& extent) const;  ///< Cells that others hold too.
  /// Gives an extent a page of its own, if there is a free one and cells are left.
  bool make_own(Extent& extent);
  bool room_for_copies(SeqId seq, int begin, int end) const;
  /// The place for a token at a free position: in the extent of this index, or (-1) in a new page whose first
  /// cell has position `base`.
  struct Spot {
    int extent;
    Pos base;
  };
  Spot spot_for(SeqId seq, Pos pos) const;
  std::int32_t take_one(SeqId seq, Pos pos);
  /// A page for these lanes, held once already; -1 where there is none.
  std::int32_t find_page(std::uint64_t mask);
  enum class Room { kEnough, kNoCells, kNoPages };
  Room restore_if_room(const Snapshot& snapshot, std::vector<std::int32_t>& cells);
  // Extents [first, last) of a sequence. If delta is a multiple of the page size, cells stay in place.
  // Otherwise each token goes to the lane of its new position.
  bool shift_extents(SeqId seq, int first, int last, Pos delta);
  bool shift_in_place(SeqId seq, int first, int last, Pos delta);
  bool shift_to_other_lanes(SeqId seq, int first, int last, Pos delta);
  bool divide_extents(SeqId seq, int first, int last, int divisor);
  /// What `change` returns. Where that is false, or it throws, the extents of the sequence are as they were,
  /// none cut; their pages are not its business.
  template <typename F>
  bool change_or_put_back(SeqId seq, F change);
  /// Extents [begin, end) with positions in the range, after cuts at its ends; {-1, -1} where the table is
  /// full.
  std::pair<int, int> isolate(SeqId seq, Pos begin, Pos end);

  int n_cells_;
  int cells_used_ = 0;
  int pages_touched_ = 0;
  Tables tables_;
  std::vector<Page> pages_;
  std::vector<std::int32_t> free_pages_;
  MoveLog moves_;
  std::vector<bool> intact_;           // By sequence.
  std::vector<std::uint64_t> unsure_;  // By page: see MoveLog::abandon; nothing in between.
};

}  // namespace weft::kv
