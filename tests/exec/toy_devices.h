#pragma once
// Devices that compute sums on the host, on request concurrently on their own thread, and a graph over
// several of them.
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "bare_device.h"
#include "exec/plan.h"

namespace weft::exec {

class ToyTensor final : public DeviceTensor {
 public:
  explicit ToyTensor(std::size_t n) : values(n) {}
  DType dtype() const override { return DType::kF32; }
  std::size_t bytes() const override { return values.size() * sizeof(float); }
  std::span<std::byte> host() override { return std::as_writable_bytes(std::span(values)); }
  std::vector<float> values;
};

/// Records the calls of a device, and hooks into them.
struct Toy {
  std::function<void()> on_submit = [] {};
  std::vector<std::vector<std::int64_t>> steps;
  std::vector<Changes> changes;
  std::function<void()> during = [] {};  // In the middle of each step, on the device's thread.
  bool in_order = false;
  std::shared_future<void> last;  // Of the steps in order.
};

class ToyPlan final : public test::BarePlan {
 public:
  ToyPlan(const Graph& graph, Toy& toy, bool is_async) : graph_(graph), toy_(toy), is_async_(is_async) {}
  void submit(std::span<const std::int64_t> symbols, const Bindings& bindings,
              const Changes& actual) override {
    toy_.steps.emplace_back(symbols.begin(), symbols.end());
    toy_.changes.push_back(actual);
    toy_.on_submit();
    if (is_async_) {
      work_ = std::async(std::launch::async, [this, symbols, &bindings, before = toy_.last] {
        if (before.valid()) before.wait();
        compute(symbols, bindings);
      });
      if (toy_.in_order) toy_.last = work_;
    } else {
      compute(symbols, bindings);
    }
  }
  void wait() override {
    if (work_.valid()) std::exchange(work_, {}).get();
  }

 private:
  void compute(std::span<const std::int64_t> symbols, const Bindings& bindings) {
    toy_.during();
    std::vector<std::vector<float>> values(graph_.values().size());
    for (std::size_t v = 0; v < values.size(); ++v)
      if (graph_.values()[v].kind == ValueKind::kInput)
        values[v] = static_cast<ToyTensor*>(bindings[v])->values;
    for (const Node& node : graph_.nodes()) {
      if (get_op<ops::StoreCache>(node) != nullptr) {  // What it leaves depends on all that was stored.
        const auto state = static_cast<std::size_t>(state_behind(graph_, node.inputs[0]));
        float& left = static_cast<ToyTensor*>(bindings[state])->values[0];
        const auto& rows = values[static_cast<std::size_t>(node.inputs[1])];
        for (std::int64_t i = 0; i < graph_.value(node.inputs[1]).shape.elements(symbols); ++i)
          left = 0.75f * left + rows[static_cast<std::size_t>(i)];
        continue;
      }
      const auto n = static_cast<std::size_t>(graph_.value(node.output).shape.elements(symbols));
      auto& out = values[static_cast<std::size_t>(node.output)];
      out.resize(n);
      for (std::size_t i = 0; i < n; ++i) {
        const auto in = [&](std::size_t k) { return values[static_cast<std::size_t>(node.inputs[k])][i]; };
        out[i] = get_op<ops::Add>(node) != nullptr ? in(0) + in(1) : in(0) * get_op<ops::Scale>(node)->factor;
      }
    }
    for (const ValueId output : graph_.outputs()) {
      const auto& made = values[static_cast<std::size_t>(output)];
      std::copy(made.begin(), made.end(),
                static_cast<ToyTensor*>(bindings[static_cast<std::size_t>(output)])->values.begin());
    }
  }
  const Graph graph_;
  Toy& toy_;
  const bool is_async_;
  std::shared_future<void> work_;
};

class ToyDevice final : public test::BareDevice {
 public:
  explicit ToyDevice(std::string name, bool is_async = false) : BareDevice(std::move(name)) {
    info_.is_async = is_async;
  }
  std::unique_ptr<DeviceTensor> create_host_tensor(DType, std::span<const std::int64_t> shape) override {
    std::size_t n = 1;
    for (const std::int64_t dim : shape) n *= static_cast<std::size_t>(dim);
    return std::make_unique<ToyTensor>(n);
  }
  std::unique_ptr<DevicePlan> compile(const Graph& graph, const Bindings&, const CompileOptions&) override {
    ++n_compiled;
    return std::make_unique<ToyPlan>(graph, toy, info_.is_async);
  }
  bool in_order() const override { return toy.in_order; }
  Toy toy;
  int n_compiled = 0;
};

/// A gate that one thread opens and another waits for, with a timeout.
class Gate {
 public:
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    condition_.notify_all();
  }
  bool wait() {
    std::unique_lock lock(mutex_);
    return condition_.wait_for(lock, std::chrono::seconds(10), [&] { return open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable condition_;
  bool open_ = false;
};

inline constexpr Changes kAll = {.shapes = true, .tensors = true, .topology = true};
inline constexpr int kColumns = 4, kMaxRows = 16;

class SeveralDevices : public testing::Test {
 protected:
  SeveralDevices() {
    n = graph.add_symbol("n", 0, kMaxRows);
    x = graph.add_input("x", DType::kF32, {Dim(1, n), kColumns});
  }
  ValueId scaled(ValueId v, float factor) { return graph.add(ops::Scale{factor}, {v}, "scaled"); }

  /// The graph placed, with inputs and outputs bound at home.
  PlacedGraph placed(const std::vector<int>& device_of,
                     const std::vector<bool>& is_async = {false, true, false}) {
    PlacedGraph result{graph, device_of,
                       std::vector<Bindings>(is_async.size(), Bindings(graph.values().size(), nullptr))};
    const Splits splits = split(graph, device_of, is_async);
    const auto bind = [&](ValueId value) {
      tensors.push_back(std::make_unique<ToyTensor>(kColumns * kMaxRows));
      for (std::size_t i = 0; i < tensors.back()->values.size(); ++i)
        tensors.back()->values[i] = static_cast<float>(i % 7) + static_cast<float>(value);
      const auto home = static_cast<std::size_t>(std::max(splits.home[static_cast<std::size_t>(value)], 0));
      result.bindings[home][static_cast<std::size_t>(value)] = tensors.back().get();
      bound[value] = tensors.back().get();
    };
    for (std::size_t v = 0; v < graph.values().size(); ++v)
      if (graph.values()[v].kind == ValueKind::kInput) bind(static_cast<ValueId>(v));
    for (const ValueId output : graph.outputs()) bind(output);
    return result;
  }
  Plan make(const std::vector<int>& device_of) {
    return Plan({&host, &beside, &other}, placed(device_of), {.allowed = kAll, .cancelled = &cancelled});
  }
  std::atomic<bool> cancelled{false};
  static Step step(std::span<const std::int64_t> symbols, Changes actual = {}) {
    return {symbols, actual, {}, nullptr, {}};
  }

  /// The host, and further devices that a value passes through.
  Plan make_chain(int n_devices) {
    std::vector<int> device_of;
    for (int d = 0; d < n_devices; ++d) {
      x = scaled(x, static_cast<float>(d + 2));
      device_of.push_back(d);
    }
    graph.add_output(x);
    return make_beside(device_of, n_devices);
  }
  Plan make_beside(const std::vector<int>& device_of, int n_devices) {
    std::vector<Device*> devices = {&host, &beside, &second, &third};
    devices.resize(static_cast<std::size_t>(n_devices));
    return {devices, placed(device_of, exec::is_async(devices)), {.allowed = kAll, .cancelled = &cancelled}};
  }
  std::vector<Toy*> toys() { return {&host.toy, &beside.toy, &second.toy, &third.toy}; }

  ToyDevice host{"host"}, beside{"beside", true}, other{"other"}, second{"second", true},
      third{"third", true};
  Graph graph;
  SymbolId n;
  ValueId x;
  std::vector<std::unique_ptr<ToyTensor>> tensors;
  std::map<ValueId, ToyTensor*> bound;
  const std::int64_t five[1] = {5}, six[1] = {6};
};

}  // namespace weft::exec
