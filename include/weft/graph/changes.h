// Since 0.1
#pragma once
// What a step of a plan may change, and the counters of a plan.
#include <cstdint>

#pragma GCC visibility push(default)

namespace weft {

/// What a step may change, or has changed, compared with the step before.
struct Changes {
  bool shapes = false;  ///< Values of symbols.
  /// Weights, states, inputs or outputs are bound to other memory of the same type and shape.
  bool tensors = false;
  bool topology = false;  ///< Another graph.
};

struct PlanCounters {
  std::int64_t compiled = 0;         ///< Compiled graphs.
  std::int64_t splits_compiled = 0;  ///< Compiled splits. A new graph reuses splits that did not change.
  std::int64_t steps = 0;
  /// Steps that changed only values. The next three count steps by their largest change.
  std::int64_t unchanged = 0;
  std::int64_t shapes = 0;
  std::int64_t tensors = 0;
  std::int64_t topology = 0;
  std::int64_t copies = 0;        ///< Copies of values between devices.
  std::int64_t copied_bytes = 0;  ///< The bytes of these copies.
  /// How often the host waited for a split before it could submit the step's next one.
  std::int64_t waits = 0;
};

}  // namespace weft

#pragma GCC visibility pop
