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

class CudaEvent final : public Event {
 public:
  CudaEvent(int device, cudaStream_t stream) : device_(device), stream_(stream) {
    check(cudaSetDevice(device_), "choosing a GPU");
    check(cudaEventCreate(&event_), "making an event");
  }
  ~CudaEvent() override { cudaEventDestroy(event_); }
  void record() override {
    check(cudaSetDevice(device_), "choosing a GPU");
    check(cudaEventRecord(event_, stream_), "ending a step");
  }
  bool wait_for(std::chrono::nanoseconds timeout) override {
    check(cudaSetDevice(device_), "choosing a GPU");
    if (timeout == std::chrono::nanoseconds::max()) {
      check(cudaEventSynchronize(event_), "waiting for a step");
      return true;
    }
    const auto end = std::chrono::steady_clock::now() + timeout;
    for (;;) {
      const cudaError_t state = cudaEventQuery(event_);
      if (state != cudaErrorNotReady) {
        check(state, "waiting for a step");
        return true;
      }
      if (std::chrono::steady_clock::now() >= end) return false;
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
    use();
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
    wait_idle();
    cudaStreamDestroy(stream_);
    cudaStreamDestroy(copies_);
  }
  CudaRuntime(const CudaRuntime&) = delete;
  CudaRuntime& operator=(const CudaRuntime&) = delete;

  const GpuProperties& properties() const override { return properties_; }
  std::uint64_t memory_free() const override {
    use();
    std::size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total), "asking for free memory");
    return free;
  }
  std::uint64_t allocate(Place place, std::size_t bytes) override {
    use();
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
    cudaSetDevice(device_);
    void* const memory = reinterpret_cast<void*>(address);
    place == Place::kDevice ? cudaFree(memory) : cudaFreeHost(memory);
  }
  void write(std::uint64_t to, std::span<const std::byte> bytes) override {
    use();
    check(cudaMemcpyAsync(reinterpret_cast<void*>(to), bytes.data(), bytes.size(), cudaMemcpyHostToDevice,
                          copies_),
          "copying to the GPU");
    check(cudaStreamSynchronize(copies_), "copying to the GPU");
  }
  void read(std::uint64_t from, std::span<std::byte> bytes) override {
    use();
    check(cudaMemcpyAsync(bytes.data(), reinterpret_cast<const void*>(from), bytes.size(),
                          cudaMemcpyDeviceToHost, copies_),
          "copying from the GPU");
    check(cudaStreamSynchronize(copies_), "copying from the GPU");
  }
  void clear(std::uint64_t at, std::size_t bytes) override {
    use();
    check(cudaMemsetAsync(reinterpret_cast<void*>(at), 0, bytes, copies_), "clearing memory");
    check(cudaStreamSynchronize(copies_), "clearing memory");
  }
  void copy_in_order(std::uint64_t to, std::span<const std::byte> bytes) override {
    use();
    check(cudaMemcpyAsync(reinterpret_cast<void*>(to), bytes.data(), bytes.size(), cudaMemcpyHostToDevice,
                          stream_),
          "beginning a step");
  }
  void launch(const GridLaunch& one) override {
    use();
    add(one, stream_);
  }
  void launch(const LaunchGraph& graph) override {
    use();
    check(cudaGraphLaunch(dynamic_cast<const CudaGraph&>(graph).graph, stream_), "starting a step");
  }
  /// By a stream of its own, so that it can be made while a step runs.
  std::unique_ptr<LaunchGraph> make_graph(std::span<const GridLaunch> launches) override {
    use();
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
  void wait_idle() noexcept override {
    cudaSetDevice(device_);
    cudaStreamSynchronize(stream_);
  }

 private:
  static void add(const GridLaunch& one, cudaStream_t stream) {
    const Index3 grid = {one.grid[0], one.grid[1], one.grid[2]};
    check(launch_kernel(one.launch->kernel, arguments_of(*one.launch), grid, stream),
          gpu::name(one.launch->kernel));
  }
  void use() const { check(cudaSetDevice(device_), "choosing a GPU"); }

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
