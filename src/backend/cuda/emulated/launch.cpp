#include "backend/cuda/launch.h"

#include "backend/cuda/kernels/all.h"

namespace weft::cuda {

int launch_kernel(gpu::Kernel kernel, const Arguments& arguments, Index3 groups, void* /*stream*/) {
  const emulation::Index grid = {groups.x, groups.y, groups.z};
  switch (kernel) {
#define KERNEL(name, function, threads)                          \
  case gpu::Kernel::name:                                        \
    emulation::run([&] { function(arguments); }, grid, threads); \
    break;
#include "backend/cuda/kernels/list.inc"
#undef KERNEL
    default:
      return 98;  // cudaErrorInvalidDeviceFunction.
  }
  return 0;
}

}  // namespace weft::cuda
