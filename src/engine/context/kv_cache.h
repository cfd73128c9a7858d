#pragma once
// The KV cache of a context: its sequences, what else belongs to each of them, and operations on them.
//
// Bookkeeping only. Operations that move cells log the moves; a step of the plan executes them. Used by one
// thread. The functions with a counterpart in KvCache are documented there.
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "base/to_size.h"
#include "engine/memories.h"
#include "engine/sequence_adapters.h"
#include "engine/sources.h"
#include "kv/sequences.h"
#include "weft/context.h"
#include "weft/kv_cache.h"

namespace weft {

class KvCache::Impl {
 public:
  /// `params` are filled in. All arguments must outlive it.
  Impl(const Model& model, const model::ModelGraph& graph, const Bindings& bindings,
       const ContextParams& params);

  kv::Sequences& sequences() { return sequences_; }
  const kv::Sequences& sequences() const { return sequences_; }
  const engine::Memories& memories() const { return memories_; }
  engine::SequenceAdapters& adapters() { return adapters_; }
  const engine::SequenceAdapters& adapters() const { return adapters_; }
  engine::Sources& sources() { return sources_; }
  const engine::Sources& sources() const { return sources_; }

  /// Throw Error kInvalidArgument if there is no such sequence, or if a failed step has damaged it.
  void check_sequence(SeqId seq) const;
  void check_intact(SeqId seq) const;
  bool intact() const;
  /// All positions of tokens are below it.
  Pos max_pos() const { return max_pos_; }

  void remove(SeqId seq, Pos begin, Pos end);
  bool copy(SeqId from, SeqId to, Pos begin, Pos end);
  void keep(SeqId seq);
  bool shift(SeqId seq, Pos begin, Pos end, Pos delta);
  bool forget(SeqId seq, Pos begin, Pos n, const std::function<bool()>& make_room);
  bool divide(SeqId seq, Pos begin, Pos end, int divisor);
  void defragment(int max_cells);
  void set_adapters(SeqId seq, std::span<const AdapterUse> adapters);

  bool can_cut(SeqId seq, Pos pos) const;
  bool cuts_anywhere() const { return memories_.begin() == memories_.end(); }
  bool cuts_back() const;
  bool can_shift() const;
  std::string_view why_not_forget() const;

  /// Records that the sequence may hold tokens with positions on axes (ItemOptions::axes).
  void note_axes(SeqId seq) { on_axes(seq) = true; }
  /// The memories follow the moves that an operation on sequences has logged.
  void follow_moves();
  /// Whether all counts agree.
  bool consistent() const;

 private:
  /// What belongs to a sequence without tokens is dropped.
  void emptied(SeqId seq);
  std::vector<bool>::reference on_axes(SeqId seq) { return on_axes_[to_size(seq)]; }
  /// Whether `to` may take a part of `from`: both were computed with the same adapters and encoder input.
  void check_same_origin(SeqId from, SeqId to) const;

  const Model& model_;
  const bool learned_positions_;  // They cannot be changed later.
  const Pos max_pos_;
  kv::Sequences sequences_;
  const engine::Memories memories_;
  engine::SequenceAdapters adapters_;
  engine::Sources sources_;
  std::vector<bool> on_axes_;  // By sequence.
};

namespace engine {

/// The runs of cells that the same sequences hold.
std::vector<CellRun> cell_runs(const kv::Sequences& sequences);

}  // namespace engine
}  // namespace weft
