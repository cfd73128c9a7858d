// A module whose driver is missing.
#include "weft/backend/module.h"
#include "weft/error.h"

extern "C" __attribute__((visibility("default"))) const weft::ModuleInfo* weft_backend_module() {
  static const weft::ModuleInfo kModule = {
      .add = [](weft::Registry&) { throw weft::Error(weft::ErrorCode::kDevice, "no driver here"); }};
  return &kModule;
}
