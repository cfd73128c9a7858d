#pragma once
// What a device is taken for whose backend knows no figures: placement weighs devices by them.
#include "weft/device.h"

namespace weft::backend {

// A processor with two memory channels, and a mid-range graphics card on PCIe.
inline constexpr DeviceSpeed kUsualProcessor = {
    .bytes_per_second = 2e10, .flops = 5e11, .step_seconds = 1e-5, .copy_bytes_per_second = 1e10};
inline constexpr DeviceSpeed kUsualGraphicsCard = {
    .bytes_per_second = 3e11, .flops = 1e13, .step_seconds = 5e-5, .copy_bytes_per_second = 1e10};

}  // namespace weft::backend
