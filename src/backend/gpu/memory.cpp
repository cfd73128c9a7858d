#include "backend/gpu/memory.h"

#include <algorithm>
#include <vector>

#include "backend/cells.h"
#include "base/check.h"
#include "base/to_size.h"
#include "tensor/codec.h"

namespace weft::gpu {
namespace {

/// Of a weight that the host holds on its way to the device.
constexpr std::size_t kUploadBytes = std::size_t{8} << 20;

std::int64_t product(std::span<const std::int64_t> dims) {
  std::int64_t n = 1;
  for (const std::int64_t dim : dims) n *= dim;
  return n;
}

/// Calls copy(offset in the tensor, offset in the rows, bytes) for runs of consecutive cells.
template <typename Copy>
void for_each_run(const Tensor& tensor, std::span<const std::int32_t> cells, std::size_t n_bytes, Copy copy) {
  const std::size_t size = tensor.cell_bytes();
  WEFT_CHECK(size > 0 && n_bytes == cells.size() * size);
  check_cells(cells, static_cast<std::int64_t>(tensor.bytes() / size));
  for (std::size_t i = 0; i < cells.size();) {
    std::size_t end = i + 1;
    while (end < cells.size() && cells[end] == cells[end - 1] + 1) ++end;
    copy(to_size(cells[i]) * size, i * size, (end - i) * size);
    i = end;
  }
}

}  // namespace

Buffer& buffer_of(DeviceTensor& tensor) {
  auto* const own = dynamic_cast<Tensor*>(&tensor);
  WEFT_CHECK(own != nullptr);
  return own->buffer();
}

std::shared_ptr<GpuWorkspace> GpuWorkspace::of(const void* gpu, Workspaces* shared, const Make& make) {
  const auto make_new = [&] { return std::make_shared<GpuWorkspace>(gpu, make); };
  if (shared == nullptr) return make_new();
  return shared->find<GpuWorkspace>([&](const GpuWorkspace& one) { return one.gpu_ == gpu; }, make_new);
}

void GpuWorkspace::grow(std::size_t bytes) { buffer_ = make_(bytes); }

std::size_t StoringDevice::bytes_of(ValueKind kind, DType dtype, std::span<const std::int64_t> shape) const {
  if (shape.size() < 2) return row_bytes(kind == ValueKind::kWeight ? DType::kF32 : dtype, product(shape));
  return row_bytes(dtype, shape.back()) * to_size(product(shape.first(shape.size() - 1)));
}

std::unique_ptr<DeviceTensor> StoringDevice::create_weight(DType dtype, std::span<const std::int64_t> shape,
                                                           const WeightSource& source) {
  WEFT_CHECK(!shape.empty());
  const bool vector = shape.size() == 1;
  const std::size_t bytes = bytes_of(ValueKind::kWeight, dtype, shape);
  auto tensor = std::make_unique<Tensor>(make_buffer(Place::kDevice, bytes), Place::kDevice,
                                         vector ? DType::kF32 : dtype, bytes);
  if (vector) {
    std::vector<std::byte> row(source.bytes.size());
    source.read(source.bytes, row);
    std::vector<float> values(to_size(shape[0]));
    unpack_row(dtype, row.data(), values);
    tensor->buffer().write(0, std::as_bytes(std::span(values)));
    return tensor;
  }
  WEFT_CHECK(source.bytes.size() == tensor->bytes());
  std::vector<std::byte> part(std::min(source.bytes.size(), kUploadBytes));
  for (std::size_t at = 0; at < source.bytes.size(); at += part.size()) {
    part.resize(std::min(part.size(), source.bytes.size() - at));
    source.read(source.bytes.subspan(at, part.size()), part);
    tensor->buffer().write(at, part);
  }
  return tensor;
}

std::unique_ptr<DeviceTensor> StoringDevice::create_state(DType dtype, std::span<const std::int64_t> shape) {
  WEFT_CHECK(shape.size() == 3);
  const std::size_t bytes = bytes_of(ValueKind::kState, dtype, shape);
  auto tensor = std::make_unique<Tensor>(make_buffer(Place::kDevice, bytes), Place::kDevice, dtype, bytes,
                                         row_bytes(dtype, shape[1] * shape[2]));
  tensor->buffer().clear();
  return tensor;
}

void StoringDevice::read_cells(const DeviceTensor& state, CacheRole, std::span<const std::int32_t> cells,
                               std::span<std::byte> rows) {
  const auto& tensor = dynamic_cast<const Tensor&>(state);
  wait_for_steps();
  for_each_run(tensor, cells, rows.size(), [&](std::size_t offset, std::size_t at, std::size_t n) {
    tensor.buffer().read(offset, rows.subspan(at, n));
  });
}

void StoringDevice::write_cells(DeviceTensor& state, CacheRole, std::span<const std::int32_t> cells,
                                std::span<const std::byte> rows) {
  auto& tensor = dynamic_cast<Tensor&>(state);
  wait_for_steps();
  for_each_run(tensor, cells, rows.size(), [&](std::size_t offset, std::size_t at, std::size_t n) {
    tensor.buffer().write(offset, rows.subspan(at, n));
  });
}

std::unique_ptr<DeviceTensor> StoringDevice::create_host_tensor(DType dtype,
                                                                std::span<const std::int64_t> shape) {
  const std::size_t bytes = row_bytes(dtype, product(shape));
  auto tensor = std::make_unique<Tensor>(make_buffer(Place::kHost, bytes), Place::kHost, dtype, bytes);
  std::ranges::fill(tensor->host(), std::byte{0});
  return tensor;
}

}  // namespace weft::gpu
