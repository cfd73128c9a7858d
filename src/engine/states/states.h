#pragma once
// Saving what a context's sequences hold, and taking it up again (state_format.h).
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "backend/device.h"
#include "engine/devices/bound_graph.h"
#include "engine/states/format.h"
#include "kv/sequences.h"
#include "kv/state_slots.h"
#include "kv/window_pages.h"
#include "model/builder.h"
#include "weft/model.h"

namespace weft::engine {

/// Between a context's bookkeeping and its caches. All that it is given must outlive it.
class States {
 public:
  States(const Model& model, const model::ModelGraph& graph, const BoundGraph& bound,
         kv::Sequences& sequences, kv::WindowPages* windows, kv::StateSlots& slots);

  /// One sequence, or all that hold anything. The cells' moves must be carried out.
  void save(std::optional<SeqId> seq, const std::function<void(std::span<const std::byte>)>& sink) const;

  /// Takes a state up: as that sequence, or all sequences of a context in place of what is there. Throws
  /// Error (see read_state) and changes nothing then; false where the cache has no room, nothing has changed
  /// either. `carry_out_moves` is called between the bookkeeping and the writing of cells.
  bool restore(std::span<const std::byte> bytes, std::optional<SeqId> seq,
               const std::function<void()>& carry_out_moves);

  /// Of so many pages, and so many window pages.
  std::int64_t cache_bytes(int n_pages, int n_window_pages) const;

  /// No state that this context could take up is larger.
  std::uint64_t max_bytes() const;

 private:
  std::vector<std::int32_t> keep_windows(State& state, std::span<const std::int32_t> cells) const;
  std::vector<std::int32_t> restore_windows(const State& state, std::span<const std::int32_t> cells);
  State read(std::span<const std::byte> bytes, std::optional<SeqId> seq) const;

  StateOwner owner_;
  struct Cache {
    DeviceTensor* tensor;
    Device* device;
  };
  std::vector<Cache> caches_;  // Those of owner_.caches
  kv::Sequences& sequences_;
  kv::WindowPages* windows_;  // Null where no cache keeps a window only.
  kv::StateSlots& slots_;
  Pos end_of_positions_;
};

}  // namespace weft::engine
