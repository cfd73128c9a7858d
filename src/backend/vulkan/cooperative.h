#pragma once
// VK_KHR_cooperative_matrix for headers of Vulkan that are older than it (1.3.255): what weft uses of it,
// with the numbers of its specification.
#include <vulkan/vulkan.h>

namespace weft::vulkan {

inline constexpr const char* kCooperativeMatrixExtension = "VK_KHR_cooperative_matrix";
inline constexpr auto kCooperativeMatrixFeatures = static_cast<VkStructureType>(1000506000);
inline constexpr auto kCooperativeMatrixProperties = static_cast<VkStructureType>(1000506001);

struct CooperativeMatrixFeatures {
  VkStructureType type = kCooperativeMatrixFeatures;
  void* next = nullptr;
  VkBool32 cooperative_matrix = VK_FALSE;
  VkBool32 robust_buffer_access = VK_FALSE;
};

/// One kind of product that a device makes: M x K times K x N, added to M x N.
struct CooperativeMatrixProperties {
  VkStructureType type = kCooperativeMatrixProperties;
  void* next = nullptr;
  std::uint32_t m = 0, n = 0, k = 0;
  std::uint32_t a = 0, b = 0, c = 0, result = 0;  ///< Types of components.
  VkBool32 saturates = VK_FALSE;
  std::uint32_t scope = 0;
};
inline constexpr std::uint32_t kSignedByteComponents = 3, kSignedWordComponents = 5, kSubgroupScope = 3;

using GetCooperativeMatrixProperties = VkResult(VKAPI_PTR*)(VkPhysicalDevice, std::uint32_t*,
                                                            CooperativeMatrixProperties*);

}  // namespace weft::vulkan
