#include "backend/cuda/device.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "backend/cells.h"
#include "backend/cuda/plan.h"
#include "backend/cuda/tensors.h"
#include "backend/gpu/launches.h"
#include "base/check.h"
#include "base/to_size.h"
#include "tensor/codec.h"
#include "weft/error.h"

namespace weft::cuda {
namespace {

/// Of a weight that the host holds on its way to the device.
constexpr std::size_t kUploadBytes = std::size_t{8} << 20;

std::int64_t product(std::span<const std::int64_t> dims) {
  std::int64_t n = 1;
  for (const std::int64_t dim : dims) n *= dim;
  return n;
}

/// Whether the kernel's arrays have room for the node (kernels/attention.h).
bool has_room(const Graph& graph, const Node& node) {
  constexpr std::int64_t kMaxColumns = 1024;
  if (const auto* const op = get_op<ops::RaggedAttention>(node))
    return graph.value(node.output).shape.columns() / op->n_heads <= kMaxColumns;
  return true;
}

class CudaDevice final : public Device {
 public:
  CudaDevice(std::shared_ptr<Runtime> runtime, const std::string& backend, const std::string& name)
      : runtime_(std::move(runtime)) {
    const GpuProperties& gpu = runtime_->properties();
    info_ = {.name = name,
             .backend = backend,
             .description = gpu.name,
             .memory_total = gpu.memory_total,
             .memory_free = runtime_->memory_free(),
             .is_async = true,
             .on_host_cpu = gpu.is_emulated,
             .features = {gpu.features},
             .uuid = gpu.uuid};
    if (gpu.is_emulated) info_.speed = {.bytes_per_second = 1e8, .flops = 1e8, .step_seconds = 1e-3};
  }
  const DeviceInfo& info() const override { return info_; }
  bool in_order() const override { return true; }  // One stream.
  bool supports(const Graph& graph, const Node& node) const override {
    return gpu::can_launch(graph, node) && has_room(graph, node);
  }

  std::size_t bytes_of(ValueKind kind, DType dtype, std::span<const std::int64_t> shape) const override {
    if (shape.size() < 2) return row_bytes(kind == ValueKind::kWeight ? DType::kF32 : dtype, product(shape));
    return row_bytes(dtype, shape.back()) * to_size(product(shape.first(shape.size() - 1)));
  }

  std::unique_ptr<DeviceTensor> create_weight(DType dtype, std::span<const std::int64_t> shape,
                                              const WeightSource& source) override {
    WEFT_CHECK(!shape.empty());
    const bool vector = shape.size() == 1;
    auto tensor = std::make_unique<Tensor>(runtime_, Place::kDevice, vector ? DType::kF32 : dtype,
                                           bytes_of(ValueKind::kWeight, dtype, shape));
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

  std::unique_ptr<DeviceTensor> create_state(DType dtype, std::span<const std::int64_t> shape) override {
    WEFT_CHECK(shape.size() == 3);
    auto tensor =
        std::make_unique<Tensor>(runtime_, Place::kDevice, dtype, bytes_of(ValueKind::kState, dtype, shape),
                                 row_bytes(dtype, shape[1] * shape[2]));
    tensor->buffer().clear();
    return tensor;
  }

  void read_cells(const DeviceTensor& state, CacheRole, std::span<const std::int32_t> cells,
                  std::span<std::byte> rows) override {
    const auto& tensor = dynamic_cast<const Tensor&>(state);
    runtime_->wait_idle();
    for_each_run(tensor, cells, rows.size(), [&](std::size_t offset, std::size_t at, std::size_t n) {
      tensor.buffer().read(offset, rows.subspan(at, n));
    });
  }
  void write_cells(DeviceTensor& state, CacheRole, std::span<const std::int32_t> cells,
                   std::span<const std::byte> rows) override {
    auto& tensor = dynamic_cast<Tensor&>(state);
    runtime_->wait_idle();
    for_each_run(tensor, cells, rows.size(), [&](std::size_t offset, std::size_t at, std::size_t n) {
      tensor.buffer().write(offset, rows.subspan(at, n));
    });
  }

  std::unique_ptr<DeviceTensor> create_host_tensor(DType dtype,
                                                   std::span<const std::int64_t> shape) override {
    auto tensor = std::make_unique<Tensor>(runtime_, Place::kHost, dtype, row_bytes(dtype, product(shape)));
    const auto bytes = tensor->host();
    std::fill(bytes.begin(), bytes.end(), std::byte{0});
    return tensor;
  }

  PlanMemory memory_of(const Graph& graph, const CompileOptions& options) const override {
    return plan_memory(graph, options.workspaces != nullptr);
  }
  std::unique_ptr<DevicePlan> compile(const Graph& graph, const Bindings& bindings,
                                      const CompileOptions& options) override {
    return make_plan(runtime_, graph, bindings, options);
  }

 private:
  /// Calls copy(offset in the tensor, offset in the rows, bytes) for runs of consecutive cells.
  template <typename Copy>
  static void for_each_run(const Tensor& tensor, std::span<const std::int32_t> cells, std::size_t n_bytes,
                           Copy copy) {
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

  std::shared_ptr<Runtime> runtime_;
  DeviceInfo info_;
};

/// GPUs are opened at first use, and once for all users.
class Gpus {
 public:
  using Open = std::vector<std::shared_ptr<Runtime>> (*)();
  explicit Gpus(Open open) : open_(open) {}
  const std::vector<std::shared_ptr<Runtime>>& all() {
    const std::lock_guard lock(mutex_);
    if (!std::exchange(is_open_, true)) gpus_ = open_();
    return gpus_;
  }

 private:
  Open open_;
  std::mutex mutex_;
  bool is_open_ = false;
  std::vector<std::shared_ptr<Runtime>> gpus_;
};

}  // namespace

Backend make_backend(const std::string& name, std::vector<std::shared_ptr<Runtime>> (*open)()) {
  const auto gpus = std::make_shared<Gpus>(open);
  const auto listed_name = [name](std::size_t i) { return name + std::to_string(i); };
  return {.name = name,
          .list =
              [=] {
                std::vector<DeviceInfo> infos;
                for (std::size_t i = 0; i < gpus->all().size(); ++i)
                  infos.push_back(CudaDevice(gpus->all()[i], name, listed_name(i)).info());
                return infos;
              },
          .open = [=](std::string_view device, const OpenOptions& options) -> std::shared_ptr<Device> {
            for (std::size_t i = 0; i < gpus->all().size(); ++i)
              if (listed_name(i) == device)
                return std::make_shared<CudaDevice>(gpus->all()[i], name,
                                                    options.name.empty() ? listed_name(i) : options.name);
            throw Error(ErrorCode::kNotFound, "there is no CUDA device \"" + std::string(device) + '"');
          },
          .may_find_gpus = [=] { return !gpus->all().empty(); },
          .has =
              [=](std::string_view device) {
                // GPUs are not opened for the sake of other backends' devices.
                if (!device.starts_with(name)) return false;
                for (std::size_t i = 0; i < gpus->all().size(); ++i)
                  if (listed_name(i) == device) return true;
                return false;
              }};
}

}  // namespace weft::cuda
