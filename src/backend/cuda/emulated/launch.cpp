#include "backend/cuda/launch.h"

#include "backend/cuda/kernels/all.h"

namespace weft::cuda {

int launch_kernel(gpu::Kernel kernel, const Arguments& arguments, Index3 groups, void* /*stream*/) {
  const emulation::Index grid = {groups.x, groups.y, groups.z};
  const uint* const c = arguments.constants;
#define KERNEL(name, holds, function, n_threads)                   \
  if (kernel == gpu::Kernel::name && (holds)) {                    \
    emulation::run([&] { function(arguments); }, grid, n_threads); \
    return 0;                                                      \
  }
#include "backend/cuda/kernels/list.inc"
#undef KERNEL
  return 98;  // cudaErrorInvalidDeviceFunction.
}

}  // namespace weft::cuda
