#pragma once
// The source of each sequence, and the cells of its keys and values: bookkeeping, and the inputs of steps
// that encode sources or attend to them.
//
// Sources are stored in slots of whole pages, one for each sequence. Sequences share slots, so there is
// always a free one for a sequence without one.
#include <cstdint>
#include <span>
#include <vector>

#include "base/to_size.h"
#include "model/builder.h"
#include "weft/backend/device.h"
#include "weft/graph/extent.h"
#include "weft/types.h"

namespace weft::engine {

/// Throws Error kInvalidArgument if a source has more tokens than the context allows.
void check_source_size(std::size_t n_tokens, int n_source);

/// For a model without sources, nothing is ever set.
class Sources {
 public:
  Sources(const model::ModelGraph& graph, const Bindings& bindings, int n_sequences, int n_source);

  int size(SeqId seq) const;  ///< In tokens; 0: there is none.
  int max_size() const { return n_source_; }
  /// The slot of the sequence's source; -1: it has none. Equal numbers are the same source.
  int slot(SeqId seq) const { return slot_of(seq); }
  /// Cell i of a source in this slot.
  std::int32_t cell(int slot, int i) const { return (slot * n_pages_ * kPageCells) + i; }
  bool same(SeqId a, SeqId b) const { return slot_of(a) == slot_of(b); }
  void remove(SeqId seq);
  void copy(SeqId from, SeqId to);
  /// Replaces the sequence's source, and writes the inputs of the step that encodes it.
  void set(SeqId seq, std::span<const Token> tokens);
  /// Replaces the sequence's source by room for `n_tokens` tokens, at most max_size(). The caller fills its
  /// cells.
  void reserve(SeqId seq, int n_tokens);

  std::int64_t cells_touched() const;  ///< Cells that were ever in use.
  /// Whether all counts agree.
  bool consistent() const;

 private:
  static constexpr int kNone = -1;
  int slot_of(SeqId seq) const { return slot_of_[to_size(seq)]; }
  void hold(SeqId seq, int slot);

  const int n_source_;          // Tokens of a source, at most.
  const int n_pages_;           // Of a slot.
  std::vector<int> slot_of_;    // By sequence.
  std::vector<int> n_holders_;  // By slot.
  std::vector<int> size_of_;    // By slot.
  int n_touched_ = 0;           // Slots.
  std::span<std::int32_t> tokens_, positions_, cells_, extent_counts_;
  std::span<Extent> extents_;
};

}  // namespace weft::engine
