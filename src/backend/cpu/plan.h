#pragma once
// A graph compiled for the CPU: a program of phases, each a set of launches that do not depend on one
// another.
#include <memory>

#include "backend/cpu/kernels/kernels.h"
#include "weft/backend/device.h"

namespace weft::cpu {

/// A shared pool has the threads where it takes as many phases; else the plan has one of its own, of so many
/// threads and helpers (base::Pool).
std::unique_ptr<DevicePlan> compile_plan(const Graph& graph, const Bindings& bindings, const Kernels& kernels,
                                         int n_threads, int n_helpers, const CompileOptions& options = {});

/// What such a plan takes.
PlanMemory plan_memory(const Graph& graph, int n_threads, int n_helpers, const CompileOptions& options);

}  // namespace weft::cpu
