#pragma once
// A device and a plan that forward all calls; tests derive from them.
#include <memory>
#include <string>
#include <utility>

#include "weft/backend/device.h"

namespace weft::test {

class ForwardingPlan : public DevicePlan {
 public:
  explicit ForwardingPlan(std::unique_ptr<DevicePlan> inner) : inner_(std::move(inner)) {}
  void submit(std::span<const std::int64_t> symbols, const Bindings& bindings,
              const Changes& actual) override {
    inner_->submit(symbols, bindings, actual);
  }
  void wait() override { inner_->wait(); }
  PlanMemory memory() const override { return inner_->memory(); }
  double kernel_seconds() const override { return inner_->kernel_seconds(); }
  int n_launches() const override { return inner_->n_launches(); }
  int n_phases() const override { return inner_->n_phases(); }
  std::string describe() const override { return inner_->describe(); }

 protected:
  const std::unique_ptr<DevicePlan> inner_;
};

class ForwardingDevice : public Device {
 public:
  ForwardingDevice(std::shared_ptr<Device> inner, std::string name)
      : inner_(std::move(inner)), info_(inner_->info()) {
    info_.name = std::move(name);
  }
  const DeviceInfo& info() const override { return info_; }
  bool supports(const Graph& graph, const Node& node) const override { return inner_->supports(graph, node); }
  std::size_t bytes_of(ValueKind kind, DType dtype, std::span<const std::int64_t> shape) const override {
    return inner_->bytes_of(kind, dtype, shape);
  }
  DType best_cache_type() const override { return inner_->best_cache_type(); }
  std::unique_ptr<DeviceTensor> create_weight(DType dtype, std::span<const std::int64_t> shape,
                                              const WeightSource& source) override {
    return inner_->create_weight(dtype, shape, source);
  }
  std::unique_ptr<DeviceTensor> create_state(DType dtype, std::span<const std::int64_t> shape) override {
    return inner_->create_state(dtype, shape);
  }
  void read_cells(const DeviceTensor& state, CacheRole role, std::span<const std::int32_t> cells,
                  std::span<std::byte> rows) override {
    inner_->read_cells(state, role, cells, rows);
  }
  void write_cells(DeviceTensor& state, CacheRole role, std::span<const std::int32_t> cells,
                   std::span<const std::byte> rows) override {
    inner_->write_cells(state, role, cells, rows);
  }
  std::unique_ptr<DeviceTensor> create_host_tensor(DType dtype,
                                                   std::span<const std::int64_t> shape) override {
    return inner_->create_host_tensor(dtype, shape);
  }
  PlanMemory memory_of(const Graph& graph, const CompileOptions& options) const override {
    return inner_->memory_of(graph, options);
  }
  std::unique_ptr<DevicePlan> compile(const Graph& graph, const Bindings& bindings,
                                      const CompileOptions& options) override {
    return inner_->compile(graph, bindings, options);
  }

 protected:
  const std::shared_ptr<Device> inner_;
  DeviceInfo info_;
};

}  // namespace weft::test
