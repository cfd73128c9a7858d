// Plans of graphs that count, move, order and draw: sizes of the step, indices out of range, nodes without
// inputs, both weights and values.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "graph/refusal.h"
#include "weft/plan.h"

namespace weft {
namespace {

using test::has;
using test::refusal;

using Floats = std::vector<float>;
using Ints = std::vector<std::int32_t>;

Ints read_ints(Plan& plan, const std::string& name, std::size_t n) {
  Ints result(n);
  plan.read(name, result);
  return result;
}

TEST(PlanOrder, RangesFollowTheStep) {
  Graph g;
  const Dim n = g.symbol("n", 1, 20), past = g.symbol("past", 0, 100);
  g.output("positions", arange(g, past, past + n));
  g.output("ones", ones(g, {n, 2}) * 1.0f);
  g.output("down", flip(arange(g, 0, n), {0}));
  Plan plan(g, open_devices({"cpu"}));
  for (const std::int32_t size : {3, 20, 1}) {
    plan.run({{"n", size}, {"past", 7}}, {});
    Ints up(static_cast<std::size_t>(size)), down(up.size());
    std::iota(up.begin(), up.end(), 7);
    std::iota(down.rbegin(), down.rend(), 0);
    EXPECT_EQ(read_ints(plan, "positions", up.size()), up);
    EXPECT_EQ(read_ints(plan, "down", up.size()), down);
    EXPECT_EQ(plan.read("ones"), Floats(2 * up.size(), 1.0f));
  }
}

TEST(PlanOrder, AWeightMayBeANumberWithoutAxes) {
  Graph g;
  const Value factor = g.weight("factor", Shape());
  g.output("y", g.input("x", {3}) * factor);
  g.output("one", factor + 1.0f);
  Plan plan(g, open_devices({"cpu"}));
  const Floats number = {2.5f};
  plan.set_weight("factor", number);
  plan.run({}, {{"x", Floats{1.0f, 2.0f, -4.0f}}});
  EXPECT_EQ(plan.read("y"), (Floats{2.5f, 5.0f, -10.0f}));
  EXPECT_EQ(plan.read("one"), Floats{3.5f});
}

TEST(PlanOrder, NodesWithoutInputsGoWherePinsSay) {
  Graph g;
  const Value x = g.input("x", {4});
  const Value range = cast(arange(g, 0, 4).named("range"), DType::kF32).named("floats");
  g.output("y", x + range);
  const Devices devices = open_devices({"cpu", "second=cpu"});
  for (const char* const device : {"cpu", "second"}) {
    Plan plan(g, devices, {.pins = {{"^range", device}, {"^floats", "cpu"}, {"^y", "second"}}});
    plan.run({}, {{"x", Floats{1.0f, 1.0f, 1.0f, 1.0f}}});
    EXPECT_EQ(plan.read("y"), (Floats{1.0f, 2.0f, 3.0f, 4.0f}));
  }
}

TEST(PlanOrder, IndicesAreCheckedWhereTheHostGivesThem) {
  Graph g;
  const Dim m = g.symbol("m", 1, 8);
  const Value x = g.input("x", {3, 2}), rows = g.input("rows", {m}, DType::kI32);
  g.output("taken", take(x, rows, 0));
  g.output("added", index_add(x, rows, g.input("source", {m, 2})));
  // Computed indices that are out of range become the nearest valid ones.
  g.output("near", take(x, rows * 100.0f - 50.0f, 0));
  Plan plan(g, open_devices({"cpu"}));
  const Floats values = {0.0f, 1.0f, 2.0f, 3.0f, 4.0f, 5.0f}, source = {10.0f, 20.0f, 30.0f, 40.0f};
  plan.run({{"m", 2}}, {{"x", values}, {"rows", Ints{2, 0}}, {"source", source}});
  EXPECT_EQ(plan.read("taken"), (Floats{4.0f, 5.0f, 0.0f, 1.0f}));
  EXPECT_EQ(plan.read("added"), (Floats{30.0f, 41.0f, 2.0f, 3.0f, 14.0f, 25.0f}));
  EXPECT_EQ(plan.read("near"), (Floats{4.0f, 5.0f, 0.0f, 1.0f}));
  for (const Ints& wrong : {Ints{0, 3}, Ints{-1, 0}})
    EXPECT_TRUE(
        has(refusal([&] { plan.run({{"m", 2}}, {{"x", values}, {"rows", wrong}, {"source", source}}); }),
            "input 'rows' has " + std::to_string(wrong[0] < 0 ? -1 : 3)));
}

TEST(PlanOrder, RandomNumbersDifferByCounterAndSeedAlone) {
  Graph g;
  const Value counter = g.input("counter", {1}, DType::kI32);
  g.output("a", random_uniform(counter, {100}, 1));
  g.output("b", random_uniform(counter, {100}, 2));
  g.output("wide", random_uniform(counter, {100}, 1, -3.0f, 5.0f));
  Plan plan(g, open_devices({"cpu"}));
  plan.run({}, {{"counter", Ints{0}}});
  const Floats first = plan.read("a");
  EXPECT_NE(first, plan.read("b"));
  plan.run({}, {{"counter", Ints{1}}});
  EXPECT_NE(first, plan.read("a"));
  plan.run({}, {{"counter", Ints{0}}});
  EXPECT_EQ(first, plan.read("a"));
  for (const float value : first) EXPECT_TRUE(value >= 0.0f && value < 1.0f);
  const Floats wide = plan.read("wide");
  for (std::size_t i = 0; i < wide.size(); ++i) EXPECT_NEAR(wide[i], 8.0f * first[i] - 3.0f, 1e-5f);
}

TEST(PlanOrder, CellsGoOnFromWhatTheyLeft) {
  Graph whole, half;
  for (Graph* const g : {&whole, &half}) {
    const Dim t = g->symbol("t", 1, 8);
    const Value x = g->input("x", {t, 2, 12}), h0 = g->input("h0", {2, 3}), c0 = g->input("c0", {2, 3});
    const Recurrence r = lstm(x, g->weight("w", {12, 3}), h0, c0);
    g->output("y", r.y * 1.0f);
    g->output("h", r.h * 1.0f);
    g->output("c", r.c * 1.0f);
  }
  Floats weight(36), x(8 * 24);
  for (std::size_t i = 0; i < weight.size(); ++i) weight[i] = 0.1f * static_cast<float>(i % 11) - 0.5f;
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = 0.2f * static_cast<float>(i % 17) - 1.5f;
  const Floats zeros(6);
  Plan plan(whole, open_devices({"cpu"}));
  plan.set_weight("w", weight);
  plan.run({{"t", 8}}, {{"x", x}, {"h0", zeros}, {"c0", zeros}});
  const Floats y = plan.read("y"), c = plan.read("c");
  const Floats first(x.begin(), x.begin() + 72), rest(x.begin() + 72, x.end());
  plan.run({{"t", 3}}, {{"x", first}, {"h0", zeros}, {"c0", zeros}});
  const Floats h_between = plan.read("h"), c_between = plan.read("c");
  plan.run({{"t", 5}}, {{"x", rest}, {"h0", h_between}, {"c0", c_between}});
  EXPECT_EQ(plan.read("y"), Floats(y.begin() + 18, y.end()));
  EXPECT_EQ(plan.read("c"), c);
  // Consecutive steps of the same size.
  plan.run({{"t", 3}}, {{"x", Floats(72, 0.5f)}, {"h0", zeros}, {"c0", zeros}});
  EXPECT_NE(plan.read("h"), h_between);
  plan.run({{"t", 3}}, {{"x", first}, {"h0", zeros}, {"c0", zeros}});
  EXPECT_EQ(plan.read("h"), h_between);
  EXPECT_EQ(plan.read("c"), c_between);
}

TEST(PlanOrder, ComputedIndicesGoNowhereElse) {
  Graph g;
  const Value table = g.input("table", {3, 2}), at = g.input("at", {2});
  g.output("rows", take(table, cast(at, DType::kI32)) * 1.0f);
  g.output("largest", take(table, reshape(g.input("ids", {2, 1}, DType::kI32), {2})) * 1.0f);
  Plan plan(g, open_devices({"cpu"}));
  const Floats values = {1, 2, 3, 4, 5, 6};
  plan.run({}, {{"table", values}, {"at", Floats{-7.0f, 1e9f}}, {"ids", Ints{2, 0}}});
  EXPECT_EQ(plan.read("rows"), (Floats{1, 2, 5, 6}));
  EXPECT_EQ(plan.read("largest"), (Floats{5, 6, 1, 2}));
  EXPECT_TRUE(has(refusal([&] { plan.run({}, {{"ids", Ints{3, 0}}}); }), "takes 0 to 2"));

  Graph stored;
  const Value state = stored.state("state", DType::kF32, {4, 1, 2});
  const Value cells = cast(stored.input("cells", {2}), DType::kI32);
  store_rows(state, stored.input("x", {2, 2}), cells).named("y");
  stored.output("one", stored.input("z", {1}) * 1.0f);
  EXPECT_TRUE(has(refusal([&] { const Plan bad(stored, open_devices({"cpu"})); }), "must be an input"));
}

TEST(PlanOrder, NoAxisGrowsBelowTheBounds) {
  Graph g;
  const Dim n = g.symbol("n", 1, 50);
  g.output("y", argsort(g.input("x", {n, Dim(-1) * n + 100}), 1));
  Plan plan(g, open_devices({"cpu"}));
  EXPECT_TRUE(has(refusal([&] { plan.run({{n, 30}}, {{"x", Floats(2100)}}); }), "larger than"));
}

TEST(PlanOrder, AScalarMayBeFull) {
  Graph g;
  g.output("y", full(g, {}, 2.5f) * 1.0f);
  Plan plan(g, open_devices({"cpu"}));
  plan.run({}, {});
  EXPECT_EQ(plan.read("y"), Floats{2.5f});
  EXPECT_TRUE(plan.shape("y").empty());
}

/// What PyTorch gives, but for top_k, where NaN is least.
TEST(PlanOrder, RowsOfSomeNumbersAndOfNone) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN(),
                  kInf = std::numeric_limits<float>::infinity();
  Graph g;
  const Value x = g.input("x", {5, 4});
  g.output("largest", argmax(x, 1));
  g.output("max", max(x, {1}));
  g.output("min", min(x, {1}));
  g.output("up", argsort(x));
  g.output("down", argsort(x, 1, true));
  g.output("best", top_k(x, 3));
  Plan plan(g, open_devices({"cpu"}));
  plan.run({}, {{"x", Floats{kNan,  1.0f, kNan, 2.0f, kNan, kNan,  kNan,  kNan,  -kInf, kNan,
                             -kInf, kNan, 1.0f, 3.0f, 3.0f, -kInf, -kInf, -kInf, -kInf, -kInf}}});
  EXPECT_EQ(read_ints(plan, "largest", 5), (Ints{0, 0, 1, 1, 0}));
  EXPECT_EQ(read_ints(plan, "up", 20), (Ints{1, 3, 0, 2, 0, 1, 2, 3, 0, 2, 1, 3, 3, 0, 1, 2, 0, 1, 2, 3}));
  EXPECT_EQ(read_ints(plan, "down", 20), (Ints{0, 2, 3, 1, 0, 1, 2, 3, 1, 3, 0, 2, 1, 2, 0, 3, 0, 1, 2, 3}));
  EXPECT_EQ(read_ints(plan, "best", 15), (Ints{3, 1, 0, 0, 1, 2, 0, 1, 2, 1, 2, 0, 0, 1, 2}));
  const Floats most = plan.read("max"), least = plan.read("min");
  for (std::size_t r = 0; r < 3; ++r) EXPECT_TRUE(std::isnan(most[r]) && std::isnan(least[r])) << r;
  EXPECT_EQ(Floats(most.begin() + 3, most.end()), (Floats{3.0f, -kInf}));
  EXPECT_EQ(Floats(least.begin() + 3, least.end()), (Floats{-kInf, -kInf}));
}

TEST(PlanOrder, TrianglesMayBeAllOrNothing) {
  Graph g;
  const Value x = g.input("x", {3, 3});
  constexpr std::int64_t kFar = std::int64_t{1} << 40;
  g.output("all", tril(x, kFar));
  g.output("none", triu(x, kFar));
  Plan plan(g, open_devices({"cpu"}));
  plan.run({}, {{"x", Floats(9, 1.0f)}});
  EXPECT_EQ(plan.read("all"), Floats(9, 1.0f));
  EXPECT_EQ(plan.read("none"), Floats(9, 0.0f));
  EXPECT_TRUE(has(refusal([&] { flip(x, {0, 0}); }), "twice"));
}

}  // namespace
}  // namespace weft
