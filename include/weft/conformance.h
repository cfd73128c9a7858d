// Since 0.1
#pragma once
// Conformance tests of a device: each op, with each type and with difficult shapes, is compared with plain
// sums in double. `weft test-backend` runs them. To write a backend, start here. The reference shares no code
// with any backend.
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "weft/device.h"

#pragma GCC visibility push(default)

namespace weft {

class Device;  // weft/backend.h

struct ConformanceCase {
  std::string op = {};    ///< As the op table names it.
  std::string what = {};  ///< Types and shapes.
  bool supported = true;
  /// sqrt(sum (x - truth)^2 / sum truth^2), over all outputs; infinite for NaN. For sums that cancel,
  /// relative to the typical size of such sums.
  double error = 0.0;
  /// The op's tolerance. It allows other orders of summation and, for quantised types, eight-bit activations.
  double tolerance = 0.0;
  bool passed() const { return !supported || error <= tolerance; }
};

struct ConformanceOptions {
  std::string only = {};  ///< Cases of this op; empty: of all.
  std::uint64_t seed = 1;
  std::function<void(const ConformanceCase&)> progress = {};  ///< After each case.
  int every = 1;  ///< Only each n-th case is run, where there is less time.
};

/// All ops there are.
std::vector<std::string> op_names();

/// Opens a device by its listed name and runs all cases, one after another. Throws Error kNotFound for an
/// unknown device or op, and errors of the device.
std::vector<ConformanceCase> check_conformance(const Registry& registry, const std::string& device,
                                               const ConformanceOptions& options = {});

/// The same on a device that is open already.
std::vector<ConformanceCase> check_conformance(Device& device, const ConformanceOptions& options = {});

/// The cases of one op.
struct ConformanceRow {
  std::string op = {};
  int n_cases = 0, n_unsupported = 0, n_failed = 0;
  ConformanceCase worst = {};  ///< Nearest to its tolerance, or farthest past it.
};
/// In the order in which the ops came.
std::vector<ConformanceRow> by_op(std::span<const ConformanceCase> cases);
/// A line a row and one of headings, and the cases that failed.
std::string to_table(std::span<const ConformanceCase> cases);

}  // namespace weft

#pragma GCC visibility pop
