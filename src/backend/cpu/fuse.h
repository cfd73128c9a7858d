#pragma once
// From nodes to launches: what belongs together is fused, what does not depend on each other shares a phase.
#include "backend/cpu/program.h"

namespace weft::cpu {

/// For plans of at most so many threads. The graph must outlive the program.
Program fuse(const Graph& graph, int n_threads);

}  // namespace weft::cpu
