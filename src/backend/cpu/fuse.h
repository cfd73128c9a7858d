#pragma once
// From nodes to launches: related nodes are fused, independent launches share a phase.
#include "backend/cpu/program.h"

namespace weft::cpu {

/// For plans of at most `n_threads` threads. The graph must outlive the program.
Program fuse(const Graph& graph, int n_threads);

}  // namespace weft::cpu
