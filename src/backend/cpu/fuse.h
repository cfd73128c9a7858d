#pragma once
// From nodes to launches: what belongs together is fused, what does not depend on each other shares a phase.
#include <memory>
#include <vector>

#include "backend/cpu/launch.h"

namespace weft::cpu {

/// When a form of a value is alive, in phases. first < 0: the form is not used.
struct FormLife {
  int first = -1;
  int last = -1;
  bool used() const { return first >= 0; }
};

struct Program {
  struct Entry {
    std::unique_ptr<Launch> launch;
    int phase = 0;
  };
  std::vector<Entry> launches;  ///< In order of phases.
  int n_phases = 0;
  std::vector<ByForm<FormLife>> lives;  ///< By ValueId: what lies in memory.
};

/// For plans of at most so many threads. The graph must outlive the program.
Program fuse(const Graph& graph, int n_threads);

}  // namespace weft::cpu
