#pragma once
// A device like the CPU with options for tests: little memory, concurrent steps, errors.
#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backend/forwarding_device.h"
#include "weft/backend/registry.h"
#include "weft/error.h"
#include "weft/model.h"

namespace weft::test {

/// Faults and counters of the plans of a device.
struct Conduct {
  std::atomic<bool> fails{false};        ///< Steps fail. The device's thread reads it.
  std::function<void()> during = [] {};  ///< In each step, on the device's thread.
  int n_bound_anew = 0;                  ///< Steps with other tensors.
};

/// A plan that fails on demand, and runs concurrently with the host on demand.
class FailingPlan final : public ForwardingPlan {
 public:
  FailingPlan(std::unique_ptr<DevicePlan> inner, std::shared_ptr<Conduct> conduct, bool is_async)
      : ForwardingPlan(std::move(inner)), conduct_(std::move(conduct)), is_async_(is_async) {}
  void submit(std::span<const std::int64_t> symbols, const Bindings& bindings,
              const Changes& actual) override {
    conduct_->n_bound_anew += actual.tensors ? 1 : 0;
    const auto work = [this, symbols, &bindings, actual] {
      conduct_->during();
      if (conduct_->fails) throw Error(ErrorCode::kDevice, "the device is lost");
      inner_->submit(symbols, bindings, actual);
    };
    if (is_async_) {
      work_ = std::async(std::launch::async, work);
    } else {
      work();
    }
  }
  void wait() override {
    if (work_.valid()) work_.get();
    inner_->wait();
  }
  /// The CPU's plan counts them on the thread that computes.
  double kernel_seconds() const override { return is_async_ ? 0.0 : inner_->kernel_seconds(); }

 private:
  std::shared_ptr<Conduct> conduct_;
  const bool is_async_;
  std::future<void> work_;
};

/// A device like the CPU with little memory and without some ops, of a backend that the test brings.
class SmallDevice final : public ForwardingDevice {
 public:
  SmallDevice(std::shared_ptr<Device> inner, std::string name, std::uint64_t memory, bool can_attend,
              bool is_async)
      : ForwardingDevice(std::move(inner), std::move(name)), attends(can_attend) {
    info_.backend = "small";
    info_.memory_total = info_.memory_free = memory;
    info_.is_async = is_async;
  }
  bool supports(const Graph& graph, const Node& node) const override {
    return (attends || get_op<ops::Attention>(node) == nullptr) && inner_->supports(graph, node);
  }
  PlanMemory memory_of(const Graph& graph, const CompileOptions& options) const override {
    return inner_->memory_of(graph, own(options));
  }
  std::unique_ptr<DevicePlan> compile(const Graph& graph, const Bindings& bindings,
                                      const CompileOptions& options) override {
    return std::make_unique<FailingPlan>(inner_->compile(graph, bindings, own(options)), conduct,
                                         info_.is_async);
  }
  const std::shared_ptr<Conduct> conduct = std::make_shared<Conduct>();
  bool attends;

 private:
  CompileOptions own(CompileOptions options) const {
    if (info_.is_async) options.workspaces = nullptr;  // Its plans run when their threads do.
    return options;
  }
};

/// A registry whose devices small0, small1, ... are like the CPU with `memory` bytes. `small_host`: the CPU's
/// plans have a conduct, too.
inline std::shared_ptr<Registry> small_registry(std::uint64_t memory, bool attends = true,
                                                bool is_async = false, bool small_host = false,
                                                int n_small = 1) {
  const auto registry = load_backends(), plain = load_backends();
  const auto open = [=](std::string_view name, const OpenOptions& options) {
    const bool is_host = name == "cpu";
    const auto inner = plain->open("cpu", {.n_threads = options.n_threads});
    return std::make_shared<SmallDevice>(inner, std::string(name),
                                         is_host ? inner->info().memory_total : memory, is_host || attends,
                                         !is_host && is_async);
  };
  const auto add = [&](const std::string& name) {
    registry->add({name, [=] { return std::vector{DeviceInfo{.name = name, .backend = name}}; }, open});
  };
  if (small_host) add("cpu");
  for (int i = 0; i < n_small; ++i) add("small" + std::to_string(i));
  return registry;
}

/// A registry whose CPU has `bytes` available, of `total` bytes (0: as many).
inline std::shared_ptr<Registry> host_registry(std::uint64_t bytes, std::uint64_t total = 0) {
  class Host final : public ForwardingDevice {
   public:
    Host(std::shared_ptr<Device> inner, std::uint64_t total, std::uint64_t bytes)
        : ForwardingDevice(std::move(inner), "cpu") {
      info_.memory_total = total;
      info_.memory_free = bytes;
    }
  };
  const auto registry = load_backends(), plain = load_backends();
  registry->add({"cpu", [] { return std::vector{DeviceInfo{.name = "cpu", .backend = "cpu"}}; },
                 [=](std::string_view, const OpenOptions& options) {
                   return std::make_shared<Host>(plain->open("cpu", {.n_threads = options.n_threads}),
                                                 total > 0 ? total : bytes, bytes);
                 }});
  return registry;
}

inline std::shared_ptr<const Model> load_with_small(const std::filesystem::path& path, std::uint64_t memory,
                                                    bool attends, PlacementParams placement = {},
                                                    bool is_async = false, bool small_host = false,
                                                    int n_small = 1) {
  ModelParams params;
  params.n_threads = 1;
  params.placement = std::move(placement);
  params.placement.devices.clear();
  for (int i = 0; i < n_small; ++i) params.placement.devices.push_back("small" + std::to_string(i));
  params.placement.n_ctx = 256;
  params.placement.n_ubatch = 16;
  params.registry = small_registry(memory, attends, is_async, small_host, n_small);
  return Model::load(path, params);
}

}  // namespace weft::test
