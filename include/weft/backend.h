// Since 0.1
#pragma once
// How to write a backend: devices of your own on which weft places graphs.
//
// 1. Implement Device, DevicePlan and DeviceTensor (backend/device.h). A device need not support every op or
//    every type: unsupported nodes stay on the CPU, and values are copied between the two.
// 2. Describe it as a Backend, which lists devices and opens them (backend/registry.h).
// 3. Let check_conformance run every op on it, against the truth (weft/conformance.h).
// 4. Add it to a registry and open it, or build it as a module that any program of weft finds
//    (backend/module.h):
//
//      const auto registry = weft::find_backends();
//      registry->add(my_backend());
//      weft::Plan plan(g, weft::find_devices(*registry, {"mine0"}), {.pins = {{"up.*", "mine0"}}});
//
// examples/backend.cpp is all of it on one page.
#include "weft/backend/device.h"
#include "weft/backend/module.h"
#include "weft/backend/registry.h"
