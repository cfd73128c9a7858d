#pragma once
// How fast devices and this machine are, measured.
#include <string>

#include "weft/device.h"
#include "weft/dtype.h"
#include "weft/model.h"
#include "weft/profile.h"

#pragma GCC visibility push(default)

namespace weft {

/// Opens the device and measures it, in a fraction of a second. For display: placement uses
/// DeviceInfo::speed, which does not change between starts. Throws Error.
DeviceSpeed measure(const Registry& registry, const std::string& device);

/// The peak speeds of this machine, measured in about a second.
struct MachineLimits {
  int n_threads = 0;
  std::string kernels = {};  ///< The instruction set whose dot product was measured.
  /// Sequential reads, each thread in its own part of 256 MiB: the fastest of several passes.
  double read_bytes_per_second = 0.0;
  /// The peak of the kernels' instructions, with all operands in registers.
  MultiplyAdds multiply_adds_per_second = {};

  /// The time below which work cannot be done: the larger of its bytes and its products at these speeds.
  double least_seconds(double bytes, const MultiplyAdds& multiply_adds) const;
};
/// n_threads 0: the number of cores. Throws Error kUnsupported for an instruction set that is not there,
/// kOutOfMemory.
MachineLimits measure_limits(int n_threads = 0, CpuIsa isa = CpuIsa::kBest);

/// Multiply-adds per second of all threads in products with weights of this type whose operands the nearest
/// caches hold: the ceiling of the loop that multiplies. It is below the peak, as kernels also multiply
/// scales and unpack codes. Throws as measure_limits, kUnsupported also for types that no weights have.
double measure_products(DType weights, int n_threads = 0, CpuIsa isa = CpuIsa::kBest);

}  // namespace weft

#pragma GCC visibility pop
