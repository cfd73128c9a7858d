// Inputs that a plan accepts and refuses, and its calls to the device, a fake that records them.
#include "exec/plan.h"

#include <gtest/gtest.h>

#include "bare_device.h"
#include "weft/error.h"

namespace weft::exec {
namespace {

class FakeTensor final : public DeviceTensor {
 public:
  explicit FakeTensor(std::size_t bytes, DType dtype = DType::kF32) : bytes_(bytes), dtype_(dtype) {}
  DType dtype() const override { return dtype_; }
  std::size_t bytes() const override { return bytes_; }

 private:
  std::size_t bytes_;
  DType dtype_;
};

struct Log {
  int compiled = 0;
  std::vector<std::vector<std::int64_t>> runs;
  std::vector<Changes> changes;
  Bindings last_bindings;
};

class FakePlan final : public test::BarePlan {
 public:
  explicit FakePlan(Log& log) : log_(log) {}
  void submit(std::span<const std::int64_t> symbols, const Bindings& bindings,
              const Changes& actual) override {
    log_.runs.emplace_back(symbols.begin(), symbols.end());
    log_.changes.push_back(actual);
    log_.last_bindings = bindings;
  }

 private:
  Log& log_;
};

class FakeDevice final : public test::BareDevice {
 public:
  FakeDevice() : BareDevice("fake") {}
  bool supports(const Graph&, const Node& node) const override {
    return get_op<ops::Softcap>(node) == nullptr;
  }
  std::unique_ptr<DevicePlan> compile(const Graph&, const Bindings&, const CompileOptions&) override {
    ++log.compiled;
    return std::make_unique<FakePlan>(log);
  }
  mutable Log log;
};

class PlanTest : public testing::Test {
 protected:
  PlanTest() {
    n = graph.add_symbol("n_tokens", 1, 16);
    x = graph.add_input("x", DType::kF32, {Dim(1, n), 8});
    y = graph.add(ops::Scale{2.0f}, {x}, "y");
    graph.add_output(y);
    bindings = {&tensor_x, &tensor_y};
  }

  Plan make(Changes allowed) { return Plan(device, graph, bindings, {.allowed = allowed}); }

  static std::string refusal(Plan& plan, const Step& step) {
    try {
      plan.run(step);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      return error.what();
    }
    return "";
  }

  static Step step(std::span<const std::int64_t> symbols, Changes actual = {}) {
    return {symbols, actual, {}, nullptr};
  }

  FakeDevice device;
  FakeTensor tensor_x{512}, tensor_y{512}, tensor_z{512}, tensor_small{8};
  Graph graph;
  SymbolId n;
  ValueId x, y;
  Bindings bindings;
  const std::int64_t four[1] = {4}, five[1] = {5}, seventeen[1] = {17};
};

TEST_F(PlanTest, CompilesOnceForStepsOfAllShapes) {
  Plan plan = make({.shapes = true});
  plan.run(step(four));
  plan.run(step(four));
  plan.run(step(five, {.shapes = true}));
  EXPECT_EQ(device.log.compiled, 1);
  EXPECT_EQ(device.log.runs, (std::vector<std::vector<std::int64_t>>{{4}, {4}, {5}}));
  EXPECT_EQ(plan.counters().steps, 3);
  EXPECT_EQ(plan.counters().unchanged, 2);
  EXPECT_EQ(plan.counters().shapes, 1);
}

TEST_F(PlanTest, AnUndeclaredChangeNamesTheTensorAndChangesNothing) {
  Plan plan = make({.shapes = true});
  plan.run(step(four));
  const std::string what = refusal(plan, step(five));
  EXPECT_NE(what.find("tensor x [n_tokens, 8]"), std::string::npos) << what;
  EXPECT_NE(what.find("from 4 to 5"), std::string::npos) << what;
  EXPECT_EQ(plan.counters().steps, 1);
  EXPECT_EQ(device.log.runs.size(), 1u);
  EXPECT_EQ(refusal(plan, step(four)), "");
}

TEST_F(PlanTest, AChangeThatWasNotAllowedIsRefused) {
  Plan plan = make({});
  plan.run(step(four));
  EXPECT_NE(refusal(plan, step(five, {.shapes = true})), "");
  EXPECT_EQ(device.log.runs.size(), 1u);
}

TEST_F(PlanTest, PastABoundNamesTheTensor) {
  Plan plan = make({.shapes = true});
  const std::string what = refusal(plan, step(seventeen));
  EXPECT_NE(what.find("n_tokens = 17 is outside [1, 16]"), std::string::npos) << what;
  EXPECT_NE(what.find("tensor x"), std::string::npos) << what;
  const std::int64_t zero[] = {0};
  EXPECT_NE(refusal(plan, step(zero)), "");
  EXPECT_TRUE(device.log.runs.empty());
}

TEST_F(PlanTest, RebindingNeedsDeclarationPermissionAndTheSameSize) {
  Plan strict = make({.shapes = true});
  Plan plan = make({.tensors = true});
  const Rebinding good[] = {{x, &tensor_z}};
  const Rebinding bad[] = {{x, &tensor_small}};
  Step s = step(four, {.tensors = true});
  s.rebindings = good;
  EXPECT_NE(refusal(strict, s), "");
  Step undeclared = step(four);
  undeclared.rebindings = good;
  EXPECT_NE(refusal(plan, undeclared).find("tensor x"), std::string::npos);
  s.rebindings = bad;
  EXPECT_NE(refusal(plan, s).find("tensor x"), std::string::npos);
  EXPECT_TRUE(device.log.runs.empty());
  s.rebindings = good;
  plan.run(s);
  EXPECT_EQ(device.log.last_bindings[static_cast<std::size_t>(x)], &tensor_z);
  EXPECT_EQ(plan.counters().tensors, 1);
}

TEST_F(PlanTest, AnotherGraphIsCompiledWhereAllowed) {
  const PlacedGraph other = {graph, {}, {bindings}};
  Plan strict = make({.shapes = true});
  Plan plan = make({.topology = true});
  Step s = step(four, {.topology = true});
  s.graph = &other;
  EXPECT_NE(refusal(strict, s), "");
  plan.run(s);
  EXPECT_EQ(device.log.compiled, 3);
  EXPECT_EQ(plan.counters().topology, 1);
}

TEST_F(PlanTest, UnboundTensorsAndUnsupportedOpsAreRefusedAtCompilation) {
  bindings[0] = nullptr;
  EXPECT_THROW(make({}), Error);
  bindings[0] = &tensor_x;
  graph.add(ops::Softcap{1.0f}, {y}, "capped");
  bindings.push_back(nullptr);
  try {
    make({});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_NE(std::string(error.what()).find("capped"), std::string::npos);
  }
}

}  // namespace
}  // namespace weft::exec
