#pragma once
// A GPU whose CUDA kernels run on the CPU.
#include <memory>

#include "backend/cpu/device.h"
#include "backend/cuda/device.h"
#include "weft/backend.h"
#include "weft/model.h"

namespace weft::test {

inline Backend emulated_backend() {
  return cuda::make_backend("cuda-emulated", [] { return std::vector{cuda::open_emulated()}; });
}
inline std::shared_ptr<Device> emulated_cuda() { return emulated_backend().open("cuda-emulated0", {}); }

/// The CPU and the emulated GPU, without looking for modules.
inline std::shared_ptr<const Registry> registry_with_cuda() {
  auto registry = std::make_shared<Registry>();
  registry->add(cpu::backend());
  registry->add(emulated_backend());
  return registry;
}

/// A model with all its layers on the emulated GPU.
inline std::shared_ptr<const Model> load_on_cuda(const std::filesystem::path& path) {
  ModelParams params;
  params.placement.devices = {"cuda-emulated0"};
  params.registry = registry_with_cuda();
  return Model::load(path, params);
}

}  // namespace weft::test
