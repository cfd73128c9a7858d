// Steps of a CUDA plan: sizes that come again are run by a graph, with the same bits; cancelled steps move
// cells.
#include "weft/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <string>
#include <vector>

#include "backend/cuda/runtime.h"
#include "cuda_test_support.h"
#include "weft/error.h"

namespace weft {
namespace {

using Floats = std::vector<float>;

TEST(CudaPlan, StepsOfAnySizeGiveTheBitsOfAFreshPlan) {
  const auto plan = [] {
    Graph g;
    const Dim n = g.symbol("n", 1, 96);
    const Value x = g.input("x", {n, 40});
    const Value y = softmax(tanh(x * 3.0f));
    g.output("rows", y);
    g.output("sums", sum(y * x, {1}));
    return Plan(std::move(g), open_devices(*test::registry_with_cuda(), {"cuda-emulated0"}),
                {.allowed = {.shapes = true}, .pins = {{".", "cuda-emulated0"}}});
  };
  Plan steps = plan();
  // Each size comes often enough for a graph, and sizes below a graph's use it, too.
  for (const std::size_t n : {1, 1, 1, 96, 1, 96, 95, 96, 2, 1, 3, 64, 64, 64, 60, 1}) {
    Floats x(n * 40);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i + n));
    Plan fresh = plan();
    const auto size = static_cast<std::int64_t>(n);
    steps.run({{"n", size}}, {{"x", x}});
    fresh.run({{"n", size}}, {{"x", x}});
    EXPECT_EQ(steps.read("rows"), fresh.read("rows")) << n;
    EXPECT_EQ(steps.read("sums"), fresh.read("sums")) << n;
  }
}

TEST(CudaPlan, HeadsWithoutRoomInAKernelAreLeftToTheCpu) {
  const auto device = test::emulated_cuda();
  for (const std::int64_t head_dim : {1024, 1025}) {
    Graph graph;
    const ValueId q = graph.add_input("q", DType::kF32, {2, head_dim}),
                  begins = graph.add_input("begins", DType::kI32, {2}),
                  ends = graph.add_input("ends", DType::kI32, {2});
    const ValueId y = graph.add(ops::RaggedAttention{.n_heads = 1}, {q, q, q, begins, ends}, "y");
    EXPECT_EQ(device->supports(graph, graph.node(graph.value(y).producer)), head_dim <= 1024) << head_dim;
  }
}

TEST(CudaPlan, CancelledStepsMoveCellsAndTheNextOnesCompute) {
  const auto device = test::emulated_cuda();
  Graph graph;
  const ValueId cache = graph.add_state("cache", DType::kF32, {64, 1, 4});
  const ValueId from = graph.add_input("from", DType::kI32, {1}),
                to = graph.add_input("to", DType::kI32, {1});
  graph.add(ops::MoveCells{CacheRole::kValues, {}}, {cache, from, to}, "moved");
  const ValueId x = graph.add_input("x", DType::kF32, {8});
  const ValueId y = graph.add(ops::Scale{2.0f}, {x}, "y");
  graph.add_output(y);
  const auto floats = [](DeviceTensor& tensor) {
    return std::span(reinterpret_cast<float*>(tensor.host().data()), tensor.host().size() / sizeof(float));
  };
  const std::vector<std::int64_t> one = {1}, eight = {8}, cells = {64, 1, 4};
  const auto xs = device->create_host_tensor(DType::kF32, eight),
             ys = device->create_host_tensor(DType::kF32, eight);
  const auto f = device->create_host_tensor(DType::kI32, one),
             t = device->create_host_tensor(DType::kI32, one);
  const auto state = device->create_state(DType::kF32, cells);
  const Floats row = {1, 2, 3, 4};
  const std::vector<std::int32_t> three = {3}, sixty = {60};
  device->write_cells(*state, CacheRole::kValues, three, std::as_bytes(std::span(row)));
  reinterpret_cast<std::int32_t*>(f->host().data())[0] = three[0];
  reinterpret_cast<std::int32_t*>(t->host().data())[0] = sixty[0];
  std::fill_n(floats(*xs).begin(), 8, 1.5f);
  Bindings bindings(graph.values().size(), nullptr);
  for (const auto& [value, tensor] : {std::pair<ValueId, DeviceTensor*>{cache, state.get()},
                                      {from, f.get()},
                                      {to, t.get()},
                                      {x, xs.get()},
                                      {y, ys.get()}})
    bindings[static_cast<std::size_t>(value)] = tensor;
  std::atomic<bool> cancelled{true};
  const auto plan = device->compile(graph, bindings, {.cancelled = &cancelled});
  floats(*ys)[5] = 7.0f;
  plan->submit({}, bindings, {});
  plan->wait();
  EXPECT_EQ(floats(*ys)[5], 7.0f);
  Floats moved(4);
  device->read_cells(*state, CacheRole::kValues, sixty, std::as_writable_bytes(std::span(moved)));
  EXPECT_EQ(moved, row);
  cancelled = false;
  for (int i = 0; i < 3; ++i) {
    floats(*ys)[5] = 7.0f;
    plan->submit({}, bindings, {});
    plan->wait();
    EXPECT_EQ(floats(*ys)[5], 3.0f);
  }
}

/// An emulated GPU whose next launches can fail, and graphs.
class FailingRuntime final : public cuda::Runtime {
 public:
  bool fails = false, graphs_fail = false;
  int n_waits = 0;

  const cuda::GpuProperties& properties() const override { return inner_->properties(); }
  std::uint64_t memory_free() const override { return inner_->memory_free(); }
  std::uint64_t allocate(cuda::Place place, std::size_t bytes) override {
    return inner_->allocate(place, bytes);
  }
  void free(cuda::Place place, std::uint64_t address) noexcept override { inner_->free(place, address); }
  void write(std::uint64_t to, std::span<const std::byte> bytes) override { inner_->write(to, bytes); }
  void read(std::uint64_t from, std::span<std::byte> bytes) override { inner_->read(from, bytes); }
  void clear(std::uint64_t at, std::size_t bytes) override { inner_->clear(at, bytes); }
  void copy_in_order(std::uint64_t to, std::span<const std::byte> bytes) override {
    inner_->copy_in_order(to, bytes);
  }
  void launch(const cuda::GridLaunch& one) override {
    if (fails) throw Error(ErrorCode::kDevice, "no");
    inner_->launch(one);
  }
  void launch(const cuda::LaunchGraph& graph) override { inner_->launch(graph); }
  std::unique_ptr<cuda::Event> make_event() override { return inner_->make_event(); }
  std::unique_ptr<cuda::LaunchGraph> make_graph(std::span<const cuda::GridLaunch> launches) override {
    if (graphs_fail) throw Error(ErrorCode::kOutOfMemory, "no");
    return inner_->make_graph(launches);
  }
  void wait_idle() noexcept override { ++n_waits; }

 private:
  std::shared_ptr<cuda::Runtime> inner_ = cuda::open_emulated();
};

TEST(CudaPlan, AStepThatFailsToStartLeavesNothingRunning) {
  static std::shared_ptr<FailingRuntime> runtime;
  runtime = std::make_shared<FailingRuntime>();
  const Backend backend =
      cuda::make_backend("failing", [] { return std::vector<std::shared_ptr<cuda::Runtime>>{runtime}; });
  const auto device = backend.open("failing0", {});
  Graph graph;
  const ValueId x = graph.add_input("x", DType::kF32, {2}), y = graph.add(ops::Scale{2.0f}, {x}, "y");
  graph.add_output(y);
  const std::vector<std::int64_t> two = {2};
  const auto xs = device->create_host_tensor(DType::kF32, two),
             ys = device->create_host_tensor(DType::kF32, two);
  Bindings bindings(graph.values().size(), nullptr);
  bindings[static_cast<std::size_t>(x)] = xs.get();
  bindings[static_cast<std::size_t>(y)] = ys.get();
  const auto plan = device->compile(graph, bindings, {});
  reinterpret_cast<float*>(xs->host().data())[1] = 1.5f;
  runtime->fails = true;
  const int n_waits = runtime->n_waits;
  EXPECT_THROW(plan->submit({}, bindings, {}), Error);
  plan->wait();
  EXPECT_GT(runtime->n_waits, n_waits);
  runtime->fails = false;
  // Steps whose graph cannot be made compute, too.
  for (const bool graphs_fail : {true, true, true, false, false}) {
    runtime->graphs_fail = graphs_fail;
    reinterpret_cast<float*>(ys->host().data())[1] = 7.0f;
    plan->submit({}, bindings, {});
    plan->wait();
    EXPECT_EQ(reinterpret_cast<const float*>(ys->host().data())[1], 3.0f);
  }
}

}  // namespace
}  // namespace weft
