#pragma once
// The KV cache of a context (Context::cache): which tokens each sequence holds, and operations on sequences.
//
//   weft::KvCache& cache = context.cache();
//   if (!cache.copy(0, 1)) std::cerr << cache.why_full();  // Sequence 1 continues the prompt of sequence 0.
//   cache.remove(0, 100);                                  // Sequence 0 keeps its first 100 tokens.
//
// A cell holds one token's keys and values in all layers. A page is kCellsOfPage cells. Operations change
// only bookkeeping: the context's next step moves cells and rotates keys.
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/types.h"

#pragma GCC visibility push(default)

namespace weft {

namespace engine {
class States;
}

/// A run of consecutive cells that the same sequences hold.
struct CellRun {
  int first = 0;  ///< The number of the first cell: page * kCellsOfPage + index in the page.
  int n = 0;
  std::vector<SeqId> sequences = {};  ///< In ascending order. Several sequences share the cells.
  friend bool operator==(const CellRun&, const CellRun&) = default;
};

/// A part of its context: used by the same thread, and valid as long as the context, also after a move.
///
/// Ranges of positions are [begin, end); end < 0: to the end of the sequence. An operation never changes
/// results of other sequences. Wrong arguments throw Error kInvalidArgument and change nothing. Operations
/// that return bool may need free cells, as they copy cells that other sequences share. If the cache has too
/// few, they return false and change nothing, except forget().
///
/// In models with recurrent layers (ModelInfo::recurrent) a sequence has one state for all its tokens. It can
/// be removed and copied only as a whole; other ranges, shift() and divide() throw Error kUnsupported. To
/// return to an earlier state, copy the sequence before you extend it. The copy shares the state until one of
/// the two is extended. The last items with logits can be removed again, and the tokens before them can be
/// copied, if their states are kept (ContextParams::state_rewind).
///
/// Layers with sliding-window attention drop old tokens (ContextParams::window_rewind). An operation after
/// which a sequence would need dropped tokens throws Error kUnsupported and changes nothing. Examples are
/// removing a long tail and copying a short prefix.
class KvCache {
 public:
  static constexpr int kCellsOfPage = 64;

  KvCache(const KvCache&) = delete;
  KvCache& operator=(const KvCache&) = delete;

  // Operations.

  void remove(SeqId seq, Pos begin = 0, Pos end = -1);
  /// Replaces a range of `to` by the same range of `from`. Both share the cells; nothing is copied. Before a
  /// sequence extends a partly filled page that others share, it gets its own copy of the page's cells. So
  /// each branch of a prompt may take up to kCellsOfPage - 1 cells in addition to its own tokens.
  [[nodiscard]] bool copy(SeqId from, SeqId to, Pos begin = 0, Pos end = -1);
  void keep(SeqId seq);  ///< Removes all others.
  /// Adds delta to the positions in the range. They must stay in order with the positions outside it, and in
  /// 0 to max_positions() - 1. The next step rotates the cached keys. Error kUnsupported for models with
  /// learned positions.
  [[nodiscard]] bool shift(SeqId seq, Pos begin, Pos end, Pos delta);
  /// Divides the positions in the range, rounding down (self-extend). Error kUnsupported for models with
  /// learned positions and for sequences with items of ItemOptions::axes, or restored in models with M-RoPE.
  [[nodiscard]] bool divide(SeqId seq, Pos begin, Pos end, int divisor);
  /// Context shift: removes n positions from `begin` and shifts the later ones down by n. Attention no longer
  /// sees the removed tokens; recurrent states still include them. The last position cannot be removed. While
  /// cells are missing, `make_room` is called: it frees some and returns true, or returns false to give up.
  /// Returns false if cells or the layers' windows are missing; the sequence can then only be removed. Error
  /// kUnsupported if why_not_forget() is not empty.
  [[nodiscard]] bool forget(SeqId seq, Pos begin, Pos n, const std::function<bool()>& make_room = {});
  void clear();  ///< Removes all sequences.
  /// Moves at most max_cells cells to merge partly filled pages. Steps do this themselves when pages run out.
  void defragment(int max_cells = 4096);

  // What the model supports.

  /// Whether remove(seq, pos) is possible, so that the sequence can continue at `pos`.
  bool can_cut(SeqId seq, Pos pos) const;
  bool cuts_anywhere() const;  ///< Whether can_cut() is true for all positions, in any sequence.
  /// Whether tokens of the last batch can be removed again, as wrong drafts are. With recurrent layers these
  /// are at most ContextParams::state_rewind items with logits.
  bool cuts_back() const;
  bool can_shift() const;  ///< Whether shift() and divide() are supported by the model.
  /// Why the model does not support forget(). Empty: it does.
  std::string_view why_not_forget() const;
  /// Positions must be below this. It is the training length for models with learned positions.
  Pos max_positions() const;

  // Sequences.

  Pos next_pos(SeqId seq) const;  ///< The position of the next token. 0 for an empty sequence.
  Pos min_pos(SeqId seq) const;   ///< The lowest position. -1 for an empty sequence.
  /// False if the sequence's cells are undefined, because a step that had to move them failed. Until the
  /// sequence is removed as a whole or restored, Context::decode, Context::save, copy, shift, divide and
  /// forget throw Error kInvalidArgument for it. To continue, remove it and compute its tokens again, with
  /// bit-identical results. Other sequences are not affected.
  bool intact(SeqId seq) const;
  bool intact() const;  ///< Whether all sequences are intact.

  // Cells.

  int cells_used() const;  ///< Cells that sequences hold. Shared cells count once.
  int cells_total() const;
  /// The error message for DecodeStatus::kCacheFull or false: the cells in use and the cells in all.
  /// n_wanted: the size of the batch, if known.
  std::string why_full(int n_wanted = 0) const;
  /// The cells in use and their sequences, by ascending cell number. Takes time linear in the cells that
  /// sequences hold. Cell numbers are below n_pages() * kCellsOfPage, which may exceed cells_total().
  std::vector<CellRun> cell_runs() const;
  int n_pages() const;
  /// Bytes of the pages that have held tokens so far. The context's constructor reserves all pages, but on a
  /// CPU a page takes physical memory only from its first use on.
  std::int64_t bytes() const;
  /// The most bytes that a copied sequence holds in addition to cells: a running state and the windows of
  /// layers. 0 if the model has neither.
  std::int64_t snapshot_bytes() const;
  /// Whether all internal counts agree; for tests. Takes time linear in the size of the cache.
  bool consistent() const;

  class Impl;
  KvCache(Impl& impl, const engine::States& states) : impl_(impl), states_(states) {}  ///< For Context.

 private:
  Impl& impl_;
  const engine::States& states_;
};

}  // namespace weft

#pragma GCC visibility pop
