#pragma once
// Measures the speed of devices and of this machine.
#include <string>

#include "weft/device.h"
#include "weft/dtype.h"
#include "weft/model.h"
#include "weft/profile.h"

#pragma GCC visibility push(default)

namespace weft {

/// Opens a device and measures it, in a fraction of a second. For display only: placement uses
/// DeviceInfo::speed, so that it is the same at each start. Throws Error.
DeviceSpeed measure(const Registry& registry, const std::string& device);

/// The measured peak speeds of this machine.
struct MachineLimits {
  int n_threads = 0;
  std::string kernels = {};  ///< The instruction set that was measured.
  /// Bytes per second of sequential reads by all threads, each in its own part of 256 MiB. The fastest of
  /// several passes.
  double read_bytes_per_second = 0.0;
  /// The peak of the instructions that kernels use, with all operands in registers.
  MultiplyAdds multiply_adds_per_second = {};

  /// The roofline bound of work: the larger of the time to read its bytes and the time of its multiply-adds.
  double least_seconds(double bytes, const MultiplyAdds& multiply_adds) const;
};
/// Measures for about a second. n_threads 0: the number of cores. Throws Error kUnsupported for an
/// instruction set that this machine lacks, and kOutOfMemory.
MachineLimits measure_limits(int n_threads = 0, CpuIsa isa = CpuIsa::kBest);

/// Measures the inner loop of matrix products with weights of this type: multiply-adds per second of all
/// threads, with operands in the nearest cache. It is below the peak, as kernels also unpack codes and
/// multiply scales. Throws like measure_limits(), and kUnsupported for types that weights do not have.
double measure_products(DType weights, int n_threads = 0, CpuIsa isa = CpuIsa::kBest);

}  // namespace weft

#pragma GCC visibility pop
