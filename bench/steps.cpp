// What a step of many small nodes costs: a graph of 1,000 nodes (linear, + bias, relu, + residual, 250 times)
// over rows of 32, with nothing changed, other shapes, another tensor, another graph. Prints microseconds a
// step.
//
//   bench_steps [STEPS]
#include <weft/plan.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

constexpr int kBlocks = 250, kWidth = 32;

/// `factor` tells graphs apart, by their last node.
weft::Graph make_graph(float factor) {
  weft::Graph g;
  const weft::Dim n = g.symbol("n", 1, 8);
  weft::Value x = g.input("x", {n, kWidth});
  for (int i = 0; i < kBlocks; ++i) {
    const std::string block = "block." + std::to_string(i);
    x = x + weft::relu(weft::linear(x, g.weight(block + ".weight", {kWidth, kWidth})) +
                       g.weight(block + ".bias", {kWidth}));
  }
  g.output("y", x * factor);
  return g;
}

template <typename Step>
double microseconds(int n_steps, Step step) {
  for (int i = 0; i < n_steps / 10 + 1; ++i) step(i);
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < n_steps; ++i) step(i);
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count() /
         n_steps;
}

}  // namespace

int main(int argc, char** argv) {
  const int n_steps = argc > 1 ? std::atoi(argv[1]) : 10000;
  weft::Plan plan(make_graph(1.0f), weft::find_devices({"cpu"}),
                  {.allowed = {.shapes = true, .tensors = true, .topology = true}, .n_threads = 1});
  const std::vector<float> weight(kWidth * kWidth, 1e-3f), bias(kWidth, 0.5f), x(8 * kWidth, 1.0f);
  for (int i = 0; i < kBlocks; ++i) {
    plan.set_weight("block." + std::to_string(i) + ".weight", weight);
    plan.set_weight("block." + std::to_string(i) + ".bias", bias);
  }
  const auto rows = [&](int n) { return std::span(x).first(static_cast<std::size_t>(n) * kWidth); };
  const double none = microseconds(n_steps, [&](int) { plan.run({{"n", 1}}, {{"x", rows(1)}}); });
  const double shapes =
      microseconds(n_steps, [&](int i) { plan.run({{"n", 1 + i % 2}}, {{"x", rows(1 + i % 2)}}); });
  const double tensors = microseconds(n_steps / 10 + 1, [&](int) {
    plan.set_weight("block.7.bias", bias);
    plan.run({{"n", 1}}, {{"x", rows(1)}});
  });
  const double topology = microseconds(n_steps / 100 + 1, [&](int i) {
    plan.set_graph(make_graph(static_cast<float>(2 + i % 2)));
    plan.run({{"n", 1}}, {{"x", rows(1)}});
  });
  std::printf("{\"none\": %.2f, \"shapes\": %.2f, \"tensors\": %.2f, \"topology\": %.2f}\n", none, shapes,
              tensors, topology);
  return 0;
}
