// Plans with a step in flight: reads during the step, and plans that end during the step.
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <random>
#include <thread>

#include "exec/bare_device.h"
#include "exec/device_set.h"
#include "weft/backend/registry.h"
#include "weft/error.h"
#include "weft/plan.h"

namespace weft {
namespace {

using Floats = std::vector<float>;

enum class Fails { kNever, kSubmitting, kWorking, kWaiting };

/// The work of a device that runs concurrently with the host.
struct Work {
  std::atomic<int> n_yields{0};  // How long a step takes.
  Fails fails = Fails::kNever;
  std::atomic<int> n_running{0};
  std::atomic<bool> lost_a_tensor{false};  // While a step was running.

  void fail(Fails here) const {
    if (fails == here) throw Error(ErrorCode::kDevice, "broken");
  }
};

class WatchedTensor final : public DeviceTensor {
 public:
  WatchedTensor(std::size_t n, std::shared_ptr<Work> work) : values(n), work_(std::move(work)) {}
  ~WatchedTensor() override {
    if (work_->n_running > 0) work_->lost_a_tensor = true;
  }
  DType dtype() const override { return DType::kF32; }
  std::size_t bytes() const override { return values.size() * sizeof(float); }
  std::span<std::byte> host() override { return std::as_writable_bytes(std::span(values)); }
  Floats values;

 private:
  const std::shared_ptr<Work> work_;
};

/// Multiplies by factors, on a thread of its own.
class FactorPlan final : public test::BarePlan {
 public:
  FactorPlan(Graph graph, std::shared_ptr<Work> work) : graph_(std::move(graph)), work_(std::move(work)) {
    for (const ValueInfo& value : graph_.values())
      inside_.emplace_back(static_cast<std::size_t>(value.shape.elements(graph_.bounds())));
  }
  void submit(std::span<const std::int64_t> symbols, const Bindings& bindings, const Changes&) override {
    work_->fail(Fails::kSubmitting);
    std::vector<std::span<float>> values;
    for (std::size_t v = 0; v < bindings.size(); ++v) {
      Floats& of = bindings[v] != nullptr ? dynamic_cast<WatchedTensor&>(*bindings[v]).values : inside_[v];
      values.push_back(
          std::span(of).first(static_cast<std::size_t>(graph_.values()[v].shape.elements(symbols))));
    }
    ++work_->n_running;
    step_ = std::async(std::launch::async, [this, values] {
      const std::shared_ptr<void> end(nullptr, [this](void*) { --work_->n_running; });
      for (int i = work_->n_yields; i > 0; --i) std::this_thread::yield();
      work_->fail(Fails::kWorking);
      for (const Node& node : graph_.nodes())
        for (std::size_t i = 0; i < values[index(node.output)].size(); ++i)
          values[index(node.output)][i] = values[index(node.inputs[0])][i] * get_op<ops::Scale>(node)->factor;
    });
  }
  void wait() override {
    if (!step_.valid()) return;
    step_.get();
    work_->fail(Fails::kWaiting);
  }

 private:
  const Graph graph_;
  const std::shared_ptr<Work> work_;
  std::vector<Floats> inside_;
  std::future<void> step_;  // Last: it ends before the members that it uses.
};

class FactorDevice final : public test::BareDevice {
 public:
  explicit FactorDevice(std::shared_ptr<Work> work) : BareDevice("beside"), work_(std::move(work)) {
    info_.is_async = true;
  }
  bool supports(const Graph&, const Node& node) const override { return get_op<ops::Scale>(node) != nullptr; }
  std::unique_ptr<DeviceTensor> create_host_tensor(DType, std::span<const std::int64_t> shape) override {
    std::size_t n = 1;
    for (const std::int64_t size : shape) n *= static_cast<std::size_t>(size);
    return std::make_unique<WatchedTensor>(n, work_);
  }
  std::unique_ptr<DevicePlan> compile(const Graph& graph, const Bindings&, const CompileOptions&) override {
    return std::make_unique<FactorPlan>(graph, work_);
  }

 private:
  const std::shared_ptr<Work> work_;
};

/// Outputs that the host computes before and after the other device, and one of that device.
Graph three_outputs() {
  Graph g;
  const Dim n = g.symbol("n", 1, 8);
  const Value x = g.input("x", {n, 4});
  const Value early = x * 2.0f, far = (x * 3.0f).named("far");
  g.output("early", early);
  g.output("far_too", far * 1.5f);
  g.output("late", far + early);
  return g;
}

Plan plan_of(std::shared_ptr<Work> work) {
  exec::DeviceSet set;
  set.devices = {std::make_shared<FactorDevice>(std::move(work)), load_backends()->open("cpu")};
  set.host = 1;
  set.named = {0};
  return Plan(three_outputs(), Devices(std::make_shared<const exec::DeviceSet>(std::move(set))),
              {.allowed = {.shapes = true, .tensors = true},
               .pins = {{".", "cpu"}, {"^far", "beside"}},
               .n_threads = 1});
}

void expect_outputs_of(const Plan& plan, const Floats& x) {
  ASSERT_EQ(plan.shape("early")[0], static_cast<std::int64_t>(x.size() / 4));
  const Floats early = plan.read("early"), far_too = plan.read("far_too"), late = plan.read("late");
  for (std::size_t i = 0; i < x.size(); ++i) {
    ASSERT_EQ(early[i], 2.0f * x[i]) << i;
    ASSERT_EQ(far_too[i], 4.5f * x[i]) << i;
    ASSERT_EQ(late[i], 5.0f * x[i]) << i;
  }
}

class InFlight : public testing::TestWithParam<bool> {
 protected:
  Plan plan() const {
    return GetParam() ? plan_of(std::make_shared<Work>())
                      : Plan(three_outputs(), open_devices({"cpu"}), {.n_threads = 1});
  }
};

TEST_P(InFlight, OutputsAreThoseOfTheStepBefore) {
  Plan steps = plan();
  std::mt19937 random(3);
  Floats last;  // Input of the last step that was begun, ...
  for (int i = 0; i < 200; ++i) {
    const Floats x(4 * (1 + random() % 8), static_cast<float>(i));
    const auto n = static_cast<std::int64_t>(x.size() / 4);
    if (random() % 2 == 0) {
      steps.run({{"n", n}}, {{"x", x}});
      last = x;
    } else {
      steps.start({{"n", n}}, {{"x", x}});
      if (!last.empty()) expect_outputs_of(steps, last);  // ... which is done now.
      last = x;
      if (random() % 2 == 0) continue;
      steps.finish();
    }
    expect_outputs_of(steps, last);
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, InFlight, testing::Bool(),
                         [](const auto& p) { return p.param ? "OneBesideTheHost" : "TheHostAlone"; });

TEST(InFlightAtTheEnd, APlanKeepsItsTensorsUntilTheStepIsDone) {
  for (const Fails fails : {Fails::kNever, Fails::kWorking, Fails::kWaiting}) {
    const auto work = std::make_shared<Work>();
    {
      Plan plan = plan_of(work);
      const Floats x(32, 1.0f);
      plan.run({{"n", 8}}, {{"x", x}});
      work->n_yields = 10000;
      work->fails = fails;
      plan.start({{"n", 7}}, {{"x", std::span(x).first(28)}});
    }
    EXPECT_EQ(work->n_running, 0);
    EXPECT_FALSE(work->lost_a_tensor);
  }
}

TEST(InFlightAtTheEnd, ReplacedPlansKeepTheirTensorsToo) {
  const auto work = std::make_shared<Work>(), other = std::make_shared<Work>();
  Plan plan = plan_of(work);
  const Floats x(4, 1.0f);
  plan.run({{"n", 1}}, {{"x", x}});
  work->n_yields = 10000;
  plan.start({}, {{"x", x}});
  plan = plan_of(other);
  EXPECT_EQ(work->n_running, 0);
  EXPECT_FALSE(work->lost_a_tensor);
  plan.run({{"n", 1}}, {{"x", x}});
  expect_outputs_of(plan, x);
}

TEST(InFlightAtTheEnd, ReportsFailuresOnceAndAllowsRetries) {
  for (const Fails fails : {Fails::kSubmitting, Fails::kWorking, Fails::kWaiting}) {
    const auto work = std::make_shared<Work>();
    Plan plan = plan_of(work);
    const Floats x(4, 1.0f), y(8, 2.0f);
    plan.run({{"n", 1}}, {{"x", x}});
    work->n_yields = 2000;
    work->fails = fails;
    EXPECT_THROW(
        {
          plan.start({}, {{"x", x}});
          plan.finish();
        },
        Error);
    EXPECT_EQ(work->n_running, 0);
    EXPECT_THROW(plan.read("early"), Error);
    work->fails = Fails::kNever;
    plan.finish();
    plan.start({{"n", 2}}, {{"x", y}});
    EXPECT_THROW(plan.read("early"), Error);  // No step precedes it.
    plan.finish();
    expect_outputs_of(plan, y);
  }
}

}  // namespace
}  // namespace weft
