// Plans whose graph changes, whose steps overlap, and that are looked into.
#include <gtest/gtest.h>
#include <unistd.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <source_location>
#include <string>

#include "exec/device_set.h"
#include "plan/beside_device.h"
#include "weft/backend/registry.h"
#include "weft/error.h"
#include "weft/plan.h"

namespace weft {
namespace {

using Floats = std::vector<float>;
constexpr Changes kAll = {.shapes = true, .tensors = true, .topology = true};

/// y = relu(x * first) * second, with more steps between them where asked for.
Graph chain(int n_between, bool wide = false) {
  Graph g;
  const Dim n = g.symbol("n", 1, 8);
  const std::int64_t width = wide ? 5 : 3;
  Value x = relu(linear(g.input("x", {n, 4}), g.weight("first", {width, 4}))).named("hidden");
  for (int i = 0; i < n_between; ++i) x = (x * 2.0f).named("between." + std::to_string(i));
  g.output("y", linear(x, g.weight("second", {2, width})));
  return g;
}

Floats counted(std::size_t n, float factor) {
  Floats result(n);
  for (std::size_t i = 0; i < n; ++i) result[i] = factor * static_cast<float>(i % 7);
  return result;
}

Floats expected(const Floats& x, float factor) {
  const Floats first = counted(12, 1.0f), second = counted(6, 0.5f);
  Floats y;
  for (std::size_t row = 0; row < x.size() / 4; ++row) {
    float hidden[3];
    for (std::size_t o = 0; o < 3; ++o) {
      hidden[o] = 0.0f;
      for (std::size_t i = 0; i < 4; ++i) hidden[o] += first[o * 4 + i] * x[row * 4 + i];
      hidden[o] = std::max(hidden[o], 0.0f) * factor;
    }
    for (std::size_t o = 0; o < 2; ++o)
      y.push_back(second[o * 3] * hidden[0] + second[o * 3 + 1] * hidden[1] + second[o * 3 + 2] * hidden[2]);
  }
  return y;
}

/// For weights, which must outlive their plan.
const Floats& kept(Floats numbers) {
  static std::deque<Floats> all;
  return all.emplace_back(std::move(numbers));
}

void expect_close(const Floats& got, const Floats& truth) {
  ASSERT_EQ(got.size(), truth.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], truth[i], 1e-5f * std::abs(truth[i])) << i;
}

void set_weights(Plan& plan) {
  plan.set_weight("first", kept(counted(12, 1.0f)));
  plan.set_weight("second", kept(counted(6, 0.5f)));
}

TEST(PlanChanges, AnotherGraphKeepsItsWeights) {
  Plan plan(chain(0), open_devices({"cpu"}), {.allowed = kAll});
  set_weights(plan);
  const Floats x = counted(8, 0.25f);
  plan.run({{"n", 2}}, {{"x", x}});
  expect_close(plan.read("y"), expected(x, 1.0f));

  plan.set_graph(chain(3));
  EXPECT_THROW(plan.read("y"), Error);
  EXPECT_THROW(plan.run(), Error);  // Inputs must be set again.
  plan.run({}, {{"x", x}});         // The symbol is unchanged.
  expect_close(plan.read("y"), expected(x, 8.0f));
  EXPECT_EQ(plan.counters().topology, 1);
  EXPECT_EQ(plan.counters().compiled, 2);

  plan.set_graph(chain(0, true));  // Another shape: the weights are not those.
  EXPECT_THROW(plan.run({{"n", 1}}, {{"x", counted(4, 1.0f)}}), Error);
  plan.set_weight("first", kept(counted(20, 1.0f)));
  plan.set_weight("second", kept(counted(10, 1.0f)));
  plan.run({{"n", 1}}, {{"x", counted(4, 1.0f)}});
  EXPECT_EQ(plan.shape("y"), (std::vector<std::int64_t>{1, 2}));

  plan.set_graph(chain(1));
  plan.set_graph(chain(2));  // Before a step of it.
  set_weights(plan);
  plan.run({{"n", 2}}, {{"x", x}});
  expect_close(plan.read("y"), expected(x, 4.0f));
}

/// y = (x a + x a) b, with a's product and sum named after `stem`.
Graph two_layers(const std::string& stem, std::int64_t width = 3) {
  Graph g;
  const Dim n = g.symbol("n", 1, 8);
  const Value x = linear(g.input("x", {n, 4}), g.weight("a", {width, 4})).named(stem + "1");
  g.output("y", linear((x + x).named(stem + "2"), g.weight("b", {2, width})));
  return g;
}

class PlanKeepsWeights : public ::testing::TestWithParam<const char*> {
 protected:
  /// Nodes named p... are there, others where they cost least.
  Plan plan(Graph graph) const {
    return {std::move(graph),
            open_devices({"cpu", GetParam()}),
            {.allowed = kAll, .pins = {{"^p|^nothing$", device()}, {"^q", "cpu"}, {"^y$", "cpu"}}}};
  }
  std::string device() const { return std::string(GetParam()).substr(0, std::string(GetParam()).find('=')); }
};

TEST_P(PlanKeepsWeights, WhereverTheyMove) {
  const Floats a = counted(12, 1.0f), b = counted(6, 0.5f), x = counted(8, 0.25f);
  Graph first = two_layers("p"), second = two_layers("q");
  for (Graph* const graph : {&first, &second}) {  // Each graph has what all pins fit.
    const Value in(*graph, graph->find("x"));
    graph->output("p.more", in * 1.0f);
    graph->output("q.more", in * 1.0f);
  }
  Plan moving = plan(first);
  moving.set_weight("a", a);
  moving.set_weight("b", b);
  moving.run({{"n", 2}}, {{"x", x}});
  const Floats truth = moving.read("y");
  for (int turn = 0; turn < 2; ++turn) {
    moving.set_graph(second);
    moving.run({{"n", 2}}, {{"x", x}});
    expect_close(moving.read("y"), truth);
    moving.set_graph(first);
    moving.run({{"n", 2}}, {{"x", x}});
    expect_close(moving.read("y"), truth);
  }
}

TEST_P(PlanKeepsWeights, ThatWereSetBeforeAStepOrRead) {
  const Floats a = counted(12, 1.0f), b = counted(6, 0.5f), x = counted(4, 0.25f);
  const auto with_more = [](Graph g) {
    const Value in(g, g.find("x"));
    g.output("p.more", in * 1.0f);
    g.output("q.more", in * 1.0f);
    return g;
  };
  Graph unread = with_more(two_layers("q"));
  unread.weight("later", {3});
  Plan changing = plan(unread);
  changing.set_weight("a", a);
  const Floats later = {1, 2, 3};
  changing.set_weight("later", later);
  changing.set_weight("b", b);
  Graph read = with_more(two_layers("p"));
  read.output("z", Value(read, read.find("p1")) + read.weight("later", {3}));
  changing.set_graph(read);
  changing.run({{"n", 1}}, {{"x", x}});
  Floats z = changing.read("z");
  // The same weight has another layout in a matrix product than in element-wise ops.
  Graph elements;
  const Value in = elements.input("x", {1, 4});
  elements.output("p.more", in * 1.0f);
  elements.output("q.more", in * 1.0f);
  elements.output("y", elements.weight("a", {3, 4}) + in);
  changing.set_graph(elements);
  changing.run({}, {{"x", x}});
  Floats truth;
  for (std::size_t i = 0; i < a.size(); ++i) truth.push_back(a[i] + x[i % 4]);
  expect_close(changing.read("y"), truth);
  EXPECT_EQ(z.size(), 3u);
}

INSTANTIATE_TEST_SUITE_P(OnASecondDevice, PlanKeepsWeights, ::testing::Values("second=cpu"));

TEST(PlanChanges, SaysWhichWeightHasAnotherShapeOrType) {
  Plan plan(two_layers("p"), open_devices("cpu"), {.allowed = kAll});
  const Floats a = counted(12, 1.0f), b = counted(6, 0.5f), x = counted(4, 0.25f);
  plan.set_weight("a", a);
  plan.set_weight("b", b);
  plan.run({{"n", 1}}, {{"x", x}});
  plan.set_graph(two_layers("p", 5));
  try {
    plan.run({{"n", 1}}, {{"x", x}});
    FAIL() << "weights of another shape were taken";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "weight 'a' is [5, 4] of f32, and was [3, 4] of f32 in the graph before; set it again");
  }
}

// The CPU packs weights of BF16 whose exponents are close together into fewer bits.
TEST(PlanChanges, AWeightMayTakeOtherBytesThanTheOneBefore) {
  constexpr std::size_t kOutputs = 16, kInputs = 256;
  Graph g;
  g.output("y", linear(g.input("x", {1, kInputs}), g.weight("w", DType::kBF16, {kOutputs, kInputs})));
  Plan plan(g, open_devices({"cpu"}), {.allowed = kAll});
  const Floats x(kInputs, 1.0f);
  std::vector<std::uint16_t> close(kOutputs * kInputs), far(close);
  for (std::size_t i = 0; i < close.size(); ++i) {
    close[i] = static_cast<std::uint16_t>(0x3f80 + i % 128);        // 1 to 2
    far[i] = static_cast<std::uint16_t>(0x3080 + i % 64 * 0x0100);  // 2^-30 to 2^96
  }
  for (const auto* weights : {&close, &far, &close}) {
    plan.set_weight("w", *weights);
    plan.run({}, {{"x", x}});
    Floats sums;
    for (std::size_t row = 0; row < kOutputs; ++row) {
      double sum = 0.0;
      for (std::size_t i = 0; i < kInputs; ++i)
        sum += static_cast<double>(
            std::bit_cast<float>(static_cast<std::uint32_t>((*weights)[row * kInputs + i]) << 16));
      sums.push_back(static_cast<float>(sum));
    }
    expect_close(plan.read("y"), sums);
  }
}

TEST(PlanChanges, AnotherGraphMustBeAllowed) {
  Plan plan(chain(0), open_devices({"cpu"}));
  EXPECT_THROW(plan.set_graph(chain(1)), Error);
  Plan allowed(chain(0), open_devices({"cpu"}), {.allowed = kAll});
  set_weights(allowed);
  const Floats x = counted(4, 1.0f);
  allowed.run({{"n", 1}}, {{"x", x}});
  EXPECT_THROW(allowed.set_graph(Graph{}), Error);  // Nothing happened:
  expect_close(allowed.read("y"), expected(x, 1.0f));
  allowed.run();
  expect_close(allowed.read("y"), expected(x, 1.0f));
}

TEST(PlanChanges, SplitsThatStayAreNotCompiledAgain) {
  PlanParams params{.allowed = kAll,
                    .pins = {{"^second$", "second"}, {"^first$", "cpu"}, {"^between", "cpu"}}};
  Plan plan(chain(1), open_devices({"cpu", "second=cpu"}), params);
  set_weights(plan);
  const Floats x = counted(8, 0.25f);
  plan.run({{"n", 2}}, {{"x", x}});
  EXPECT_EQ(plan.counters().splits_compiled, 2);
  // The first split has a node more, and hands the second a value of the same name.
  Graph longer;
  {
    const Dim n = longer.symbol("n", 1, 8);
    Value h = relu(linear(longer.input("x", {n, 4}), longer.weight("first", {3, 4}))).named("hidden");
    h = (h * 4.0f).named("between.first");
    h = (h * 2.0f).named("between.0");
    longer.output("y", linear(h, longer.weight("second", {2, 3})));
  }
  plan.set_graph(std::move(longer));
  plan.run({{"n", 1}}, {{"x", counted(4, 0.5f)}});
  expect_close(plan.read("y"), expected(counted(4, 0.5f), 8.0f));
  EXPECT_EQ(plan.counters().splits_compiled, 3);
  plan.run({{"n", 2}}, {{"x", x}});
  expect_close(plan.read("y"), expected(x, 8.0f));
  plan.set_graph(chain(1));
  plan.run({{"n", 2}}, {{"x", x}});
  expect_close(plan.read("y"), expected(x, 2.0f));
  EXPECT_EQ(plan.counters().splits_compiled, 4);
}

TEST(PlanChanges, StatesOutliveTheGraph) {
  const auto sums = [](float factor) {
    Graph g;
    const Dim n = g.symbol("n", 1, 4);
    const Value x = g.input("x", {n, 2}), from = g.input("from", {n}, DType::kI32),
                to = g.input("to", {n}, DType::kI32);
    const Value last = g.state("last", DType::kF32, {1, 1, 2});
    g.output("y", apply(ops::ShortConv{}, {last, x, g.weight("taps", {2, 2}), from, to}) * factor);
    return g;
  };
  Plan plan(sums(1.0f), open_devices({"cpu", "second=cpu"}), {.allowed = kAll, .pins = {{"last", "cpu"}}});
  plan.set_weight("taps", kept(Floats(4, 1.0f)));
  const std::vector<std::int32_t> slot = {0}, none = {-1};
  plan.run({{"n", 1}}, {{"x", Floats{1.0f, 10.0f}}, {"from", none}, {"to", slot}});
  plan.set_graph(sums(2.0f));
  plan.run({}, {{"x", Floats{2.0f, 20.0f}}, {"from", slot}, {"to", slot}});
  EXPECT_EQ(plan.read("y"), (Floats{6.0f, 60.0f}));
}

/// The CPU and one more device.
Devices with_one_beside() {
  exec::DeviceSet set;
  const auto registry = load_backends();
  set.devices = {std::make_shared<test::BesideDevice>(registry->open("cpu"), "beside"),
                 registry->open("cpu")};
  set.host = 1;
  set.named = {0};
  return Devices(std::make_shared<const exec::DeviceSet>(std::move(set)));
}

class PlanStarts : public testing::TestWithParam<bool> {
 protected:
  Plan plan() const {
    Plan result(chain(1), GetParam() ? with_one_beside() : open_devices({"cpu"}),
                {.allowed = kAll,
                 .pins = GetParam() ? std::vector<Pin>{{"^(first|between)", "beside"}, {"^second", "cpu"}}
                                    : std::vector<Pin>{}});
    set_weights(result);
    return result;
  }
};

TEST_P(PlanStarts, OutputsAreThoseOfTheStepBefore) {
  Plan steps = plan();
  EXPECT_THROW(steps.read("y"), Error);
  Floats before;
  for (int i = 0; i < 20; ++i) {
    const Floats x = counted(static_cast<std::size_t>(4 * (1 + i % 5)), 0.1f * static_cast<float>(i + 1));
    steps.start({{"n", 1 + i % 5}}, {{"x", x}});
    if (i == 0) {
      EXPECT_THROW(steps.read("y"), Error);
    } else {
      EXPECT_EQ(steps.shape("y")[0], static_cast<std::int64_t>(before.size() / 4));
      expect_close(steps.read("y"), expected(before, 2.0f));
    }
    before = x;
    if (i % 7 == 3) {
      steps.finish();
      expect_close(steps.read("y"), expected(before, 2.0f));
    }
    if (i % 7 == 5) {  // A step of the other kind between them.
      const Floats own = counted(4, 3.0f);
      steps.run({{"n", 1}}, {{"x", own}});
      expect_close(steps.read("y"), expected(own, 2.0f));
      before = own;
    }
  }
  steps.finish();
  expect_close(steps.read("y"), expected(before, 2.0f));
  steps.finish();
  EXPECT_EQ(steps.counters().compiled, 1);
}

TEST_P(PlanStarts, RejectedStepsKeepTheStartedOne) {
  Plan steps = plan();
  const Floats x = counted(8, 0.5f), y = counted(4, 0.25f);
  steps.start({{"n", 2}}, {{"x", x}});
  EXPECT_THROW(steps.start({{"n", 9}}, {{"x", x}}), Error);
  EXPECT_THROW(steps.start({{"n", 1}}, {{"x", x}}), Error);
  steps.start({{"n", 1}}, {{"x", y}});
  expect_close(steps.read("y"), expected(x, 2.0f));
  EXPECT_THROW(steps.start({{"m", 1}}), Error);
  expect_close(steps.read("y"), expected(x, 2.0f));
  steps.finish();
  expect_close(steps.read("y"), expected(y, 2.0f));
}

TEST_P(PlanStarts, OtherGraphsAndTensorsWait) {
  Plan steps = plan();
  const Floats x = counted(8, 0.5f);
  steps.start({{"n", 2}}, {{"x", x}});
  steps.start({{"n", 2}}, {{"x", x}});
  steps.set_weight("second", kept(counted(6, 1.0f)));
  steps.start({{"n", 2}}, {{"x", x}});
  expect_close(steps.read("y"), expected(x, 2.0f));
  steps.finish();
  Floats twice = expected(x, 2.0f);
  for (float& value : twice) value *= 2.0f;
  expect_close(steps.read("y"), twice);
  steps.set_weight("second", kept(counted(6, 0.5f)));
  steps.start({{"n", 1}}, {{"x", std::span(x).first(4)}});
  steps.start({{"n", 2}}, {{"x", x}});  // Overlaps with what waited.
  expect_close(steps.read("y"), expected({x.begin(), x.begin() + 4}, 2.0f));
  steps.set_weight("second", kept(counted(6, 1.0f)));
  steps.start({{"n", 2}}, {{"x", x}});
  steps.set_graph(chain(2));
  steps.start({{"n", 2}}, {{"x", x}});
  EXPECT_THROW(steps.read("y"), Error);  // The step before was another graph's.
  steps.finish();
  for (float& value : twice) value *= 2.0f;
  expect_close(steps.read("y"), twice);
}

INSTANTIATE_TEST_SUITE_P(Devices, PlanStarts, testing::Bool(),
                         [](const auto& p) { return p.param ? "OneBesideTheHost" : "TheHostAlone"; });

TEST(PlanLooks, ExplainsWhatIsWatched) {
  const auto explained = [](const char* watched, Explain as) {
    return Plan(chain(2), open_devices({"cpu"}), {.watched = watched}).explain(as);
  };
  EXPECT_NE(explained("^hiden", Explain::kText).find("watched: no result has a name that matches"),
            std::string::npos);
  EXPECT_EQ(explained("^hidden", Explain::kText).find("watched:"), std::string::npos);
  EXPECT_NE(explained("^hidden", Explain::kJson).find("\"watched\": [\n    \"hidden\"\n  ]"),
            std::string::npos);
  EXPECT_EQ(explained("", Explain::kJson).find("watched"), std::string::npos);
}

TEST(PlanLooks, WatchedValuesAreSeenAfterEachRun) {
  std::vector<std::string> seen;
  Floats hidden;
  Plan plan(chain(2), open_devices({"cpu"}),
            {.watched = "^(hidden|between)", .watch = [&](const WatchedValue& value) {
               seen.push_back(std::string(value.name) + " " + std::to_string(value.shape[0]));
               if (value.name != "hidden") return;
               hidden.resize(value.bytes.size() / sizeof(float));
               std::memcpy(hidden.data(), value.bytes.data(), value.bytes.size());
             }});
  set_weights(plan);
  const Floats x = counted(8, 0.25f);
  plan.run({{"n", 2}}, {{"x", x}});
  EXPECT_EQ(seen, (std::vector<std::string>{"hidden 2", "between.0 2", "between.1 2"}));
  EXPECT_EQ(hidden.size(), 6U);
  EXPECT_EQ(hidden[1], 4 * x[0] + 5 * x[1] + 6 * x[2]);
  expect_close(plan.read("y"), expected(x, 4.0f));
  PlanParams wrong{.watched = "(", .watch = [](const WatchedValue&) {}};
  EXPECT_THROW(Plan(chain(1), open_devices({"cpu"}), wrong), Error);
}

TEST(PlanLooks, ExplainsItselfInThreeForms) {
  Plan plan(chain(1), open_devices({"cpu", "second=cpu"}),
            {.pins = {{"second", "second"}, {"first", "cpu"}}});
  const auto json = nlohmann::json::parse(plan.explain(Explain::kJson));
  EXPECT_EQ(json["symbols"][0]["max"], 8);
  EXPECT_EQ(json["splits"].size(), 2U);
  EXPECT_EQ(json["splits"][1]["device"], "second");
  EXPECT_EQ(json["splits"][1]["copies"][0]["from"], "cpu");
  EXPECT_EQ(json["splits"][1]["copies"][0]["bytes"], 8 * 3 * 4);
  EXPECT_EQ(json["splits"][0]["nodes"][0]["op"], "matmul");
  EXPECT_EQ(json["splits"][0]["nodes"][0]["shape"], "[n, 3]");
  EXPECT_GT(json["devices"][0]["memory"]["weights"], 0);
  EXPECT_NE(plan.explain().find("split 1 on second"), std::string::npos);
  EXPECT_EQ(plan.explain(Explain::kDot).substr(0, 12), "digraph weft");
}

TEST(PlanLooks, PlansThatRunByTurnsShareTheirTemporaries) {
  const auto memory = make_workspaces();
  const Devices devices = open_devices({"cpu"});
  Plan a(chain(3), devices, {.workspaces = memory}), b(chain(1), devices, {.workspaces = memory});
  set_weights(a);
  set_weights(b);
  const Floats x = counted(8, 0.25f);
  for (int i = 0; i < 3; ++i) {
    a.run({{"n", 2}}, {{"x", x}});
    b.run({{"n", 2}}, {{"x", x}});
    expect_close(a.read("y"), expected(x, 8.0f));
    expect_close(b.read("y"), expected(x, 2.0f));
  }
}

TEST(PlanLooks, WeightsComeFromFiles) {
  const auto path =
      std::filesystem::path(testing::TempDir()) / ("chain-" + std::to_string(::getpid()) + ".safetensors");
  const auto write = [&](const std::string& header, const Floats& data) {
    const std::uint64_t length = header.size();
    std::ofstream file(path, std::ios::binary);
    file.write(reinterpret_cast<const char*>(&length), sizeof(length)) << header;
    file.write(reinterpret_cast<const char*>(data.data()), static_cast<std::streamsize>(4 * data.size()));
  };
  Floats data = counted(12, 1.0f);
  const Floats second = counted(6, 0.5f);
  data.insert(data.end(), second.begin(), second.end());
  write(R"({"first":{"dtype":"F32","shape":[3,4],"data_offsets":[0,48]},)"
        R"("second":{"dtype":"F32","shape":[2,3],"data_offsets":[48,72]}})",
        data);
  const Floats x = counted(8, 0.25f);
  Plan plan(chain(0), open_devices({"cpu"}));
  plan.set_weights(WeightFile(path));
  plan.run({{"n", 2}}, {{"x", x}});
  expect_close(plan.read("y"), expected(x, 1.0f));
  write(R"({"first":{"dtype":"F32","shape":[4,3],"data_offsets":[0,48]}})", data);
  Plan other(chain(0), open_devices({"cpu"}));
  try {
    other.set_weights(WeightFile(path));
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what())
                  .find("'first' is [3, 4] of f32 in the graph, and [4, 3] of f32 in the file"),
              std::string::npos)
        << error.what();
  }
}

TEST(PlanLooks, IndicesAreChecked) {
  Graph g;
  const Dim n = g.symbol("n", 1, 8), m = g.symbol("m", 1, 8);
  const Value x = g.input("x", {n, 2}), rows = g.input("rows", {m}, DType::kI32);
  g.output("y", take(x, rows));
  const Value kept =
      store_rows(g.state("kept", DType::kF32, {4, 1, 2}), x, g.input("places", {n}, DType::kI32));
  g.output("all", ragged_attention(x, kept, kept, g.input("begins", {n}, DType::kI32),
                                   g.input("ends", {n}, DType::kI32), 1));
  Plan plan(g, open_devices({"cpu"}));
  const std::vector<std::int32_t> places = {3, 0, 1, 2}, past(4, 1000), before(4, -5);
  plan.run({{"n", 4}, {"m", 2}}, {{"x", counted(8, 1.0f)},
                                  {"rows", std::vector<std::int32_t>{3, 0}},
                                  {"places", places},
                                  {"begins", before},
                                  {"ends", past}});
  EXPECT_EQ(plan.read("y"), (Floats{6.0f, 0.0f, 0.0f, 1.0f}));
  using Symbols = std::initializer_list<Plan::SymbolValue>;
  using Inputs = std::initializer_list<Plan::InputData>;
  const auto refusal = [&](Symbols symbols, Inputs inputs) {
    try {
      plan.run(symbols, inputs);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      return std::string(error.what());
    }
    return std::string();
  };
  const std::vector<std::int32_t> wrong = {0, 4}, negative = {-1, 0}, far = {0, 1, 2, 4};
  EXPECT_NE(refusal({}, {{"rows", wrong}}).find("'rows' has 4 at 1"), std::string::npos);
  EXPECT_NE(refusal({}, {{"rows", negative}}).find("takes 0 to 3"), std::string::npos);
  EXPECT_NE(refusal({}, {{"places", far}}).find("store_cache takes 0 to 3"), std::string::npos);
  // As they were, where there are fewer rows now.
  const std::vector<std::int32_t> two(2);
  EXPECT_NE(refusal({{"n", 2}}, {{"x", counted(4, 1.0f)}, {"places", two}, {"begins", two}, {"ends", two}})
                .find("'rows' has 3 at 0"),
            std::string::npos);
  plan.run();
  EXPECT_EQ(plan.read("y"), (Floats{6.0f, 0.0f, 0.0f, 1.0f}));
}

TEST(PlanLooks, ConvolutionsOverRows) {
  Graph g;
  const Dim t = g.symbol("t", 1, 16);
  const Value x = g.input("x", {t, 2});
  g.output("y", conv1d_channels_last(relu(x), g.weight("w", {3, 6}), g.weight("b", {3}), 3, 2, 1));
  Plan plan(g, open_devices({"cpu"}));
  const Floats w = counted(18, 0.5f), b = counted(3, 1.0f);
  plan.set_weight("w", w);
  plan.set_weight("b", b);
  for (const std::int64_t n : {7, 1, 16, 2}) {
    Floats values = counted(static_cast<std::size_t>(2 * n), 1.0f), truth;
    for (float& value : values) value -= 3.0f;
    for (std::int64_t row = 0; row < (n - 1) / 2 + 1; ++row)
      for (std::size_t o = 0; o < 3; ++o) {
        float sum = b[o];
        for (std::int64_t j = 0; j < 3; ++j)
          for (std::int64_t c = 0; c < 2; ++c)
            if (const std::int64_t from = 2 * row + j - 1; from >= 0 && from < n)
              sum += w[o * 6 + static_cast<std::size_t>(2 * j + c)] *
                     std::max(values[static_cast<std::size_t>(2 * from + c)], 0.0f);
        truth.push_back(sum);
      }
    plan.run({{"t", n}}, {{"x", values}});
    EXPECT_EQ(plan.shape("y"), (std::vector<std::int64_t>{(n - 1) / 2 + 1, 3}));
    expect_close(plan.read("y"), truth);
  }
}

TEST(PlanLooks, StatesAreReadAsWhatChangedThem) {
  Graph g;
  const Value x = g.input("x", {1, 2}), state = g.state("kept", DType::kF32, {2, 1, 2});
  const Value row = g.input("row", {1}, DType::kI32), begin = g.input("begin", {1}, DType::kI32),
              end = g.input("end", {1}, DType::kI32);
  Graph early = g;
  const auto refusal = [](const Graph& graph) {
    try {
      const Plan plan(graph, open_devices({"cpu"}));
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  g.output("before", ragged_attention(x * 0.0f, state, state, begin, end, 1).named("early"));
  store_rows(state, x, row).named("stored");
  EXPECT_NE(refusal(g).find("early uses 'kept', which stored changes"), std::string::npos) << refusal(g);
  // Twice the same state, instead of what the first store gives.
  store_rows(Value(early, state.id()), Value(early, x.id()), Value(early, row.id())).named("first");
  early.output("y", ragged_attention(
                        Value(early, x.id()),
                        store_rows(Value(early, state.id()), Value(early, x.id()), Value(early, row.id())),
                        Value(early, state.id()), Value(early, begin.id()), Value(early, end.id()), 1));
  EXPECT_NE(refusal(early).find("which first changes"), std::string::npos) << refusal(early);
}

TEST(PlanLooks, MistakesOfThoseWhoKnowIdsAreErrors) {
  Graph g;
  const Value x = g.input("x", {1, 2});
  EXPECT_THROW(g.add_output(-1), Error);
  EXPECT_THROW(g.add_output(99), Error);
  for (const NodeId node : {-1, 0, 99})  // It has none.
    EXPECT_THROW(g.set_source(node, std::source_location::current()), Error);
  g.add_output(x.id());
  EXPECT_THROW(Plan(g, open_devices({"cpu"})), Error);
  Graph twice;
  twice.output("y", twice.input("x", {1, 2}) * 2.0f);
  Plan plan(twice, open_devices({"cpu"}));
  const Floats a = {1.0f, 2.0f};
  EXPECT_THROW(plan.run({}, {{"x", a}, {"x", a}}), Error);
  PlanParams unwatched{.watched = "("};
  EXPECT_THROW(Plan(twice, open_devices({"cpu"}), unwatched), Error);
}

TEST(PlanLooks, NamesOfAnyBytesAreJson) {
  Graph g;
  g.output("y\xff\n\"", g.input("x\xfe", {1, 2}) * 2.0f);
  const Plan plan(g, open_devices({"cpu"}));
  EXPECT_TRUE(nlohmann::json::accept(plan.explain(Explain::kJson)));
}

TEST(PlanLooks, TheLargestOfRowsWithNan) {
  Graph g;
  g.output("y", top_k(g.input("x", {2, 4}), 3));
  Plan plan(g, open_devices({"cpu"}));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  plan.run({}, {{"x", Floats{nan, 1.0f, nan, 2.0f, nan, nan, nan, nan}}});
  EXPECT_EQ(plan.read<std::int32_t>("y"), (std::vector<std::int32_t>{3, 1, 0, 0, 1, 2}));
}

/// Rows are taken from the result of a chain of row-wise nodes: all of it must be computed before.
TEST(PlanLooks, TakesRowsInAnyOrder) {
  Graph g;
  const Dim n = g.symbol("n", 1, 64);
  const Value x = g.input("x", {n, 3});
  g.output("y", take(relu(x) * 2.0f, g.input("rows", {n}, DType::kI32)) + x);
  Plan plan(g, open_devices({"cpu"}));
  Floats values(64 * 3), truth(64 * 3);
  std::vector<std::int32_t> rows(64);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) - 50.0f;
  for (std::size_t r = 0; r < 64; ++r) {
    rows[r] = static_cast<std::int32_t>(63 - r);
    for (std::size_t c = 0; c < 3; ++c)
      truth[r * 3 + c] = 2.0f * std::max(values[(63 - r) * 3 + c], 0.0f) + values[r * 3 + c];
  }
  for (int i = 0; i < 5; ++i) {
    plan.run({{"n", 64}}, {{"x", values}, {"rows", rows}});
    EXPECT_EQ(plan.read("y"), truth);
  }
}

}  // namespace
}  // namespace weft
