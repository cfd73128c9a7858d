#pragma once
// The CPU as a device.
#include <memory>
#include <string>

#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/layout/packed_cache.h"
#include "weft/backend/registry.h"

namespace weft::cpu {

struct CpuOptions {
  Isa isa = best_isa();
  std::string name = "cpu";
  int n_threads = 0;  ///< For loading, and for plans that don't say. 0: base::default_threads().
  /// Weights are packed for the kernels. Without, plans pack each panel when they need it, into memory of the
  /// thread: no second copy of the model, the same results, and much slower.
  bool repack = true;
  /// Where packed weights are kept between starts, or null.
  std::shared_ptr<PackedCache> packed_cache = nullptr;
};

/// Throws Error kUnsupported for an instruction set that this machine lacks.
std::shared_ptr<Device> make_device(const CpuOptions& options = {});

/// The CPU for a registry; features are the names of instruction sets.
Backend backend();

}  // namespace weft::cpu
