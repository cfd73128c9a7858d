#include "backend/vulkan/device.h"

#include <algorithm>
#include <mutex>

#include "backend/gpu/launches.h"
#include "backend/vulkan/gpu.h"
#include "backend/vulkan/plan.h"
#include "base/check.h"
#include "base/folder.h"
#include "base/hex.h"
#include "weft/error.h"

namespace weft::vulkan {

namespace {

constexpr const char* kBackendName = "vulkan";

/// Placement takes the other kinds as it takes graphics cards.
DeviceSpeed speed_of(VkPhysicalDeviceType type) {
  switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU:  // It shares the processor's memory.
      return {.bytes_per_second = 4e10, .flops = 2e12, .copy_bytes_per_second = 2e10};
    case VK_PHYSICAL_DEVICE_TYPE_CPU:  // A driver that computes on the processor, slower than the CPU's
                                       // kernels.
      return {.bytes_per_second = 5e9, .flops = 5e10, .step_seconds = 1e-4};
    default:
      return {};
  }
}

class VulkanDevice final : public gpu::StoringDevice {
 public:
  VulkanDevice(std::shared_ptr<Gpu> gpu, const VulkanOptions& options, const std::string& device_name,
               const std::filesystem::path& pipeline_cache)
      : options_(options),
        gpu_(std::move(gpu)),
        pipelines_(std::make_shared<Pipelines>(*gpu_, pipeline_cache)) {
    info_.name = device_name;
    info_.backend = kBackendName;
    info_.is_async = true;
    info_.on_host_cpu = gpu_->properties().deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
    info_.speed = speed_of(gpu_->properties().deviceType);
    info_.description = gpu_->properties().deviceName;
    info_.memory_total = gpu_->memory_total();
    info_.memory_free = gpu_->memory_free();
    info_.uuid = gpu_->uuid();
    const std::uint32_t version = gpu_->properties().apiVersion;
    info_.features = {"vulkan" + std::to_string(VK_API_VERSION_MAJOR(version)) + "." +
                          std::to_string(VK_API_VERSION_MINOR(version)),
                      "subgroups of " + std::to_string(gpu_->subgroup_size())};
    const Abilities& abilities = gpu_->abilities();
    if (abilities.shuffles) info_.features.emplace_back("shuffles");
    if (abilities.byte_dots) info_.features.emplace_back("dot products of bytes");
    if (abilities.narrow_loads) info_.features.emplace_back("8- and 16-bit loads");
    if (const auto& matrix = gpu_->sizes().matrix; matrix.has_value())
      info_.features.push_back("matrices of " + std::to_string(matrix->outputs) + "x" +
                               std::to_string(matrix->rows) + "x" + std::to_string(matrix->columns) +
                               " bytes");
  }
  const DeviceInfo& info() const override { return info_; }
  bool in_order() const override { return true; }  // One queue, and barriers at the begin of every step.
  bool supports(const Graph& graph, const Node& node) const override { return gpu::can_launch(graph, node); }

  PlanMemory memory_of(const Graph& graph, const CompileOptions& options) const override {
    return plan_memory(*gpu_, graph, options.workspaces != nullptr);
  }

  std::unique_ptr<DevicePlan> compile(const Graph& graph, const Bindings& bindings,
                                      const CompileOptions& options) override {
    return make_plan(gpu_, pipelines_, graph, bindings,
                     {.first_piece = options_.first_piece,
                      .record_each_step = options_.record_each_step,
                      .workspaces = options.workspaces,
                      .cancelled = options.cancelled});
  }

  std::vector<ShaderStatistics> statistics(const Graph& graph) {
    return shader_statistics(*gpu_, *pipelines_, graph);
  }

 private:
  std::unique_ptr<gpu::Buffer> make_buffer(Place place, std::size_t bytes) override {
    return std::make_unique<Buffer>(*gpu_, place, bytes);
  }

  VulkanOptions options_;
  std::shared_ptr<Gpu> gpu_;
  std::shared_ptr<Pipelines> pipelines_;
  DeviceInfo info_;
};

/// Discrete GPUs first, drivers on the CPU last.
int rank_of(VkPhysicalDevice physical) {
  VkPhysicalDeviceProperties properties = {};
  vkGetPhysicalDeviceProperties(physical, &properties);
  switch (properties.deviceType) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
      return 0;
    case VK_PHYSICAL_DEVICE_TYPE_CPU:
      return 2;
    default:
      return 1;
  }
}

std::string listed_name(std::size_t i) { return kBackendName + std::to_string(i); }

/// The devices of this machine, by their listed numbers. Drivers are loaded on first use,
/// and once: that takes longer than to load a small model. Thread-safe.
class Drivers {
 public:
  std::span<const VkPhysicalDevice> devices() {
    const std::lock_guard lock(mutex_);
    load();
    return devices_;
  }
  bool has(std::string_view name) {
    // Drivers are not loaded for the sake of other backends' devices.
    if (!name.starts_with(kBackendName)) return false;
    const std::size_t n = devices().size();
    for (std::size_t i = 0; i < n; ++i)
      if (listed_name(i) == name) return true;
    return false;
  }
  /// A GPU is open once for all users. So its free memory is known, and plans can share its resources.
  std::shared_ptr<Gpu> open(std::size_t device, const VulkanOptions& options) {
    const std::lock_guard lock(mutex_);
    load();
    std::shared_ptr<Gpu> gpu = open_[device].lock();
    if (gpu == nullptr) {
      gpu = std::make_shared<Gpu>(instance_, devices_[device], options.staging, options.used,
                                  options.statistics);
      open_[device] = gpu;
    }
    return gpu;
  }

 private:
  void load() {
    if (instance_ != nullptr) return;
    instance_ = Instance::make();
    if (instance_ == nullptr) return;
    for (VkPhysicalDevice physical : instance_->physical_devices())
      if (Gpu::usable(physical)) devices_.push_back(physical);
    std::stable_sort(devices_.begin(), devices_.end(),
                     [](VkPhysicalDevice a, VkPhysicalDevice b) { return rank_of(a) < rank_of(b); });
    open_.resize(devices_.size());
  }

  std::mutex mutex_;
  std::shared_ptr<Instance> instance_;
  std::vector<VkPhysicalDevice> devices_;
  std::vector<std::weak_ptr<Gpu>> open_;  // By device.
};

/// Drivers distinguish their caches by a key in the file; separate names keep them from replacing each other.
std::filesystem::path pipeline_cache_file(VkPhysicalDevice physical, const std::filesystem::path& folder) {
  if (folder.empty()) return {};
  VkPhysicalDeviceProperties properties = {};
  vkGetPhysicalDeviceProperties(physical, &properties);
  std::error_code none;
  std::filesystem::create_directories(folder, none);
  return folder / ("vulkan-" + base::to_hex(properties.pipelineCacheUUID) + ".pipelines");
}

/// Whether the system has a GPU of any kind, as its drivers show them: to ask Vulkan means to load them all.
bool system_shows_gpu() {
  constexpr std::string_view kNodes[] = {"dri",  "nvidia", "nvhost", "nvgpu", "nvmap",
                                         "kgsl", "mali",   "pvr",    "dxg"};
  const auto names = base::names_in("/dev");
  if (!names) return true;  // Who knows.
  return std::any_of(names->begin(), names->end(), [&](const std::string& name) {
    return std::any_of(std::begin(kNodes), std::end(kNodes),
                       [&](std::string_view node) { return name.starts_with(node); });
  });
}

}  // namespace

std::vector<ShaderStatistics> shader_statistics(Device& device, const Graph& graph) {
  auto* const vulkan_device = dynamic_cast<VulkanDevice*>(&device);
  WEFT_CHECK(vulkan_device != nullptr);
  return vulkan_device->statistics(graph);
}

Backend backend(const VulkanOptions& options) {
  const auto drivers = std::make_shared<Drivers>();
  return {
      .name = kBackendName,
      .list =
          [options, drivers] {
            std::vector<DeviceInfo> infos;
            const auto devices = drivers->devices();
            for (std::size_t i = 0; i < devices.size(); ++i) {
              try {
                infos.push_back(VulkanDevice(drivers->open(i, options), options, listed_name(i), {}).info());
              } catch (const Error&) {
                // Listed by its driver, but not to be had: as if it were not there.
              }
            }
            return infos;
          },
      .open = [options, drivers](std::string_view device,
                                 const OpenOptions& open) -> std::shared_ptr<Device> {
        const auto devices = drivers->devices();
        for (std::size_t i = 0; i < devices.size(); ++i)
          if (listed_name(i) == device)
            return std::make_shared<VulkanDevice>(drivers->open(i, options), options,
                                                  open.name.empty() ? listed_name(i) : open.name,
                                                  pipeline_cache_file(devices[i], open.compiled));
        throw Error(ErrorCode::kNotFound, "there is no Vulkan device \"" + std::string(device) + '"');
      },
      .may_find_gpus = system_shows_gpu,
      .has = [drivers](std::string_view device) { return drivers->has(device); }};
}

}  // namespace weft::vulkan
