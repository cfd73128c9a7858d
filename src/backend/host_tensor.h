#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "weft/backend/device.h"

namespace weft {

/// Memory of a device for an input, an output or a copy of the value, with these dimensions. Throws what the
/// device throws, and Error kDevice where it gives none or too little: devices are not all of weft's own.
std::unique_ptr<DeviceTensor> create_host_tensor(Device& device, const ValueInfo& value,
                                                 std::span<const std::int64_t> shape);

/// Bytes of a value in a step with these symbols.
std::size_t value_bytes(const ValueInfo& value, std::span<const std::int64_t> symbols);

}  // namespace weft
