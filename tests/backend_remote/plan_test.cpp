// Plans with a part in another process: what crosses, and what becomes of it when the other is lost.
#include "weft/plan.h"

#include <gtest/gtest.h>

#include <numeric>

#include "backend_remote/remote_testing.h"

namespace weft {
namespace {

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
        find_devices(*remotes_.registry(),
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

TEST_F(RemotePlan, WhatDidNotChangeIsNotSentAgain) {
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
TEST_F(RemotePlan, WhatAFunctionMakesIsReadThere) {
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
  Plan spread(g, find_devices(*remotes_.registry(), {"rank1.cpu"}), {.pins = {{"^above|^y$", "rank1.cpu"}}});
  spread.run({{n, 2}}, {{"x", std::span(rows_).first(2 * kWidth)}});
  const std::vector<float> y = spread.read("y");
  for (std::size_t i = 0; i < y.size(); ++i) ASSERT_EQ(y[i], 2.0f * rows_[i]) << i;
  EXPECT_GT(spread.counters().copies, 0);
}

TEST_F(RemotePlan, ALostProcessIsAnError) {
  Plan spread = plan(true);
  run(spread, 2);
  remotes_[0].cut();
  for (int i = 0; i < 2; ++i) {
    try {
      run(spread, 2);
      FAIL() << "a step was computed by nobody";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kDevice);
      EXPECT_NE(std::string(error.what()).find("rank1 is lost"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace weft
