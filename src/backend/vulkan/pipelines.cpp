#include "backend/vulkan/pipelines.h"

#include <shaders.h>

#include <span>
#include <string_view>

#include "backend/gpu/grids.h"
#include "base/atomic_file.h"
#include "base/check.h"
#include "base/read_file.h"
#include "weft/error.h"

namespace weft::vulkan {
namespace {

/// The one form of a shader that uses all that it can of what there is.
const ShaderForm& best_form(const char* shader, const Abilities& abilities) {
  const std::uint32_t there = (abilities.shuffles ? kShuffles : 0u) |
                              (abilities.narrow_loads ? kNarrow : 0u) | (abilities.matrices ? kMatrices : 0u);
  const ShaderForm* best = nullptr;
  for (const ShaderForm& form : kShaderForms)
    if (std::string_view(form.shader) == shader && (form.needs & ~there) == 0) best = &form;
  WEFT_CHECK(best != nullptr);
  return *best;
}

constexpr std::uint64_t kMaxCacheBytes = std::uint64_t{256} << 20;

/// Nothing if the file cannot be read: pipelines are then made again.
std::vector<std::byte> read_cache(const std::filesystem::path& path) {
  if (path.empty()) return {};
  try {
    return base::read_file(path, kMaxCacheBytes);
  } catch (const Error&) {
    return {};
  }
}

}  // namespace

Pipelines::Pipelines(Gpu& gpu, std::filesystem::path cache_file)
    : gpu_(gpu), cache_file_(std::move(cache_file)) {
  const VkPushConstantRange range = {VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof(Push)};
  VkPipelineLayoutCreateInfo layout = {VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO};
  layout.pushConstantRangeCount = 1;
  layout.pPushConstantRanges = &range;
  check(vkCreatePipelineLayout(gpu.handle(), &layout, nullptr, &layout_), "making a pipeline layout");
  // The driver checks whether the data is its own.
  const std::vector<std::byte> data = read_cache(cache_file_);
  VkPipelineCacheCreateInfo cache = {VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
  cache.initialDataSize = data.size();
  cache.pInitialData = data.data();
  check(vkCreatePipelineCache(gpu.handle(), &cache, nullptr, &cache_), "making a pipeline cache");
}

Pipelines::~Pipelines() {
  save();
  for (const auto& [key, pipeline] : pipelines_) vkDestroyPipeline(gpu_.handle(), pipeline, nullptr);
  for (VkShaderModule shader : modules_) vkDestroyShaderModule(gpu_.handle(), shader, nullptr);
  vkDestroyPipelineCache(gpu_.handle(), cache_, nullptr);
  vkDestroyPipelineLayout(gpu_.handle(), layout_, nullptr);
}

VkShaderModule Pipelines::module(Kernel kernel) {
  VkShaderModule& result = modules_[static_cast<std::size_t>(kernel)];
  if (result != VK_NULL_HANDLE) return result;
  const auto words = best_form(name(kernel), gpu_.abilities()).words;
  VkShaderModuleCreateInfo create = {VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO};
  create.codeSize = words.size_bytes();
  create.pCode = words.data();
  check(vkCreateShaderModule(gpu_.handle(), &create, nullptr, &result), name(kernel));
  return result;
}

VkPipeline Pipelines::get(Kernel kernel, const std::vector<std::uint32_t>& constants) {
  const std::lock_guard lock(mutex_);
  VkPipeline& result = pipelines_[{kernel, constants}];
  if (result != VK_NULL_HANDLE) return result;
  result = make(kernel, constants, 0, cache_);
  changed_ = true;
  return result;
}

VkPipeline Pipelines::make(Kernel kernel, const std::vector<std::uint32_t>& constants,
                           VkPipelineCreateFlags flags, VkPipelineCache cache) {
  std::vector<VkSpecializationMapEntry> entries;
  for (std::uint32_t i = 0; i < constants.size(); ++i) entries.push_back({i, i * 4, 4});
  const VkSpecializationInfo special = {static_cast<std::uint32_t>(entries.size()), entries.data(),
                                        constants.size() * 4, constants.data()};
  VkComputePipelineCreateInfo create = {VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO};
  create.flags = flags;
  create.stage = {VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO};
  create.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
  create.stage.module = module(kernel);
  create.stage.pName = "main";
  create.stage.pSpecializationInfo = &special;
  // Shuffles count on every thread of a subgroup being there, and on how many those are.
  VkPipelineShaderStageRequiredSubgroupSizeCreateInfoEXT required = {
      VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO_EXT};
  required.requiredSubgroupSize = gpu_.subgroup_size();
  if ((best_form(name(kernel), gpu_.abilities()).needs & (kShuffles | kMatrices)) != 0) {
    create.stage.flags = VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT_EXT;
    if (gpu_.can_require_subgroup_size()) create.stage.pNext = &required;
  }
  create.layout = layout_;
  VkPipeline result = VK_NULL_HANDLE;
  check(vkCreateComputePipelines(gpu_.handle(), cache, 1, &create, nullptr, &result), name(kernel));
  return result;
}

std::vector<std::pair<std::string, double>> Pipelines::statistics(
    Kernel kernel, const std::vector<std::uint32_t>& constants) {
  if (!gpu_.has_statistics()) return {};
  const auto get_executables = reinterpret_cast<PFN_vkGetPipelineExecutablePropertiesKHR>(
      vkGetDeviceProcAddr(gpu_.handle(), "vkGetPipelineExecutablePropertiesKHR"));
  const auto get_numbers = reinterpret_cast<PFN_vkGetPipelineExecutableStatisticsKHR>(
      vkGetDeviceProcAddr(gpu_.handle(), "vkGetPipelineExecutableStatisticsKHR"));
  const std::lock_guard lock(mutex_);
  VkPipelineInfoKHR pipeline = {VK_STRUCTURE_TYPE_PIPELINE_INFO_KHR};
  // Pipelines from a cache report nothing.
  pipeline.pipeline = make(kernel, constants, VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR, VK_NULL_HANDLE);
  std::uint32_t n_executables = 0;
  get_executables(gpu_.handle(), &pipeline, &n_executables, nullptr);
  std::vector<std::pair<std::string, double>> result;
  for (std::uint32_t i = 0; i < n_executables; ++i) {
    VkPipelineExecutableInfoKHR executable = {VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INFO_KHR};
    executable.pipeline = pipeline.pipeline;
    executable.executableIndex = i;
    std::uint32_t n = 0;
    get_numbers(gpu_.handle(), &executable, &n, nullptr);
    std::vector<VkPipelineExecutableStatisticKHR> numbers(
        n, {VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_STATISTIC_KHR, nullptr, {}, {}, {}, {}});
    get_numbers(gpu_.handle(), &executable, &n, numbers.data());
    for (const VkPipelineExecutableStatisticKHR& number : numbers) {
      const auto& value = number.value;
      result.emplace_back(number.name, number.format == VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_BOOL32_KHR
                                           ? value.b32
                                       : number.format == VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_INT64_KHR
                                           ? static_cast<double>(value.i64)
                                       : number.format == VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_UINT64_KHR
                                           ? static_cast<double>(value.u64)
                                           : value.f64);
    }
  }
  vkDestroyPipeline(gpu_.handle(), pipeline.pipeline, nullptr);
  return result;
}

VkDeviceAddress Pipelines::grids() {
  const std::lock_guard lock(mutex_);
  if (grids_ == nullptr) {
    const std::vector<std::uint16_t> table = gpu::grid_table();
    auto made = std::make_unique<Buffer>(gpu_, Place::kDevice, std::as_bytes(std::span(table)).size());
    made->write(0, std::as_bytes(std::span(table)));
    grids_ = std::move(made);
  }
  return grids_->address();
}

void Pipelines::save() noexcept {
  const std::lock_guard lock(mutex_);
  if (cache_file_.empty() || !changed_) return;
  try {
    std::size_t n = 0;
    if (vkGetPipelineCacheData(gpu_.handle(), cache_, &n, nullptr) != VK_SUCCESS) return;
    std::vector<std::byte> data(n);
    if (vkGetPipelineCacheData(gpu_.handle(), cache_, &n, data.data()) != VK_SUCCESS) return;
    // Another process may read or write the file at the same time.
    base::AtomicFile file(cache_file_);
    file.write(std::span(data).first(n));
    file.commit();
    changed_ = false;
  } catch (const std::exception&) {
    // Without the file the next start takes longer, and nothing else.
  }
}

}  // namespace weft::vulkan
