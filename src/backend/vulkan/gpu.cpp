#include "backend/vulkan/gpu.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "backend/vulkan/cooperative.h"
#include "base/check.h"
#include "base/hex.h"
#include "weft/error.h"

namespace weft::vulkan {
namespace {

constexpr std::size_t kStagingBytes = std::size_t{16} << 20;
/// Workgroups are a multiple of this, so that subgroups up to it can all be full.
constexpr std::uint32_t kMaxSubgroup = 64;
constexpr VkMemoryPropertyFlags kMapped =
    VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;

/// Of a workgroup that some shaders have on every device; Vulkan promises half as many.
constexpr std::uint32_t kThreadsOfSomeShaders = 256;

std::uint32_t threads_of(const VkPhysicalDeviceLimits& limits) {
  return std::min(limits.maxComputeWorkGroupInvocations, limits.maxComputeWorkGroupSize[0]);
}

std::string code_name(VkResult result) {
  switch (result) {
    case VK_ERROR_OUT_OF_HOST_MEMORY:
      return "the host is out of memory";
    case VK_ERROR_OUT_OF_DEVICE_MEMORY:
      return "the device is out of memory; offload fewer layers or use a shorter context";
    case VK_ERROR_DEVICE_LOST:
      return "the device was lost";
    case VK_ERROR_TOO_MANY_OBJECTS:
      return "the driver takes no more allocations";
    default:
      return "Vulkan error " + std::to_string(result);
  }
}

/// One that draws nothing, if there is one: a desktop's windows are drawn while steps run.
int compute_queue_family(VkPhysicalDevice physical) {
  std::uint32_t n = 0;
  vkGetPhysicalDeviceQueueFamilyProperties(physical, &n, nullptr);
  std::vector<VkQueueFamilyProperties> families(n);
  vkGetPhysicalDeviceQueueFamilyProperties(physical, &n, families.data());
  int found = -1;
  for (std::uint32_t i = 0; i < n; ++i) {
    if ((families[i].queueFlags & VK_QUEUE_COMPUTE_BIT) == 0) continue;
    if ((families[i].queueFlags & VK_QUEUE_GRAPHICS_BIT) == 0) return static_cast<int>(i);
    if (found < 0) found = static_cast<int>(i);
  }
  return found;
}

bool has_name(std::span<const VkExtensionProperties> extensions, const char* name) {
  return std::any_of(extensions.begin(), extensions.end(), [&](const VkExtensionProperties& extension) {
    return std::strcmp(extension.extensionName, name) == 0;
  });
}

bool has_extension(VkPhysicalDevice physical, const char* name) {
  std::uint32_t n = 0;
  vkEnumerateDeviceExtensionProperties(physical, nullptr, &n, nullptr);
  std::vector<VkExtensionProperties> extensions(n);
  vkEnumerateDeviceExtensionProperties(physical, nullptr, &n, extensions.data());
  return has_name(extensions, name);
}

/// Whether the GPU itself multiplies four bytes at a time. Where a driver makes several instructions of it,
/// products of floats are faster. Drivers that compute on the CPU are for tests, which use it.
bool has_fast_dots(VkPhysicalDevice physical) {
  VkPhysicalDeviceShaderIntegerDotProductPropertiesKHR dots = {
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_PROPERTIES_KHR};
  VkPhysicalDeviceProperties2 properties = {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, &dots};
  vkGetPhysicalDeviceProperties2(physical, &properties);
  return dots.integerDotProduct4x8BitPackedSignedAccelerated == VK_TRUE ||
         properties.properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
}

// Loaders list drivers that translate Vulkan to another API (MoltenVK) on request only.
constexpr const char* kPortabilityEnumeration = "VK_KHR_portability_enumeration";
constexpr const char* kPortabilitySubset = "VK_KHR_portability_subset";
constexpr VkInstanceCreateFlags kListPortable = 1;  // VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR

/// The products of signed bytes with exact sums that its subgroups make.
std::vector<gpu::MatrixShape> matrix_shapes(VkInstance instance, VkPhysicalDevice physical) {
  const auto get = reinterpret_cast<GetCooperativeMatrixProperties>(
      vkGetInstanceProcAddr(instance, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR"));
  std::uint32_t n = 0;
  if (get == nullptr || get(physical, &n, nullptr) != VK_SUCCESS) return {};
  std::vector<CooperativeMatrixProperties> kinds(n);
  if (get(physical, &n, kinds.data()) < VK_SUCCESS) return {};
  kinds.resize(n);
  std::vector<gpu::MatrixShape> shapes;
  for (const CooperativeMatrixProperties& kind : kinds)
    if (kind.a == kSignedByteComponents && kind.b == kSignedByteComponents &&
        kind.c == kSignedWordComponents && kind.result == kSignedWordComponents &&
        kind.saturates == VK_FALSE && kind.scope == kSubgroupScope)
      shapes.push_back({kind.m, kind.n, kind.k});
  return shapes;
}

}  // namespace

void check(VkResult result, const char* what) {
  if (result == VK_SUCCESS) return;
  const bool memory = result == VK_ERROR_OUT_OF_HOST_MEMORY || result == VK_ERROR_OUT_OF_DEVICE_MEMORY ||
                      result == VK_ERROR_TOO_MANY_OBJECTS;
  throw Error(memory ? ErrorCode::kOutOfMemory : ErrorCode::kDevice,
              std::string(what) + " failed: " + code_name(result));
}

std::shared_ptr<Instance> Instance::make() {
  VkApplicationInfo app = {VK_STRUCTURE_TYPE_APPLICATION_INFO};
  app.pApplicationName = "weft";
  app.apiVersion = VK_API_VERSION_1_2;
  VkInstanceCreateInfo create = {VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO};
  create.pApplicationInfo = &app;
  std::uint32_t n = 0;
  vkEnumerateInstanceExtensionProperties(nullptr, &n, nullptr);
  std::vector<VkExtensionProperties> extensions(n);
  vkEnumerateInstanceExtensionProperties(nullptr, &n, extensions.data());
  if (has_name(extensions, kPortabilityEnumeration)) {
    create.enabledExtensionCount = 1;
    create.ppEnabledExtensionNames = &kPortabilityEnumeration;
    create.flags = kListPortable;
  }
  VkInstance handle = VK_NULL_HANDLE;
  if (vkCreateInstance(&create, nullptr, &handle) != VK_SUCCESS) return nullptr;
  return std::shared_ptr<Instance>(new Instance(handle));
}

Instance::~Instance() { vkDestroyInstance(handle_, nullptr); }

std::vector<VkPhysicalDevice> Instance::physical_devices() const {
  std::uint32_t n = 0;
  if (vkEnumeratePhysicalDevices(handle_, &n, nullptr) != VK_SUCCESS) return {};
  std::vector<VkPhysicalDevice> devices(n);
  if (vkEnumeratePhysicalDevices(handle_, &n, devices.data()) < VK_SUCCESS) return {};
  devices.resize(n);
  return devices;
}

bool Gpu::usable(VkPhysicalDevice physical) {
  VkPhysicalDeviceProperties properties = {};
  vkGetPhysicalDeviceProperties(physical, &properties);
  if (properties.apiVersion < VK_API_VERSION_1_2 || compute_queue_family(physical) < 0) return false;
  if (threads_of(properties.limits) < kThreadsOfSomeShaders) return false;
  VkPhysicalDeviceVulkan12Features features12 = {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES};
  VkPhysicalDeviceFeatures2 features = {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, &features12};
  vkGetPhysicalDeviceFeatures2(physical, &features);
  return features.features.shaderInt64 == VK_TRUE && features12.bufferDeviceAddress == VK_TRUE;
}

Gpu::Gpu(std::shared_ptr<Instance> instance, VkPhysicalDevice physical, bool staging, const Abilities& used,
         bool statistics)
    : instance_(std::move(instance)), physical_(physical), staging_(staging), abilities_(used) {
  VkPhysicalDeviceSubgroupProperties subgroups = {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES};
  VkPhysicalDeviceMaintenance3Properties limits = {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES,
                                                   &subgroups};
  VkPhysicalDeviceProperties2 properties = {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, &limits};
  vkGetPhysicalDeviceProperties2(physical, &properties);
  properties_ = properties.properties;
  max_allocation_ = limits.maxMemoryAllocationSize;
  subgroup_size_ = subgroups.subgroupSize;
  abilities_.shuffles &= subgroup_size_ >= 8 && subgroup_size_ <= kMaxSubgroup &&
                         (subgroups.supportedStages & VK_SHADER_STAGE_COMPUTE_BIT) != 0 &&
                         (subgroups.supportedOperations & VK_SUBGROUP_FEATURE_SHUFFLE_BIT) != 0;
  vkGetPhysicalDeviceMemoryProperties(physical, &memory_);
  for (std::uint32_t i = 0; i < memory_.memoryHeapCount; ++i)
    if ((memory_.memoryHeaps[i].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) != 0)
      memory_total_ = std::max(memory_total_, memory_.memoryHeaps[i].size);

  queue_family_ = static_cast<std::uint32_t>(compute_queue_family(physical));
  const float priority = 1.0f;
  VkDeviceQueueCreateInfo queue = {VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO};
  queue.queueFamilyIndex = queue_family_;
  queue.queueCount = 1;
  queue.pQueuePriorities = &priority;
  // What the device has, then what weft uses of it.
  VkPhysicalDeviceVulkan12Features has12 = {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES};
  VkPhysicalDeviceVulkan11Features has11 = {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES, &has12};
  VkPhysicalDeviceShaderIntegerDotProductFeaturesKHR has_dots = {
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES_KHR};
  VkPhysicalDeviceIDProperties id = {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES};
  VkPhysicalDeviceProperties2 with_id = {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, &id};
  vkGetPhysicalDeviceProperties2(physical, &with_id);
  uuid_ = base::to_hex(id.deviceUUID);
  const bool knows_dots = has_extension(physical, VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME);
  if (knows_dots) has12.pNext = &has_dots;
  VkPhysicalDeviceSubgroupSizeControlFeaturesEXT has_full = {
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES_EXT};
  const bool knows_full = has_extension(physical, VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME);
  if (knows_full) {
    VkPhysicalDeviceSubgroupSizeControlPropertiesEXT sizes = {
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES_EXT};
    VkPhysicalDeviceProperties2 more = {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, &sizes};
    vkGetPhysicalDeviceProperties2(physical, &more);
    can_require_subgroup_size_ = (sizes.requiredSubgroupSizeStages & VK_SHADER_STAGE_COMPUTE_BIT) != 0;
    max_subgroups_ = sizes.maxComputeWorkgroupSubgroups;
    has_full.pNext = has12.pNext;
    has12.pNext = &has_full;
  }
  CooperativeMatrixFeatures has_matrices;
  if (has_extension(physical, kCooperativeMatrixExtension)) {
    has_matrices.next = has12.pNext;
    has12.pNext = &has_matrices;
  }
  VkPhysicalDeviceFeatures2 has = {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, &has11};
  vkGetPhysicalDeviceFeatures2(physical, &has);
  abilities_.byte_dots &=
      knows_dots && has_dots.shaderIntegerDotProduct == VK_TRUE && has_fast_dots(physical);
  // Reading values of threads that do not exist would not be an error.
  abilities_.shuffles &=
      knows_full && has_full.subgroupSizeControl == VK_TRUE && has_full.computeFullSubgroups == VK_TRUE;
  abilities_.narrow_loads &=
      has12.storageBuffer8BitAccess == VK_TRUE && has11.storageBuffer16BitAccess == VK_TRUE;
  gpu::DeviceLimits device_limits = {.subgroup = subgroup_size_,
                                     .shared_bytes = properties_.limits.maxComputeSharedMemorySize,
                                     .threads = threads_of(properties_.limits),
                                     .subgroups = max_subgroups_};
  if (WEFT_COOPERATIVE_SHADER && abilities_.matrices && abilities_.byte_dots && abilities_.shuffles &&
      abilities_.narrow_loads && can_require_subgroup_size_ && has_matrices.cooperative_matrix == VK_TRUE &&
      has12.vulkanMemoryModel == VK_TRUE && has12.shaderInt8 == VK_TRUE)
    device_limits.matrices = matrix_shapes(instance_->handle(), physical);
  sizes_ = gpu::sizes_of(device_limits);
  abilities_.matrices = sizes_.matrix.has_value();

  std::vector<const char*> extensions;
  VkPhysicalDeviceVulkan12Features features12 = {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES};
  features12.bufferDeviceAddress = VK_TRUE;
  features12.storageBuffer8BitAccess = abilities_.narrow_loads ? VK_TRUE : VK_FALSE;
  VkPhysicalDeviceVulkan11Features features11 = {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES,
                                                 &features12};
  features11.storageBuffer16BitAccess = abilities_.narrow_loads ? VK_TRUE : VK_FALSE;
  VkPhysicalDeviceFeatures2 features = {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, &features11};
  features.features.shaderInt64 = VK_TRUE;
  VkPhysicalDeviceShaderIntegerDotProductFeaturesKHR dots = {
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES_KHR};
  if (abilities_.byte_dots) {
    extensions.push_back(VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME);
    dots.shaderIntegerDotProduct = VK_TRUE;
    features12.pNext = &dots;
  }
  VkPhysicalDeviceSubgroupSizeControlFeaturesEXT full = {
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES_EXT, features12.pNext};
  if (abilities_.shuffles) {
    extensions.push_back(VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME);
    full.subgroupSizeControl = full.computeFullSubgroups = VK_TRUE;
    features12.pNext = &full;
  }
  CooperativeMatrixFeatures matrices;
  if (abilities_.matrices) {
    extensions.push_back(kCooperativeMatrixExtension);
    matrices.cooperative_matrix = features12.vulkanMemoryModel = features12.shaderInt8 = VK_TRUE;
    matrices.next = features12.pNext;
    features12.pNext = &matrices;
  }
  VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR tells = {
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR, features12.pNext};
  has_statistics_ =
      statistics && has_extension(physical, VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME);
  if (has_statistics_) {
    extensions.push_back(VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME);
    tells.pipelineExecutableInfo = VK_TRUE;
    features12.pNext = &tells;
  }
  memory_budget_ = has_extension(physical, VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
  if (memory_budget_) extensions.push_back(VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
  // Devices that have it must be opened with it.
  if (has_extension(physical, kPortabilitySubset)) extensions.push_back(kPortabilitySubset);
  VkDeviceCreateInfo create = {VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, &features};
  create.queueCreateInfoCount = 1;
  create.pQueueCreateInfos = &queue;
  create.enabledExtensionCount = static_cast<std::uint32_t>(extensions.size());
  create.ppEnabledExtensionNames = extensions.data();
  check(vkCreateDevice(physical, &create, nullptr, &handle_), "opening the Vulkan device");
  vkGetDeviceQueue(handle_, queue_family_, 0, &queue_);
  std::uint32_t n_families = 0;
  vkGetPhysicalDeviceQueueFamilyProperties(physical, &n_families, nullptr);
  std::vector<VkQueueFamilyProperties> families(n_families);
  vkGetPhysicalDeviceQueueFamilyProperties(physical, &n_families, families.data());
  has_timestamps_ =
      families[queue_family_].timestampValidBits > 0 && properties_.limits.timestampPeriod > 0.0f;

  const int host = memory_type(Place::kHost, ~0u);
  far_from_host_ = staging_ || host < 0 ||
                   (memory_.memoryTypes[host].propertyFlags & VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT) == 0;
}

Gpu::~Gpu() {
  // Drivers that only compile cannot wait, and have nothing to wait for.
  if (has_worked_) vkDeviceWaitIdle(handle_);
  vkDestroyFence(handle_, once_done_, nullptr);
  vkDestroyCommandPool(handle_, pool_, nullptr);
  vkDestroyDevice(handle_, nullptr);
}

std::uint64_t Gpu::memory_free() const {
  if (memory_budget_) {
    VkPhysicalDeviceMemoryBudgetPropertiesEXT budget = {
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT};
    VkPhysicalDeviceMemoryProperties2 memory = {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2,
                                                &budget};
    vkGetPhysicalDeviceMemoryProperties2(physical_, &memory);
    const int type = memory_type(Place::kDevice, ~0u);
    if (type < 0) return 0;
    const std::uint32_t heap = memory_.memoryTypes[type].heapIndex;
    return budget.heapBudget[heap] - std::min(budget.heapBudget[heap], budget.heapUsage[heap]);
  }
  return memory_total_ - std::min(memory_total_, allocated_.load());
}

int Gpu::memory_type(Place place, std::uint32_t allowed) const {
  const auto heap_size = [&](std::uint32_t i) {
    return memory_.memoryHeaps[memory_.memoryTypes[i].heapIndex].size;
  };
  // The best type by points; a small window of mapped device memory is left to those who need it.
  int best = -1, best_points = -1;
  for (std::uint32_t i = 0; i < memory_.memoryTypeCount; ++i) {
    if ((allowed >> i & 1u) == 0) continue;
    const VkMemoryPropertyFlags flags = memory_.memoryTypes[i].propertyFlags;
    const bool mapped = (flags & kMapped) == kMapped;
    const bool local = (flags & VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT) != 0;
    int points = 0;
    if (place == Place::kHost) {
      if (!mapped) continue;
      points = ((flags & VK_MEMORY_PROPERTY_HOST_CACHED_BIT) != 0 ? 2 : 0) + (local ? 0 : 1);
    } else {
      if (local && heap_size(i) >= memory_total_) points = mapped ? 3 : 2;
    }
    if (points > best_points) {
      best = static_cast<int>(i);
      best_points = points;
    }
  }
  return best;
}

void Gpu::submit(std::span<const VkCommandBuffer> commands, VkFence fence) {
  VkSubmitInfo info = {VK_STRUCTURE_TYPE_SUBMIT_INFO};
  info.commandBufferCount = static_cast<std::uint32_t>(commands.size());
  info.pCommandBuffers = commands.data();
  const std::lock_guard lock(queue_mutex_);
  has_worked_ = true;
  check(vkQueueSubmit(queue_, 1, &info, fence), "submitting work");
}

void Gpu::wait_idle() {
  const std::lock_guard lock(queue_mutex_);
  vkQueueWaitIdle(queue_);
}

double Gpu::seconds_of_step(std::chrono::steady_clock::time_point submitted) {
  const std::lock_guard lock(queue_mutex_);
  const auto before = std::exchange(last_done_, std::chrono::steady_clock::now());
  return std::chrono::duration<double>(last_done_ - std::max(before, submitted)).count();
}

/// What a call before has made stays.
void Gpu::make_once() {
  if (pool_ == VK_NULL_HANDLE) {
    VkCommandPoolCreateInfo pool = {VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO};
    pool.flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT;
    pool.queueFamilyIndex = queue_family_;
    check(vkCreateCommandPool(handle_, &pool, nullptr, &pool_), "making a command pool");
  }
  if (once_ == VK_NULL_HANDLE) {
    VkCommandBufferAllocateInfo allocate = {VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO};
    allocate.commandPool = pool_;
    allocate.commandBufferCount = 1;
    check(vkAllocateCommandBuffers(handle_, &allocate, &once_), "making a command buffer");
  }
  VkFenceCreateInfo fence = {VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
  check(vkCreateFence(handle_, &fence, nullptr, &once_done_), "making a fence");
}

void Gpu::begin_once() {
  if (once_done_ == VK_NULL_HANDLE) make_once();
  VkCommandBufferBeginInfo begin = {VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
  begin.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
  check(vkBeginCommandBuffer(once_, &begin), "recording a copy");
  // Copies read the bytes that steps have written.
  VkMemoryBarrier barrier = {VK_STRUCTURE_TYPE_MEMORY_BARRIER};
  barrier.srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
  barrier.dstAccessMask = VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
  vkCmdPipelineBarrier(once_, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT,
                       VK_PIPELINE_STAGE_TRANSFER_BIT, 0, 1, &barrier, 0, nullptr, 0, nullptr);
}

void Gpu::end_once() {
  VkMemoryBarrier barrier = {VK_STRUCTURE_TYPE_MEMORY_BARRIER};
  barrier.srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT;
  barrier.dstAccessMask = VK_ACCESS_HOST_READ_BIT | VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT;
  vkCmdPipelineBarrier(once_, VK_PIPELINE_STAGE_TRANSFER_BIT,
                       VK_PIPELINE_STAGE_HOST_BIT | VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, 0, 1, &barrier, 0,
                       nullptr, 0, nullptr);
  check(vkEndCommandBuffer(once_), "recording a copy");
  submit({&once_, 1}, once_done_);
  const VkResult result = vkWaitForFences(handle_, 1, &once_done_, VK_TRUE, UINT64_MAX);
  if (result != VK_SUCCESS) wait_idle();  // What a copy reads and writes is freed then.
  const VkResult reset = vkResetFences(handle_, 1, &once_done_);
  check(result, "waiting for a copy");
  check(reset, "waiting for a copy");
}

Buffer::Buffer(Gpu& gpu, Place place, std::size_t bytes) : gpu_(gpu) {
  // Whole words: shaders read nothing smaller. At least one, since nothing has no address.
  size_ = std::max<std::size_t>((bytes + 15) / 16 * 16, 16);
  if (size_ > gpu.max_allocation_)
    throw Error(ErrorCode::kOutOfMemory, "a tensor of " + std::to_string(size_ >> 20) + " MiB is more than " +
                                             gpu.properties_.deviceName + " takes in one piece (" +
                                             std::to_string(gpu.max_allocation_ >> 20) + " MiB)");
  VkBufferCreateInfo create = {VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO};
  create.size = size_;
  create.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT |
                 VK_BUFFER_USAGE_INDIRECT_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
                 VK_BUFFER_USAGE_TRANSFER_DST_BIT;
  check(vkCreateBuffer(gpu.handle_, &create, nullptr, &handle_), "making a buffer");
  try {
    VkMemoryRequirements needs = {};
    vkGetBufferMemoryRequirements(gpu.handle_, handle_, &needs);
    VkMemoryAllocateFlagsInfo flags = {VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO};
    flags.flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT;
    VkMemoryAllocateInfo allocate = {VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, &flags};
    allocate.allocationSize = needs.size;
    const int type = gpu.memory_type(place, needs.memoryTypeBits);
    if (type < 0) throw Error(ErrorCode::kDevice, "the device has no memory of the kind that weft needs");
    allocate.memoryTypeIndex = static_cast<std::uint32_t>(type);
    check(vkAllocateMemory(gpu.handle_, &allocate, nullptr, &memory_), "allocating device memory");
    check(vkBindBufferMemory(gpu.handle_, handle_, memory_, 0), "binding device memory");
    const VkMemoryPropertyFlags kind = gpu.memory_.memoryTypes[allocate.memoryTypeIndex].propertyFlags;
    cached_ = (kind & VK_MEMORY_PROPERTY_HOST_CACHED_BIT) != 0;
    if ((kind & kMapped) == kMapped && (place == Place::kHost || !gpu.staging_)) {
      void* data = nullptr;
      check(vkMapMemory(gpu.handle_, memory_, 0, VK_WHOLE_SIZE, 0, &data), "mapping device memory");
      mapped_ = static_cast<std::byte*>(data);
    }
  } catch (...) {
    vkDestroyBuffer(gpu.handle_, handle_, nullptr);
    vkFreeMemory(gpu.handle_, memory_, nullptr);
    throw;
  }
  VkBufferDeviceAddressInfo info = {VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO};
  info.buffer = handle_;
  address_ = vkGetBufferDeviceAddress(gpu.handle_, &info);
  gpu_.allocated_ += size_;
}

Buffer::~Buffer() {
  vkDestroyBuffer(gpu_.handle_, handle_, nullptr);
  vkFreeMemory(gpu_.handle_, memory_, nullptr);
  gpu_.allocated_ -= size_;
}

void Buffer::write(std::size_t offset, std::span<const std::byte> bytes) {
  WEFT_CHECK(offset <= size_ && bytes.size() <= size_ - offset);
  if (bytes.empty()) return;
  if (mapped_ != nullptr) {
    std::memcpy(mapped_ + offset, bytes.data(), bytes.size());
    return;
  }
  Buffer staging(gpu_, Place::kHost, std::min(bytes.size(), kStagingBytes));
  for (std::size_t done = 0; done < bytes.size();) {
    const std::size_t n = std::min(bytes.size() - done, kStagingBytes);
    std::memcpy(staging.mapped_, bytes.data() + done, n);
    const VkBufferCopy copy = {0, offset + done, n};
    gpu_.run_now(
        [&](VkCommandBuffer commands) { vkCmdCopyBuffer(commands, staging.handle_, handle_, 1, &copy); });
    done += n;
  }
}

void Buffer::read(std::size_t offset, std::span<std::byte> bytes) const {
  WEFT_CHECK(offset <= size_ && bytes.size() <= size_ - offset);
  if (bytes.empty()) return;
  if (mapped_ != nullptr && cached_) {
    std::memcpy(bytes.data(), mapped_ + offset, bytes.size());
    return;
  }
  Buffer staging(gpu_, Place::kHost, std::min(bytes.size(), kStagingBytes));
  for (std::size_t done = 0; done < bytes.size();) {
    const std::size_t n = std::min(bytes.size() - done, kStagingBytes);
    const VkBufferCopy copy = {offset + done, 0, n};
    gpu_.run_now(
        [&](VkCommandBuffer commands) { vkCmdCopyBuffer(commands, handle_, staging.handle_, 1, &copy); });
    std::memcpy(bytes.data() + done, staging.mapped_, n);
    done += n;
  }
}

void Buffer::clear() {
  gpu_.run_now([&](VkCommandBuffer commands) { vkCmdFillBuffer(commands, handle_, 0, VK_WHOLE_SIZE, 0); });
}

}  // namespace weft::vulkan
