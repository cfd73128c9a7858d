// Since 0.1
#pragma once
// Conformance tests of a device: they compare each op, for each type and for difficult shapes, with reference
// results in double precision. The reference shares no code with any backend. `weft test-backend` runs the
// tests.
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
  std::string op = {};    ///< Its name in the op table (weft/graph/op.h).
  std::string what = {};  ///< Types and shapes.
  bool supported = true;
  /// The relative error sqrt(sum (x - reference)^2 / sum reference^2) over all outputs; infinite for NaN. For
  /// sums that cancel it is relative to the typical size of such sums.
  double error = 0.0;
  /// The largest error that passes. It allows for other orders of summation and, with quantised weights, for
  /// activations in int8.
  double tolerance = 0.0;
  bool passed() const { return !supported || error <= tolerance; }
};

struct ConformanceOptions {
  std::string only = {};  ///< Run cases of this op only. Empty: all ops.
  std::uint64_t seed = 1;
  std::function<void(const ConformanceCase&)> progress = {};  ///< Called after each case.
  int every = 1;                                              ///< Run every n-th case only, to save time.
};

/// The names of all ops.
std::vector<std::string> op_names();

/// Opens a device by its name in Registry::devices and runs all cases, one after another. Throws Error
/// kNotFound for an unknown device or op, and errors of the device.
std::vector<ConformanceCase> check_conformance(const Registry& registry, const std::string& device,
                                               const ConformanceOptions& options = {});

/// The same on an open device.
std::vector<ConformanceCase> check_conformance(Device& device, const ConformanceOptions& options = {});

/// The cases of one op.
struct ConformanceRow {
  std::string op = {};
  int n_cases = 0, n_unsupported = 0, n_failed = 0;
  ConformanceCase worst = {};  ///< The case with the largest error relative to its tolerance.
};
/// Summarises cases by op, in the order of their first cases.
std::vector<ConformanceRow> by_op(std::span<const ConformanceCase> cases);
/// A table with one line per op, and the cases that failed.
std::string to_table(std::span<const ConformanceCase> cases);

}  // namespace weft

#pragma GCC visibility pop
