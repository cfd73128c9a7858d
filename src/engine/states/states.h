#pragma once
// Saving and restoring a context's sequences (format.h).
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "engine/context/kv_cache.h"
#include "engine/devices/bound_graph.h"
#include "engine/states/format.h"
#include "model/builder.h"
#include "weft/backend/device.h"
#include "weft/model.h"

namespace weft::engine {

/// Works between a context's bookkeeping and its caches. All arguments must outlive it.
class States {
 public:
  States(const Model& model, const model::ModelGraph& graph, const BoundGraph& bound, KvCache::Impl& cache);

  /// Saves one sequence, or all non-empty ones. The cells' moves must be executed first. [begin, end) is for
  /// models whose sequences can be cut anywhere: other positions are left out.
  void save(std::optional<SeqId> seq, const std::function<void(std::span<const std::byte>)>& sink,
            Pos begin = 0, Pos end = kv::kEndOfPositions) const;
  const StateOwner& owner() const { return owner_; }

  /// Restores a state: as that sequence, or as all sequences of a context in place of the current ones.
  /// Throws Error (see read_state) and changes nothing then. False if the cache has no room; nothing has
  /// changed then either. If memory is exhausted or a device fails after all checks, the replaced sequences
  /// are lost: they are empty, or not intact. `carry_out_moves` is called between the bookkeeping and the
  /// writing of cells.
  bool restore(std::span<const std::byte> bytes, std::optional<SeqId> seq,
               const std::function<void()>& carry_out_moves);

  /// Counts the pages and sources that were ever in use.
  std::int64_t cache_bytes() const;
  /// The bytes of a sequence's rows in caches other than by cells.
  std::int64_t snapshot_bytes() const;

  /// The approximate size of a saved sequence of `n_tokens` tokens, without a source.
  std::int64_t sequence_bytes(std::int64_t n_tokens) const;

  /// The maximum size of a state that this context can restore.
  std::uint64_t max_bytes() const;

 private:
  State read(std::span<const std::byte> bytes, std::optional<SeqId> seq) const;
  std::vector<AdapterUse> uses_of(const std::vector<TextAdapter>& marks) const;
  /// Records the sequences' sources, and appends the cells that hold them.
  std::vector<TextSource> mark_sources(const std::vector<SeqId>& seqs,
                                       std::vector<std::int32_t>& cells) const;
  /// Reserves cells for the sources of the state's sequences, and returns them.
  std::vector<std::int32_t> reserve_sources(const State& state);

  const Model& model_;
  const std::shared_ptr<const model::Adapters> known_adapters_;
  StateOwner owner_;
  /// Some heads of a cache, or all.
  struct Piece {
    DeviceTensor* tensor;
    Device* device;
    std::size_t row_bytes;
  };
  struct Cache {
    std::vector<Piece> pieces;   // Their heads follow each other.
    kv::SequenceMemory* memory;  // The owner of its rows; null: all cells of sequences, or sources.
  };
  void add_cache(const BoundGraph& bound, ValueId state, StateOwner::Cache cache, kv::SequenceMemory* memory);
  void read_rows(std::size_t i, std::span<const std::int32_t> cells, std::span<std::byte> rows) const;
  void write_rows(std::size_t i, std::span<const std::int32_t> cells, std::span<const std::byte> rows);
  std::vector<Cache> caches_;  // Those of owner_.caches
  KvCache::Impl& cache_;
};

}  // namespace weft::engine
