#pragma once
// A GPU, opened: its memory and its one stream of work. Nothing here knows tensors or graphs. One
// implementation calls CUDA (module/runtime.cpp), one emulates it on the CPU (emulated/runtime.cpp).
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/gpu/launches.h"
#include "backend/gpu/memory.h"

namespace weft::cuda {

using gpu::Place;

struct GpuProperties {
  std::string name;
  std::string features;  ///< For display: "compute 8.9, 128 multiprocessors".
  std::string uuid;      ///< DeviceInfo::uuid.
  std::uint64_t memory_total = 0;
  bool is_emulated = false;
};

/// A place in the stream.
class Event {
 public:
  virtual ~Event() = default;
  /// All work that was added to the stream so far.
  virtual void record() = 0;
  /// Whether that work is done; waits at most this long. Throws Error kDevice if it failed.
  virtual bool wait_for(std::chrono::nanoseconds timeout) = 0;
  /// Seconds of the GPU between two events that are done.
  virtual double seconds_since(const Event& earlier) const = 0;
};

/// A launch with the grid that it is started with, which may be larger than the groups of a step.
struct GridLaunch {
  const gpu::Launch* launch = nullptr;
  gpu::Groups grid = {};
};
/// Launches in a row, prepared so that starting all of them costs as much as starting one.
class LaunchGraph {
 public:
  virtual ~LaunchGraph() = default;
};

/// Any thread may call any member. Addresses are the kernels'. Members throw Error kOutOfMemory and kDevice.
class Runtime {
 public:
  virtual ~Runtime() = default;
  virtual const GpuProperties& properties() const = 0;
  virtual std::uint64_t memory_free() const = 0;
  /// At least one byte, aligned to 256.
  virtual std::uint64_t allocate(Place place, std::size_t bytes) = 0;
  virtual void free(Place place, std::uint64_t address) noexcept = 0;

  // Not in the stream, and done when they return. The caller waits for steps that use the memory.
  virtual void write(std::uint64_t to, std::span<const std::byte> bytes) = 0;
  virtual void read(std::uint64_t from, std::span<std::byte> bytes) = 0;
  virtual void clear(std::uint64_t at, std::size_t bytes) = 0;

  // Added to the stream.
  /// `bytes` are in memory of Place::kHost, and stay until the copy is done.
  virtual void copy_in_order(std::uint64_t to, std::span<const std::byte> bytes) = 0;
  virtual void launch(const GridLaunch& one) = 0;
  virtual void launch(const LaunchGraph& graph) = 0;
  virtual std::unique_ptr<Event> make_event() = 0;
  virtual std::unique_ptr<LaunchGraph> make_graph(std::span<const GridLaunch> launches) = 0;
  /// Waits for the whole stream.
  virtual void wait_idle() noexcept = 0;
};

/// The GPUs of this machine, or none without a driver.
std::vector<std::shared_ptr<Runtime>> open_gpus();
/// Whether the system shows a GPU of NVIDIA. Fast: no driver is loaded.
bool system_shows_gpu();
/// Why open_gpus() finds no GPU though the system shows one; empty if it finds one.
std::string gpu_problem();
/// A GPU that computes on the CPU, slowly, to test kernels.
std::shared_ptr<Runtime> open_emulated();

/// Memory of a runtime. Place::kHost is pinned, and the host and kernels reach it at the same address.
class Buffer final : public gpu::Buffer {
 public:
  Buffer(std::shared_ptr<Runtime> runtime, Place place, std::size_t bytes)
      : runtime_(std::move(runtime)),
        place_(place),
        size_(bytes),
        address_(runtime_->allocate(place, bytes)) {}
  ~Buffer() override { runtime_->free(place_, address_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  std::uint64_t address() const override { return address_; }
  std::size_t size() const { return size_; }
  std::byte* mapped() const override {
    return place_ == Place::kHost ? reinterpret_cast<std::byte*>(address_) : nullptr;
  }
  void write(std::size_t offset, std::span<const std::byte> bytes) override {
    runtime_->write(address_ + offset, bytes);
  }
  void read(std::size_t offset, std::span<std::byte> bytes) const override {
    runtime_->read(address_ + offset, bytes);
  }
  void clear() override { runtime_->clear(address_, size_); }

 private:
  std::shared_ptr<Runtime> runtime_;
  Place place_;
  std::size_t size_;
  std::uint64_t address_;
};

}  // namespace weft::cuda
