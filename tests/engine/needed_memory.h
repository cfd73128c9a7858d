#pragma once
// The memory that a placement predicts for devices, compared with the memory of such a context on them.
#include <gtest/gtest.h>

#include <vector>

#include "engine/context_params.h"
#include "engine/devices/bound_graph.h"
#include "engine/devices/fit_model.h"
#include "engine/graph_sizes.h"
#include "engine/model_impl.h"
#include "exec/placement.h"
#include "weft/context.h"

namespace weft::test {

struct DeviceMemory {
  exec::MemoryNeed need;
  std::size_t weights = 0, states = 0;
  std::size_t steps = 0;  ///< Inputs, outputs, copies, tables and temporaries.
};

/// What a context over a cache of F16 compiles.
inline Graph context_graph(const Model& model, const ContextParams& params) {
  const engine::ModelImpl& impl = model.impl();
  return model::build_graph(impl.file, impl.description,
                            engine::graph_sizes(params, DType::kF16, DType::kF16, impl.row_shares))
      .graph;
}

inline std::vector<DeviceMemory> needed_memory(const Model& model, const ContextParams& asked) {
  const engine::ModelImpl& impl = model.impl();
  const ContextParams params = engine::fill_in(asked, model.info(), CacheType::kF16);
  const Graph graph = context_graph(model, params);
  const engine::BoundGraph bound(impl, graph);
  const exec::Plan plan =
      bound.compile(graph, {.allowed = {.shapes = true, .tensors = true}, .n_threads = params.n_threads});
  const std::vector<Device*> devices = impl.devices.pointers();
  const auto needs =
      engine::memory_needs(graph, devices, impl.device_of, impl.devices.host, params.n_threads);
  std::vector<DeviceMemory> result;
  for (std::size_t d = 0; d < devices.size(); ++d) {
    DeviceMemory& memory = result.emplace_back();
    memory.need = needs[d];
    for (const auto& [name, weight] : impl.weights[d]) memory.weights += weight->bytes();
    for (std::size_t v = 0; v < graph.values().size(); ++v) {
      const ValueKind kind = graph.values()[v].kind;
      const DeviceTensor* const tensor = bound.home()[v];
      if (tensor == nullptr || kind == ValueKind::kWeight ||
          &bound.device_of(static_cast<ValueId>(v)) != devices[d])
        continue;
      (kind == ValueKind::kState ? memory.states : memory.steps) += tensor->bytes();
    }
    memory.steps += plan.own_bytes(static_cast<int>(d)) + plan.shared_bytes(static_cast<int>(d));
  }
  return result;
}

inline void expect_needed(const DeviceMemory& memory) {
  EXPECT_EQ(memory.need.weights, memory.weights);
  EXPECT_EQ(memory.need.states, memory.states);
  EXPECT_EQ(memory.need.step_tensors + memory.need.workspace, memory.steps);
}

}  // namespace weft::test
