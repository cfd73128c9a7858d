// A custom device: it computes a few ops with plain loops, concurrently with the host, and can be slowed
// down. Each of its ops is checked against the reference. Then a graph runs half on it and half on the CPU.
//
//   backend [MILLISECONDS]   minimum time of each of its steps
#include <weft/backend.h>
#include <weft/conformance.h>
#include <weft/error.h>
#include <weft/graph.h>
#include <weft/plan.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace {

namespace ops = weft::ops;

constexpr std::uint64_t kMemory = std::uint64_t{1} << 30;

/// Counts of the calls to the device.
struct Counts {
  std::atomic<int> weights{0}, plans{0}, steps{0}, nodes{0};
};

std::size_t elements(std::span<const std::int64_t> shape) {
  std::int64_t n = 1;
  for (const std::int64_t size : shape) n *= size;
  return static_cast<std::size_t>(n);
}

/// Its memory is the host's, and all that it holds are floats.
class SlowTensor final : public weft::DeviceTensor {
 public:
  explicit SlowTensor(std::span<const std::int64_t> shape) : values_(elements(shape)) {}
  weft::DType dtype() const override { return weft::DType::kF32; }
  std::size_t bytes() const override { return values_.size() * sizeof(float); }
  std::span<std::byte> host() override { return std::as_writable_bytes(std::span(values_)); }
  float* data() { return values_.data(); }

 private:
  std::vector<float> values_;
};

/// A value in a step.
struct Matrix {
  float* data = nullptr;
  std::int64_t rows = 0, columns = 0;
  float* row(std::int64_t r) const { return data + (rows == 1 ? 0 : r) * columns; }  // One serves all.
};

/// Row r of a node's result, from the inputs in their order. weft/graph/op.h defines the ops.
void compute_row(const weft::Node& node, const std::vector<Matrix>& in, const Matrix& out, std::int64_t r) {
  const float* const x = in[0].row(r);
  float* const y = out.row(r);
  const std::int64_t n = out.columns;
  if (weft::get_op<ops::Add>(node)) {
    for (std::int64_t c = 0; c < n; ++c) y[c] = x[c] + in[1].row(r)[c];
  } else if (weft::get_op<ops::Mul>(node)) {
    for (std::int64_t c = 0; c < n; ++c) y[c] = x[c] * in[1].row(r)[c];
  } else if (const auto* activate = weft::get_op<ops::Activate>(node)) {
    const bool relu = activate->kind == weft::Activation::kRelu;
    for (std::int64_t c = 0; c < n; ++c)
      y[c] = relu ? std::max(x[c], 0.0f) : 0.5f * x[c] * (1.0f + std::erf(x[c] * std::sqrt(0.5f)));
  } else if (weft::get_op<ops::Softmax>(node)) {
    const float most = *std::max_element(x, x + n);
    const bool nothing = most == -std::numeric_limits<float>::infinity();  // Such a row has zeros.
    float sum = 0.0f;
    for (std::int64_t c = 0; c < n; ++c) sum += y[c] = nothing ? 0.0f : std::exp(x[c] - most);
    for (std::int64_t c = 0; c < n && !nothing; ++c) y[c] /= sum;
  } else {  // Matmul: the weight, the rows, and perhaps a bias.
    for (std::int64_t c = 0; c < n; ++c) {
      double sum = in.size() > 2 ? in[2].data[c] : 0.0f;
      for (std::int64_t i = 0; i < in[0].columns; ++i) sum += in[0].row(c)[i] * in[1].row(r)[i];
      y[c] = static_cast<float>(sum);
    }
  }
}

/// By value: the elements of what stays inside a plan, at the upper bounds of all symbols.
std::vector<std::size_t> temporaries(const weft::Graph& graph) {
  std::vector<std::size_t> result;
  for (const weft::ValueInfo& value : graph.values()) {
    const auto id = static_cast<weft::ValueId>(result.size());
    const bool inside = value.kind == weft::ValueKind::kResult && !graph.is_output(id);
    result.push_back(inside ? elements(value.shape.dims(graph.bounds())) : 0);
  }
  return result;
}

weft::PlanMemory memory_of_plan(const weft::Graph& graph) {
  weft::PlanMemory memory;
  for (const std::size_t n : temporaries(graph)) memory.own += n * sizeof(float);
  return memory;
}

class SlowPlan final : public weft::DevicePlan {
 public:
  SlowPlan(const weft::Graph& graph, const std::atomic<bool>* cancelled, std::shared_ptr<Counts> counts,
           std::chrono::milliseconds delay)
      : graph_(graph), cancelled_(cancelled), counts_(std::move(counts)), delay_(delay) {
    for (const std::size_t n : temporaries(graph_)) inside_.emplace_back(n);
  }

  void submit(std::span<const std::int64_t> symbols, const weft::Bindings& bindings,
              const weft::Changes& /*actual*/) override {
    std::vector<Matrix> values;
    for (std::size_t v = 0; v < bindings.size(); ++v) {
      const weft::Shape& shape = graph_.values()[v].shape;
      float* const data =
          bindings[v] != nullptr ? static_cast<SlowTensor*>(bindings[v])->data() : inside_[v].data();
      values.push_back({data, shape.rows(symbols), shape.columns()});
    }
    // Concurrently with the host, or inside wait() where no thread can be started.
    step_ = std::async([this, values = std::move(values)] { run(values); });
  }
  void wait() override {
    if (step_.valid()) step_.get();
  }
  weft::PlanMemory memory() const override { return memory_of_plan(graph_); }

 private:
  void run(const std::vector<Matrix>& values) {
    ++counts_->steps;
    std::this_thread::sleep_for(delay_);
    for (const weft::Node& node : graph_.nodes()) {
      if (weft::is_cancelled(cancelled_)) return;
      ++counts_->nodes;
      std::vector<Matrix> in;
      for (const weft::ValueId input : node.inputs) in.push_back(values[weft::index(input)]);
      const Matrix& out = values[weft::index(node.output)];
      for (std::int64_t r = 0; r < out.rows; ++r) compute_row(node, in, out, r);
    }
  }

  const weft::Graph graph_;
  const std::atomic<bool>* const cancelled_;
  const std::shared_ptr<Counts> counts_;
  const std::chrono::milliseconds delay_;
  std::vector<std::vector<float>> inside_;  // By value.
  std::future<void> step_;                  // Last: it ends before the members that it uses.
};

class SlowDevice final : public weft::Device {
 public:
  SlowDevice(weft::DeviceInfo info, std::shared_ptr<Counts> counts, std::chrono::milliseconds delay)
      : info_(std::move(info)), counts_(std::move(counts)), delay_(delay) {}
  const weft::DeviceInfo& info() const override { return info_; }

  bool supports(const weft::Graph& graph, const weft::Node& node) const override {
    const weft::ValueInfo& out = graph.value(node.output);
    if (out.shape.rank() == 0 || !out.shape.back().is_constant())
      return false;  // Only rows with a fixed number of columns.
    for (const weft::ValueId input : node.inputs)
      if (graph.value(input).dtype != weft::DType::kF32) return false;
    const weft::ValueInfo& first = graph.value(node.inputs[0]);
    if (weft::get_op<ops::Matmul>(node)) return first.kind == weft::ValueKind::kWeight;
    if (weft::get_op<ops::Add>(node) || weft::get_op<ops::Mul>(node)) {
      const weft::Shape& second = graph.value(node.inputs[1]).shape;
      return first.shape == out.shape && (second == out.shape || second == weft::Shape{out.shape.back()});
    }
    const auto* activate = weft::get_op<ops::Activate>(node);
    if (activate != nullptr)
      return activate->kind == weft::Activation::kRelu || activate->kind == weft::Activation::kGeluErf;
    return weft::get_op<ops::Softmax>(node) != nullptr;
  }
  std::size_t bytes_of(weft::ValueKind /*kind*/, weft::DType /*dtype*/,
                       std::span<const std::int64_t> shape) const override {
    return elements(shape) * sizeof(float);
  }
  std::unique_ptr<weft::DeviceTensor> create_weight(weft::DType /*dtype*/,
                                                    std::span<const std::int64_t> shape,
                                                    const weft::WeightSource& source) override {
    ++counts_->weights;
    auto tensor = std::make_unique<SlowTensor>(shape);
    source.read(source.bytes, tensor->host());
    return tensor;
  }
  std::unique_ptr<weft::DeviceTensor> create_host_tensor(weft::DType /*dtype*/,
                                                         std::span<const std::int64_t> shape) override {
    return std::make_unique<SlowTensor>(shape);
  }
  weft::PlanMemory memory_of(const weft::Graph& graph, const weft::CompileOptions&) const override {
    return memory_of_plan(graph);
  }
  std::unique_ptr<weft::DevicePlan> compile(const weft::Graph& graph, const weft::Bindings& /*bindings*/,
                                            const weft::CompileOptions& options) override {
    ++counts_->plans;
    return std::make_unique<SlowPlan>(graph, options.cancelled, counts_, delay_);
  }

 private:
  const weft::DeviceInfo info_;
  const std::shared_ptr<Counts> counts_;
  const std::chrono::milliseconds delay_;
};

weft::Backend slow_backend(const std::shared_ptr<Counts>& counts, std::chrono::milliseconds delay) {
  const weft::DeviceInfo info = {.name = "slow0",
                                 .backend = "slow",
                                 .description = "plain loops, in no hurry",
                                 .memory_total = kMemory,
                                 .memory_free = kMemory,
                                 .is_async = true,
                                 .on_host_cpu = true};
  return {.name = "slow",
          .list = [=] { return std::vector{info}; },
          .open = [=](std::string_view, const weft::OpenOptions& options) -> std::shared_ptr<weft::Device> {
            weft::DeviceInfo own = info;
            if (!options.name.empty()) own.name = options.name;
            return std::make_shared<SlowDevice>(own, counts, delay);
          }};
}

}  // namespace

// Built as a module, weft_backend_slow.so in the folder lib/weft, the device is there for every program of
// weft: `weft test-backend slow0`.
extern "C" __attribute__((visibility("default"))) const weft::ModuleInfo* weft_backend_module() {
  static const weft::ModuleInfo kModule = {.add = [](weft::Registry& registry) {
    registry.add(slow_backend(std::make_shared<Counts>(), std::chrono::milliseconds(1)));
  }};
  return &kModule;
}

int main(int argc, char** argv) try {
  const std::chrono::milliseconds delay(argc == 2 ? std::atoi(argv[1]) : 1);
  const auto counts = std::make_shared<Counts>();
  const auto registry = weft::load_backends();
  registry->add(slow_backend(counts, delay));

  const std::vector<weft::ConformanceCase> cases = weft::check_conformance(*registry, "slow0");
  int n_failed = 0;
  for (const weft::ConformanceRow& row : weft::by_op(cases)) {
    n_failed += row.n_failed;
    if (row.n_unsupported < row.n_cases)
      std::printf("%s: %d cases of %d, %d failed\n", row.op.c_str(), row.n_cases - row.n_unsupported,
                  row.n_cases, row.n_failed);
  }

  weft::Graph g;
  const weft::Dim n = g.symbol("n", 1, 32);
  const weft::Value x = g.input("x", {n, 64});
  const weft::Value up = weft::linear(x, g.weight("up.weight", {128, 64}), g.weight("up.bias", {128}));
  const weft::Value down = weft::linear(weft::gelu(up).named("up.gelu"), g.weight("down.weight", {16, 128}));
  g.output("y", weft::softmax(down));

  std::vector<float> up_weight(128 * 64), up_bias(128, 0.5f), down_weight(16 * 128);
  for (std::size_t i = 0; i < up_weight.size(); ++i) up_weight[i] = std::sin(static_cast<float>(i));
  for (std::size_t i = 0; i < down_weight.size(); ++i) down_weight[i] = std::cos(static_cast<float>(i));
  weft::Plan alone(g, weft::open_devices(*registry, {"cpu"}));
  weft::Plan both(g, weft::open_devices(*registry, {"slow0"}),
                  {.pins = {{"^up", "slow0"}, {"^down", "cpu"}}});
  for (weft::Plan* const plan : {&alone, &both}) {
    plan->set_weight("up.weight", up_weight);
    plan->set_weight("up.bias", up_bias);
    plan->set_weight("down.weight", down_weight);
  }
  std::printf("%s", both.explain().c_str());

  const int nodes_before = counts->nodes, steps_before = counts->steps;
  float difference = 0.0f;
  for (const int rows : {1, 32, 7}) {
    std::vector<float> input(static_cast<std::size_t>(rows) * 64);
    for (std::size_t i = 0; i < input.size(); ++i) input[i] = std::sin(static_cast<float>(7 * i));
    for (weft::Plan* const plan : {&alone, &both}) plan->run({{n, rows}}, {{"x", input}});
    const std::vector<float> expected = alone.read("y"), got = both.read("y");
    for (std::size_t i = 0; i < got.size(); ++i)
      difference = std::max(difference, std::abs(got[i] - expected[i]));
  }
  const int n_nodes = counts->nodes - nodes_before, n_steps = counts->steps - steps_before;
  std::printf("slow0 has %d weights and made %d plans; %d nodes in %d steps differ by %.1e from the CPU's\n",
              counts->weights.load(), counts->plans.load(), n_nodes, n_steps,
              static_cast<double>(difference));
  return n_failed == 0 && n_steps == 3 && difference < 1e-5f ? 0 : 1;
} catch (const weft::Error& error) {
  std::fprintf(stderr, "backend: %s\n", error.what());
  return 1;
}
