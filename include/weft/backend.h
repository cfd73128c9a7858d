// Since 0.1
#pragma once
// How to write a backend: devices of your own on which weft runs graphs.
//
// 1. Implement Device, DevicePlan and DeviceTensor (backend/device.h). A device need not support every op or
//    type: nodes that it does not support run on the CPU, and weft copies their values.
// 2. Describe the devices in a Backend, which lists and opens them (backend/registry.h).
// 3. Run check_conformance, which compares every op with reference results (weft/conformance.h).
// 4. Add the Backend to a registry, or build it as a module that any program of weft finds
//    (backend/module.h):
//
//      const auto registry = weft::load_backends();
//      registry->add(my_backend());
//      weft::Plan plan(g, weft::open_devices(*registry, {"mine0"}), {.pins = {{"up.*", "mine0"}}});
//
// examples/backend.cpp is a complete backend.
#include "weft/backend/device.h"
#include "weft/backend/module.h"
#include "weft/backend/registry.h"
