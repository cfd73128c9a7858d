#include "engine/memories.h"

#include "kv/state_memory.h"
#include "kv/window_memory.h"

namespace weft::engine {

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
        sequences, kv::StateMemory::Inputs{words(graph.state_from), words(graph.state_to)}));
    running_ = all_.back().get();
  }
}

}  // namespace weft::engine
