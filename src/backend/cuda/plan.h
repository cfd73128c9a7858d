#pragma once
// A graph as launches of kernels in the order of a stream. What differs from step to step is in the step
// table, so a step of a known kind changes only that.
#include <memory>

#include "backend/cuda/runtime.h"
#include "weft/backend/device.h"

namespace weft::cuda {

std::unique_ptr<DevicePlan> make_plan(std::shared_ptr<Runtime> runtime, const Graph& graph,
                                      const Bindings& bindings, const CompileOptions& options);
/// What such a plan takes.
PlanMemory plan_memory(const Graph& graph, bool shares_workspace);

}  // namespace weft::cuda
