#include "backend/cpu/device.h"

#include <atomic>
#include <cstring>
#include <exception>
#include <fstream>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "backend/cells.h"
#include "backend/cpu/layout/cache_layout.h"
#include "backend/cpu/layout/compact.h"
#include "backend/cpu/plan.h"
#include "backend/cpu/tensors.h"
#include "base/check.h"
#include "base/cores.h"
#include "base/late_thread.h"
#include "base/pool.h"
#include "base/to_size.h"
#include "tensor/codec.h"
#include "weft/error.h"

namespace weft::cpu {

WeightMemory::Piece WeightMemory::take(std::size_t bytes) {
  constexpr std::size_t kBlockBytes = std::size_t{64} << 20, kAlignment = 4096;
  const std::size_t size = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (block_ == nullptr || block_->size() - used_ < size) {
    auto block = std::make_shared<base::Memory>(std::max(size, kBlockBytes));
    base::spread_over_nodes(block->bytes(), nodes_);
    block_ = std::move(block);
    used_ = 0;
  }
  const Piece piece = {block_->bytes().subspan(used_, bytes), block_};
  used_ += size;
  return piece;
}

void WeightMemory::give_back(const Piece& piece) {
  WEFT_CHECK(piece.owner == block_ && piece.bytes.data() >= block_->data());
  used_ = to_size(piece.bytes.data() - block_->data());
  std::memset(piece.bytes.data(), 0, piece.bytes.size());
}

PackedMatrix MatrixShape::matrix(MatrixForm form) const {
  if (form == MatrixForm::kCompact) return compact_shape(rows, columns);
  PackedMatrix matrix = packed_shape(dtype, rows, columns);
  if (form == MatrixForm::kCanonical) matrix.low_bytes = 0;
  return matrix;
}

std::size_t MatrixShape::matrix_bytes(MatrixForm form) const {
  if (form == MatrixForm::kCanonical) return row_bytes(dtype, columns) * to_size(rows);
  return cpu::matrix_bytes(matrix(form));
}

MatrixTensor::MatrixTensor(const MatrixShape& shape, std::span<const std::byte> bytes, MatrixForm form,
                           std::shared_ptr<const void> owner, std::shared_ptr<const base::FileWatch> watch)
    : dtype_(shape.dtype), bytes_(bytes), owner_(std::move(owner)), watch_(std::move(watch)) {
  const std::size_t each = shape.matrix_bytes(form);
  WEFT_CHECK(bytes.size() == each * to_size(shape.n_matrices));
  for (std::int64_t i = 0; i < shape.n_matrices; ++i) {
    const std::byte* const at = bytes.data() + to_size(i) * each;
    PackedMatrix matrix = shape.matrix(form);
    (form == MatrixForm::kCanonical ? matrix.canonical : matrix.data) = at;
    matrices_.push_back(matrix);
  }
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

DeviceInfo info_of(std::string_view name, int n_threads) {
  const base::MachineMemory memory = base::machine_memory();
  DeviceInfo info;
  info.name = name;
  info.backend = "cpu";
  info.description = processor_name();
  info.memory_total = memory.total;
  info.memory_free = memory.available;
  info.n_threads = n_threads;
  info.on_host_cpu = true;
  for (const Isa isa : kIsas)
    if (supported(isa)) info.features.emplace_back(kernels(isa).name);
  return info;
}

/// The cache of keys that a node uses, or kNoValue.
ValueId keys_of(const Node& node) {
  if (get_op<ops::Attention>(node) != nullptr) return named_inputs<ops::Attention>(node).k;
  const auto* const store = get_op<ops::StoreCache>(node);
  const auto* const move = get_op<ops::MoveCells>(node);
  const bool of_keys = (store != nullptr && store->role == CacheRole::kKeys) ||
                       (move != nullptr && move->role == CacheRole::kKeys);
  return of_keys ? node.inputs[0] : kNoValue;
}

class CpuDevice final : public Device {
 public:
  explicit CpuDevice(const CpuOptions& options)
      : isa_(options.isa),
        cores_(base::read_cores()),
        n_threads_(options.n_threads > 0 ? options.n_threads : base::default_threads()),
        repack_(options.repack),
        packed_cache_(options.packed_cache),
        memory_(cores_.nodes()),
        loader_(n_threads_, 1) {
    if (!supported(isa_))
      throw Error(ErrorCode::kUnsupported, "this processor lacks the requested instruction set");
    info_ = info_of(options.name, n_threads_);
  }

  const DeviceInfo& info() const override { return info_; }
  bool supports(const Graph& graph, const Node& node) const override {
    const ValueId keys = keys_of(node);
    if (keys == kNoValue) return true;
    const ValueInfo& cache = graph.value(keys);
    return !is_paired_cache(cache.dtype) || cache.shape[2].constant() % 2 == 0;
  }
  DType best_cache_type() const override { return isa_ == Isa::kAvx512Bf16 ? DType::kBF16 : DType::kF16; }

  std::size_t bytes_of(ValueKind kind, DType dtype, std::span<const std::int64_t> shape) const override {
    if (kind == ValueKind::kWeight && shape.size() >= 2) {
      const MatrixShape m = matrix_shape(dtype, shape);
      return m.matrix_bytes(repack_ ? MatrixForm::kPacked : MatrixForm::kCanonical) * to_size(m.n_matrices);
    }
    return row_bytes(kind == ValueKind::kWeight ? DType::kF32 : dtype, product(shape));
  }

  std::unique_ptr<DeviceTensor> create_weight(DType dtype, std::span<const std::int64_t> shape,
                                              const WeightSource& source) override {
    WEFT_CHECK(!shape.empty());
    const std::int64_t columns = shape.back();
    WEFT_CHECK(source.bytes.size() == row_bytes(dtype, columns) * to_size(product(shape) / columns));
    if (shape.size() > 1) return create_matrices(matrix_shape(dtype, shape), shape, source);
    auto vector = std::make_unique<PlainTensor>(DType::kF32, to_size(columns) * sizeof(float), false);
    std::vector<std::byte> row(source.bytes.size());
    source.read(source.bytes, row);
    unpack_row(dtype, row.data(), {reinterpret_cast<float*>(vector->data()), to_size(columns)});
    return vector;
  }

  bool finish_weights() override {
    learn_sources();
    if (packed_cache_ == nullptr) return !repack_;
    packed_cache_->commit();
    return packed_cache_->found();
  }

  void settle() override {
    base::LateThread learning;
    {
      const std::lock_guard lock(loader_mutex_);
      learning = std::move(learning_);
      if (packed_cache_ != nullptr) packed_cache_->settle();
    }
    learning.wait();  // Without the lock: it may read a whole file.
  }

  void check_weights() const override {
    if (packed_cache_ != nullptr && packed_cache_->file() != nullptr) packed_cache_->file()->check();
    for (const auto& watch : watched_sources()) watch->check();
  }

  std::unique_ptr<DeviceTensor> create_state(DType dtype, std::span<const std::int64_t> shape) override {
    // A cache fills from the front, a little in each layer: with large pages a first token would zero two MiB
    // a layer.
    const std::size_t bytes = bytes_of(ValueKind::kState, dtype, shape);
    WEFT_CHECK(shape.size() == 3);
    const CacheShape cache = {dtype, static_cast<int>(shape[1]), static_cast<int>(shape[2])};
    return std::make_unique<StateTensor>(cache, shape[0], bytes, bytes >= kLargeStateBytes);
  }

  void read_cells(const DeviceTensor& state, CacheRole role, std::span<const std::int32_t> cells,
                  std::span<std::byte> rows) override {
    const StateTensor& tensor = state_of(state, cells, rows.size());
    cpu::read_cells(tensor.shape(), role, tensor.data(), cells, rows.data());
  }

  void write_cells(DeviceTensor& state, CacheRole role, std::span<const std::int32_t> cells,
                   std::span<const std::byte> rows) override {
    const StateTensor& tensor = state_of(state, cells, rows.size());
    cpu::write_cells(tensor.shape(), role, cells, rows.data(), tensor.data());
  }

  std::unique_ptr<DeviceTensor> create_host_tensor(DType dtype,
                                                   std::span<const std::int64_t> shape) override {
    return std::make_unique<PlainTensor>(dtype, row_bytes(dtype, product(shape)), true);
  }

  PlanMemory memory_of(const Graph& graph, const CompileOptions& options) const override {
    const int n_threads = threads_of(options);
    return plan_memory(graph, n_threads, cores_.helpers(n_threads), options);
  }

  std::unique_ptr<DevicePlan> compile(const Graph& graph, const Bindings& bindings,
                                      const CompileOptions& options) override {
    const int n_threads = threads_of(options);
    learn_sources();
    return compile_plan(graph, bindings, kernels(isa_), n_threads, cores_.helpers(n_threads), options);
  }

 private:
  int threads_of(const CompileOptions& options) const {
    return options.n_threads > 0 ? options.n_threads : n_threads_;
  }

  /// The device's own tensor, with rows for that many cells.
  static const StateTensor& state_of(const DeviceTensor& state, std::span<const std::int32_t> cells,
                                     std::size_t n_bytes) {
    const auto* const tensor = dynamic_cast<const StateTensor*>(&state);
    WEFT_CHECK(tensor != nullptr);
    const CacheShape& shape = tensor->shape();
    check_cells(cells, tensor->n_cells());
    WEFT_CHECK(n_bytes ==
               cells.size() * row_bytes(shape.dtype, std::int64_t{shape.n_heads} * shape.head_dim));
    return *tensor;
  }

  static MatrixShape matrix_shape(DType dtype, std::span<const std::int64_t> shape) {
    const std::size_t n = shape.size();
    // Kernels of convolutions: what one output is made with is a row.
    if (n == 4) return {dtype, 1, shape[0], product(shape.subspan(1))};
    return {dtype, product(shape.first(n - 2)), shape[n - 2], shape[n - 1]};
  }

  std::unique_ptr<DeviceTensor> create_matrices(const MatrixShape& m, std::span<const std::int64_t> shape,
                                                const WeightSource& source) {
    const std::lock_guard lock(loader_mutex_);
    if (!repack_)
      return std::make_unique<MatrixTensor>(m, source.bytes, MatrixForm::kCanonical, nullptr, watch(source));
    const bool keep = packed_cache_ != nullptr && !source.name.empty();
    // Convolutions read panels themselves.
    const bool try_compact = shape.size() < 4 && may_be_compact(m.dtype, m.columns);
    for (const MatrixForm form : {MatrixForm::kCompact, MatrixForm::kPacked}) {
      if (!keep || (form == MatrixForm::kCompact && !try_compact)) continue;
      const auto source_hash = [&] { return read_rows(m, source, [](const PanelRows&) {}); };
      const std::size_t bytes = m.matrix_bytes(form) * to_size(m.n_matrices);
      const std::span<const std::byte> packed =
          packed_cache_->find(source.name, m.dtype, shape, bytes, loader_, source_hash);
      if (packed.empty()) continue;
      const auto file = packed_cache_->file();
      return std::make_unique<MatrixTensor>(m, packed, form, file, file);
    }
    std::unique_ptr<MatrixTensor> tensor;
    if (try_compact) tensor = pack(m, shape, source, MatrixForm::kCompact, keep);
    return tensor != nullptr ? std::move(tensor) : pack(m, shape, source, MatrixForm::kPacked, keep);
  }

  /// The watch of a weight that is read in a mapped file; null where it is in memory. With loader_mutex_
  /// held.
  std::shared_ptr<const base::FileWatch> watch(const WeightSource& source) {
    if (source.file == nullptr) return nullptr;
    std::erase_if(sources_, [](const auto& one) { return one.expired(); });
    for (const auto& one : sources_)
      if (const auto found = one.lock(); found != nullptr && &found->file() == source.file.get()) {
        found->add(source.bytes);
        return found;
      }
    const auto made = std::make_shared<base::FileWatch>(source.file);
    made->add(source.bytes);
    sources_.push_back(made);
    return made;
  }

  std::vector<std::shared_ptr<base::FileWatch>> watched_sources() const {
    const std::lock_guard lock(loader_mutex_);
    std::vector<std::shared_ptr<base::FileWatch>> watches;
    for (const auto& one : sources_)
      if (auto watch = one.lock()) watches.push_back(std::move(watch));
    return watches;
  }

  /// Called before weights are used: a thread learns their hashes in the background.
  void learn_sources() const {
    std::vector<std::shared_ptr<base::FileWatch>> watches = watched_sources();
    std::erase_if(watches, [](const auto& watch) { return watch->knows_all(); });
    if (watches.empty()) return;
    const std::lock_guard lock(loader_mutex_);
    learning_ = base::LateThread([watches = std::move(watches)](const std::stop_token& stop) {
      for (const auto& watch : watches) watch->learn(stop);
    });
  }

  /// Null where the matrices do not fit into the form.
  std::unique_ptr<MatrixTensor> pack(const MatrixShape& m, std::span<const std::int64_t> shape,
                                     const WeightSource& source, MatrixForm form, bool keep) {
    const std::size_t each = m.matrix_bytes(form);
    const WeightMemory::Piece piece = memory_.take(each * to_size(m.n_matrices));
    std::atomic<bool> fits{true};
    const std::uint64_t source_hash = read_rows(m, source, [&](const PanelRows& rows) {
      std::byte* const to = piece.bytes.data() + rows.matrix * each;
      if (form == MatrixForm::kPacked) {
        pack_panels(m.dtype, m.rows, m.columns, rows.bytes.data(), rows.begin, rows.end, to);
      } else if (fits &&
                 !pack_compact_panels(m.rows, m.columns, rows.bytes.data(), rows.begin, rows.end, to)) {
        fits = false;
      }
    });
    if (!fits) {
      memory_.give_back(piece);
      return nullptr;
    }
    if (keep) packed_cache_->add(source.name, m.dtype, shape, piece.bytes, source_hash, loader_);
    return std::make_unique<MatrixTensor>(m, piece.bytes, form, piece.owner);
  }

  /// What one loading task has read: the rows of the panels from `begin` to `end` - 1 of a matrix.
  struct PanelRows {
    std::size_t matrix;
    std::int64_t begin, end;
    std::span<const std::byte> bytes;
  };

  /// Reads all matrices from several threads, and gives a hash of their bytes.
  std::uint64_t read_rows(const MatrixShape& m, const WeightSource& source,
                          const std::function<void(const PanelRows&)>& use) {
    const std::size_t stride = row_bytes(m.dtype, m.columns);
    const std::int64_t n_panels = (m.rows + kPanelRows - 1) / kPanelRows;
    const std::int64_t per_matrix = (n_panels + kPanelsPerTask - 1) / kPanelsPerTask;
    std::vector<std::vector<std::byte>> buffers(to_size(loader_.n_threads()));
    std::vector<std::uint64_t> hashes(to_size(m.n_matrices * per_matrix));
    std::mutex failure_mutex;
    std::exception_ptr failure;
    loader_.parallel_for(static_cast<std::int32_t>(hashes.size()), [&](std::int32_t task, int thread) {
      const auto matrix = to_size(task / per_matrix);
      const std::int64_t begin = task % per_matrix * kPanelsPerTask;
      const std::int64_t end = std::min(begin + kPanelsPerTask, n_panels);
      const std::int64_t first_row = begin * kPanelRows;
      const std::int64_t n_rows = std::min(end * kPanelRows, m.rows) - first_row;
      const std::span<const std::byte> rows =
          source.bytes.subspan(matrix * m.matrix_bytes(MatrixForm::kCanonical) + to_size(first_row) * stride,
                               to_size(n_rows) * stride);
      std::vector<std::byte>& buffer = buffers[to_size(thread)];
      try {
        buffer.resize(rows.size());
        source.read(rows, buffer);
        hashes[to_size(task)] = base::hash64(buffer);
        use({matrix, begin, end, buffer});
      } catch (...) {
        const std::lock_guard lock(failure_mutex);
        failure = std::current_exception();
      }
    });
    if (failure) std::rethrow_exception(failure);
    return base::hash64(std::as_bytes(std::span(hashes)));
  }

  Isa isa_;
  base::Cores cores_;
  int n_threads_;
  bool repack_;
  std::shared_ptr<PackedCache> packed_cache_;
  DeviceInfo info_;
  mutable std::mutex loader_mutex_;
  WeightMemory memory_;
  base::Pool loader_;
  std::vector<std::weak_ptr<base::FileWatch>> sources_;  // Files that weights are read from in place.
  mutable base::LateThread learning_;                    // Of their bytes.
};

}  // namespace

std::shared_ptr<Device> make_device(const CpuOptions& options) {
  return std::make_shared<CpuDevice>(options);
}

Backend backend() {
  return {.name = "cpu",
          .list = [] { return std::vector{info_of("cpu", base::default_threads())}; },
          .open =
              [](std::string_view device, const OpenOptions& options) {
                CpuOptions cpu;
                cpu.name = options.name.empty() ? std::string(device) : options.name;
                cpu.n_threads = options.n_threads;
                cpu.isa = isa_named(options.feature);
                cpu.repack = options.repack;
                if (options.repack && !options.kept.folder.empty()) {
                  cpu.packed_cache = std::make_shared<PackedCache>(
                      PackedCacheOptions{.folder = options.kept.folder, .max_bytes = options.kept.max_bytes},
                      PackedModel{.name = options.kept.model,
                                  .key = options.kept.key,
                                  .identity = options.kept.identity,
                                  .n_bytes = options.kept.n_bytes});
                }
                return make_device(cpu);
              },
          .may_find_gpus = [] { return false; },
          .has = [](std::string_view device) { return device == "cpu"; }};
}

}  // namespace weft::cpu
