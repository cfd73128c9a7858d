// Plans over several devices, step by step: numbers, copies, waiting, failing.
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "toy_devices.h"
#include "weft/error.h"

namespace weft::exec {
namespace {

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
    // An independent count of copies: a value for each device that reads it and is not its home.
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
  // b runs concurrently with the host; its step ends only once the host is at a's.
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

TEST_F(SeveralDevices, InOrderDevicesGetSplitsInAdvance) {
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

TEST_F(SeveralDevices, FailedSplitsDoNotStopLaterOnes) {
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

TEST_F(SeveralDevices, ReportsErrorsWhenAllDevicesAreDone) {
  const ValueId a = scaled(x, 2.0f), b = scaled(x, 3.0f);
  graph.add_output(graph.add(ops::Add{}, {a, b}, "sum"));
  Gate fails;
  bool done = false;
  beside.toy.during = [&] { done = fails.wait(); };
  other.toy.during = [&] {
    fails.open();
    throw Error(ErrorCode::kDevice, "lost");
  };
  Plan plan = make({1, 2, 0});
  try {
    plan.run(step(five));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kDevice);
  }
  EXPECT_TRUE(done);
  // The process continues with another plan without the device.
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
  // A rebound tensor concerns only its device.
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
  // The caller that set the flag clears it: steps do not.
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
