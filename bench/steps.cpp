// Cost of a step of many small nodes: a graph of 1,000 nodes (linear, + bias, relu, + residual, 250 times)
// over rows of WIDTH (32). The cases are nothing changed, other shapes, another tensor, another graph. Prints
// microseconds of whole steps, and of the host's part alone. For the latter the CPU calls no kernels, and
// does the rest of a step's work.
//
//   bench_steps [STEPS] [WIDTH]
#include <weft/backend.h>
#include <weft/plan.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace {

constexpr int kBlocks = 250, kRounds = 5;

/// `factor` makes graphs differ, in their last node.
weft::Graph make_graph(int width, float factor) {
  weft::Graph g;
  const weft::Dim n = g.symbol("n", 1, 8);
  weft::Value x = g.input("x", {n, width});
  for (int i = 0; i < kBlocks; ++i) {
    const std::string block = "block." + std::to_string(i);
    x = x + weft::relu(weft::linear(x, g.weight(block + ".weight", {width, width})) +
                       g.weight(block + ".bias", {width}));
  }
  g.output("y", x * factor);
  return g;
}

/// The CPU, whose plans are always cancelled: they begin and end each launch of a step and call no kernel.
class NoKernels final : public weft::Device {
 public:
  explicit NoKernels(std::shared_ptr<weft::Device> cpu) : cpu_(std::move(cpu)) {}
  const weft::DeviceInfo& info() const override { return cpu_->info(); }
  bool supports(const weft::Graph& graph, const weft::Node& node) const override {
    return cpu_->supports(graph, node);
  }
  std::size_t bytes_of(weft::ValueKind kind, weft::DType dtype,
                       std::span<const std::int64_t> shape) const override {
    return cpu_->bytes_of(kind, dtype, shape);
  }
  std::unique_ptr<weft::DeviceTensor> create_weight(weft::DType dtype, std::span<const std::int64_t> shape,
                                                    const weft::WeightSource& source) override {
    return cpu_->create_weight(dtype, shape, source);
  }
  std::unique_ptr<weft::DeviceTensor> create_host_tensor(weft::DType dtype,
                                                         std::span<const std::int64_t> shape) override {
    return cpu_->create_host_tensor(dtype, shape);
  }
  weft::PlanMemory memory_of(const weft::Graph& graph, const weft::CompileOptions& options) const override {
    return cpu_->memory_of(graph, options);
  }
  std::unique_ptr<weft::DevicePlan> compile(const weft::Graph& graph, const weft::Bindings& bindings,
                                            const weft::CompileOptions& options) override {
    weft::CompileOptions own = options;
    own.cancelled = &always_;
    return cpu_->compile(graph, bindings, own);
  }

 private:
  const std::shared_ptr<weft::Device> cpu_;
  const std::atomic<bool> always_{true};
};

weft::Devices the_cpu(bool kernels) {
  const auto registry = weft::load_backends();
  if (!kernels) {
    weft::Backend cpu = *std::find_if(registry->backends().begin(), registry->backends().end(),
                                      [](const weft::Backend& backend) { return backend.name == "cpu"; });
    cpu.open = [open = cpu.open](std::string_view device, const weft::OpenOptions& options) {
      return std::make_shared<NoKernels>(open(device, options));
    };
    registry->add(std::move(cpu));
  }
  return weft::open_devices(*registry, {"cpu"});
}

/// Of the best round: others run on this machine.
template <typename Step>
double microseconds(int n_steps, Step step) {
  double best = std::numeric_limits<double>::infinity();
  for (int round = 0; round < kRounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < n_steps / kRounds + 1; ++i) step(i);
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
    best = std::min(best, took.count() / (n_steps / kRounds + 1));
  }
  return best;
}

void measure(int n_steps, int width, bool kernels, const char* what) {
  weft::Plan plan(make_graph(width, 1.0f), the_cpu(kernels),
                  {.allowed = {.shapes = true, .tensors = true, .topology = true}, .n_threads = 1});
  const auto columns = static_cast<std::size_t>(width);
  const std::vector<float> weight(columns * columns, 1e-3f), bias(columns, 0.5f), x(8 * columns, 1.0f);
  for (int i = 0; i < kBlocks; ++i) {
    plan.set_weight("block." + std::to_string(i) + ".weight", weight);
    plan.set_weight("block." + std::to_string(i) + ".bias", bias);
  }
  const auto rows = [&](int n) { return std::span(x).first(static_cast<std::size_t>(n) * columns); };
  const double none = microseconds(n_steps, [&](int) { plan.run({{"n", 1}}, {{"x", rows(1)}}); });
  const double shapes =
      microseconds(n_steps, [&](int i) { plan.run({{"n", 1 + i % 2}}, {{"x", rows(1 + i % 2)}}); });
  const double tensors = microseconds(n_steps / 10 + 1, [&](int) {
    plan.set_weight("block.7.bias", bias);
    plan.run({{"n", 1}}, {{"x", rows(1)}});
  });
  const double topology = microseconds(n_steps / 100 + 1, [&](int i) {
    plan.set_graph(make_graph(width, static_cast<float>(2 + i % 2)));
    plan.run({{"n", 1}}, {{"x", rows(1)}});
  });
  std::printf("%s: none %.1f, shapes %.1f, tensors %.1f, topology %.0f\n", what, none, shapes, tensors,
              topology);
}

}  // namespace

int main(int argc, char** argv) {
  const int n_steps = argc > 1 ? std::atoi(argv[1]) : 10000;
  const int width = argc > 2 ? std::atoi(argv[2]) : 32;
  measure(n_steps, width, true, "whole steps");
  measure(n_steps, width, false, "the host's part");
  return 0;
}
