// The module's one symbol: programs open weft_backend_cuda.so and call it. Devices are cuda0, cuda1 ...
#include "weft/backend/module.h"

#include "backend/cuda/device.h"

extern "C" __attribute__((visibility("default"))) const weft::ModuleInfo* weft_backend_module() {
  static constexpr weft::ModuleInfo kInfo = {.add = [](weft::Registry& registry) {
    weft::Backend backend = weft::cuda::make_backend("cuda", weft::cuda::open_gpus);
    backend.may_find_gpus = weft::cuda::system_shows_gpu;
    backend.problem = weft::cuda::gpu_problem;
    registry.add(std::move(backend));
  }};
  return &kInfo;
}
