// Windows of images in plans. Bits depend neither on threads, nor on other images, nor on the layout of
// weights. Also sizes that a step sets, and refusals of plans.
#include <gtest/gtest.h>

#include <random>

#include "graph/refusal.h"
#include "weft/plan.h"

namespace weft {
namespace {

using Floats = std::vector<float>;
using test::has;
using test::refusal;

Floats random(std::int64_t n, unsigned seed) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<float> draw(-1.0f, 1.0f);
  Floats values(static_cast<std::size_t>(n));
  for (float& value : values) value = draw(engine);
  return values;
}

/// A small net with every op over windows. `n`, `h` and `w` are symbols.
struct WindowNet {
  Graph g;
  Dim n = g.symbol("n", 0, 4), h = g.symbol("h", 2, 40), w = g.symbol("w", 2, 40);

  WindowNet() {
    const Value x = g.input("x", {n, 6, h, w});
    const Value first =
        relu(conv2d(x, weight({40, 6, 3, 3}), weight({40}), {.stride = {1, 2}, .padding = 1}));
    const Value each = conv2d(first, weight({40, 1, 3, 3}), {}, {.padding = 1, .groups = 40});
    const Value mixed = conv2d(each, weight({20, 20, 1, 1}), weight({20}), {.groups = 2});
    const Value pooled = max_pool2d(mixed, 3, 1, 1) + avg_pool2d(mixed, {3, 1}, 1, {1, 0}, false);
    const Value wide = silu(conv_transpose2d(pooled, weight({20, 5, 3, 4}), weight({5}), {.stride = 2}));
    const Value same = resize_bilinear(upsample_nearest(wide, {1, 2}), h, w);
    g.output("y", group_norm(same, 5));
  }
  Value weight(Shape shape) { return g.weight("w" + std::to_string(n_weights++), std::move(shape)); }
  int n_weights = 0;

  void set_weights(Plan& plan) {
    for (int i = 0; i < n_weights; ++i) {
      const std::string name = "w" + std::to_string(i);
      weights.push_back(random(g.value(g.find(name)).shape.elements({}), static_cast<unsigned>(i)));
      plan.set_weight(name, weights.back());
    }
  }
  std::vector<Floats> weights;
};

Floats result(Plan& plan, std::int64_t n, std::int64_t h, std::int64_t w, const Floats& x) {
  plan.run({{"n", n}, {"h", h}, {"w", w}}, {{"x", x}});
  return plan.read("y");
}

TEST(Windows, BitsDoNotDependOnThreadsOrOtherImages) {
  WindowNet one_thread, three_threads;
  Plan a(one_thread.g, open_devices({"cpu"}), {.n_threads = 1}),
      b(three_threads.g, open_devices({"cpu"}), {.n_threads = 3});
  one_thread.set_weights(a);
  three_threads.set_weights(b);
  for (const auto& [h, w] : {std::pair{40, 40}, {2, 2}, {17, 3}, {5, 39}}) {
    const std::int64_t of_image = std::int64_t{6} * h * w;
    const Floats x = random(4 * of_image, static_cast<unsigned>(h));
    const Floats all = result(a, 4, h, w, x);
    ASSERT_EQ(all.size(), static_cast<std::size_t>(4 * 5 * h * w));
    EXPECT_EQ(all, result(b, 4, h, w, x));
    const Floats last(x.end() - of_image, x.end());
    EXPECT_EQ(Floats(all.end() - 5 * h * w, all.end()), result(b, 1, h, w, last));
  }
  EXPECT_TRUE(result(b, 0, 7, 9, {}).empty());
}

TEST(Windows, AKernelMayBeMadeInTheStep) {
  Graph g;
  const Value x = g.input("x", {2, 3, 9, 9}), w = g.weight("w", {5, 3, 3, 3}), scale = g.input("scale", {});
  const Value values = g.input("values", {5, 3, 3, 3});
  g.output("from_values", conv2d(x, values * scale, {}, {.padding = 1}));
  g.output("from_weight", conv2d(x, w, {}, {.padding = 1}));
  Plan plan(g, open_devices({"cpu"}));
  const Floats weight = random(5 * 27, 3);
  plan.set_weight("w", weight);
  Floats halves = weight;
  for (float& value : halves) value *= 0.5f;
  plan.run({}, {{"x", random(2 * 243, 4)}, {"values", halves}, {"scale", Floats{2.0f}}});
  EXPECT_EQ(plan.read("from_values"), plan.read("from_weight"));
}

TEST(Windows, ImagesSmallerThanTheKernelGiveEmptyResults) {
  Graph g;
  const Dim h = g.symbol("h", 2, 40);
  const Value x = g.input("x", {1, 1, h, 4});
  g.output("y", conv2d(x, g.weight("w", {1, 1, 3, 3})));
  g.output("z", max_pool2d(x, 3));
  Plan plan(g, open_devices({"cpu"}));
  const Floats w(9, 1.0f);
  plan.set_weight("w", w);
  plan.run({{h, 2}}, {{"x", Floats(8, 1.0f)}});
  EXPECT_TRUE(plan.read("y").empty());
  EXPECT_TRUE(plan.read("z").empty());
  plan.run({{h, 3}}, {{"x", Floats(12, 1.0f)}});
  EXPECT_EQ(plan.read("y"), (Floats{9.0f, 9.0f}));
  EXPECT_EQ(plan.read("z"), Floats{1.0f});
}

TEST(Windows, RejectsImpossibleGraphs) {
  Graph g;
  const Dim h = g.symbol("h", 1, 40);
  const Value x = g.input("x", {1, 3, h, 9});
  g.output("y", conv2d(x, g.weight("w", {4, 3, 7, 3})));
  EXPECT_TRUE(has(refusal([&] { Plan(g, open_devices({"cpu"})); }), "negative size"));
  Graph turned;
  const Value y = turned.input("y", {1, 4, 3, 3}), kernel = turned.input("kernel", {4, 3, 2, 2});
  turned.output("z", conv_transpose2d(y, kernel));
  EXPECT_TRUE(has(refusal([&] { Plan(turned, open_devices({"cpu"})); }), "must be a weight"));
  Graph huge;
  const Dim w = huge.symbol("w", 1, std::int64_t{1} << 31);
  huge.output("z", upsample_nearest(huge.input("x", {1 << 20, 1 << 10, w, 1}), {1 << 20, 1 << 20}));
  EXPECT_TRUE(has(refusal([&] { Plan(huge, open_devices({"cpu"})); }), "too large for any memory"));
}

}  // namespace
}  // namespace weft
