// Plans with a part in another process: what crosses, and what becomes of it when the other is lost.
#include "weft/plan.h"

#include <gtest/gtest.h>

#include <chrono>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "backend_remote/remote_testing.h"
#include "engine/failing_device.h"

namespace weft {
namespace {

/// Each of two tries is an error of a device that says so.
template <typename F>
void expect_lost(F run, const std::string& words) {
  for (int i = 0; i < 2; ++i) {
    try {
      run();
      FAIL() << "a step was computed by nobody";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kDevice);
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
  }
}

/// Two products, the second of them elsewhere, of rows and of a table of which steps use a row.
class RemotePlan : public testing::Test {
 protected:
  static constexpr std::int64_t kWidth = 64, kTable = 512;

  RemotePlan() {
    const Value hidden = linear(x_, g_.weight("up", {kWidth, kWidth})).named("up.rows");
    const Value more = hidden + take(table_, ids_).named("down.take");
    g_.output("y", linear(more.named("down.sum"), g_.weight("down", {kWidth, kWidth})));
    std::iota(rows_.begin(), rows_.end(), 1.0f);
    std::iota(weight_.begin(), weight_.end(), -7.0f);
    for (float& value : weight_) value /= 1000.0f;
  }
  Plan plan(bool spread) {
    Plan plan(
        g_,
        open_devices(*remotes_.registry(),
                     spread ? std::vector<std::string>{"rank1.cpu"} : std::vector<std::string>{"cpu"}),
        {.pins = spread ? std::vector<Pin>{{"^up", "cpu"}, {"^down|^y", "rank1.cpu"}} : std::vector<Pin>{}});
    plan.set_weight("up", weight_);
    plan.set_weight("down", weight_);
    return plan;
  }
  std::vector<float> run(Plan& plan, std::int64_t n) {
    const std::vector<std::int32_t> ids(static_cast<std::size_t>(n), 3);
    plan.run({{n_, n}}, {{"x", std::span(rows_).first(static_cast<std::size_t>(n * kWidth))},
                         {"table", table_rows_},
                         {"ids", ids}});
    return plan.read("y");
  }

  const test::RemoteCpus remotes_{1};
  Graph g_;
  Dim n_ = g_.symbol("n", 1, 8);
  Value x_ = g_.input("x", {n_, kWidth});
  Value table_ = g_.input("table", {kTable, kWidth});
  Value ids_ = g_.input("ids", {n_}, DType::kI32);
  std::vector<float> rows_ = std::vector<float>(8 * kWidth);
  std::vector<float> table_rows_ = std::vector<float>(kTable * kWidth, 0.25f);
  std::vector<float> weight_ = std::vector<float>(kWidth * kWidth);
};

TEST_F(RemotePlan, HasTheSameBits) {
  Plan alone = plan(false), spread = plan(true);
  for (const std::int64_t n : {8, 1, 5}) EXPECT_TRUE(run(spread, n) == run(alone, n)) << n;
}

TEST_F(RemotePlan, RejectsOutOfRangeCellsLocallyAndRemotely) {
  for (const char* name : {"cpu", "rank1.cpu"}) {
    const auto device = remotes_.registry()->open(name, {.n_threads = 1});
    const auto state = device->create_state(DType::kF32, std::vector<std::int64_t>{64, 1, 4});
    std::vector<float> rows(8, 2.0f);
    for (const std::vector<std::int32_t>& cells : {std::vector<std::int32_t>{-1, 0}, {63, 64}}) {
      EXPECT_THROW(
          device->read_cells(*state, CacheRole::kKeys, cells, std::as_writable_bytes(std::span(rows))),
          Error);
      EXPECT_THROW(device->write_cells(*state, CacheRole::kKeys, cells, std::as_bytes(std::span(rows))),
                   Error);
    }
    const std::vector<std::int32_t> there = {0, 63};  // It goes on.
    device->write_cells(*state, CacheRole::kKeys, there, std::as_bytes(std::span(rows)));
    rows.assign(8, 0.0f);
    device->read_cells(*state, CacheRole::kKeys, there, std::as_writable_bytes(std::span(rows)));
    EXPECT_EQ(rows, std::vector<float>(8, 2.0f)) << name;
  }
}

TEST_F(RemotePlan, DoesNotResendUnchangedTensors) {
  Plan spread = plan(true);
  run(spread, 2);
  const std::size_t before = remotes_[0].bytes_sent();
  rows_[0] += 1.0f;
  run(spread, 2);
  const std::size_t rows = remotes_[0].bytes_sent() - before;
  EXPECT_GE(rows, kWidth * sizeof(float));
  EXPECT_LE(rows, 4096u);  // The table has 128 KiB.
  table_rows_[3 * kWidth] = 9.0f;
  run(spread, 2);
  const std::size_t block = remotes_[0].bytes_sent() - before - rows;
  EXPECT_LE(block, 4096u);
  Plan alone = plan(false);
  EXPECT_TRUE(run(spread, 2) == run(alone, 2));
}

/// Such functions stay where they are.
TEST_F(RemotePlan, ReadsOutputsOfCustomFunctions) {
  Graph g;
  const Dim n = g.symbol("n", 1, 8);
  const Value doubled =
      custom("double", {g.input("x", {n, kWidth})}, {n, kWidth}, [](const CustomCall& call) {
        const std::span<const float> from = call.inputs[0].f32();
        const std::span<float> to = call.f32();
        const auto begin = static_cast<std::size_t>(call.begin * kWidth);
        for (std::size_t i = 0; i < to.size(); ++i) to[i] = 2.0f * from[begin + i];
      }).named("doubled");
  g.output("y", relu(doubled).named("above"));
  Plan spread(g, open_devices(*remotes_.registry(), {"rank1.cpu"}), {.pins = {{"^above|^y$", "rank1.cpu"}}});
  spread.run({{n, 2}}, {{"x", std::span(rows_).first(2 * kWidth)}});
  const std::vector<float> y = spread.read("y");
  for (std::size_t i = 0; i < y.size(); ++i) ASSERT_EQ(y[i], 2.0f * rows_[i]) << i;
  EXPECT_GT(spread.counters().copies, 0);
}

TEST_F(RemotePlan, ALostProcessIsAnError) {
  Plan spread = plan(true);
  run(spread, 2);
  remotes_[0].cut();
  expect_lost([&] { run(spread, 2); }, "rank1 is lost");
}

/// Three consecutive products on three processes: the second sends its result directly to the third.
class RemoteChain : public testing::Test {
 protected:
  static constexpr std::int64_t kWidth = 64;

  RemoteChain() {
    Value rows = g_.input("x", {n_, kWidth});
    for (const char* const name : {"a", "b", "c"})
      rows = linear(rows, g_.weight(name, {kWidth, kWidth})).named(std::string(name) + ".rows");
    g_.output("y", rows);
    std::iota(rows_.begin(), rows_.end(), 1.0f);
    std::iota(weight_.begin(), weight_.end(), -7.0f);
    for (float& value : weight_) value /= 1000.0f;
  }
  Plan plan(const test::RemoteCpus& remotes, bool spread = true) {
    std::vector<Pin> pins;
    if (spread) pins = {{"^a", "cpu"}, {"^b", "rank1.cpu"}, {"^c|^y", "rank2.cpu"}};
    Plan plan(g_,
              open_devices(*remotes.registry(), spread ? std::vector<std::string>{"rank1.cpu", "rank2.cpu"}
                                                       : std::vector<std::string>{"cpu"}),
              {.pins = pins});
    for (const char* const name : {"a", "b", "c"}) plan.set_weight(name, weight_);
    return plan;
  }
  std::vector<float> run(Plan& plan, std::int64_t n) {
    plan.run({{n_, n}}, {{"x", std::span(rows_).first(static_cast<std::size_t>(n * kWidth))}});
    return plan.read("y");
  }

  Graph g_;
  Dim n_ = g_.symbol("n", 1, 8);
  std::vector<float> rows_ = std::vector<float>(8 * kWidth);
  std::vector<float> weight_ = std::vector<float>(kWidth * kWidth);
};

TEST_F(RemoteChain, FollowersExchangeOutputsDirectly) {
  const test::RemoteCpus remotes(2);
  Plan alone = plan(remotes, false), spread = plan(remotes);
  run(spread, 1);  // The plan is made.
  for (const std::int64_t n : {8, 1, 5}) {
    const std::size_t before = remotes.lines().n_bytes(), to_second = remotes[1].bytes_sent();
    EXPECT_TRUE(run(spread, n) == run(alone, n)) << n;
    const std::size_t rows = static_cast<std::size_t>(n * kWidth) * sizeof(float);
    EXPECT_GE(remotes.lines().n_bytes() - before, rows);
    EXPECT_LE(remotes.lines().n_bytes() - before, rows + 64);
    EXPECT_LE(remotes[1].bytes_sent() - to_second, 400u) << "rows came from the leader, too";
    ++rows_[3];
  }
}

TEST_F(RemoteChain, SameResultsThroughTheLeader) {
  const test::RemoteCpus remotes(2, {}, false);
  Plan alone = plan(remotes, false), spread = plan(remotes);
  for (const std::int64_t n : {8, 1, 5}) EXPECT_TRUE(run(spread, n) == run(alone, n)) << n;
  EXPECT_EQ(remotes.lines().n_bytes(), 0u);
}

/// Outputs of a failed step are not received, and the next step is right.
TEST_F(RemoteChain, DoesNotWaitForOutputsOfFailedSteps) {
  const auto faults = std::make_shared<test::Faults>();
  bool first = true;  // The follower that fails.
  const test::RemoteCpus remotes(2, {}, true, [&](std::shared_ptr<Device> cpu) -> std::shared_ptr<Device> {
    if (!std::exchange(first, false)) return cpu;
    return std::make_shared<test::FailingDevice>(std::move(cpu), "cpu", faults);
  });
  Plan spread = plan(remotes);
  const std::vector<float> right = run(spread, 2);
  for (const test::Failure how :
       {test::Failure::kBefore, test::Failure::kAfter, test::Failure::kOutOfMemory}) {
    faults->fail_at(1, how);
    ++rows_[3];
    EXPECT_THROW(run(spread, 2), Error);
    --rows_[3];
    EXPECT_TRUE(run(spread, 2) == right);
  }
  EXPECT_EQ(faults->n_failed, 3);
}

/// A step that the host breaks off between what one follower sent and another was to receive.
TEST_F(RemoteChain, DiscardsUnusedMessages) {
  const test::RemoteCpus remotes(2);
  bool fails = false;
  Graph g;
  const Dim n = g.symbol("n", 1, 8);
  const Value x = g.input("x", {n, kWidth});
  const Value given = linear(x, g.weight("b", {kWidth, kWidth})).named("b.rows");
  const Value on_host =
      custom("copied", {x}, {n, kWidth}, [&](const CustomCall& call) {
        if (fails) throw Error(ErrorCode::kDevice, "as the test wants it");
        const std::span<const float> from = call.inputs[0].f32();
        std::copy_n(from.begin() + call.begin * kWidth, call.f32().size(), call.f32().begin());
      }).named("copied");
  g.output("y", linear(given + on_host, g.weight("c", {kWidth, kWidth})).named("c.rows"));
  Plan spread(g, open_devices(*remotes.registry(), {"rank1.cpu", "rank2.cpu"}),
              {.pins = {{".", "rank2.cpu"}, {"^b", "rank1.cpu"}, {"^copied", "cpu"}}});
  for (const char* const name : {"b", "c"}) spread.set_weight(name, weight_);
  const auto run_it = [&] {
    spread.run({{n, 2}}, {{"x", std::span(rows_).first(2 * kWidth)}});
    return spread.read("y");
  };
  const std::vector<float> right = run_it();
  for (int i = 0; i < 3; ++i) {
    fails = true;
    const std::size_t sent_before = remotes.lines().n_bytes(), reported_before = remotes[1].bytes_sent();
    EXPECT_THROW(run_it(), Error);
    // The run does not wait for the sender.
    for (int tries = 0; tries < 5000 && remotes.lines().n_bytes() == sent_before; ++tries)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_GT(remotes.lines().n_bytes(), sent_before) << "nothing was sent";
    EXPECT_GT(remotes[1].bytes_sent(), reported_before) << "it keeps what nobody wants";
    fails = false;
    EXPECT_TRUE(run_it() == right) << i;
  }
}

/// One follower waits for another's rows, which never come: it is told, and serves others then.
TEST_F(RemoteChain, ReportsLostFollowersToWaiters) {
  using namespace std::chrono_literals;
  for (const bool hangs : {false, true}) {
    const test::RemoteCpus remotes(2, {.lost_after = 300ms});
    Plan spread = plan(remotes);
    const std::vector<float> right = run(spread, 2);
    if (hangs) {
      remotes[0].hang();
    } else {
      remotes[0].cut();
    }
    expect_lost([&] { run(spread, 2); }, "lost");
    EXPECT_EQ(remotes[1].lost(), "");
    Plan alone(g_, open_devices(*remotes.registry(), {"rank2.cpu"}), {.pins = {{".", "rank2.cpu"}}});
    for (const char* const name : {"a", "b", "c"}) alone.set_weight(name, weight_);
    EXPECT_TRUE(run(alone, 2) == right);
  }
}

}  // namespace
}  // namespace weft
