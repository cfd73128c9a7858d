#include "backend/cuda/runtime.h"

#include <cuda_runtime_api.h>

#include <filesystem>
#include <thread>

#include "backend/cuda/arguments.h"
#include "base/hex.h"
#include "weft/error.h"

namespace weft::cuda {
namespace {

void check(int result, const char* what) {
  if (result == cudaSuccess) return;
  cudaGetLastError();  // Else the next launch of a kernel reports this error again.
  const auto error = static_cast<cudaError_t>(result);
  const bool memory = error == cudaErrorMemoryAllocation;
  throw Error(memory ? ErrorCode::kOutOfMemory : ErrorCode::kDevice,
              std::string("CUDA: ") + what + ": " + cudaGetErrorString(error));
}

/// Of GPUs that can run the kernels: the first that multiply matrices of bytes in the form of multiply32.
constexpr int kLeastCapability = 8;
std::string too_old(const cudaDeviceProp& gpu) {
  return "CUDA: " + std::string(gpu.name) + " has compute capability " + std::to_string(gpu.major) + "." +
         std::to_string(gpu.minor) + ", and weft needs " + std::to_string(kLeastCapability) + ".0 or later";
}

/// The GPU of this thread's calls, until the end of the scope: the program's own calls keep theirs.
class OnGpu {
 public:
  explicit OnGpu(int gpu) {
    check(cudaGetDevice(&before_), "asking for the GPU in use");
    check(cudaSetDevice(gpu), "choosing a GPU");
  }
  ~OnGpu() { cudaSetDevice(before_); }
  OnGpu(const OnGpu&) = delete;
  OnGpu& operator=(const OnGpu&) = delete;

 private:
  int before_ = 0;
};

class CudaEvent final : public Event {
 public:
  CudaEvent(int device, cudaStream_t stream) : device_(device), stream_(stream) {
    const OnGpu on(device_);
    check(cudaEventCreateWithFlags(&event_, cudaEventBlockingSync), "making an event");
  }
  ~CudaEvent() override { cudaEventDestroy(event_); }
  void record() override {
    const OnGpu on(device_);
    check(cudaEventRecord(event_, stream_), "ending a step");
  }
  bool wait_for(std::chrono::nanoseconds timeout) override {
    const OnGpu on(device_);
    if (timeout == std::chrono::nanoseconds::max()) {
      check(cudaEventSynchronize(event_), "waiting for a step");
      return true;
    }
    // Short steps end while the thread looks again and again. It sleeps between its looks at long ones.
    constexpr std::chrono::microseconds kBusy{100}, kSleep{20};
    const auto begin = std::chrono::steady_clock::now();
    for (;;) {
      const cudaError_t state = cudaEventQuery(event_);
      if (state != cudaErrorNotReady) {
        check(state, "waiting for a step");
        return true;
      }
      const auto waited = std::chrono::steady_clock::now() - begin;
      if (waited >= timeout) return false;
      if (waited >= kBusy)
        std::this_thread::sleep_for(kSleep);
      else
        std::this_thread::yield();
    }
  }
  double seconds_since(const Event& earlier) const override {
    float milliseconds = 0.0f;
    check(cudaEventElapsedTime(&milliseconds, dynamic_cast<const CudaEvent&>(earlier).event_, event_),
          "measuring a step");
    return static_cast<double>(milliseconds) * 1e-3;
  }

 private:
  int device_;
  cudaStream_t stream_;
  cudaEvent_t event_ = nullptr;
};

struct CudaGraph final : LaunchGraph {
  CudaGraph() = default;
  ~CudaGraph() override {
    if (graph != nullptr) cudaGraphExecDestroy(graph);
  }
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;
  cudaGraphExec_t graph = nullptr;
};

class CudaRuntime final : public Runtime {
 public:
  explicit CudaRuntime(int device) : device_(device) {
    const OnGpu on(device_);
    cudaDeviceProp found = {};
    check(cudaGetDeviceProperties(&found, device), "reading a GPU's properties");
    if (found.major < kLeastCapability) throw Error(ErrorCode::kDevice, too_old(found));
    properties_.name = found.name;
    properties_.features = "compute " + std::to_string(found.major) + "." + std::to_string(found.minor) +
                           ", " + std::to_string(found.multiProcessorCount) + " multiprocessors";
    properties_.uuid =
        base::to_hex({reinterpret_cast<const std::uint8_t*>(found.uuid.bytes), sizeof found.uuid.bytes});
    properties_.memory_total = found.totalGlobalMem;
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a stream");
    check(cudaStreamCreateWithFlags(&copies_, cudaStreamNonBlocking), "making a stream");
  }
  ~CudaRuntime() override {
    cudaStreamSynchronize(stream_);
    cudaStreamDestroy(stream_);
    cudaStreamDestroy(copies_);
  }
  CudaRuntime(const CudaRuntime&) = delete;
  CudaRuntime& operator=(const CudaRuntime&) = delete;

  const GpuProperties& properties() const override { return properties_; }
  std::uint64_t memory_free() const override {
    const OnGpu on(device_);
    std::size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total), "asking for free memory");
    return free;
  }
  std::uint64_t allocate(Place place, std::size_t bytes) override {
    const OnGpu on(device_);
    void* memory = nullptr;
    const std::size_t n = bytes > 0 ? bytes : 1;
    if (place == Place::kDevice) {
      check(cudaMalloc(&memory, n), "taking memory of the GPU");
    } else {
      check(cudaHostAlloc(&memory, n, cudaHostAllocPortable | cudaHostAllocMapped), "taking pinned memory");
    }
    return reinterpret_cast<std::uint64_t>(memory);
  }
  void free(Place place, std::uint64_t address) noexcept override {
    // Addresses say which GPU they are of.
    void* const memory = reinterpret_cast<void*>(address);
    place == Place::kDevice ? cudaFree(memory) : cudaFreeHost(memory);
  }
  void write(std::uint64_t to, std::span<const std::byte> bytes) override {
    const OnGpu on(device_);
    check(cudaMemcpyAsync(reinterpret_cast<void*>(to), bytes.data(), bytes.size(), cudaMemcpyHostToDevice,
                          copies_),
          "copying to the GPU");
    check(cudaStreamSynchronize(copies_), "copying to the GPU");
  }
  void read(std::uint64_t from, std::span<std::byte> bytes) override {
    const OnGpu on(device_);
    check(cudaMemcpyAsync(bytes.data(), reinterpret_cast<const void*>(from), bytes.size(),
                          cudaMemcpyDeviceToHost, copies_),
          "copying from the GPU");
    check(cudaStreamSynchronize(copies_), "copying from the GPU");
  }
  void clear(std::uint64_t at, std::size_t bytes) override {
    const OnGpu on(device_);
    check(cudaMemsetAsync(reinterpret_cast<void*>(at), 0, bytes, copies_), "clearing memory");
    check(cudaStreamSynchronize(copies_), "clearing memory");
  }
  void copy_in_order(std::uint64_t to, std::span<const std::byte> bytes) override {
    const OnGpu on(device_);
    check(cudaMemcpyAsync(reinterpret_cast<void*>(to), bytes.data(), bytes.size(), cudaMemcpyHostToDevice,
                          stream_),
          "beginning a step");
  }
  void launch(const GridLaunch& one) override {
    const OnGpu on(device_);
    add(one, stream_);
  }
  void launch(const LaunchGraph& graph) override {
    const OnGpu on(device_);
    check(cudaGraphLaunch(dynamic_cast<const CudaGraph&>(graph).graph, stream_), "starting a step");
  }
  /// By a stream of its own, so that it can be made while a step runs.
  std::unique_ptr<LaunchGraph> make_graph(std::span<const GridLaunch> launches) override {
    const OnGpu on(device_);
    cudaGraph_t recorded = nullptr;
    cudaStream_t recorder = nullptr;
    auto graph = std::make_unique<CudaGraph>();
    check(cudaStreamCreateWithFlags(&recorder, cudaStreamNonBlocking), "making a stream");
    try {
      check(cudaStreamBeginCapture(recorder, cudaStreamCaptureModeThreadLocal), "recording a step");
      for (const GridLaunch& one : launches) add(one, recorder);
      check(cudaStreamEndCapture(recorder, &recorded), "recording a step");
      check(cudaGraphInstantiate(&graph->graph, recorded, 0), "recording a step");
    } catch (...) {
      if (recorded == nullptr) cudaStreamEndCapture(recorder, &recorded);
      if (recorded != nullptr) cudaGraphDestroy(recorded);
      cudaStreamDestroy(recorder);
      throw;
    }
    cudaGraphDestroy(recorded);
    cudaStreamDestroy(recorder);
    return graph;
  }
  std::unique_ptr<Event> make_event() override { return std::make_unique<CudaEvent>(device_, stream_); }
  void wait_idle() noexcept override { cudaStreamSynchronize(stream_); }

 private:
  static void add(const GridLaunch& one, cudaStream_t stream) {
    const Index3 grid = {one.grid[0], one.grid[1], one.grid[2]};
    check(launch_kernel(one.launch->kernel, arguments_of(*one.launch), grid, stream),
          gpu::name(one.launch->kernel));
  }
  int device_;
  GpuProperties properties_;
  cudaStream_t stream_ = nullptr;
  cudaStream_t copies_ = nullptr;  // Beside steps.
};

}  // namespace

std::vector<std::shared_ptr<Runtime>> open_gpus() {
  std::vector<std::shared_ptr<Runtime>> gpus;
  int n = 0;
  if (cudaGetDeviceCount(&n) != cudaSuccess) n = 0;  // Also without a driver.
  for (int device = 0; device < n; ++device) {
    try {
      gpus.push_back(std::make_shared<CudaRuntime>(device));
    } catch (const Error&) {
      // Listed by its driver, but not to be had: as if it were not there.
    }
  }
  return gpus;
}

bool system_shows_gpu() {
  std::error_code none;
  for (const char* const path :
       {"/proc/driver/nvidia", "/dev/nvidiactl", "/dev/nvgpu", "/dev/nvhost-gpu", "/dev/dxg"})
    if (std::filesystem::exists(path, none)) return true;
  return false;
}

std::string gpu_problem() {
  if (!system_shows_gpu()) return {};
  int n = 0, driver = 0;
  const cudaError_t result = cudaGetDeviceCount(&n);
  if (result == cudaSuccess && n > 0) {
    std::string old;
    for (int device = 0; device < n; ++device) {
      cudaDeviceProp found = {};
      if (cudaGetDeviceProperties(&found, device) != cudaSuccess) continue;
      if (found.major >= kLeastCapability) return {};
      old = too_old(found);
    }
    return old;
  }
  cudaDriverGetVersion(&driver);
  const auto version = [](int number) {
    return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10);
  };
  std::string text = "CUDA finds no GPU: ";
  text += result == cudaSuccess ? "the driver lists none" : cudaGetErrorString(result);
  if (driver == 0)
    return text + "; the driver (libcuda.so.1) is not there: in a container, run it with --gpus all";
  return text + "; the driver knows CUDA " + version(driver) + ", and this module needs " +
         version(CUDART_VERSION) + " or later of the same major version";
}

}  // namespace weft::cuda
