#include <cuda_runtime_api.h>

#include "backend/cuda/kernels/all.h"
#include "backend/cuda/launch.h"

namespace weft::cuda {

int launch_kernel(gpu::Kernel kernel, const Arguments& arguments, Index3 groups, void* stream) {
  const dim3 grid(groups.x, groups.y, groups.z);
  const uint* const c = arguments.constants;
#define KERNEL(name, holds, function, n_threads)                                    \
  if (kernel == gpu::Kernel::name && (holds)) {                                     \
    function<<<grid, n_threads, 0, static_cast<cudaStream_t>(stream)>>>(arguments); \
    return cudaGetLastError();                                                      \
  }
#include "backend/cuda/kernels/list.inc"
#undef KERNEL
  return cudaErrorInvalidDeviceFunction;
}

}  // namespace weft::cuda
