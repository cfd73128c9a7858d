#include <cuda_runtime_api.h>

#include "backend/cuda/kernels/all.h"
#include "backend/cuda/launch.h"

namespace weft::cuda {

int launch_kernel(gpu::Kernel kernel, const Arguments& arguments, Index3 groups, void* stream) {
  const dim3 grid(groups.x, groups.y, groups.z);
  const uint* const c = arguments.constants;
  void* values[] = {const_cast<Arguments*>(&arguments)};
  // cudaGetLastError() after <<<>>> would also return errors of earlier calls, such as an allocation that did
  // not fit. This call returns its own error only.
#define KERNEL(name, holds, function, n_threads)                                                        \
  if (kernel == gpu::Kernel::name && (holds))                                                           \
    return cudaLaunchKernel(reinterpret_cast<const void*>(&function), grid, dim3(n_threads), values, 0, \
                            static_cast<cudaStream_t>(stream));
#include "backend/cuda/kernels/list.inc"
#undef KERNEL
  return cudaErrorInvalidDeviceFunction;
}

}  // namespace weft::cuda
