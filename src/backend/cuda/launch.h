#pragma once
// Starts kernels. Compiled by nvcc for GPUs (module/launch.cu), and by the C++ compiler for the emulation
// (emulated/launch.cpp). C++17.
#include "backend/cuda/kernels/call.h"
#include "backend/gpu/push.h"

namespace weft::cuda {

/// Adds a launch to a stream (cudaStream_t; the emulation has none and runs it at once). Returns the
/// cudaError_t.
int launch_kernel(gpu::Kernel kernel, const Arguments& arguments, Index3 groups, void* stream);

}  // namespace weft::cuda
