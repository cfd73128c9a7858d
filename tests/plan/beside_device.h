#pragma once
// A device that runs concurrently with the host: its steps run on a thread of their own.
#include <future>
#include <memory>
#include <utility>
#include <vector>

#include "backend/forwarding_device.h"

namespace weft::test {

class BesidePlan final : public ForwardingPlan {
 public:
  using ForwardingPlan::ForwardingPlan;
  void submit(std::span<const std::int64_t> symbols, const Bindings& bindings,
              const Changes& actual) override {
    step_ = std::async(std::launch::async,
                       [this, own = std::vector(symbols.begin(), symbols.end()), bindings, actual] {
                         inner_->submit(own, bindings, actual);
                         inner_->wait();
                       });
  }
  void wait() override {
    if (step_.valid()) step_.get();
  }

 private:
  std::future<void> step_;  // Last: it ends before the members that it uses.
};

class BesideDevice final : public ForwardingDevice {
 public:
  BesideDevice(std::shared_ptr<Device> inner, std::string name)
      : ForwardingDevice(std::move(inner), std::move(name)) {
    info_.is_async = true;
  }
  PlanMemory memory_of(const Graph& graph, const CompileOptions& options) const override {
    return inner_->memory_of(graph, alone(options));
  }
  std::unique_ptr<DevicePlan> compile(const Graph& graph, const Bindings& bindings,
                                      const CompileOptions& options) override {
    return std::make_unique<BesidePlan>(inner_->compile(graph, bindings, alone(options)));
  }

 private:
  /// Without what only those may share that run by turns with the host.
  static CompileOptions alone(CompileOptions options) {
    options.pool = nullptr;
    options.workspaces = nullptr;
    return options;
  }
};

}  // namespace weft::test
