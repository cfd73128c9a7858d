// Since 0.1
#pragma once
// The changes that a step of a plan may make, and a plan's counters.
#include <cstdint>

#pragma GCC visibility push(default)

namespace weft {

/// The changes that a step may make, or has made, compared with the step before.
struct Changes {
  bool shapes = false;    ///< Values of symbols.
  bool tensors = false;   ///< An external tensor is bound to other memory of the same type and shape.
  bool topology = false;  ///< Another graph.
};

struct PlanCounters {
  std::int64_t compiled = 0;         ///< Graphs ...
  std::int64_t splits_compiled = 0;  ///< ... and their splits; unchanged splits of a new graph are reused.
  std::int64_t steps = 0;
  std::int64_t unchanged = 0;  ///< Steps by their largest change.
  std::int64_t shapes = 0;
  std::int64_t tensors = 0;
  std::int64_t topology = 0;
  std::int64_t copies = 0;        ///< Values copied between devices ...
  std::int64_t copied_bytes = 0;  ///< ... and their bytes.
  std::int64_t waits = 0;         ///< For a split, while others of its step were still to be submitted.
};

}  // namespace weft

#pragma GCC visibility pop
