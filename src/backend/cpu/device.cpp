#include "backend/cpu/device.h"

#include <cstring>
#include <fstream>
#include <mutex>
#include <string>

#include "backend/cpu/plan.h"
#include "backend/cpu/tensors.h"
#include "base/check.h"
#include "base/pool.h"
#include "tensor/codec.h"
#include "weft/error.h"

namespace weft::cpu {

MatrixTensor::MatrixTensor(DType dtype, std::int64_t n_matrices, std::int64_t rows, std::int64_t columns)
    : dtype_(dtype),
      matrix_bytes_(packed_bytes(dtype, rows, columns)),
      memory_(matrix_bytes_ * static_cast<std::size_t>(n_matrices)) {
  for (std::int64_t i = 0; i < n_matrices; ++i)
    matrices_.push_back({dtype, rows, columns, data(i), packed_panel_bytes(dtype, columns)});
}

namespace {

/// Panels that one loading task packs: enough to be worth a claim, few enough to share a small matrix.
constexpr std::int64_t kPanelsPerTask = 8;

/// From this size on a cache is worth large pages.
constexpr std::size_t kLargeStateBytes = std::size_t{64} << 20;

std::string processor_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    const std::size_t colon = line.find(':');
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "CPU";
}

std::int64_t product(std::span<const std::int64_t> dims) {
  std::int64_t n = 1;
  for (const std::int64_t dim : dims) n *= dim;
  return n;
}

class CpuDevice final : public Device {
 public:
  explicit CpuDevice(const CpuOptions& options)
      : isa_(options.isa),
        n_threads_(options.n_threads > 0 ? options.n_threads : base::default_threads()),
        loader_(n_threads_, 1) {
    if (!supported(isa_))
      throw Error(ErrorCode::kUnsupported, "this processor lacks the instruction set asked for");
    const base::MachineMemory memory = base::machine_memory();
    info_.name = options.name;
    info_.backend = "cpu";
    info_.description = processor_name();
    info_.memory_total = memory.total;
    info_.memory_free = memory.available;
    info_.n_threads = n_threads_;
    for (const Isa isa : kIsas)
      if (supported(isa)) info_.features.emplace_back(kernels(isa).name);
  }

  const DeviceInfo& info() const override { return info_; }
  bool supports(const Graph&, const Node&) const override { return true; }

  std::size_t bytes_of(ValueKind kind, DType dtype, std::span<const std::int64_t> shape) const override {
    if (kind == ValueKind::kWeight && shape.size() >= 2) {
      const std::size_t n = shape.size();
      return packed_bytes(dtype, shape[n - 2], shape[n - 1]) *
             static_cast<std::size_t>(product(shape.first(n - 2)));
    }
    return row_bytes(kind == ValueKind::kWeight ? DType::kF32 : dtype, product(shape));
  }

  std::unique_ptr<DeviceTensor> create_weight(DType dtype, std::span<const std::int64_t> shape,
                                              const WeightSource& source) override {
    WEFT_CHECK(!shape.empty());
    const std::int64_t columns = shape.back();
    WEFT_CHECK(source.bytes.size() ==
               row_bytes(dtype, columns) * static_cast<std::size_t>(product(shape) / columns));
    const std::lock_guard lock(loader_mutex_);
    std::unique_ptr<DeviceTensor> result;
    if (shape.size() == 1) {
      auto vector = std::make_unique<PlainTensor>(DType::kF32,
                                                  static_cast<std::size_t>(columns) * sizeof(float), false);
      unpack_row(dtype, source.bytes.data(),
                 {reinterpret_cast<float*>(vector->data()), static_cast<std::size_t>(columns)});
      result = std::move(vector);
    } else {
      result = pack_matrices(dtype, shape, source);
    }
    if (source.done) source.done();
    return result;
  }

  std::unique_ptr<DeviceTensor> create_state(DType dtype, std::span<const std::int64_t> shape) override {
    // A cache fills from the front, a little in each layer: with large pages a first token would zero two MiB
    // a layer.
    const std::size_t bytes = bytes_of(ValueKind::kState, dtype, shape);
    WEFT_CHECK(shape.size() == 3);
    const CacheShape cache = {dtype, static_cast<int>(shape[1]), static_cast<int>(shape[2])};
    return std::make_unique<StateTensor>(cache, bytes, bytes >= kLargeStateBytes);
  }

  void read_cells(const DeviceTensor& state, CacheRole role, std::span<const std::int32_t> cells,
                  std::span<std::byte> rows) override {
    const StateTensor& tensor = state_of(state, cells.size(), rows.size());
    cpu::read_cells(tensor.shape(), role, tensor.data(), cells, rows.data());
  }

  void write_cells(DeviceTensor& state, CacheRole role, std::span<const std::int32_t> cells,
                   std::span<const std::byte> rows) override {
    const StateTensor& tensor = state_of(state, cells.size(), rows.size());
    cpu::write_cells(tensor.shape(), role, cells, rows.data(), tensor.data());
  }

  std::unique_ptr<DeviceTensor> create_host_tensor(DType dtype,
                                                   std::span<const std::int64_t> shape) override {
    return std::make_unique<PlainTensor>(dtype, row_bytes(dtype, product(shape)), true);
  }

  std::unique_ptr<DevicePlan> compile(const Graph& graph, const Bindings& bindings,
                                      const CompileOptions& options) override {
    return compile_plan(graph, bindings, kernels(isa_),
                        options.n_threads > 0 ? options.n_threads : n_threads_);
  }

 private:
  /// The device's own tensor, with rows for that many cells.
  static const StateTensor& state_of(const DeviceTensor& state, std::size_t n_cells, std::size_t n_bytes) {
    const auto* const tensor = dynamic_cast<const StateTensor*>(&state);
    WEFT_CHECK(tensor != nullptr);
    const CacheShape& shape = tensor->shape();
    WEFT_CHECK(n_bytes == n_cells * row_bytes(shape.dtype, std::int64_t{shape.n_heads} * shape.head_dim));
    return *tensor;
  }

  std::unique_ptr<DeviceTensor> pack_matrices(DType dtype, std::span<const std::int64_t> shape,
                                              const WeightSource& source) {
    const std::int64_t columns = shape.back();
    const std::int64_t rows = shape[shape.size() - 2];
    const std::int64_t n_matrices = product(shape.first(shape.size() - 2));
    const std::size_t canonical_bytes = row_bytes(dtype, columns) * static_cast<std::size_t>(rows);
    auto tensor = std::make_unique<MatrixTensor>(dtype, n_matrices, rows, columns);
    const std::int64_t n_panels = (rows + kPanelRows - 1) / kPanelRows;
    const std::int64_t per_matrix = (n_panels + kPanelsPerTask - 1) / kPanelsPerTask;
    loader_.parallel_for(static_cast<std::int32_t>(n_matrices * per_matrix), [&](std::int32_t task, int) {
      const std::int64_t matrix = task / per_matrix;
      const std::int64_t begin = task % per_matrix * kPanelsPerTask;
      pack_panels(dtype, rows, columns,
                  source.bytes.data() + static_cast<std::size_t>(matrix) * canonical_bytes, begin,
                  std::min(begin + kPanelsPerTask, n_panels), tensor->data(matrix));
    });
    return tensor;
  }

  Isa isa_;
  int n_threads_;
  DeviceInfo info_;
  std::mutex loader_mutex_;
  base::Pool loader_;
};

}  // namespace

std::shared_ptr<Device> make_device(const CpuOptions& options) {
  return std::make_shared<CpuDevice>(options);
}

Backend backend() {
  return {.name = "cpu",
          .list = [] { return std::vector{make_device({.n_threads = 1})->info()}; },
          .open =
              [](std::string_view device, const OpenOptions& options) {
                CpuOptions cpu;
                cpu.name = options.name.empty() ? std::string(device) : options.name;
                cpu.n_threads = options.n_threads;
                cpu.isa = isa_named(options.feature);
                return make_device(cpu);
              }};
}

}  // namespace weft::cpu
