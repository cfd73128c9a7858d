// Plans over several devices: numbers, copies, waiting, failing. The devices are toys that compute sums on
// the host, one beside it on a thread of its own where a test says so.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <future>
#include <mutex>
#include <random>
#include <set>
#include <thread>

#include "bare_device.h"
#include "exec/plan.h"
#include "weft/error.h"

namespace weft::exec {
namespace {

class ToyTensor final : public DeviceTensor {
 public:
  explicit ToyTensor(std::size_t n) : values(n) {}
  DType dtype() const override { return DType::kF32; }
  std::size_t bytes() const override { return values.size() * sizeof(float); }
  std::span<std::byte> host() override { return std::as_writable_bytes(std::span(values)); }
  std::vector<float> values;
};

/// What a device was asked to do, and what it does on the way.
struct Toy {
  std::function<void()> on_submit = [] {};
  std::vector<std::vector<std::int64_t>> steps;
  std::vector<Changes> changes;
  std::function<void()> during = [] {};  // In the middle of each step, on the device's thread.
  bool in_order = false;
  std::shared_future<void> last;  // Of the steps in order.
};

class ToyPlan final : public test::BarePlan {
 public:
  ToyPlan(const Graph& graph, Toy& toy, bool beside_host)
      : graph_(graph), toy_(toy), beside_host_(beside_host) {}
  void submit(std::span<const std::int64_t> symbols, const Bindings& bindings,
              const Changes& actual) override {
    toy_.steps.emplace_back(symbols.begin(), symbols.end());
    toy_.changes.push_back(actual);
    toy_.on_submit();
    if (beside_host_) {
      work_ = std::async(std::launch::async, [this, symbols, &bindings, before = toy_.last] {
        if (before.valid()) before.wait();
        compute(symbols, bindings);
      });
      if (toy_.in_order) toy_.last = work_;
    } else {
      compute(symbols, bindings);
    }
  }
  void wait() override {
    if (work_.valid()) std::exchange(work_, {}).get();
  }

 private:
  void compute(std::span<const std::int64_t> symbols, const Bindings& bindings) {
    toy_.during();
    std::vector<std::vector<float>> values(graph_.values().size());
    for (std::size_t v = 0; v < values.size(); ++v)
      if (graph_.values()[v].kind == ValueKind::kInput)
        values[v] = static_cast<ToyTensor*>(bindings[v])->values;
    for (const Node& node : graph_.nodes()) {
      if (get_op<ops::StoreCache>(node) != nullptr) {  // What it leaves depends on all that was stored.
        const auto state = static_cast<std::size_t>(state_behind(graph_, node.inputs[0]));
        float& left = static_cast<ToyTensor*>(bindings[state])->values[0];
        const auto& rows = values[static_cast<std::size_t>(node.inputs[1])];
        for (std::int64_t i = 0; i < graph_.value(node.inputs[1]).shape.elements(symbols); ++i)
          left = 0.75f * left + rows[static_cast<std::size_t>(i)];
        continue;
      }
      const auto n = static_cast<std::size_t>(graph_.value(node.output).shape.elements(symbols));
      auto& out = values[static_cast<std::size_t>(node.output)];
      out.resize(n);
      for (std::size_t i = 0; i < n; ++i) {
        const auto in = [&](std::size_t k) { return values[static_cast<std::size_t>(node.inputs[k])][i]; };
        out[i] = get_op<ops::Add>(node) != nullptr ? in(0) + in(1) : in(0) * get_op<ops::Scale>(node)->factor;
      }
    }
    for (const ValueId output : graph_.outputs()) {
      const auto& made = values[static_cast<std::size_t>(output)];
      std::copy(made.begin(), made.end(),
                static_cast<ToyTensor*>(bindings[static_cast<std::size_t>(output)])->values.begin());
    }
  }
  const Graph graph_;
  Toy& toy_;
  const bool beside_host_;
  std::shared_future<void> work_;
};

class ToyDevice final : public test::BareDevice {
 public:
  explicit ToyDevice(std::string name, bool beside_host = false) : BareDevice(std::move(name)) {
    info_.beside_host = beside_host;
  }
  std::unique_ptr<DeviceTensor> create_host_tensor(DType, std::span<const std::int64_t> shape) override {
    std::size_t n = 1;
    for (const std::int64_t dim : shape) n *= static_cast<std::size_t>(dim);
    return std::make_unique<ToyTensor>(n);
  }
  std::unique_ptr<DevicePlan> compile(const Graph& graph, const Bindings&, const CompileOptions&) override {
    ++n_compiled;
    return std::make_unique<ToyPlan>(graph, toy, info_.beside_host);
  }
  bool in_order() const override { return toy.in_order; }
  Toy toy;
  int n_compiled = 0;
};

/// A gate that one thread opens and another waits for, not for ever.
class Gate {
 public:
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    condition_.notify_all();
  }
  bool wait() {
    std::unique_lock lock(mutex_);
    return condition_.wait_for(lock, std::chrono::seconds(10), [&] { return open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable condition_;
  bool open_ = false;
};

constexpr Changes kAll = {.shapes = true, .tensors = true, .topology = true};
constexpr int kColumns = 4, kMaxRows = 16;

class SeveralDevices : public testing::Test {
 protected:
  SeveralDevices() {
    n = graph.add_symbol("n", 0, kMaxRows);
    x = graph.add_input("x", DType::kF32, {Dim(1, n), kColumns});
  }
  ValueId scaled(ValueId v, float factor) { return graph.add(ops::Scale{factor}, {v}, "scaled"); }

  /// The graph placed, with inputs and outputs bound at home.
  PlacedGraph placed(const std::vector<int>& device_of,
                     const std::vector<bool>& beside_host = {false, true, false}) {
    PlacedGraph result{graph, device_of,
                       std::vector<Bindings>(beside_host.size(), Bindings(graph.values().size(), nullptr))};
    const Splits splits = split(graph, device_of, beside_host);
    const auto bind = [&](ValueId value) {
      tensors.push_back(std::make_unique<ToyTensor>(kColumns * kMaxRows));
      for (std::size_t i = 0; i < tensors.back()->values.size(); ++i)
        tensors.back()->values[i] = static_cast<float>(i % 7) + static_cast<float>(value);
      const auto home = static_cast<std::size_t>(std::max(splits.home[static_cast<std::size_t>(value)], 0));
      result.bindings[home][static_cast<std::size_t>(value)] = tensors.back().get();
      bound[value] = tensors.back().get();
    };
    for (std::size_t v = 0; v < graph.values().size(); ++v)
      if (graph.values()[v].kind == ValueKind::kInput) bind(static_cast<ValueId>(v));
    for (const ValueId output : graph.outputs()) bind(output);
    return result;
  }
  Plan make(const std::vector<int>& device_of) {
    return Plan({&host, &beside, &other}, placed(device_of), {.allowed = kAll, .cancelled = &cancelled});
  }
  std::atomic<bool> cancelled{false};
  static Step step(std::span<const std::int64_t> symbols, Changes actual = {}) {
    return {symbols, actual, {}, nullptr, {}};
  }

  /// The host, and devices beside it that a value goes through.
  Plan make_chain(int n_devices) {
    std::vector<int> device_of;
    for (int d = 0; d < n_devices; ++d) {
      x = scaled(x, static_cast<float>(d + 2));
      device_of.push_back(d);
    }
    graph.add_output(x);
    return make_beside(device_of, n_devices);
  }
  Plan make_beside(const std::vector<int>& device_of, int n_devices) {
    std::vector<Device*> devices = {&host, &beside, &second, &third};
    devices.resize(static_cast<std::size_t>(n_devices));
    return {
        devices, placed(device_of, exec::beside_host(devices)), {.allowed = kAll, .cancelled = &cancelled}};
  }
  std::vector<Toy*> toys() { return {&host.toy, &beside.toy, &second.toy, &third.toy}; }

  ToyDevice host{"host"}, beside{"beside", true}, other{"other"}, second{"second", true},
      third{"third", true};
  Graph graph;
  SymbolId n;
  ValueId x;
  std::vector<std::unique_ptr<ToyTensor>> tensors;
  std::map<ValueId, ToyTensor*> bound;
  const std::int64_t five[1] = {5}, six[1] = {6};
};

TEST_F(SeveralDevices, AnyPlacementComputesTheSameAndCopiesEachValueOncePerDevice) {
  std::mt19937 random(3);
  const auto below = [&](std::size_t k) { return static_cast<std::size_t>(random() % k); };
  for (int round = 0; round < 300; ++round) {
    graph = Graph();
    n = graph.add_symbol("n", 0, kMaxRows);
    std::vector<ValueId> values;
    for (int i = 0; i < 2; ++i) values.push_back(graph.add_input("x", DType::kF32, {Dim(1, n), kColumns}));
    const std::size_t n_nodes = 2 + below(14);
    for (std::size_t i = 0; i < n_nodes; ++i) {
      const ValueId a = values[values.size() - 1 - below(std::min<std::size_t>(values.size(), 4))];
      const ValueId b = values[below(values.size())];
      values.push_back(below(2) == 0 ? scaled(a, 0.5f) : graph.add(ops::Add{}, {a, b}, "sum"));
    }
    for (std::size_t v = 2; v < values.size(); ++v)
      if (below(3) == 0 || v + 1 == values.size()) graph.add_output(values[v]);

    std::vector<int> device_of(n_nodes);
    Plan alone = make(device_of);
    alone.run(step(five));
    std::vector<std::vector<float>> expected;
    for (const ValueId output : graph.outputs()) expected.push_back(bound[output]->values);
    EXPECT_EQ(alone.n_splits(), 1);
    EXPECT_EQ(alone.counters().copies, 0);

    for (int& device : device_of) device = static_cast<int>(below(3));
    Plan plan = make(device_of);
    plan.run(step(five));
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const auto& got = bound[graph.outputs()[i]]->values;
      EXPECT_TRUE(std::equal(got.begin(), got.begin() + 5 * kColumns, expected[i].begin()))
          << "round " << round;
    }
    // What must cross, said anew: a value for each device that reads it and is not its home.
    const std::vector<bool> live = live_nodes(graph);
    std::set<std::pair<ValueId, int>> readers;
    std::map<ValueId, std::set<int>> inputs;
    for (std::size_t i = 0; i < n_nodes; ++i) {
      if (!live[i]) continue;
      for (const ValueId input : graph.nodes()[i].inputs) {
        const NodeId producer = graph.value(input).producer;
        if (producer == kNoNode)
          inputs[input].insert(device_of[i]);
        else if (device_of[static_cast<std::size_t>(producer)] != device_of[i])
          readers.insert({input, device_of[i]});
      }
    }
    std::size_t n_copies = readers.size();
    for (const auto& [input, devices] : inputs) n_copies += devices.size() - 1;
    EXPECT_EQ(plan.counters().copies, static_cast<std::int64_t>(n_copies));
    EXPECT_EQ(plan.counters().copied_bytes,
              static_cast<std::int64_t>(n_copies * 5 * kColumns * sizeof(float)));
  }
}

TEST_F(SeveralDevices, OfAnInputOnlyThePartsInUseAreCopied) {
  const ValueId a = scaled(x, 2.0f), b = scaled(x, 3.0f);
  graph.add_output(a);
  graph.add_output(b);
  Plan plan = make({0, 2});
  plan.run(step(five));
  const std::int64_t whole = 5 * kColumns * sizeof(float), row = kColumns * sizeof(float);
  EXPECT_EQ(plan.counters().copied_bytes, whole);
  std::vector<float> expected = bound[b]->values;
  for (float& value : bound[x]->values) value += 100.0f;
  // Two rows; nothing of it at all; and all of it again.
  const std::vector<InputPart> rows = {{x, 0, 0},
                                       {x, static_cast<std::size_t>(row), static_cast<std::size_t>(row)},
                                       {x, static_cast<std::size_t>(3 * row), static_cast<std::size_t>(row)}};
  const std::vector<InputPart> nothing = {{x, 0, 0}};
  for (const std::vector<InputPart>& parts : {rows, nothing}) {
    Step with_parts = step(five);
    with_parts.parts = parts;
    plan.run(with_parts);
    EXPECT_EQ(plan.counters().copied_bytes, whole + 2 * row);
    for (std::size_t i = 0; i < 5 * kColumns; ++i) {
      const bool copied = i / kColumns == 1 || i / kColumns == 3;
      EXPECT_EQ(bound[b]->values[i], copied ? 3.0f * bound[x]->values[i] : expected[i]) << i;
      EXPECT_EQ(bound[a]->values[i], 2.0f * bound[x]->values[i]) << i;
    }
  }
  plan.run(step(five));
  EXPECT_EQ(plan.counters().copied_bytes, 2 * whole + 2 * row);
}

TEST_F(SeveralDevices, IndependentPartsOverlap) {
  const ValueId a = scaled(x, 2.0f), b = scaled(x, 3.0f);
  graph.add_output(graph.add(ops::Add{}, {a, b}, "sum"));
  // b is placed beside the host; its step ends only once the host is at a's.
  Gate host_is_at_work;
  bool in_time = false;
  bool first = true;
  host.toy.during = [&] {
    if (std::exchange(first, false)) host_is_at_work.open();
  };
  beside.toy.during = [&] { in_time = host_is_at_work.wait(); };
  Plan plan = make({0, 1, 0});
  plan.run(step(five));
  EXPECT_TRUE(in_time);
  EXPECT_EQ(bound[graph.outputs()[0]]->values[1], 5.0f * bound[x]->values[1]);
}

TEST_F(SeveralDevices, StepsOfADeviceThatKeepsThemInOrderAreSubmittedBehindEachOther) {
  // The host reads a, so c is a split of its own.
  const ValueId a = scaled(x, 2.0f), b = scaled(a, 3.0f), c = scaled(a, 5.0f);
  graph.add_output(b);
  graph.add_output(c);
  for (const bool in_order : {false, true}) {
    beside.toy = {};
    beside.toy.in_order = in_order;
    Gate second_time;
    int n_submitted = 0, n_computed = 0;
    bool was_submitted = false;
    beside.toy.on_submit = [&] {
      if (++n_submitted == 2) second_time.open();
    };
    beside.toy.during = [&] {
      if (in_order && n_computed++ == 0) was_submitted = second_time.wait();
    };
    Plan plan = make({1, 0, 1});
    EXPECT_EQ(plan.n_splits(), 3);
    plan.run(step(five));
    EXPECT_EQ(was_submitted, in_order);
    EXPECT_EQ(bound[b]->values[1], 6.0f * bound[x]->values[1]);
    EXPECT_EQ(bound[c]->values[1], 10.0f * bound[x]->values[1]);
  }
}

TEST_F(SeveralDevices, AnErrorOfOneIsNoErrorForThoseInOrderBehindIt) {
  const ValueId a = scaled(x, 2.0f);
  graph.add_output(scaled(a, 5.0f));
  const ValueId b = scaled(a, 3.0f);
  graph.add_output(b);
  beside.toy.in_order = true;
  std::atomic<int> n_begun = 0;
  beside.toy.during = [&] {
    if (++n_begun == 1) throw Error(ErrorCode::kDevice, "lost");
  };
  Plan plan = make({1, 0, 1});
  EXPECT_THROW(plan.run(step(five)), Error);
  EXPECT_EQ(n_begun, 2) << "the split behind it ended before the error was told";
  plan.run(step(five));
  EXPECT_EQ(bound[b]->values[1], 6.0f * bound[x]->values[1]);
}

TEST_F(SeveralDevices, ADeviceThatFailsGivesAnErrorWhenNobodyWorksOnTheStepAnyMore) {
  const ValueId a = scaled(x, 2.0f), b = scaled(x, 3.0f);
  graph.add_output(graph.add(ops::Add{}, {a, b}, "sum"));
  bool done = false;
  beside.toy.during = [&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    done = true;
  };
  other.toy.during = [] { throw Error(ErrorCode::kDevice, "lost"); };
  Plan plan = make({1, 2, 0});
  try {
    plan.run(step(five));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kDevice);
  }
  EXPECT_TRUE(done);
  // The process goes on: another plan without the device.
  Plan without = make({1, 0, 0});
  without.run(step(five));
  EXPECT_EQ(bound[graph.outputs()[0]]->values[1], 5.0f * bound[x]->values[1]);
}

TEST_F(SeveralDevices, ChangesReachEveryDevicesPlan) {
  graph.add_output(scaled(scaled(x, 2.0f), 3.0f));
  Plan plan = make({0, 2});
  plan.run(step(five));
  plan.run(step(six, {.shapes = true}));
  for (const ToyDevice* device : {&host, &other}) {
    EXPECT_EQ(device->toy.steps, (std::vector<std::vector<std::int64_t>>{{5}, {6}}));
    EXPECT_FALSE(device->toy.changes[0].shapes);
    EXPECT_TRUE(device->toy.changes[1].shapes);
  }
  // A tensor bound anew concerns its device alone.
  ToyTensor y(kColumns * kMaxRows);
  y.values.assign(y.values.size(), 7.0f);
  const Rebinding rebinding[] = {{x, &y, 0}};
  Step rebound = step(six, {.tensors = true});
  rebound.rebindings = rebinding;
  plan.run(rebound);
  EXPECT_TRUE(host.toy.changes[2].tensors);
  EXPECT_FALSE(other.toy.changes[2].tensors);
  EXPECT_EQ(bound[graph.outputs()[0]]->values[0], 42.0f);
  // Another placement is another graph.
  const PlacedGraph all_on_one = placed({0, 0});
  Step topology = step(six, {.topology = true});
  topology.graph = &all_on_one;
  plan.run(topology);
  EXPECT_EQ(plan.n_splits(), 1);
  EXPECT_EQ(plan.counters().compiled, 2);
}

TEST_F(SeveralDevices, ACancelledStepEndsWithTheDeviceThatIsAtIt) {
  graph.add_output(scaled(scaled(x, 2.0f), 3.0f));
  Plan plan = make({0, 2});
  host.toy.during = [&] { cancelled = true; };
  plan.run(step(five));
  EXPECT_EQ(host.toy.steps.back(), std::vector<std::int64_t>{5});
  EXPECT_EQ(other.toy.steps.back(), std::vector<std::int64_t>{0});
  // Whoever has set it clears it: steps do not.
  plan.run(step(five));
  EXPECT_EQ(host.toy.steps.back(), std::vector<std::int64_t>{0});
  EXPECT_EQ(other.toy.steps.back(), std::vector<std::int64_t>{0});
  host.toy.during = [] {};
  cancelled = false;
  plan.run(step(five));
  EXPECT_EQ(other.toy.steps.back(), std::vector<std::int64_t>{5});
  EXPECT_TRUE(other.toy.changes.back().shapes);
  EXPECT_EQ(bound[graph.outputs()[0]]->values[1], 6.0f * bound[x]->values[1]);
}

/// Steps of these numbers of rows, each with an input of its own: what they made, overlapping or not. Between
/// steps, `finishes` says whether the oldest is waited for.
std::vector<std::vector<float>> made_by(
    Plan& plan, const Graph& graph, std::map<ValueId, ToyTensor*>& bound, std::span<const std::int64_t> rows,
    bool overlap, const std::function<bool()>& finishes = [] { return false; }) {
  std::vector<std::vector<float>> made;
  const auto read = [&] {
    const std::int64_t n = rows[made.size()];
    std::vector<float>& all = made.emplace_back();
    for (const ValueId output : graph.outputs()) {
      const auto* of = reinterpret_cast<const float*>(plan.output(output).host().data());
      all.insert(all.end(), of, of + n * kColumns);
    }
  };
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (const auto& [value, tensor] : bound)
      if (graph.value(value).kind == ValueKind::kInput)
        for (std::size_t k = 0; k < tensor->values.size(); ++k)
          tensor->values[k] = static_cast<float>((k + i * 11) % 13) + static_cast<float>(value);
    const Step step = {rows.subspan(i, 1), {.shapes = i > 0 && rows[i] != rows[i - 1]}, {}, nullptr};
    if (!overlap) {
      plan.run(step);
      read();
      continue;
    }
    // Fewer are in flight afterwards than can overlap, and it is told which are done.
    const bool is_full = i - made.size() + 1 == static_cast<std::size_t>(plan.n_at_once());
    EXPECT_EQ(plan.start(step), is_full);
    if (is_full) read();
    while (finishes() && plan.finish_oldest()) read();
  }
  while (plan.finish_oldest()) read();
  EXPECT_EQ(made.size(), rows.size());
  return made;
}

TEST_F(SeveralDevices, StepsThatOverlapMakeWhatTheyMakeOneAfterAnother) {
  std::mt19937 random(5);
  const auto below = [&](std::size_t k) { return static_cast<std::size_t>(random() % k); };
  std::map<int, int> rounds;  // By the number of steps that overlap.
  for (int round = 0; round < 200; ++round) {
    graph = Graph();
    bound.clear();
    n = graph.add_symbol("n", 0, kMaxRows);
    for (Toy* const toy : toys()) toy->in_order = below(2) == 0;
    const int n_devices = 2 + static_cast<int>(below(3));
    std::vector<ValueId> values, states;
    for (int i = 0; i < 2; ++i) values.push_back(graph.add_input("x", DType::kF32, {Dim(1, n), kColumns}));
    const ValueId cells = graph.add_input("cells", DType::kI32, {Dim(1, n)});
    for (int d = 0; d < n_devices; ++d)
      states.push_back(graph.add_state("cache", DType::kF32, {64, 1, kColumns}));
    const std::size_t n_nodes = 2 + below(14);
    std::vector<int> device_of;
    for (std::size_t i = 0; i < n_nodes; ++i) {
      const ValueId a = values.back(), b = values[below(values.size())];
      const auto device = below(static_cast<std::size_t>(n_devices));
      values.push_back(below(2) == 0 ? scaled(a, 0.5f) : graph.add(ops::Add{}, {a, b}, "sum"));
      device_of.push_back(static_cast<int>(device));
      if (below(4) == 0) graph.add_output(values.back());
      if (below(2) == 0) continue;
      states[device] = graph.add(ops::StoreCache{}, {states[device], b, cells}, "stored");
      device_of.push_back(static_cast<int>(device));
    }
    if (graph.outputs().empty() || graph.outputs().back() != values.back()) graph.add_output(values.back());
    const std::vector<std::int64_t> rows = {5, 5, 16, 1, 0, 7, 3, 3, 9, 5};
    // What is stored is read as it is for each way anew.
    std::vector<std::unique_ptr<ToyTensor>> stored;
    const auto make = [&] {
      std::vector<Device*> devices = {&host, &beside, &second, &third};
      devices.resize(static_cast<std::size_t>(n_devices));
      PlacedGraph all = placed(device_of, exec::beside_host(devices));
      stored.clear();
      for (std::size_t d = 0; d < states.size(); ++d) {
        stored.push_back(std::make_unique<ToyTensor>(64 * kColumns));
        all.bindings[d][static_cast<std::size_t>(state_behind(graph, states[d]))] = stored.back().get();
      }
      return Plan(devices, all, {.allowed = kAll});
    };
    const auto left = [&] {
      std::vector<float> result;
      for (const auto& state : stored) result.push_back(state->values[0]);
      return result;
    };
    Plan alone = make();
    if (!alone.pipelined()) continue;
    ++rounds[alone.n_at_once()];
    const auto expected = made_by(alone, graph, bound, rows, false);
    const std::vector<float> expected_left = left();
    Plan plan = make();
    EXPECT_EQ(made_by(plan, graph, bound, rows, true), expected) << "round " << round;
    EXPECT_EQ(left(), expected_left) << "round " << round;
    EXPECT_EQ(plan.counters().steps, alone.counters().steps);
    EXPECT_EQ(plan.counters().shapes, alone.counters().shapes);
    EXPECT_EQ(plan.counters().copies, alone.counters().copies);
    EXPECT_EQ(plan.counters().copied_bytes, alone.counters().copied_bytes);
    Plan now_and_then = make();
    EXPECT_EQ(made_by(now_and_then, graph, bound, rows, true, [&] { return below(3) == 0; }), expected)
        << "round " << round;
    EXPECT_EQ(left(), expected_left) << "round " << round;
    EXPECT_EQ(made_by(now_and_then, graph, bound, rows, false), expected) << "round " << round;
  }
  for (const int n_at_once : {2, 3, 4}) EXPECT_GT(rounds[n_at_once], 15) << n_at_once;
  EXPECT_EQ(rounds.size(), 3u);
}

/// A device's step ends, and the host's, only once each other device of the chain has begun the step that it
/// has at the same time: in vain, if one had nothing to do.
TEST_F(SeveralDevices, AllDevicesOfAChainHaveWorkAtOnce) {
  for (const int n_devices : {2, 3, 4}) {
    graph = Graph();
    bound.clear();
    n = graph.add_symbol("n", 0, kMaxRows);
    x = graph.add_input("x", DType::kF32, {Dim(1, n), kColumns});
    constexpr int kSteps = 6;
    Gate begun[4][kSteps];
    std::atomic<int> n_in_time = 0;
    std::atomic<bool> in_vain = false;
    for (int device = 0; device < n_devices; ++device)
      toys()[static_cast<std::size_t>(device)]->during = [&, device, step = 0]() mutable {
        const int place = step + device;  // Of the first step on the way.
        begun[device][step++].open();
        bool in_time = true;
        for (int d = 0; d < n_devices; ++d)
          if (const int at = place - d; at >= 0 && at < kSteps)
            in_time = in_time && !in_vain && begun[d][at].wait();
        n_in_time += in_time ? 1 : 0;
        in_vain = in_vain || !in_time;
      };
    Plan plan = make_chain(n_devices);
    ASSERT_EQ(plan.n_at_once(), n_devices);
    const std::vector<std::int64_t> rows(kSteps, 5);
    made_by(plan, graph, bound, rows, true);
    EXPECT_EQ(n_in_time, kSteps * n_devices);
  }
}

TEST_F(SeveralDevices, AsManyStepsOverlapAsGiveAllDevicesWork) {
  const auto n_at_once = [&](const std::vector<int>& device_of, const std::vector<bool>& which, int most) {
    return steps_at_once(split(graph, device_of, which), which, most);
  };
  // A chain of 12, and what it is with one of them.
  const ValueId first = scaled(x, 2.0f);
  std::vector<int> chain = {0};
  ValueId v = first;
  for (int d = 1; d < 12; ++d) {
    v = scaled(v, 2.0f);
    chain.push_back(d);
  }
  graph.add_output(v);
  const std::vector<bool> all(12, true);
  EXPECT_EQ(n_at_once(chain, all, kMostAtOnce), kMostAtOnce);
  EXPECT_EQ(n_at_once(chain, all, 2), 2);
  EXPECT_EQ(n_at_once(std::vector<int>(12, 1), all, kMostAtOnce), 1);
  const std::vector<int> thrice = {0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2};
  EXPECT_EQ(n_at_once(thrice, all, kMostAtOnce), 3);
  // The host's devices work by turns.
  EXPECT_EQ(n_at_once(thrice, {false, false, true}, kMostAtOnce), 2);
  EXPECT_EQ(n_at_once(thrice, {false, false, false}, kMostAtOnce), 1);
  // Side by side they all have work from one step, where that is so nearly everywhere.
  graph = Graph();
  n = graph.add_symbol("n", 0, kMaxRows);
  x = graph.add_input("x", DType::kF32, {Dim(1, n), kColumns});
  std::vector<int> side_by_side;
  std::vector<ValueId> layer(4, x);
  for (int l = 0; l < 3; ++l) {
    std::vector<ValueId> next;
    for (int d = 0; d < 4; ++d) {
      next.push_back(graph.add(
          ops::Add{}, {layer[static_cast<std::size_t>(d)], layer[static_cast<std::size_t>((d + 1) % 4)]},
          "sum"));
      side_by_side.push_back(d);
    }
    layer = next;
  }
  for (const ValueId output : layer) graph.add_output(output);
  EXPECT_EQ(n_at_once(side_by_side, {false, true, true, true}, kMostAtOnce), 1);
  const std::vector<int> by_turns = {0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0};
  EXPECT_EQ(n_at_once(by_turns, {false, true}, kMostAtOnce), 2);
}

TEST_F(SeveralDevices, ThereAreAsManySetsOfTensorsAsStepsThatOverlap) {
  const Plan plan = make_chain(3);
  constexpr std::size_t kTensor = kColumns * kMaxRows * sizeof(float);
  EXPECT_EQ(plan.own_bytes(0), (3 + 3) * kTensor);  // The input of each; what crosses.
  EXPECT_EQ(plan.own_bytes(1), (3 + 3) * kTensor);
  EXPECT_EQ(plan.own_bytes(2), (3 + 2) * kTensor);  // One output is the caller's.
}

/// Whichever device fails at whichever step, and whether at once or on the way: all steps before have their
/// results, none is in flight or worked at, and others can follow.
TEST_F(SeveralDevices, ADeviceThatFailsAtAnyPointLeavesNoStepInFlight) {
  constexpr int kSteps = 6;
  for (const int n_devices : {3, 4})
    for (int failing = 0; failing < n_devices; ++failing)
      for (int at = 0; at < kSteps; ++at)
        for (const bool at_once : {false, true}) {
          graph = Graph();
          bound.clear();
          n = graph.add_symbol("n", 0, kMaxRows);
          const ValueId input = x = graph.add_input("x", DType::kF32, {Dim(1, n), kColumns});
          std::atomic<int> n_working = 0;
          bool fails = true;
          for (int device = 0; device < n_devices; ++device) {
            Toy& toy = *toys()[static_cast<std::size_t>(device)];
            toy = {};
            auto fail = [&fails, at, is_it = device == failing, step = 0]() mutable {
              if (is_it && step++ == at && fails) throw Error(ErrorCode::kDevice, "lost");
            };
            if (at_once) toy.on_submit = fail;
            toy.during = [&n_working, fail, at_once]() mutable {
              ++n_working;
              const std::shared_ptr<void> end(nullptr, [&](void*) { --n_working; });
              if (!at_once) fail();
            };
          }
          Plan plan = make_chain(n_devices);
          int n_started = 0, n_done = 0;
          float product = 1.0f;
          for (int d = 0; d < n_devices; ++d) product *= static_cast<float>(d + 2);
          const auto read = [&] {
            const auto* of = reinterpret_cast<const float*>(plan.output(graph.outputs()[0]).host().data());
            EXPECT_EQ(of[1], product * static_cast<float>(n_done));
            ++n_done;
          };
          const auto write = [&](int step) { bound[input]->values[1] = static_cast<float>(step); };
          try {
            for (; n_started < kSteps; ++n_started) {
              write(n_started);
              if (plan.start(step(five))) read();
            }
            while (plan.finish_oldest()) read();
            FAIL() << "device " << failing << " step " << at;
          } catch (const Error& error) {
            EXPECT_EQ(error.code(), ErrorCode::kDevice);
          }
          EXPECT_LE(n_done, at);
          EXPECT_GE(n_done, at - plan.n_at_once() + 1);
          EXPECT_EQ(n_working, 0);
          EXPECT_FALSE(plan.finish_oldest());
          fails = false;
          n_done = 0;
          for (int i = 0; i < kSteps; ++i) {
            write(i);
            if (plan.start(step(i % 2 == 0 ? six : five, {.shapes = true}))) read();
          }
          while (plan.finish_oldest()) read();
          EXPECT_EQ(n_done, kSteps);
        }
}

TEST_F(SeveralDevices, TheHostHasTheNextStepWhileADeviceIsAtOne) {
  graph.add_output(scaled(scaled(scaled(x, 2.0f), 3.0f), 5.0f));
  // Beside the host a step ends only once the host has begun the next one: if they did not overlap, in vain.
  constexpr int kSteps = 4;
  Gate begun[kSteps + 1];
  int n_host = 0, n_beside = 0, n_in_time = 0;
  std::string order;
  host.toy.during = [&] {
    begun[n_host++].open();
    order += 'h';
  };
  other.toy.during = [&] { order += 'o'; };
  beside.toy.during = [&] {
    const int step = n_beside++;
    n_in_time += step + 1 == kSteps || begun[step + 1].wait() ? 1 : 0;
  };
  Plan plan = make({0, 1, 2});
  ASSERT_TRUE(plan.pipelined());
  const std::vector<std::int64_t> rows(kSteps, 5);
  made_by(plan, graph, bound, rows, true);
  EXPECT_EQ(n_in_time, kSteps);
  EXPECT_EQ(order, "hhohohoo");
}

TEST_F(SeveralDevices, ADeviceHasItsNextStepBeforeTheHostEndsTheOneBefore) {
  // There and back again, with the experts of a layer on the host.
  graph.add_output(scaled(scaled(scaled(x, 2.0f), 3.0f), 5.0f));
  Plan plan = make({1, 0, 1});
  // The host's part of the first step ends once the device has begun the second.
  Gate second_begun;
  std::atomic<int> n_beside = 0;
  bool in_time = false;
  beside.toy.during = [&] {
    if (++n_beside == 2) second_begun.open();
  };
  host.toy.during = [&, first = true]() mutable {
    if (std::exchange(first, false)) in_time = second_begun.wait();
  };
  const std::vector<std::int64_t> rows = {5, 5, 5};
  made_by(plan, graph, bound, rows, true);
  EXPECT_TRUE(in_time);
}

TEST_F(SeveralDevices, StepsThatUseTheSameStateKeepTheirOrder) {
  const ValueId cells = graph.add_input("cells", DType::kI32, {Dim(1, n)});
  const ValueId cache = graph.add_state("cache.k.0", DType::kF32, {64, 1, kColumns});
  const ValueId a = scaled(x, 2.0f);
  const ValueId stored = graph.add(ops::StoreCache{}, {cache, a, cells}, "stored");
  const ValueId b = scaled(a, 3.0f);
  graph.add(ops::StoreCache{}, {stored, b, cells}, "again");
  graph.add_output(scaled(b, 5.0f));
  PlacedGraph all = placed({0, 0, 1, 0, 0});
  ToyTensor state(64 * kColumns);
  all.bindings[0][static_cast<std::size_t>(cache)] = &state;
  Plan plan({&host, &beside, &other}, all, {.allowed = kAll});
  ASSERT_TRUE(plan.pipelined());
  ASSERT_EQ(plan.n_splits(), 3);
  std::mutex mutex;
  std::string order;
  const auto note = [&](char who) {
    const std::lock_guard lock(mutex);
    order += who;
  };
  host.toy.during = [&] { note('h'); };
  beside.toy.during = [&] { note('b'); };
  const std::vector<std::int64_t> rows = {5, 5, 5};
  made_by(plan, graph, bound, rows, true);
  EXPECT_EQ(order, "hbhhbhhbh");
}

TEST_F(SeveralDevices, ADeviceThatFailsLeavesNoStepInFlight) {
  graph.add_output(scaled(scaled(scaled(x, 2.0f), 3.0f), 5.0f));
  Plan plan = make({0, 1, 2});
  bool fails = true;
  std::atomic<int> n_working = 0;
  beside.toy.during = [&] {
    ++n_working;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    --n_working;
    if (fails) throw Error(ErrorCode::kDevice, "lost");
  };
  plan.start(step(five));
  try {
    plan.start(step(five));  // Only now the first one's error is known.
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kDevice);
  }
  EXPECT_EQ(n_working, 0);
  EXPECT_TRUE(other.toy.steps.empty());
  plan.finish();
  // Had it only stumbled: other sizes, undeclared, as nothing is known of what ran.
  fails = false;
  plan.run(step(six));
  EXPECT_EQ(other.toy.steps.back(), std::vector<std::int64_t>{6});
  EXPECT_TRUE(beside.toy.changes.back().shapes);
  EXPECT_EQ(bound[graph.outputs()[0]]->values[1], 30.0f * bound[x]->values[1]);
}

TEST_F(SeveralDevices, CancellingCutsAllStepsInFlight) {
  graph.add_output(scaled(scaled(scaled(x, 2.0f), 3.0f), 5.0f));
  Plan plan = make({0, 1, 2});
  plan.start(step(five));
  host.toy.during = [&] { cancelled = true; };
  plan.start(step(five));
  plan.finish();
  const std::vector<std::vector<std::int64_t>> cut = {{0}, {0}};
  EXPECT_EQ(other.toy.steps, cut);
  EXPECT_EQ(beside.toy.steps, (std::vector<std::vector<std::int64_t>>{{5}, {0}}));
  host.toy.during = [] {};
  cancelled = false;
  plan.start(step(five));
  plan.finish();
  for (const ToyDevice* device : {&host, &beside, &other}) {
    EXPECT_EQ(device->toy.steps.back(), std::vector<std::int64_t>{5});
    EXPECT_TRUE(device->toy.changes.back().shapes);
  }
}

TEST_F(SeveralDevices, WhatCannotOverlapIsRefusedAndTakesNoMemory) {
  graph.add_output(scaled(scaled(x, 2.0f), 3.0f));
  const Plan by_turns = make({0, 2});
  EXPECT_FALSE(by_turns.pipelined());
  EXPECT_EQ(by_turns.own_bytes(0), kColumns * kMaxRows * sizeof(float));  // What crosses.
  Plan plan = make({0, 1});
  EXPECT_THROW(plan.start(step(five, {.topology = true})), Error);
  const std::int64_t too_many[] = {kMaxRows + 1};
  plan.start(step(five));
  EXPECT_THROW(plan.start(step(too_many, {.shapes = true})), Error);
  plan.finish();  // Of the one that was not refused.
  const ValueId output = graph.outputs()[0];
  EXPECT_EQ(reinterpret_cast<const float*>(plan.output(output).host().data())[1], 6.0f * bound[x]->values[1]);
}

TEST_F(SeveralDevices, AStateOnTwoDevicesIsRefusedByName) {
  const ValueId cells = graph.add_input("cells", DType::kI32, {Dim(1, n)});
  const ValueId cache = graph.add_state("cache.k.0", DType::kF32, {64, 1, kColumns});
  const ValueId stored = graph.add(ops::StoreCache{}, {cache, x, cells}, "stored");
  graph.add(ops::StoreCache{}, {stored, x, cells}, "again");
  try {
    split(graph, std::vector<int>{0, 1}, {false, false});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("cache.k.0"), std::string::npos);
  }
}

}  // namespace
}  // namespace weft::exec
