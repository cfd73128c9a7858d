#pragma once
// A Vulkan device, opened: its queue, its memory and its limits. Nothing here knows tensors or graphs.
#include <vulkan/vulkan.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "backend/gpu/memory.h"
#include "backend/gpu/sizes.h"
#include "backend/vulkan/abilities.h"

namespace weft::vulkan {

/// Throws Error kOutOfMemory or kDevice that says what failed.
void check(VkResult result, const char* what);

/// Shared by the devices that it lists; null where there is no Vulkan at all.
class Instance {
 public:
  static std::shared_ptr<Instance> make();
  ~Instance();
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;
  std::vector<VkPhysicalDevice> physical_devices() const;
  VkInstance handle() const { return handle_; }

 private:
  explicit Instance(VkInstance handle) : handle_(handle) {}
  VkInstance handle_;
};

using gpu::Place;

class Gpu;

class Buffer final : public gpu::Buffer {
 public:
  Buffer(Gpu& gpu, Place place, std::size_t bytes);
  ~Buffer() override;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  VkBuffer handle() const { return handle_; }
  std::uint64_t address() const override { return address_; }
  std::size_t size() const { return size_; }
  std::byte* mapped() const override { return mapped_; }

  /// Copies go through mapped memory or a staging buffer. The host reads mapped memory that it does not cache
  /// a word at a time, so that is read through a staging buffer, too.
  void write(std::size_t offset, std::span<const std::byte> bytes) override;
  void read(std::size_t offset, std::span<std::byte> bytes) const override;
  void clear() override;

 private:
  Gpu& gpu_;
  std::size_t size_;
  VkBuffer handle_ = VK_NULL_HANDLE;
  VkDeviceMemory memory_ = VK_NULL_HANDLE;
  VkDeviceAddress address_ = 0;
  std::byte* mapped_ = nullptr;
  bool cached_ = false;  // What is mapped, by the host.
};

/// Thread-safe.
class Gpu {
 public:
  /// `staging`: behaves as if the host could not map the device's memory. `used`: what the device may have.
  /// `statistics`: asks for what Pipelines::statistics tells.
  Gpu(std::shared_ptr<Instance> instance, VkPhysicalDevice physical, bool staging, const Abilities& used,
      bool statistics);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  /// Whether weft can use it: Vulkan 1.2 with buffer addresses and 64-bit integers, and a compute queue.
  static bool usable(VkPhysicalDevice physical);

  VkDevice handle() const { return handle_; }
  std::uint32_t queue_family() const { return queue_family_; }
  const VkPhysicalDeviceProperties& properties() const { return properties_; }
  const std::string& uuid() const { return uuid_; }  ///< DeviceInfo::uuid.
  std::uint64_t memory_total() const { return memory_total_; }
  std::uint64_t memory_free() const;  ///< By the driver's word where it gives one, else by ours.
  std::size_t max_allocation() const { return max_allocation_; }
  std::uint32_t subgroup_size() const { return subgroup_size_; }
  bool has_timestamps() const { return has_timestamps_; }
  bool has_statistics() const { return has_statistics_; }
  bool can_require_subgroup_size() const { return can_require_subgroup_size_; }
  /// Whether shaders reach the host's memory over a link, so that their frequent reads should be from device
  /// memory.
  bool far_from_host() const { return far_from_host_; }
  const Abilities& abilities() const { return abilities_; }
  const gpu::Sizes& sizes() const { return sizes_; }

  /// To the one queue. `fence` may be null.
  void submit(std::span<const VkCommandBuffer> commands, VkFence fence);
  void wait_idle();
  /// Seconds since a completed step was submitted, or since the completion of the step before if that was
  /// later: time in the queue is not counted twice.
  double seconds_of_step(std::chrono::steady_clock::time_point submitted);
  /// Records, runs and waits.
  template <typename Record>
  void run_now(Record record) {
    const std::lock_guard lock(once_mutex_);
    begin_once();
    record(once_);
    end_once();
  }

 private:
  friend class Buffer;
  void make_once();  // What run_now needs: a driver that only compiles may have none of it.
  void begin_once();
  void end_once();
  int memory_type(Place place, std::uint32_t allowed) const;  ///< -1: it has none such.

  std::shared_ptr<Instance> instance_;
  VkPhysicalDevice physical_;
  bool staging_;
  Abilities abilities_;
  gpu::Sizes sizes_;
  bool memory_budget_ = false;
  VkPhysicalDeviceProperties properties_ = {};
  std::string uuid_;
  VkPhysicalDeviceMemoryProperties memory_ = {};
  std::uint64_t memory_total_ = 0;
  std::size_t max_allocation_ = 0;
  std::uint32_t subgroup_size_ = 0;
  std::uint32_t max_subgroups_ = 0;
  bool has_timestamps_ = false;
  bool has_statistics_ = false;
  bool can_require_subgroup_size_ = false;
  bool far_from_host_ = false;
  std::uint32_t queue_family_ = 0;
  VkDevice handle_ = VK_NULL_HANDLE;
  VkQueue queue_ = VK_NULL_HANDLE;
  std::mutex queue_mutex_;
  std::chrono::steady_clock::time_point last_done_;
  bool has_worked_ = false;
  std::mutex once_mutex_;
  VkCommandPool pool_ = VK_NULL_HANDLE;
  VkCommandBuffer once_ = VK_NULL_HANDLE;
  VkFence once_done_ = VK_NULL_HANDLE;
  std::atomic<std::uint64_t> allocated_{0};
};

}  // namespace weft::vulkan
