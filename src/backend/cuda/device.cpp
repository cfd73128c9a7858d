#include "backend/cuda/device.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "backend/cuda/plan.h"
#include "backend/gpu/launches.h"
#include "weft/error.h"

namespace weft::cuda {
namespace {

/// Whether the kernel's arrays have room for the node (kernels/attention.h).
bool has_room(const Graph& graph, const Node& node) {
  constexpr std::int64_t kMaxColumns = 1024;
  if (const auto* const op = get_op<ops::RaggedAttention>(node))
    return graph.value(node.output).shape.columns() / op->n_heads <= kMaxColumns;
  return true;
}

class CudaDevice final : public gpu::StoringDevice {
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

  PlanMemory memory_of(const Graph& graph, const CompileOptions& options) const override {
    return plan_memory(graph, options.workspaces != nullptr);
  }
  std::unique_ptr<DevicePlan> compile(const Graph& graph, const Bindings& bindings,
                                      const CompileOptions& options) override {
    return make_plan(runtime_, graph, bindings, options);
  }

 private:
  std::unique_ptr<gpu::Buffer> make_buffer(gpu::Place place, std::size_t bytes) override {
    return std::make_unique<Buffer>(runtime_, place, bytes);
  }
  void wait_for_steps() override { runtime_->wait_idle(); }  // Copies are not in the stream.

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
