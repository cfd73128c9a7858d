// Attention over caches in custom graphs: correct results with valid tables. Tables that would make kernels
// read outside the cache or the tables are errors.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <map>

#include "graph/refusal.h"
#include "weft/error.h"
#include "weft/graph/extent.h"
#include "weft/plan.h"

namespace weft {
namespace {

using test::has;
using test::refusal;
using Floats = std::vector<float>;
using Ints = std::vector<std::int32_t>;

constexpr std::int64_t kDim = 4, kSequences = 2, kWidth = 2, kHidden = 2, kPages = 3;

/// y = attention of x to the x of all steps, of two sequences with two extents each.
struct Rig {
  Graph g;
  Dim n = g.symbol("n", 1, 8);
  std::optional<Plan> plan;
  std::map<std::string, Ints> tables;

  explicit Rig(const ops::Attention& op = {.n_heads = 1, .alibi = 1.0f}) {
    const auto ints = [&](const char* name, Shape shape) { return g.input(name, shape, DType::kI32); };
    const Value x = g.input("x", {n, kDim}), cells = ints("cells", {n});
    const auto stored = [&](const char* name, CacheRole role) {
      const Value cache = g.state(name, DType::kF32, {kPages * kPageCells, 1, kDim});
      return apply(ops::StoreCache{role}, {cache, x, cells});
    };
    const Value k = stored("k", CacheRole::kKeys), v = stored("v", CacheRole::kValues);
    g.output("y", apply(op, {x, k, v, ints("positions", {n}), ints("sequences", {n}),
                             ints("extents", {kSequences, kWidth, kExtentWords}),
                             ints("counts", {kSequences}), ints("ends", {n}), ints("hidden_first", {n}),
                             ints("hidden", {kHidden, kHiddenWords})}));
    plan.emplace(g, open_devices({"cpu"}));
    // Row r of sequence r at position 0; page 0 is of sequence 0, page 2 of sequence 1.
    tables = {{"cells", {0, 128}}, {"positions", {0, 0}}, {"sequences", {0, 1}},     {"extents", Ints(24)},
              {"counts", {1, 1}},  {"ends", {1, 1}},      {"hidden_first", {0, -1}}, {"hidden", Ints(8)}};
    set(0, {.mask = 1, .page = 0});
    set(2, {.mask = 1, .page = 2});
    hide(0, {.row = 0, .page = 2, .mask = 1});
    hide(1, {});
  }

  void set(std::size_t i, const Extent& extent) {
    std::memcpy(tables["extents"].data() + i * kExtentWords, &extent, sizeof(extent));
  }
  void hide(std::size_t i, const HiddenCells& hidden) {
    std::memcpy(tables["hidden"].data() + i * kHiddenWords, &hidden, sizeof(hidden));
  }
  Floats run() {
    const Floats x = {1, 2, 3, 4, 5, 6, 7, 8};
    std::vector<Plan::InputData> inputs = {{"x", x}};
    for (const auto& [name, table] : tables) inputs.push_back({name, table});
    const Plan::SymbolValue symbols[] = {{"n", 2}};
    plan->run(symbols, inputs);
    return plan->read("y");
  }
};

TEST(PlanAttention, FollowsTables) {
  Rig rig;
  EXPECT_EQ(rig.run(), (Floats{1, 2, 3, 4, 5, 6, 7, 8}));  // Each row sees itself only.
}

TEST(PlanAttention, TablesThatLeadElsewhereAreErrors) {
  constexpr std::int32_t kMost = std::numeric_limits<std::int32_t>::max(), kLeast = -kMost - 1;
  const auto with = [](auto change) {
    Rig rig;
    change(rig);
    const std::string said = refusal([&] { rig.run(); });
    // What was refused has changed nothing.
    rig.tables = Rig().tables;
    EXPECT_EQ(rig.run(), (Floats{1, 2, 3, 4, 5, 6, 7, 8}));
    return said;
  };
  for (const std::int32_t page : {-1, 3, kMost, kLeast})
    EXPECT_TRUE(has(with([&](Rig& r) { r.set(2, {.mask = 1, .page = page}); }), "the cache has 3"));
  for (const std::int32_t divisor : {0, -1, kLeast, kMost})
    EXPECT_TRUE(
        has(with([&](Rig& r) { r.set(0, {.mask = 1, .page = 0, .divisor = divisor}); }), "as a divisor"));
  for (const std::int32_t far : {kLeast, kMost}) {
    EXPECT_TRUE(has(with([&](Rig& r) { r.set(0, {.mask = 1, .page = 0, .base = far}); }), "too far away"));
    EXPECT_TRUE(has(with([&](Rig& r) { r.set(0, {.mask = 1, .page = 0, .offset = far}); }), "too far away"));
    EXPECT_TRUE(has(with([&](Rig& r) { r.tables["positions"][1] = far; }), "too far away"));
  }
  for (const std::int32_t count : {-1, 3, kMost, kLeast})
    EXPECT_TRUE(has(with([&](Rig& r) { r.tables["counts"][1] = count; }), "room for 2 extents"));
  for (const std::int32_t first : {-2, 2, kMost, kLeast})
    EXPECT_TRUE(has(with([&](Rig& r) { r.tables["hidden_first"][1] = first; }), "2 hidden entries"));
  EXPECT_TRUE(has(with([&](Rig& r) { r.hide(1, {.row = 1, .page = 0, .mask = 1}); }), "must be of none"));
  EXPECT_TRUE(has(with([&](Rig& r) { r.tables["sequences"][0] = 2; }), "takes 0 to 1"));
  EXPECT_TRUE(has(with([&](Rig& r) { r.tables["cells"][0] = 192; }), "takes 0 to 191"));
}

TEST(PlanAttention, ExtentsThatAreNotCountedMayBeAnything) {
  Rig rig;
  rig.set(1, {.mask = ~std::uint64_t{0}, .page = 77, .divisor = 0});
  EXPECT_EQ(rig.run(), (Floats{1, 2, 3, 4, 5, 6, 7, 8}));
}

TEST(PlanAttention, ChecksUnchangedTablesWithNewOnes) {
  Rig rig;
  rig.set(1, {.mask = 1, .page = 77});
  rig.run();
  const Ints counts = {2, 1};
  EXPECT_TRUE(has(refusal([&] { rig.plan->run({}, {{"counts", counts}}); }), "the cache has 3"));
}

TEST(PlanAttention, DividedPlacesAndChunksBeginWithZero) {
  Rig rig;
  rig.set(0, {.mask = 2, .page = 0, .base = 1, .divisor = 3, .offset = -1});  // Its second cell, at 1.
  rig.tables["cells"][0] = 1;
  rig.tables["ends"][0] = 2;
  EXPECT_EQ(rig.run(), (Floats{1, 2, 3, 4, 5, 6, 7, 8}));
  rig.set(0, {.mask = 3, .page = 0, .base = 1, .divisor = 3, .offset = -1});
  EXPECT_TRUE(has(refusal([&] { rig.run(); }), "before what is divided"));
  Rig chunked({.n_heads = 1, .window = 4, .chunked = true});
  EXPECT_EQ(chunked.run(), (Floats{1, 2, 3, 4, 5, 6, 7, 8}));
  chunked.tables["positions"][0] = -1;
  EXPECT_TRUE(has(refusal([&] { chunked.run(); }), "chunks begin with 0"));
}

TEST(PlanAttention, ChecksAttributes) {
  const float nan = std::numeric_limits<float>::quiet_NaN(),
              infinity = std::numeric_limits<float>::infinity();
  for (const ops::Attention& op : std::vector<ops::Attention>{{.n_heads = 1, .scale = nan},
                                                              {.n_heads = 1, .scale = infinity},
                                                              {.n_heads = 1, .softcap = -1.0f},
                                                              {.n_heads = 1, .softcap = nan},
                                                              {.n_heads = 1, .window = -1},
                                                              {.n_heads = 1, .chunked = true},
                                                              {.n_heads = 1, .alibi = -1.0f},
                                                              {.n_heads = 1, .alibi = infinity}})
    EXPECT_TRUE(has(refusal([&] { Rig rig(op); }), "must be with a"));
}

TEST(PlanAttention, CachesHaveWholePages) {
  Graph g;
  const Value x = g.input("x", {2, kDim}), cells = g.input("cells", {2}, DType::kI32);
  EXPECT_TRUE(has(refusal([&] {
                    const Value cache = g.state("k", DType::kF32, {100, 1, kDim});
                    apply(ops::StoreCache{CacheRole::kKeys}, {cache, x, cells});
                  }),
                  "whole pages of 64 cells"));
}

}  // namespace
}  // namespace weft
