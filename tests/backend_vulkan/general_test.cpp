// Ops over values of any rank, and over rows of several sequences, in graphs. On Vulkan alone and spread over
// both devices they give the CPU's results. Padding of a launch's tiles never changes a row. Graphs that
// exceed a device's memory are refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "engine/test_support.h"
#include "vulkan_test_support.h"
#include "weft/plan.h"

namespace weft {
namespace {

using Floats = std::vector<float>;
using Ints = std::vector<std::int32_t>;

constexpr double kNear = 1e-6;  ///< NMSE.

Floats wave(std::size_t n, float seed) {
  Floats values(n);
  for (std::size_t i = 0; i < n; ++i) values[i] = std::sin(static_cast<float>(i * i % 977) * 0.37f + seed);
  return values;
}

/// A small encoder of signals of any length: convolutions, attention by products with a mask, attention over
/// rows of a state, and reductions.
struct Encoder {
  static constexpr std::int64_t kIn = 5, kWidth = 12, kHeads = 3, kHeadDim = kWidth / kHeads, kRows = 32;
  static constexpr std::int64_t kMost = 60;

  Encoder() {
    const Value x = g.input("x", {n, kIn});
    Value h =
        gelu(conv1d_channels_last(x, weight("conv1.weight", {kWidth, 3 * kIn}), {}, 3, 1, 1)).named("conv1");
    h = gelu(conv1d_channels_last(h, weight("conv2.weight", {kWidth, 3 * kWidth}),
                                  weight("conv2.bias", {kWidth}), 3, 2, 1));
    const Dim rows = h.size(0);
    const auto index = [&](const char* name) { return g.input(name, {rows}, DType::kI32); };
    h = (h + take(weight("table", {kRows, kWidth}), index("positions"))).named("embedded");
    // {rows, heads * d} to {heads, rows, d}.
    const auto heads = [&](const char* name) {
      return permute(reshape(linear(h, weight(name, {kWidth, kWidth})), {rows, kHeads, kHeadDim}), {1, 0, 2});
    };
    const Value q = heads("dense.q"), k = heads("dense.k"), v = heads("dense.v");
    const Value sees = less_equal(g.input("columns", {1, rows}), g.input("rows", {rows, 1}));
    const Value scores = softmax(where(sees, matmul(q * 0.5f, transpose(k)), -1e4f)).named("dense.scores");
    Value attended = reshape(permute(matmul(scores, v), {1, 0, 2}), {rows, kWidth});
    h = layer_norm(h + attended, weight("dense.norm", {kWidth})).named("dense.out");
    const Value begins = index("begins"), ends = index("ends");
    const Value kept = store_rows(g.state("kept", DType::kF32, {kRows, 1, kWidth}), h, index("cells"));
    attended = ragged_attention(h, kept, kept, begins, ends, static_cast<int>(kHeads)).named("ragged.out");
    h = concat({h, pad(attended, 1, 1, 2, 0.25f), slice(sin(h), 1, 2, 9, 3)}, 1).named("ragged.joined");
    g.output("pooled", normalize(ragged_mean(h, begins, ends)));
    g.output("mean", mean(h, {0}));
    g.output("variance", var(h, {1}));
    g.output("largest", max(pow(abs(h), 1.5f), {0, 1}));
    g.output("best", argmax(h, 1));
    g.output("turned", transpose(h));
  }
  Value weight(const char* name, const Shape& shape) {
    sizes.emplace_back(name, static_cast<std::size_t>(shape.elements({})));
    return g.weight(name, shape);
  }
  void set_weights(Plan& plan) {
    weights.clear();
    for (const auto& [name, size] : sizes) {
      weights.push_back(wave(size, static_cast<float>(weights.size())));
      plan.set_weight(name, weights.back());
    }
  }

  struct Result {
    Floats pooled, mean, variance, largest, turned;
    Ints best;
  };
  /// A step of `frames` frames, of two sequences.
  Result step(Plan& plan, std::int64_t frames) const {
    const auto rows = static_cast<std::size_t>((frames - 1) / 2 + 1);
    const Floats x = wave(static_cast<std::size_t>(frames * kIn), 0.1f * static_cast<float>(frames));
    Floats numbers(rows);
    std::iota(numbers.begin(), numbers.end(), 0.0f);
    Ints positions(rows), begins(rows, 0), ends(rows);
    std::iota(positions.begin(), positions.end(), 0);
    const auto middle = static_cast<std::int32_t>(rows / 3);
    for (std::size_t r = static_cast<std::size_t>(middle); r < rows; ++r) begins[r] = middle;
    for (std::size_t r = 0; r < rows; ++r) ends[r] = static_cast<std::int32_t>(r + 1);
    plan.run({{n, frames}}, {{"x", x},
                             {"positions", positions},
                             {"columns", numbers},
                             {"rows", numbers},
                             {"begins", begins},
                             {"ends", ends},
                             {"cells", positions}});
    return {plan.read("pooled"),  plan.read("mean"),   plan.read("variance"),
            plan.read("largest"), plan.read("turned"), plan.read<std::int32_t>("best")};
  }

  Graph g;
  Dim n = g.symbol("n", 1, kMost);
  std::vector<std::pair<std::string, std::size_t>> sizes;
  std::vector<Floats> weights;
};

class VulkanGeneral : public testing::Test {
 protected:
  void SetUp() override {
    if (vulkan::backend().list().empty()) GTEST_SKIP() << test::kNoVulkan;
  }
  static Plan plan_of(const Graph& graph, std::vector<Pin> pins, const vulkan::VulkanOptions& options = {}) {
    return {
        graph, open_devices(*test::registry_with_vulkan(options), {"vulkan0"}), {.pins = std::move(pins)}};
  }
  static void expect_near(const Encoder::Result& found, const Encoder::Result& expected) {
    EXPECT_LE(test::nmse(found.pooled, expected.pooled), kNear);
    EXPECT_LE(test::nmse(found.mean, expected.mean), kNear);
    EXPECT_LE(test::nmse(found.variance, expected.variance), kNear);
    EXPECT_LE(test::nmse(found.largest, expected.largest), kNear);
    EXPECT_LE(test::nmse(found.turned, expected.turned), kNear);
    EXPECT_EQ(found.best, expected.best);
  }
  static std::set<std::string> devices_of(const Plan& plan) {
    const std::vector<std::string> placement = plan.placement();
    return {placement.begin(), placement.end()};
  }
};

const std::vector<Pin> kOnCpu = {{"", "cpu"}}, kOnVulkan = {{"", "vulkan0"}};

TEST_F(VulkanGeneral, AnEncoderIsWholeOnVulkanAndAsOnTheCpu) {
  Encoder net;
  Plan cpu = plan_of(net.g, kOnCpu), whole = plan_of(net.g, kOnVulkan);
  // Without what a device may lack, and recorded in pieces.
  Plan lacking = plan_of(net.g, kOnVulkan, {.first_piece = 2, .used = {false, false, false}});
  for (Plan* const plan : {&cpu, &whole, &lacking}) net.set_weights(*plan);
  EXPECT_EQ(devices_of(whole), std::set<std::string>{"vulkan0"});
  for (const std::int64_t frames : {60, 1, 7, 32, 8, 59}) {
    SCOPED_TRACE(frames);
    const Encoder::Result expected = net.step(cpu, frames);
    expect_near(net.step(whole, frames), expected);
    expect_near(net.step(lacking, frames), expected);
  }
}

TEST_F(VulkanGeneral, AnEncoderThatIsSpreadOverBothIsAsOnTheCpu) {
  Encoder net;
  Plan cpu = plan_of(net.g, kOnCpu);
  net.set_weights(cpu);
  // Views and their bases on different devices.
  const std::vector<std::vector<Pin>> spreads = {{{"", "vulkan0"}, {"^dense", "cpu"}},
                                                 {{"", "cpu"}, {"^dense", "vulkan0"}},
                                                 {{"", "vulkan0"}, {"^permute", "cpu"}},
                                                 {{"", "cpu"}, {"^(permute|reshape)", "vulkan0"}},
                                                 {{"", "cpu"}, {"matmul", "vulkan0"}},
                                                 {{"", "vulkan0"}, {"^(where|slice|reduce)", "cpu"}},
                                                 {{"", "vulkan0"}, {"^(kept|ragged.out|conv2)", "cpu"}}};
  for (const std::vector<Pin>& pins : spreads) {
    SCOPED_TRACE(pins.back().pattern);
    Plan spread = plan_of(net.g, pins);
    net.set_weights(spread);
    EXPECT_EQ(devices_of(spread).size(), 2u);
    for (const std::int64_t frames : {60, 1, 13})
      expect_near(net.step(spread, frames), net.step(cpu, frames));
  }
}

TEST_F(VulkanGeneral, CpuComputesUnsupportedOps) {
  constexpr std::int64_t kMost = 5, kWidth = 8, kLstmHidden = 6;
  const auto make_graph = [] {
    Graph g;
    const Dim n = g.symbol("n", 1, kMost);
    const Value x = (tanh(g.input("x", {n, 3, kWidth, kWidth})) * 2.0f).named("gpu.x");
    const Value maps = conv2d(x, g.weight("kernels", {4, 3, 3, 3}), {}, {.padding = 1}).named("conv");
    const Value pooled = max_pool2d(exp(maps).named("gpu.exp"), 2).named("pool");
    const Value rows = mean(pooled, {-1}).named("gpu.mean");  // {n, 4, 4}
    const Value order = argsort(sum(rows, {-1}).named("gpu.sum"), 1).named("order");
    const Value sorted = take_along_axis(sum(rows, {-1}).named("gpu.again"), order, 1).named("sorted");
    const Value gates =
        linear(reshape(rows, {2 * n, 8}), g.weight("ih", {4 * kLstmHidden, 8})).named("gpu.gates");
    const Value times = reshape(gates, {n, 2, 4 * kLstmHidden});
    g.output("y", tanh(lstm(times, g.weight("hh", {4 * kLstmHidden, kLstmHidden})).y));
    g.output("z", sorted * 0.5f);
    return g;
  };
  const Graph graph = make_graph();
  Plan cpu = plan_of(graph, kOnCpu), both = plan_of(graph, {{"^gpu", "vulkan0"}});
  const std::pair<const char*, std::size_t> weights[] = {
      {"kernels", 4 * 3 * 9}, {"ih", 4 * kLstmHidden * 8}, {"hh", 4 * kLstmHidden * kLstmHidden}};
  std::vector<std::vector<float>> numbers;
  for (const auto& [name, size] : weights) numbers.push_back(wave(size, 0.3f));
  for (Plan* const plan : {&cpu, &both})
    for (std::size_t i = 0; i < std::size(weights); ++i) plan->set_weight(weights[i].first, numbers[i]);
  const std::vector<std::string> placement = both.placement();
  for (std::size_t i = 0; i < placement.size(); ++i) {
    const std::string& name = both.graph().value(both.graph().nodes()[i].output).name;
    const bool lacking = name == "conv" || name == "pool" || name == "order" || name == "sorted";
    if (lacking || name.starts_with("gpu")) {
      EXPECT_EQ(placement[i], lacking ? "cpu" : "vulkan0") << name;
    }
    if (get_op<ops::Lstm>(both.graph().nodes()[i]) != nullptr) {
      EXPECT_EQ(placement[i], "cpu");
    }
  }
  EXPECT_EQ(devices_of(both).size(), 2u);
  for (const std::int64_t n : {5, 1, 3}) {
    const Floats x = wave(static_cast<std::size_t>(n * 3 * kWidth * kWidth), 1.0f);
    for (Plan* const plan : {&cpu, &both}) plan->run({{"n", n}}, {{"x", x}});
    EXPECT_LE(test::nmse(both.read("y"), cpu.read("y")), kNear);
    EXPECT_LE(test::nmse(both.read("z"), cpu.read("z")), kNear);
  }
}

/// The results of attention, sums of rows and products for the first m rows of x, concatenated. A row's keys
/// belong to its sequence: keys before `middle`, or keys from there on.
Floats rows_of(Plan& plan, const Floats& x, std::int64_t m, std::int32_t middle, std::int32_t n_keys) {
  Ints begins, ends;
  for (std::int32_t r = 0; r < m; ++r) {
    begins.push_back(r < middle ? 0 : middle);
    ends.push_back(r < middle ? std::min(r + 1, middle) : n_keys - r % 3);
  }
  plan.run({{"m", m}},
           {{"q", std::span(x).first(static_cast<std::size_t>(m) * 12)}, {"begins", begins}, {"ends", ends}});
  Floats result = plan.read("attended");
  for (const char* const name : {"mean", "product"}) {
    const Floats more = plan.read(name);
    result.insert(result.end(), more.begin(), more.end());
  }
  return result;
}

TEST_F(VulkanGeneral, RowsDoNotDependOnOtherRows) {
  constexpr std::int32_t kMost = 90, kKeys = 150, kMiddle = 41;
  constexpr std::size_t kQueryColumns = 12;
  Graph g;
  const Dim m = g.symbol("m", 1, kMost);
  const Value q = g.input("q", {m, 12}), k = g.input("k", {kKeys, 6}), v = g.input("v", {kKeys, 6});
  const Value begins = g.input("begins", {m}, DType::kI32), ends = g.input("ends", {m}, DType::kI32);
  g.output("attended", ragged_attention(q, k, v, begins, ends, 4));
  g.output("mean", ragged_mean(v, begins, ends));
  g.output("product", matmul(q, reshape(k, {12, 75})));
  Plan plan = plan_of(g, kOnVulkan);
  const Floats x = wave(kMost * kQueryColumns, 0.5f);
  Floats keys = wave(kKeys * 6, 1.5f), values = wave(kKeys * 6, 2.5f);
  plan.run({{"m", 1}}, {{"q", std::span(x).first(kQueryColumns)},
                        {"k", keys},
                        {"v", values},
                        {"begins", Ints{0}},
                        {"ends", Ints{1}}});
  const auto row = [](const Floats& all, std::size_t rows, std::size_t r) {
    Floats result;
    std::size_t first = 0;
    for (const std::size_t width : {kQueryColumns, std::size_t{6}, std::size_t{75}}) {
      const auto from = all.begin() + static_cast<std::ptrdiff_t>(first + r * width);
      result.insert(result.end(), from, from + static_cast<std::ptrdiff_t>(width));
      first += rows * width;
    }
    return result;
  };
  const Floats all = rows_of(plan, x, kMost, kMiddle, kKeys);
  for (const std::int32_t n : {1, 3, 4, 5, 16, 17, 42, 43, 64}) {
    const Floats some = rows_of(plan, x, n, kMiddle, kKeys);
    for (std::size_t r = 0; r < static_cast<std::size_t>(n); ++r)
      EXPECT_EQ(row(some, static_cast<std::size_t>(n), r), row(all, kMost, r)) << r << " of " << n;
  }
  // NaN in one sequence does not spread to the other.
  for (std::size_t i = 0; i < kMiddle * 6; ++i) values[i] = std::numeric_limits<float>::quiet_NaN();
  plan.run({}, {{"v", values}});
  const Floats beside = rows_of(plan, x, kMost, kMiddle, kKeys);
  for (std::size_t r = 0; r < kMost; ++r) {
    if (r < kMiddle) {
      EXPECT_TRUE(std::isnan(beside[r * kQueryColumns])) << r;
    } else {
      EXPECT_EQ(row(beside, kMost, r), row(all, kMost, r)) << r;
    }
  }
}

/// A line for each launch that a graph becomes.
std::string launches_of(const Graph& graph) {
  const auto device = test::vulkan_devices().front();
  std::vector<std::unique_ptr<DeviceTensor>> tensors;
  Bindings bindings(graph.values().size(), nullptr);
  for (std::size_t v = 0; v < bindings.size(); ++v) {
    const ValueInfo& info = graph.values()[v];
    if (info.kind == ValueKind::kResult && !graph.is_output(static_cast<ValueId>(v))) continue;
    tensors.push_back(device->create_host_tensor(info.dtype, info.shape.dims(graph.bounds())));
    bindings[v] = tensors.back().get();
  }
  return device->compile(graph, bindings, {})->describe();
}

TEST_F(VulkanGeneral, ViewsAreLaunchesOnlyWhereRowsHaveToLieOneAfterAnother) {
  const auto launches = [](auto make) {
    Graph g;
    const Dim n = g.symbol("n", 1, 8);
    g.output("y", make(g.input("x", {n, 4, 6})));
    const std::string lines = launches_of(g);
    return std::count(lines.begin(), lines.end(), '\n');
  };
  EXPECT_EQ(launches([](Value x) { return exp(transpose(slice(x, 2, 1, 5))); }), 1);
  EXPECT_EQ(launches([](Value x) { return x + broadcast_to(slice(x, 1, 0, 1), x.shape()); }), 1);
  EXPECT_EQ(launches([](Value x) { return sum(permute(x, {2, 0, 1}), {1}); }), 1);
  EXPECT_EQ(launches([](Value x) { return softmax(reshape(x, {x.size(0) * 4, 6})); }), 1);
  EXPECT_EQ(launches([](Value x) { return softmax(transpose(x)); }), 2);
  EXPECT_EQ(launches([](Value x) { return transpose(x); }), 1);
  // What merges into no strides, and then is read as it lies.
  EXPECT_EQ(launches([](Value x) { return exp(reshape(transpose(x), {x.size(0), 24})); }), 2);
}

TEST_F(VulkanGeneral, CopiesInOtherOrdersLoseNothing) {
  Graph g;
  const Dim n = g.symbol("n", 1, 70);
  const Value x = g.input("x", {n, 3, 40});
  g.output("whole", permute(x, {2, 1, 0}));
  g.output("inner", transpose(slice(x, 2, 5, 40)));
  g.output("outer", permute(slice(x, 0, n - 1, n), {2, 0, 1}));
  g.output("joined", concat({permute(x, {1, 2, 0}), permute(x, {1, 2, 0})}, 1));
  EXPECT_NE(launches_of(g).find("transpose: permute whole"), std::string::npos) << launches_of(g);
  Plan plan = plan_of(g, kOnVulkan), expected = plan_of(g, kOnCpu);
  const Floats values = wave(70 * 120, 0.0f);
  for (const std::int64_t rows : {1, 31, 32, 33, 70})
    for (const char* const name : {"whole", "inner", "outer", "joined"}) {
      const auto x_of_step = std::span(values).first(static_cast<std::size_t>(rows) * 120);
      plan.run({{n, rows}}, {{"x", x_of_step}});
      expected.run({{n, rows}}, {{"x", x_of_step}});
      EXPECT_EQ(plan.read(name), expected.read(name)) << name << " of " << rows;
    }
}

TEST_F(VulkanGeneral, RejectsGraphsBeyondDeviceLimits) {
  const auto device = test::vulkan_devices().front();
  const auto supports = [&](auto make) {
    Graph g;
    g.output("y", make(g));
    const Node& node = g.nodes().back();
    return device->supports(g, node);
  };
  constexpr std::int64_t kMany = std::int64_t{1} << 16, kHuge = std::int64_t{1} << 40;
  const auto square = [](std::int64_t rows) {
    return [rows](Graph& g) { return exp(g.input("x", {rows, kMany})); };
  };
  EXPECT_TRUE(supports(square(kMany / 2 - 1)));
  EXPECT_FALSE(supports(square(kMany / 2)));
  EXPECT_FALSE(supports([&](Graph& g) { return exp(g.input("x", {g.symbol("n", 1, kMany), kMany})); }));
  // Small operands of a large result.
  EXPECT_FALSE(supports([&](Graph& g) { return g.input("a", {kMany, 1}) + g.input("b", {1, kMany}); }));
  EXPECT_FALSE(
      supports([&](Graph& g) { return matmul(g.input("a", {kMany, 1}), g.input("b", {1, kMany})); }));
  EXPECT_FALSE(supports([&](Graph& g) { return broadcast_to(g.input("x", {1}), {kMany, kMany}); }));
  EXPECT_FALSE(supports([&](Graph& g) { return broadcast_to(g.input("x", {1}), {kHuge, kHuge}); }));
  EXPECT_FALSE(supports([&](Graph& g) { return exp(g.weight("w", {kMany, kMany})); }));
  EXPECT_FALSE(supports([&](Graph& g) { return sum(g.input("x", {kMany, kMany}), {0}); }));
  const auto attention = [](std::int64_t head_dim) {
    return [head_dim](Graph& g) {
      const Value x = g.input("x", {3, head_dim});
      const Value rows = g.input("rows", {3}, DType::kI32);
      return ragged_attention(x, x, x, rows, rows, 1);
    };
  };
  EXPECT_TRUE(supports(attention(1024)));
  EXPECT_FALSE(supports(attention(1025)));
}

TEST_F(VulkanGeneral, SumsThatOverflowAreInfinite) {
  Graph g;
  g.output("y", sum(g.input("x", {2, 4}), {1}));
  Plan plan = plan_of(g, {{"y", "vulkan0"}});
  plan.run({}, {{"x", Floats{3e38f, 3e38f, 1.0f, 1.0f, -3e38f, -3e38f, -3e38f, 3e38f}}});
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(plan.read("y"), (Floats{kInfinity, -kInfinity}));
}

TEST_F(VulkanGeneral, WeightsThatMoveToAndFromTheGpuStaySet) {
  const auto net = [](const std::string& stem) {
    Graph g;
    const Value hidden = linear(g.input("x", {2, 4}), g.weight("a", {3, 4})).named(stem + ".hidden");
    g.output("y", linear(hidden, g.weight("b", {2, 3})).named("last"));
    return g;
  };
  Plan plan(net("gpu"), open_devices(*test::registry_with_vulkan({}), {"vulkan0"}),
            {.allowed = {.shapes = true, .tensors = true, .topology = true},
             .pins = {{".", "cpu"}, {"^gpu|^last$", "vulkan0"}}});
  const Floats a = wave(12, 0.1f), b = wave(6, 0.2f), x = wave(8, 0.3f);
  plan.set_weight("a", a);
  plan.set_weight("b", b);
  plan.run({}, {{"x", x}});
  const Floats truth = plan.read("y");
  for (const char* const stem : {"host", "gpu", "host"}) {
    plan.set_graph(net(stem));
    EXPECT_EQ(plan.placement().front(), std::string(stem) == "gpu" ? "vulkan0" : "cpu");
    plan.run({}, {{"x", x}});
    EXPECT_LE(test::nmse(plan.read("y"), truth), kNear);
  }
}

}  // namespace
}  // namespace weft
