// Overlapping steps: their results, how many run at once, and the waits of the host and the devices. Also
// their state after a device fails or a step is cancelled.
#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "toy_devices.h"
#include "weft/error.h"

namespace weft::exec {
namespace {

class OverlappingSteps : public SeveralDevices {};

/// The results of steps with these numbers of rows, overlapping or not, each with its own input. Between
/// steps, `finishes` says whether to wait for the oldest.
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
    // Fewer steps than the maximum are in flight afterwards, and the plan reports the finished ones.
    const bool is_full = i - made.size() + 1 == static_cast<std::size_t>(plan.n_at_once());
    EXPECT_EQ(plan.start(step), is_full);
    if (is_full) read();
    while (finishes() && plan.finish_oldest()) read();
  }
  while (plan.finish_oldest()) read();
  EXPECT_EQ(made.size(), rows.size());
  return made;
}

TEST_F(OverlappingSteps, StepsThatOverlapMakeWhatTheyMakeOneAfterAnother) {
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
    // Stored values are reset for each way.
    std::vector<std::unique_ptr<ToyTensor>> stored;
    const auto make = [&] {
      std::vector<Device*> devices = {&host, &beside, &second, &third};
      devices.resize(static_cast<std::size_t>(n_devices));
      PlacedGraph all = placed(device_of, exec::is_async(devices));
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

/// A step of a device or of the host ends only once each other device of the chain has begun its step of the
/// same time. The wait would be in vain if one had no work.
TEST_F(OverlappingSteps, AllDevicesOfAChainHaveWorkAtOnce) {
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

TEST_F(OverlappingSteps, AsManyStepsOverlapAsGiveAllDevicesWork) {
  const auto n_at_once = [&](const std::vector<int>& device_of, const std::vector<bool>& which, int most) {
    return steps_at_once(split(graph, device_of, which), which, most);
  };
  // A chain of 12, and its results with one of them.
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

TEST_F(OverlappingSteps, ThereAreAsManySetsOfTensorsAsStepsThatOverlap) {
  const Plan plan = make_chain(3);
  constexpr std::size_t kTensor = kColumns * kMaxRows * sizeof(float);
  EXPECT_EQ(plan.own_bytes(0), (3 + 3) * kTensor);  // The input of each; what crosses.
  EXPECT_EQ(plan.own_bytes(1), (3 + 3) * kTensor);
  EXPECT_EQ(plan.own_bytes(2), (3 + 2) * kTensor);  // One output is the caller's.
}

/// For any device that fails at any step, at once or later: all earlier steps have their results. No step is
/// in flight or running, and others can follow.
TEST_F(OverlappingSteps, ADeviceThatFailsAtAnyPointLeavesNoStepInFlight) {
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

TEST_F(OverlappingSteps, TheHostHasTheNextStepWhileADeviceIsAtOne) {
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

TEST_F(OverlappingSteps, ADeviceHasItsNextStepBeforeTheHostEndsTheOneBefore) {
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

TEST_F(OverlappingSteps, StepsThatUseTheSameStateKeepTheirOrder) {
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

TEST_F(OverlappingSteps, ADeviceThatFailsLeavesNoStepInFlight) {
  graph.add_output(scaled(scaled(scaled(x, 2.0f), 3.0f), 5.0f));
  Plan plan = make({0, 1, 2});
  bool fails = true;
  std::atomic<int> n_working = 0, n_on_host = 0;
  Gate second_begun;
  host.toy.during = [&] {
    if (++n_on_host == 2) second_begun.open();
  };
  beside.toy.during = [&] {
    ++n_working;
    EXPECT_TRUE(second_begun.wait());
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

TEST_F(OverlappingSteps, CancellingCutsAllStepsInFlight) {
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

TEST_F(OverlappingSteps, RejectsStepsThatCannotOverlap) {
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

}  // namespace
}  // namespace weft::exec
