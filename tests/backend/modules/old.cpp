// A module of another version.
#include "weft/backend/module.h"

extern "C" __attribute__((visibility("default"))) const weft::ModuleInfo* weft_backend_module() {
  static const weft::ModuleInfo kModule = {.version = weft::kModuleVersion + 1};
  return &kModule;
}
