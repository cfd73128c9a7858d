// Ops of a user's own: their functions run on the host, wherever the rest of the graph does.
#include "weft/graph/custom.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <vector>

#include "backend/cpu/device.h"
#include "graph/refusal.h"
#include "plan/beside_device.h"
#include "weft/backend/registry.h"
#include "weft/error.h"
#include "weft/plan.h"

namespace weft {
namespace {

using test::has;
using test::refusal;
using Floats = std::vector<float>;

/// A device that knows all ops but other people's.
class PlainDevice final : public test::ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;
  bool supports(const Graph& graph, const Node& node) const override {
    return get_op<ops::Custom>(node) == nullptr && inner_->supports(graph, node);
  }
};

std::shared_ptr<Registry> with_plain_device() {
  auto registry = std::make_shared<Registry>();
  registry->add(cpu::backend());
  registry->add({.name = "plain",
                 .list = [] { return std::vector{DeviceInfo{.name = "plain0", .backend = "plain"}}; },
                 .open = [](std::string_view name, const OpenOptions&) -> std::shared_ptr<Device> {
                   return std::make_shared<PlainDevice>(cpu::make_device(), std::string(name));
                 }});
  return registry;
}

/// Each row backwards, and twice as long: {m, n} -> {m, 2 n}.
Value mirrored(Value x, CustomParams params = {}) {
  return custom(
      "mirrored", {x}, {x.size(0), x.size(1) * 2},
      [](const CustomCall& call) {
        const auto n = static_cast<std::size_t>(call.inputs[0].shape[1]);
        const auto in = call.inputs[0].f32();
        for (std::int64_t r = call.begin; r < call.end; ++r)
          for (std::size_t c = 0; c < 2 * n; ++c)
            call.f32()[index(static_cast<int>(r - call.begin)) * 2 * n + c] =
                in[static_cast<std::size_t>(r) * n + (c < n ? c : 2 * n - 1 - c)];
      },
      std::move(params));
}
Floats mirror_of(const Floats& x, std::size_t n) {
  Floats result;
  for (std::size_t r = 0; r < x.size() / n; ++r) {
    const auto row = x.begin() + static_cast<std::ptrdiff_t>(r * n);
    result.insert(result.end(), row, row + static_cast<std::ptrdiff_t>(n));
    result.insert(result.end(), std::make_reverse_iterator(row + static_cast<std::ptrdiff_t>(n)),
                  std::make_reverse_iterator(row));
  }
  return result;
}
Floats counted(std::size_t n) {
  Floats x(n);
  for (std::size_t i = 0; i < n; ++i) x[i] = static_cast<float>(i);
  return x;
}

TEST(Custom, SizesAreExpressionsAndRowsAreSharedByThreads) {
  for (const std::int64_t rows_per_task : {0, 1, 5, 1000}) {
    Graph g;
    const Dim n = g.symbol("n", 0, 300);
    g.output("y", mirrored(g.input("x", {n, 3}), {.rows_per_task = rows_per_task}));
    Plan plan(g, open_devices({"cpu"}), {.n_threads = 4});
    for (const std::size_t rows : {300, 1, 0, 7}) {
      const Floats x = counted(rows * 3);
      plan.run({{n, static_cast<std::int64_t>(rows)}}, {{"x", x}});
      EXPECT_EQ(plan.read("y"), mirror_of(x, 3)) << rows << " rows, " << rows_per_task;
    }
  }
}

TEST(Custom, ReadsViewsRowAfterRowAndWholeNumbers) {
  Graph g;
  const Value x = g.input("x", {2, 3}), ids = g.input("ids", {3}, DType::kI32);
  const Value y = custom("offset", {transpose(x), ids}, {3},
                         [](const CustomCall& call) {
                           EXPECT_EQ(std::vector(call.inputs[0].shape.begin(), call.inputs[0].shape.end()),
                                     (std::vector<std::int64_t>{3, 2}));
                           for (std::size_t i = 0; i < 3; ++i)
                             call.i32()[i] = call.inputs[1].i32()[i] +
                                             static_cast<std::int32_t>(call.inputs[0].f32()[2 * i + 1]);
                         },
                         {.dtype = DType::kI32});
  EXPECT_EQ(y.dtype(), DType::kI32);
  g.output("y", cast(y, DType::kF32));
  Plan plan(g, open_devices({"cpu"}));
  plan.run({}, {{"x", counted(6)}, {"ids", std::vector<std::int32_t>{10, 20, 30}}});
  EXPECT_EQ(plan.read("y"), (Floats{13, 24, 35}));
}

TEST(Custom, IsTheHostsWhereAllElseIsPinnedElsewhere) {
  Graph g;
  const Dim n = g.symbol("n", 1, 8);
  const Value x = g.input("x", {n, 2});
  g.output("y", relu(mirrored(relu(x).named("before"))));
  Plan plan(g, open_devices(*with_plain_device(), {"plain0"}), {.pins = {{".", "plain0"}}});
  const Floats rows = counted(6);
  plan.run({{n, 3}}, {{"x", rows}});
  EXPECT_EQ(plan.read("y"), mirror_of(rows, 2));
  EXPECT_EQ(plan.placement(), (std::vector<std::string>{"plain0", "cpu", "plain0"}));
  const std::string what = refusal(
      [&] { Plan(g, open_devices(*with_plain_device(), {"plain0"}), {.pins = {{"mirrored", "plain0"}}}); },
      ErrorCode::kUnsupported);
  EXPECT_TRUE(has(what, "custom_test.cpp:")) << what;
  EXPECT_TRUE(has(what, "is a function that runs on the host")) << what;
}

TEST(Custom, ExceptionsEndTheStepButNotThePlan) {
  for (const std::int64_t rows_per_task : {0, 1}) {
    Graph g;
    const Dim n = g.symbol("n", 1, 64);
    const auto calls_after = std::make_shared<std::atomic<int>>(0);
    const Value picky = custom("picky", {g.input("x", {n, 1})}, {n, 1},
                               [](const CustomCall& call) {
                                 const float first =
                                     call.inputs[0].f32()[static_cast<std::size_t>(call.begin)];
                                 if (first < 0.0f) throw Error(ErrorCode::kUnsupported, "no negative rows");
                                 if (first == 7.0f) throw std::runtime_error("seven");
                                 if (first == 8.0f) throw 8;
                                 for (float& y : call.f32()) y = 1.0f;
                               },
                               {.rows_per_task = rows_per_task});
    g.output("y", custom("later", {picky}, {n, 1}, [calls_after](const CustomCall& call) {
               ++*calls_after;
               std::copy_n(call.inputs[0].bytes.begin(), call.bytes.size(), call.bytes.begin());
             }));
    Plan plan(g, open_devices({"cpu"}), {.n_threads = 3});
    const auto fails = [&](float value, ErrorCode code, const std::string& text) {
      try {
        plan.run({{n, 40}}, {{"x", Floats(40, value)}});
        ADD_FAILURE() << value << " does not fail";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), code);
        EXPECT_TRUE(has(error.what(), text)) << error.what();
        EXPECT_TRUE(has(error.what(), "custom_test.cpp:")) << error.what();
        EXPECT_TRUE(has(error.what(), "picky")) << error.what();
      }
      EXPECT_EQ(calls_after->load(), 0) << "what a failed function left is not read";
      plan.run({{n, 64}}, {{"x", Floats(64, 1.0f)}});
      EXPECT_EQ(plan.read("y"), Floats(64, 1.0f));
      EXPECT_EQ(calls_after->exchange(0), 1);
    };
    fails(-1.0f, ErrorCode::kUnsupported, "no negative rows");
    fails(7.0f, ErrorCode::kDevice, "its function failed: seven");
    fails(8.0f, ErrorCode::kDevice, "its function failed");
  }
}

TEST(Custom, DiscardsOutputsOfFailedFunctions) {
  Graph g;
  const Dim n = g.symbol("n", 0, 4);
  const Value x = custom("picky", {g.input("x", {n, 2})}, {n, 2}, [](const CustomCall& call) {
    std::fill(call.f32().begin(), call.f32().end(), 9.0f);
    if (call.inputs[0].f32()[0] < 0.0f) throw std::runtime_error("negative");
  });
  const Value kept =
      store_rows(g.state("kept", DType::kF32, {4, 1, 2}), x, g.input("places", {n}, DType::kI32));
  // What looks at one row only gets that row.
  g.output("rows", ragged_attention(g.input("q", {4, 2}), kept, kept, g.input("begins", {4}, DType::kI32),
                                    g.input("ends", {4}, DType::kI32), 1));
  Plan plan(g, open_devices({"cpu"}), {.n_threads = 2});
  const std::vector<std::int32_t> places = {0, 1, 2, 3}, ends = {1, 2, 3, 4};
  const Floats q(8, 1.0f), negative(8, -1.0f);
  EXPECT_THROW(
      plan.run({{n, 4}}, {{"x", negative}, {"places", places}, {"q", q}, {"begins", places}, {"ends", ends}}),
      Error);
  plan.run({{n, 0}}, {{"x", Floats()},
                      {"places", std::vector<std::int32_t>()},
                      {"q", q},
                      {"begins", places},
                      {"ends", ends}});
  EXPECT_EQ(plan.read("rows"), Floats(8, 0.0f));
  plan.run({{n, 4}}, {{"x", Floats(8, 1.0f)}, {"places", places}});
  EXPECT_EQ(plan.read("rows"), Floats(8, 9.0f));
}

TEST(Custom, FunctionsOfOneKeyAreTheSameWhereGraphsAreCompared) {
  const auto graph = [](const std::string& key, float factor) {
    Graph g;
    const Value x = g.input("x", {2});
    g.output("y", custom("times", {x}, {2},
                         [factor](const CustomCall& call) {
                           for (std::size_t i = 0; i < 2; ++i)
                             call.f32()[i] = factor * call.inputs[0].f32()[i];
                         },
                         {.key = key}));
    return g;
  };
  const Graph g = graph("twice", 2.0f);
  EXPECT_TRUE(g == graph("twice", 2.0f));
  EXPECT_FALSE(g == graph("thrice", 3.0f));
  EXPECT_FALSE(graph("", 2.0f) == graph("", 2.0f)) << "functions without a key are their own";
  const Graph unnamed = graph("", 2.0f), copy = unnamed;
  EXPECT_TRUE(copy == unnamed);
}

TEST(Custom, ErrorsNameInvalidFunctions) {
  Graph g, other;
  const Value x = g.input("x", {2});
  const CustomFunction nothing = [](const CustomCall&) {};
  EXPECT_TRUE(has(refusal([&] { custom("", {x}, {2}, nothing); }), "needs a name"));
  EXPECT_TRUE(has(refusal([&] { custom("f", {x}, {2}, nullptr); }), "f: it has no function"));
  EXPECT_TRUE(has(refusal([&] { custom("f", {x}, {-2}, nothing); }), "negative size"));
  EXPECT_TRUE(has(refusal([&] { custom("f", {x}, {other.symbol("m", 1, 2)}, nothing); }), "another graph"));
  EXPECT_TRUE(has(refusal([&] { custom("f", {x}, {2}, nothing, {.dtype = DType::kF16}); }), "f32 or i32"));
  EXPECT_TRUE(has(refusal([&] { custom("f", {x}, {2}, nothing, {.rows_per_task = -1}); }), "rows_per_task"));
  EXPECT_TRUE(has(refusal([&] { custom("f", {}, {2}, nothing); }), "no inputs"));
  EXPECT_TRUE(has(refusal([&] {
                    custom("f", {x}, {2}, nothing);
                    custom("g", {g.weight("w", DType::kF16, {2, 2})}, {2}, nothing);
                  }),
                  "must be f32 or i32"));
  const Value wrong = custom("wrong", {x}, {2}, [](const CustomCall& call) { call.i32()[0] = 1; });
  g.output("y", wrong);
  Plan plan(g, open_devices({"cpu"}));
  EXPECT_TRUE(has(refusal([&] { plan.run({}, {{"x", Floats{1, 2}}}); }), "as i32 that are not"));
}

}  // namespace
}  // namespace weft
