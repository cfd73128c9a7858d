// The module's one symbol.
#include "weft/backend/module.h"

#include "backend/mpi/world.h"

extern "C" __attribute__((visibility("default"))) const weft::ModuleInfo* weft_backend_module() {
  static constexpr weft::ModuleInfo kInfo = {.add = weft::mpi::add, .init_worker_process = weft::mpi::follow};
  return &kInfo;
}
