#pragma once
// A graph compiled for the CPU: a program of phases, each a set of launches that do not depend on one
// another.
#include <memory>

#include "backend/cpu/kernels/kernels.h"
#include "weft/backend/device.h"

namespace weft::cpu {

/// The plan uses a shared pool's threads if it allows enough phases. Otherwise it has its own pool, with
/// n_threads threads and n_helpers helpers (base::Pool).
std::unique_ptr<DevicePlan> compile_plan(const Graph& graph, const Bindings& bindings, const Kernels& kernels,
                                         int n_threads, int n_helpers, const CompileOptions& options = {});

/// What such a plan takes.
PlanMemory plan_memory(const Graph& graph, int n_threads, int n_helpers, const CompileOptions& options);

}  // namespace weft::cpu
