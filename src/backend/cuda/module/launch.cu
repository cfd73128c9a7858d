#include <cuda_runtime_api.h>

#include "backend/cuda/kernels/all.h"
#include "backend/cuda/launch.h"

namespace weft::cuda {

int launch_kernel(gpu::Kernel kernel, const Arguments& arguments, Index3 groups, void* stream) {
  const dim3 grid(groups.x, groups.y, groups.z);
  switch (kernel) {
#define KERNEL(name, function, threads)                                           \
  case gpu::Kernel::name:                                                         \
    function<<<grid, threads, 0, static_cast<cudaStream_t>(stream)>>>(arguments); \
    break;
#include "backend/cuda/kernels/list.inc"
#undef KERNEL
    default:
      return cudaErrorInvalidDeviceFunction;
  }
  return cudaGetLastError();
}

}  // namespace weft::cuda
