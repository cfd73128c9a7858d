#include "backend/host_tensor.h"

namespace weft {

std::unique_ptr<DeviceTensor> create_host_tensor(Device& device, const ValueInfo& value,
                                                 std::span<const std::int64_t> shape) {
  auto tensor = device.create_host_tensor(value.dtype, shape);
  std::int64_t elements = 1;
  for (const std::int64_t size : shape) elements *= size;
  const std::size_t needed = row_bytes(value.dtype, elements);
  const std::size_t given = tensor == nullptr ? 0 : tensor->host().size();
  if (tensor == nullptr || given < needed)
    throw Error(ErrorCode::kDevice, device.info().name + " gives " + std::to_string(given) +
                                        " bytes that the host can reach for " + value.name +
                                        ", which takes " + std::to_string(needed));
  return tensor;
}

std::size_t value_bytes(const ValueInfo& value, std::span<const std::int64_t> symbols) {
  return row_bytes(value.dtype, value.shape.elements(symbols));
}

}  // namespace weft
