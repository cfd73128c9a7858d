#include "engine/memories.h"

#include <algorithm>

#include "kv/state_memory.h"
#include "kv/window_memory.h"

namespace weft::engine {
namespace {

bool has_window(const model::ModelGraph& graph, const Node& moves) {
  return graph.window > 0 && named_inputs<ops::MoveCells>(moves).from == graph.windowed.move_from;
}

}  // namespace

TextInCache text_in_cache(const model::ModelGraph& graph, const Node& moves, const ContextParams& params) {
  if (!has_window(graph, moves)) return {params.n_ctx, true};
  // Cells that the next step sees or that may be cut off again, the step's own cells, and cells that wait for
  // eviction.
  constexpr int kEvictionShare = 8;  // See WindowPages::evict_now_and_then.
  const std::int64_t needed =
      std::int64_t{graph.window} + params.window_rewind + params.n_ubatch + kPageCells;
  return {std::min<std::int64_t>(params.n_ctx, needed + needed / kEvictionShare), false};
}

Memories::Memories(const model::ModelGraph& graph, const Bindings& bindings, const kv::Sequences& sequences,
                   int width, const ContextParams& params) {
  const auto words = [&](ValueId id) { return host_values<std::int32_t>(bindings, id); };
  if (graph.window > 0) {
    const model::CellInputs& inputs = graph.windowed;
    all_.push_back(std::make_unique<kv::WindowMemory>(
        sequences, graph.window, params.window_rewind,
        kv::WindowMemory::Inputs{
            words(inputs.cells),
            {host_values<Extent>(bindings, inputs.extents), words(inputs.extent_counts), width},
            host_values<HiddenCells>(bindings, inputs.hidden)}));
    windowed_ = all_.back().get();
    windowed_moves_ = inputs.move_from;
  }
  if (!graph.running_states.empty()) {
    all_.push_back(std::make_unique<kv::StateMemory>(
        sequences, params.state_rewind,
        kv::StateMemory::Inputs{words(graph.state_from), words(graph.state_to)}));
    running_ = all_.back().get();
  }
}

}  // namespace weft::engine
