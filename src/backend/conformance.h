#pragma once
// Whether a device computes what the op table says: each op, with each type and with shapes that go wrong
// easily, against plain sums in double over what the codecs unpack. The truth is written here and shares no
// code with any backend.
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/device.h"

namespace weft {

struct ConformanceCase {
  std::string op;    ///< As the op table names it.
  std::string what;  ///< Types and shapes.
  bool supported = true;
  double error = 0.0;      ///< sqrt(sum (x - truth)^2 / sum truth^2), over all outputs; infinite for NaN.
  double tolerance = 0.0;  ///< That of the op: room for other orders of summation and, where a type is
                           ///< quantised, for activations of eight bits.
  bool passed() const { return !supported || error <= tolerance; }
};

struct ConformanceOptions {
  std::string only;  ///< Cases of this op; empty: of all.
  std::uint64_t seed = 1;
  std::function<void(const ConformanceCase&)> progress;  ///< After each case.
};

/// Runs all cases, one after another. Throws what the device throws.
std::vector<ConformanceCase> check_conformance(Device& device, const ConformanceOptions& options = {});

}  // namespace weft
