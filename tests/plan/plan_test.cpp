// Plans through the public API: on one device and on several, with all options of a step, and errors.
#include "weft/plan.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <source_location>
#include <span>
#include <string>
#include <vector>

#include "backend/cpu/device.h"
#include "graph/refusal.h"
#include "weft/backend/registry.h"
#include "weft/error.h"

namespace weft {
namespace {

using test::has;
using test::refusal;

using Floats = std::vector<float>;

/// y = softmax(relu(x up + bias) down)
struct Net {
  Net() {
    const Value up_weight = g.weight("up.weight", {6, 4}), up_bias = g.weight("up.bias", {6});
    const Value hidden = relu(linear(x, up_weight, up_bias)).named("hidden");
    g.output("y", softmax(linear(hidden, g.weight("down.weight", {3, 6}))));
    for (std::size_t i = 0; i < up.size(); ++i) up[i] = 0.1f * static_cast<float>(i % 7) - 0.3f;
    for (std::size_t i = 0; i < bias.size(); ++i) bias[i] = 0.05f * static_cast<float>(i);
    for (std::size_t i = 0; i < down.size(); ++i) down[i] = 0.2f * static_cast<float>(i % 5) - 0.4f;
  }
  void set_weights(Plan& plan) const {
    plan.set_weight("up.weight", up);
    plan.set_weight("up.bias", bias);
    plan.set_weight("down.weight", down);
  }
  Floats expected(const Floats& rows) const {
    Floats result;
    for (std::size_t r = 0; r < rows.size() / 4; ++r) {
      double hidden[6], out[3], sum = 0.0;
      for (std::size_t o = 0; o < 6; ++o) {
        hidden[o] = static_cast<double>(bias[o]);
        for (std::size_t i = 0; i < 4; ++i)
          hidden[o] += static_cast<double>(up[o * 4 + i]) * static_cast<double>(rows[r * 4 + i]);
        hidden[o] = std::max(hidden[o], 0.0);
      }
      for (std::size_t o = 0; o < 3; ++o) {
        out[o] = 0.0;
        for (std::size_t i = 0; i < 6; ++i) out[o] += static_cast<double>(down[o * 6 + i]) * hidden[i];
        sum += std::exp(out[o]);
      }
      for (const double value : out) result.push_back(static_cast<float>(std::exp(value) / sum));
    }
    return result;
  }

  Graph g;
  Dim n = g.symbol("n", 1, 16);
  Value x = g.input("x", {n, 4});
  Floats up = Floats(24), bias = Floats(6), down = Floats(18);
};

Floats rows(std::size_t n, float start = 0.0f) {
  Floats result(n * 4);
  for (std::size_t i = 0; i < result.size(); ++i)
    result[i] = start + 0.3f * static_cast<float>(i % 11) - 1.0f;
  return result;
}

void expect_near(const Floats& got, const Floats& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-6f) << i;
}

TEST(Plan, RunsStepsOfAnySizeAndPlansOnce) {
  Net net;
  Plan plan(net.g, open_devices({"cpu"}));
  net.set_weights(plan);
  for (const std::size_t n : {7, 1, 16, 1, 1}) {
    const Floats x = rows(n, 0.1f * static_cast<float>(n));
    plan.run({{net.n, static_cast<std::int64_t>(n)}}, {{"x", x}});
    EXPECT_EQ(plan.shape("y"), (std::vector<std::int64_t>{static_cast<std::int64_t>(n), 3}));
    expect_near(plan.read("y"), net.expected(x));
  }
  EXPECT_EQ(plan.counters().compiled, 1);
  EXPECT_EQ(plan.counters().steps, 5);
  EXPECT_EQ(plan.counters().shapes, 3);
  plan.run();  // The same once more.
  expect_near(plan.read("y"), net.expected(rows(1, 0.1f)));
}

TEST(Plan, GoesOverSeveralDevicesWherePinsSay) {
  Net net;
  const Devices devices = open_devices({"cpu", "second=cpu"});
  ASSERT_EQ(devices.infos().size(), 2U);
  Plan plan(net.g, devices, {.pins = {{"^(up|hidden)", "cpu"}, {"^down", "second"}}});
  net.set_weights(plan);
  const Floats x = rows(5);
  plan.run({{net.n, 5}}, {{"x", x}});
  expect_near(plan.read("y"), net.expected(x));
  EXPECT_GT(plan.counters().copies, 0);
  const std::string text = plan.explain();
  for (const char* part : {"split 0 on cpu", "on second", "copy hidden to second", "memory on second"})
    EXPECT_TRUE(has(text, part)) << part << " in\n" << text;
}

TEST(Plan, AcceptsACustomRegistry) {
  Registry registry;
  const auto lists_other = [] { return std::vector{DeviceInfo{.name = "other0"}}; };
  const auto opens_other = [](std::string_view device, const OpenOptions& options) {
    return cpu::make_device({.name = options.name.empty() ? std::string(device) : options.name});
  };
  registry.add({.name = "other", .list = lists_other, .open = opens_other});
  EXPECT_TRUE(has(refusal([&] { open_devices(registry); }, ErrorCode::kNotFound), "unknown device \"cpu\""));
  registry.add(cpu::backend());
  // All devices that are not the CPU, or the named ones.
  ASSERT_EQ(open_devices(registry).infos().size(), 2u);
  EXPECT_EQ(open_devices(registry).infos()[0].name, "other0");
  EXPECT_EQ(open_devices(registry, {"cpu"}).infos().size(), 1u);

  Net net;
  Plan plan(net.g, open_devices(registry, {"mine=other0"}), {.pins = {{"^(up|hidden)", "mine"}}});
  EXPECT_EQ(plan.placement().front(), "mine");
  net.set_weights(plan);
  const Floats x = rows(5);
  plan.run({{net.n, 5}}, {{"x", x}});
  expect_near(plan.read("y"), net.expected(x));
}

TEST(Plan, WeightsThatAreSetAgainAreChangedTensors) {
  Net net;
  const Floats x = rows(2);
  Plan fixed(net.g, open_devices({"cpu"}));
  net.set_weights(fixed);
  fixed.run({{net.n, 2}}, {{"x", x}});
  EXPECT_TRUE(has(refusal([&] { fixed.set_weight("up.bias", net.bias); }), "does not allow"));

  Plan plan(net.g, open_devices({"cpu"}), {.allowed = {.shapes = true, .tensors = true}});
  net.set_weights(plan);
  plan.run({{net.n, 2}}, {{"x", x}});
  net.bias.assign(6, 1.0f);
  plan.set_weight("up.bias", net.bias);
  plan.run({{net.n, 2}}, {{"x", x}});
  expect_near(plan.read("y"), net.expected(x));
  EXPECT_EQ(plan.counters().tensors, 1);
  EXPECT_EQ(plan.counters().compiled, 1);
}

template <typename R>
concept IsWeight = requires(Plan plan, R&& data) { plan.set_weight("w", std::forward<R>(data)); };

// What does not live as long as the plan, and elements that no weight has, do not compile.
static_assert(IsWeight<std::vector<float>&> && IsWeight<const std::vector<std::uint16_t>&> &&
              IsWeight<std::array<std::byte, 4>&> && IsWeight<std::span<const float>> &&
              IsWeight<std::span<const std::byte>> && IsWeight<std::vector<std::int32_t>&>);
static_assert(!IsWeight<std::vector<float>> && !IsWeight<std::vector<std::byte>> &&
              !IsWeight<std::array<float, 4>> && !IsWeight<std::vector<std::string>&> &&
              !IsWeight<std::vector<bool>&> && !IsWeight<std::vector<std::uint32_t>&>);

TEST(Plan, WeightsAreOfTheTypeOfTheirElements) {
  Graph g;
  const Value x = g.input("x", {1, 4});
  g.output("a", linear(x, g.weight("single", {3, 4})));
  g.output("b", linear(x, g.weight("half", DType::kF16, {3, 4})));
  g.output("c", linear(x, g.weight("brain", DType::kBF16, {3, 4})));
  Plan plan(g, open_devices("cpu"));
  const std::vector<std::int32_t> wholes(12);
  const std::vector<double> doubles(6);
  const std::vector<std::uint16_t> bits(12);
  const Floats floats(12, 1.0f);
  EXPECT_EQ(refusal([&] { plan.set_weight("single", wholes); }),
            "weight 'single' is [3, 4] of f32, but got elements of i32");
  EXPECT_EQ(refusal([&] { plan.set_weight("single", doubles); }),
            "weight 'single' is [3, 4] of f32, but got elements of f64");
  EXPECT_EQ(refusal([&] { plan.set_weight("single", bits); }),
            "weight 'single' is [3, 4] of f32, but got elements of f16 or bf16");
  EXPECT_EQ(refusal([&] { plan.set_weight("half", floats); }),
            "weight 'half' is [3, 4] of f16, but got elements of f32");
  const Floats few(11);
  EXPECT_EQ(refusal([&] { plan.set_weight("single", few); }),
            "weight 'single' [3, 4] of f32 has 48 bytes, got 44");
  EXPECT_TRUE(
      has(refusal([&] { plan.set_weight("none", floats); }, ErrorCode::kNotFound), "no weight 'none'"));
  plan.set_weight("single", floats);
  plan.set_weight("half", bits);
  plan.set_weight("brain", std::as_bytes(std::span(bits)));
  plan.run({}, {{"x", {1.0f, 2.0f, 3.0f, 4.0f}}});
  EXPECT_EQ(plan.read("a"), Floats(3, 10.0f));
  EXPECT_EQ(plan.read("b"), Floats(3, 0.0f));
}

TEST(Plan, WholeNumbersAreSummedAndCompared) {
  Graph g;
  const Dim n = g.symbol("n", 1, 8);
  const Value x = g.input("x", {n, 3}, DType::kI32);
  g.output("sum", sum(x, 0));
  g.output("all", sum(x));
  g.output("max", max(x, 1, true));
  g.output("min", min(x, {0, 1}));
  g.output("chosen", where(x > 5.0f, 7.0f, x));
  g.output("other", where(x > 5.0f, x, 7.0f));
  g.output("named", where(x >= 16777216.0f, 1.0f, 0.0f));
  g.output("row", x[-1][0]);
  Plan plan(g, open_devices("cpu"));
  plan.run({{n, 2}}, {{"x", {16777217, 5, -3, 2, 16777219, 4}}});
  using Wholes = std::vector<std::int32_t>;
  EXPECT_EQ(plan.read<std::int32_t>("sum"), (Wholes{16777219, 16777224, 1}));
  EXPECT_EQ(plan.read<std::int32_t>("all"), (Wholes{33554444}));
  EXPECT_EQ(plan.read<std::int32_t>("max"), (Wholes{16777217, 16777219}));
  EXPECT_EQ(plan.shape("max"), (std::vector<std::int64_t>{2, 1}));
  EXPECT_EQ(plan.read<std::int32_t>("min"), (Wholes{-3}));
  EXPECT_EQ(plan.read<std::int32_t>("chosen"), (Wholes{7, 5, -3, 2, 7, 4}));
  EXPECT_EQ(plan.read<std::int32_t>("other"), (Wholes{16777217, 7, 7, 7, 16777219, 7}));
  EXPECT_EQ(plan.read("named"), (Floats{1, 0, 0, 0, 1, 0}));
  EXPECT_EQ(plan.read<std::int32_t>("row"), (Wholes{2}));
}

TEST(Plan, AValueMayBeSeveralOutputs) {
  Graph g;
  const Value x = g.input("x", {2, 2});
  const Value hidden = (x * 2.0f).named("hidden");
  g.output("y", hidden);
  g.output("z", hidden);
  g.output("w", relu(hidden));
  g.output("same", x);
  Plan plan(g, open_devices({"cpu", "second=cpu"}), {.pins = {{"^hidden$", "second"}}});
  plan.run({}, {{"x", {1.0f, -2.0f, 3.0f, -4.0f}}});
  EXPECT_EQ(plan.read("y"), (Floats{2, -4, 6, -8}));
  EXPECT_EQ(plan.read("z"), plan.read("y"));
  EXPECT_EQ(plan.read("w"), (Floats{2, 0, 6, 0}));
  EXPECT_EQ(plan.read("same"), (Floats{1, -2, 3, -4}));
  EXPECT_EQ(plan.placement().front(), "second");
}

TEST(Plan, MistakesAreNamedAndChangeNothing) {
  Net net;
  Plan plan(net.g, open_devices({"cpu"}));
  const Floats x = rows(3);
  const auto step = [&](std::int64_t n) { plan.run({{net.n, n}}, {{"x", x}}); };
  EXPECT_TRUE(has(refusal([&] { step(3); }), "weight 'up.weight' was not set"));
  net.set_weights(plan);
  EXPECT_TRUE(
      has(refusal([&] { plan.run({}, {{"x", x}}); }),
          "symbol 'n' has no value; the first step must give one for each symbol, as in run({{\"n\", 8}}"));
  EXPECT_TRUE(has(refusal([&] { plan.run({{net.n, 3}}); }), "input 'x' has no data; the first step"));
  EXPECT_TRUE(has(refusal([&] { step(17); }), "outside [1, 16]"));
  EXPECT_TRUE(has(refusal([&] { step(2); }), "input 'x' [2, 4] of f32 has 32 bytes"));
  EXPECT_TRUE(has(refusal([&] { (void)plan.read("y"); }), "no step has completed"));
  EXPECT_TRUE(has(refusal([&] { plan.run({{net.n, 3}}, {{"z", x}}); }, ErrorCode::kNotFound), "there are x"));
  EXPECT_TRUE(has(refusal([&] { plan.set_weight("y", x); }, ErrorCode::kNotFound), "up.weight, up.bias"));
  EXPECT_TRUE(has(refusal([&] { plan.set_weight("up.bias", x); }), "has 24 bytes, got 48"));
  EXPECT_TRUE(has(refusal([&] { plan.run({{net.n + 1, 3}}, {{"x", x}}); }), "n + 1 is not a symbol"));
  EXPECT_TRUE(has(refusal([&] { plan.run({{net.n, 3}, {"n", 2}}, {{"x", x}}); }), "'n' is given twice"));
  EXPECT_TRUE(has(refusal([&] { plan.run({{net.n, -1}}, {{"x", x}}); }), "n = -1 is outside"));
  const std::vector<std::int32_t> whole(12);
  EXPECT_TRUE(has(refusal([&] { plan.run({{net.n, 3}}, {{"x", whole}}); }), "is f32, but got i32"));
  step(3);
  expect_near(plan.read("y"), net.expected(x));
  EXPECT_TRUE(has(refusal([&] { plan.run({{net.n, 2}}); }), "changed its shape"));
  EXPECT_TRUE(has(refusal([&] { (void)plan.read<std::int32_t>("y"); }), "is f32, but is read as i32"));
  Floats few(2);
  EXPECT_TRUE(has(refusal([&] { plan.read("y", few); }), "there is room for 8"));
  EXPECT_TRUE(has(refusal([&] { (void)plan.read("x"); }, ErrorCode::kNotFound), "there are y"));
  expect_near(plan.read("y"), net.expected(x));

  Graph silent;
  relu(silent.input("x", {silent.symbol("n", 1, 2), 4}));
  EXPECT_TRUE(has(refusal([&] { Plan(silent, open_devices({"cpu"})); }), "no outputs"));
  EXPECT_TRUE(has(refusal([&] { Plan(net.g, open_devices({"cpu"}), {.pins = {{"nothing", "cpu"}}}); }),
                  "matches no tensor"));
  EXPECT_TRUE(has(
      refusal([&] { Plan(net.g, open_devices({"cpu"}), {.pins = {{"up", "gpu7"}}}); }, ErrorCode::kNotFound),
      "gpu7"));
  EXPECT_TRUE(has(refusal([&] { open_devices({"gpu7"}); }, ErrorCode::kNotFound), "gpu7"));
}

/// What a plan of one result of x {n, 4} says.
template <typename F>
std::string plan_refusal(F make) {
  return refusal([&] {
    Graph g;
    const Dim n = g.symbol("n", 2, 8);
    g.output("y", make(g, g.input("x", {n, 4}), n));
    Plan plan(g, open_devices({"cpu"}));
  });
}

TEST(Plan, GraphsThatDevicesCannotRelyOnAreRefused) {
  EXPECT_TRUE(
      has(plan_refusal([](Graph& g, Value x, Dim) { return linear(x, g.input("w", {3, 4})); }), "a weight"));
  EXPECT_TRUE(has(plan_refusal([](Graph& g, Value x, Dim) {
                    const Value w = g.weight("w", {4, 4});
                    return linear(x, w) + sum(w);
                  }),
                  "use two weights"));
  EXPECT_TRUE(
      has(plan_refusal([](Graph& g, Value x, Dim) { return take(x, g.weight("ids", DType::kI32, {2})); }),
          "an input, because weights of integers are not supported"));
  EXPECT_TRUE(has(plan_refusal([](Graph& g, Value, Dim n) {
                    const Value heads = g.input("heads", {n, 2, 4});
                    return rope(heads, g.input("at", {n}, DType::kI32), {.head_dim = 4, .n_rot = 4});
                  }),
                  "one entry per row"));
  EXPECT_TRUE(
      has(plan_refusal([](Graph& g, Value, Dim n) { return relu(g.input("z", {n - 3, 4})); }), "too small"));
  EXPECT_TRUE(has(plan_refusal([](Graph& g, Value, Dim) {
                    return relu(g.input("z", {g.symbol("m", 0, std::int64_t{1} << 62), 4}));
                  }),
                  "exceeds 2^31"));
  EXPECT_TRUE(has(plan_refusal([](Graph& g, Value, Dim) {
                    const Dim m = g.symbol("m", 0, std::int64_t{1} << 31);
                    return relu(g.input("z", {m * (std::int64_t{1} << 33), 4}));
                  }),
                  "exceeds 64 bits"));
  EXPECT_TRUE(has(plan_refusal([](Graph& g, Value, Dim) {
                    return relu(g.input("z", {g.symbol("m", 0, std::int64_t{1} << 31), 1}));
                  }),
                  "2^31 - 1 rows"));
  EXPECT_TRUE(has(plan_refusal([](Graph& g, Value, Dim n) { return relu(g.input("z", {n, 1, 1, 1, 4})); }),
                  "at most 4"));
  EXPECT_TRUE(has(plan_refusal([](Graph& g, Value, Dim) { return relu(g.input("z", {Dim(1, 5), 4})); }),
                  "another graph"));
  EXPECT_TRUE(has(plan_refusal([](Graph& g, Value x, Dim) {
                    g.weight("empty", {3, 0});
                    return x;
                  }),
                  "too small"));
  EXPECT_TRUE(has(refusal([] {
                    Net net;
                    Plan plan(net.g, open_devices({"cpu"}), {.n_threads = 5000});
                  }),
                  "n_threads"));
  // Larger below the upper bounds than at them.
  Graph g;
  const Dim n = g.symbol("n", 0, 5), k = 16 + n * -1;
  g.output("y", relu(g.input("x", {k, 4})));
  Plan plan(g, open_devices({"cpu"}));
  EXPECT_TRUE(has(refusal([&] { plan.run({{n, 0}}, {{"x", Floats(64)}}); }), "larger than"));
}

TEST(Plan, MistakesThatOnlyAPlanSeesNameTheLineToo) {
  Graph g;
  const Value x = g.input("x", {2, 4});
  const unsigned line = std::source_location::current().line() + 1;
  g.output("y", linear(x, g.input("w", {3, 4})));
  const std::string what = refusal([&] { const Plan plan(g, open_devices({"cpu"})); });
  EXPECT_TRUE(has(what, "plan_test.cpp:" + std::to_string(line) + ": y = matmul")) << what;
}

/// (x + positions) up, and the tables of a weight's sums.
TEST(Plan, WeightsOfSeveralRowsAreOperands) {
  for (const bool two : {false, true}) {
    Graph g;
    const Dim n = g.symbol("n", 1, 4);
    const Value x = g.input("x", {n, 2}), positions = g.weight("positions", {4, 2});
    const Value at = (x + slice(positions, 0, 0, n)).named("at");
    g.output("y", linear(at, g.weight("up", {3, 2})));
    g.output("sums", sum(positions, {0}));
    const Devices devices = two ? open_devices({"cpu", "second=cpu"}) : open_devices({"cpu"});
    Plan plan(g, devices, {.pins = two ? std::vector<Pin>{{"^at$", "second"}} : std::vector<Pin>{}});
    const Floats places = {1, 2, 3, 4, 5, 6, 7, 8}, up = {1, 0, 0, 1, 1, 1};
    plan.set_weight("positions", places);
    plan.set_weight("up", up);
    plan.run({{n, 2}}, {{"x", Floats{10, 20, 30, 40}}});
    EXPECT_EQ(plan.read("y"), (Floats{11, 22, 33, 33, 44, 77}));
    EXPECT_EQ(plan.read("sums"), (Floats{16, 20}));
  }
}

TEST(Plan, AVectorIsOneRow) {
  constexpr std::int64_t n = 5000;  // More than the scratch memory of a thread has to spare.
  Graph g;
  const auto net = [](Value x) {
    return glu(Activation::kSilu, x, rms_norm(glu(Activation::kGeluErf, x, x)));
  };
  const Value x = g.input("x", {n});
  g.output("vector", net(x));
  g.output("row", net(reshape(x, {1, n})));
  Plan plan(g, open_devices({"cpu"}));
  Floats data(n);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = 0.01f * static_cast<float>(i % 500) - 2.0f;
  plan.run({}, {{"x", data}});
  EXPECT_EQ(plan.read("vector"), plan.read("row"));
}

TEST(Plan, AcceptsUnusedWeights) {
  Graph g;
  g.weight("unused", {4, 8});
  g.output("y", relu(g.input("x", {2})));
  Plan plan(g, open_devices({"cpu"}));
  const Floats unused(32);
  plan.set_weight("unused", unused);
  plan.run({}, {{"x", Floats{-1, 1}}});
  EXPECT_EQ(plan.read("y"), (Floats{0, 1}));
}

TEST(Plan, ASizeMayBeSmallAtOneOnly) {
  Graph g;
  const Dim n = g.symbol("n", 8, 16);
  g.output("y", relu(g.input("x", {n - 4, 4})));
  Plan plan(g, open_devices({"cpu"}));
  plan.run({{n, 9}}, {{"x", Floats(20, 1.0f)}});
  EXPECT_EQ(plan.read("y"), Floats(20, 1.0f));
}

TEST(Plan, SlicesStayWithinTheirAxis) {
  Graph g;
  const Dim n = g.symbol("n", 1, 8), k = g.symbol("k", 0, 8);
  const Value x = g.input("x", {n, 2});
  g.output("first", slice(x, 0, 0, k));
  g.output("last", transpose(slice(x, 0, n - 1, n)) * 2.0f);
  Plan plan(g, open_devices({"cpu"}));
  plan.run({{n, 3}, {k, 2}}, {{"x", Floats{1, 2, 3, 4, 5, 6}}});
  EXPECT_EQ(plan.read("first"), (Floats{1, 2, 3, 4}));
  EXPECT_EQ(plan.read("last"), (Floats{10, 12}));
  const std::string what = refusal([&] { plan.run({{n, 3}, {k, 4}}); });
  EXPECT_TRUE(has(what, "first: x [n, 2] has no elements 0 to 4 along axis 0, which has size 3")) << what;
}

/// One thread runs all of them, one after another.
TEST(Plan, ChainsAreAsLongAsGraphsMayBe) {
  constexpr int kMany = 200000;
  Graph g;
  const Value x = g.input("x", {2});
  Value y = x;
  for (int i = 0; i < kMany; ++i) y = y + 1.0f;
  g.output("y", y);
  for (const int n_threads : {1, 2}) {
    Plan plan(g, open_devices({"cpu"}), {.n_threads = n_threads});
    const Floats values = {0.0f, 5.0f};
    plan.run({}, {{"x", values}});
    EXPECT_EQ(plan.read("y"), (Floats{kMany, kMany + 5}));
  }
}

TEST(Plan, ShapesMayBeForbidden) {
  Net net;
  Plan plan(net.g, open_devices({"cpu"}), {.allowed = {}});
  net.set_weights(plan);
  const Floats x = rows(2);
  plan.run({{net.n, 2}}, {{"x", x}});
  EXPECT_TRUE(
      has(refusal([&] { plan.run({{net.n, 1}}, {{"x", Floats(4)}}); }), "does not allow changed shapes"));
  plan.run({}, {{"x", x}});
  expect_near(plan.read("y"), net.expected(x));
}

TEST(Plan, SizesOfExpressionsAreThoseOfTheStep) {
  Graph g;
  const Dim n = g.symbol("n", 1, 8), m = g.symbol("m", 0, 4);
  const Value a = g.input("a", {2 * n + m, 4});
  g.output("y", a * 2.0f);
  Plan plan(g, open_devices({"cpu"}));
  for (const auto& [vn, vm] : {std::pair{1, 0}, {3, 4}, {8, 4}, {2, 1}}) {
    const Floats x = rows(static_cast<std::size_t>(2 * vn + vm));
    plan.run({{n, vn}, {m, vm}}, {{"a", x}});
    const Floats y = plan.read("y");
    ASSERT_EQ(y.size(), x.size());
    for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(y[i], 2.0f * x[i]);
  }
}

TEST(Plan, GateBiasMayFollowTheOtherProduct) {
  for (const bool sliced : {false, true}) {
    Graph g;
    const Value x = g.input("x", {2, 4}), both = g.weight("both", {6});
    const Value up = linear(x, g.weight("up", {3, 4}));
    const Value bias = sliced ? slice(both, 0, 3, 6) : slice(both, 0, 3, 6) * 2.0f;
    g.output("y", glu(Activation::kRelu, linear(x, g.weight("gate", {3, 4}), bias), up));
    Plan plan(g, open_devices({"cpu"}));
    const Floats ones(12, 1.0f), zeros(12, 0.0f), numbers = {1, 2, 3, 4, 5, 6}, rows(8, 1.0f);
    plan.set_weight("up", ones);
    plan.set_weight("gate", zeros);
    plan.set_weight("both", numbers);
    const float factor = sliced ? 1.0f : 2.0f;
    for (int step = 0; step < 2; ++step) {
      plan.run({}, {{"x", rows}});
      const Floats y = plan.read("y");
      ASSERT_EQ(y.size(), 6u);
      for (std::size_t i = 0; i < 6; ++i)
        EXPECT_FLOAT_EQ(y[i], 4.0f * factor * static_cast<float>(4 + i % 3)) << sliced << " " << step;
    }
  }
}

TEST(Plan, ARowOfAttentionDoesNotDependOnTheOthers) {
  // The second row sees a value that is not finite; the first one does not.
  const float infinity = std::numeric_limits<float>::infinity();
  Graph g;
  const Dim n = g.symbol("n", 1, 2);
  const Value q = g.input("q", {n, 4}), k = g.input("k", {2, 4}), v = g.input("v", {2, 4});
  g.output("y", ragged_attention(q, k, v, g.input("begins", {n}, DType::kI32),
                                 g.input("ends", {n}, DType::kI32), 1));
  Plan plan(g, open_devices({"cpu"}));
  const Floats queries(8, 0.5f), keys(8, 0.25f), values = {1, 2, 3, 4, infinity, 6, 7, 8};
  const std::vector<std::int32_t> begins = {0, 0}, ends = {1, 2};
  plan.run({{"n", 2}}, {{"q", queries}, {"k", keys}, {"v", values}, {"begins", begins}, {"ends", ends}});
  EXPECT_EQ(plan.read("y"), (Floats{1, 2, 3, 4, infinity, 4, 5, 6}));
}

TEST(Plan, StatesLiveBetweenSteps) {
  // A running sum of each column, as the convolution of a row with the rows before it.
  Graph g;
  const Dim n = g.symbol("n", 1, 4);
  const Value x = g.input("x", {n, 2}), from = g.input("from", {n}, DType::kI32),
              to = g.input("to", {n}, DType::kI32);
  const Value state = g.state("last", DType::kF32, {1, 1, 2}), taps = g.weight("taps", {2, 2});
  g.output("y", apply(ops::ShortConv{}, {state, x, taps, from, to}));
  Plan plan(g, open_devices({"cpu"}));
  const Floats ones(4, 1.0f);
  plan.set_weight("taps", ones);
  const std::vector<std::int32_t> slot = {0}, none = {-1};
  plan.run({{n, 1}}, {{"x", Floats{1.0f, 10.0f}}, {"from", none}, {"to", slot}});
  EXPECT_EQ(plan.read("y"), (Floats{1.0f, 10.0f}));
  plan.run({{n, 1}}, {{"x", Floats{2.0f, 20.0f}}, {"from", slot}, {"to", slot}});
  EXPECT_EQ(plan.read("y"), (Floats{3.0f, 30.0f}));
}

}  // namespace
}  // namespace weft
