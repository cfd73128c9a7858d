// The module's one symbol: a program that was built without Vulkan opens weft_backend_vulkan.so and calls it.
#include "weft/backend/module.h"

#include "backend/vulkan/device.h"

extern "C" __attribute__((visibility("default"))) const weft::ModuleInfo* weft_backend_module() {
  static constexpr weft::ModuleInfo kInfo = {
      .add = [](weft::Registry& registry) { registry.add(weft::vulkan::backend()); }};
  return &kInfo;
}
