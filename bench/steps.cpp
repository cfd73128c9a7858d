// What a step of many small nodes costs: a graph of 1,000 nodes (linear, + bias, relu, + residual, 250 times)
// over rows of WIDTH (32; with 1 there is next to nothing to compute), with nothing changed, other shapes,
// another tensor, another graph. Prints microseconds a step.
//
//   bench_steps [STEPS] [WIDTH]
#include <weft/plan.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

namespace {

constexpr int kBlocks = 250, kRounds = 5;

/// `factor` tells graphs apart, by their last node.
weft::Graph make_graph(int width, float factor) {
  weft::Graph g;
  const weft::Dim n = g.symbol("n", 1, 8);
  weft::Value x = g.input("x", {n, width});
  for (int i = 0; i < kBlocks; ++i) {
    const std::string block = "block." + std::to_string(i);
    x = x + weft::relu(weft::linear(x, g.weight(block + ".weight", {width, width})) +
                       g.weight(block + ".bias", {width}));
  }
  g.output("y", x * factor);
  return g;
}

/// Of the best round: others run on this machine.
template <typename Step>
double microseconds(int n_steps, Step step) {
  double best = std::numeric_limits<double>::infinity();
  for (int round = 0; round < kRounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < n_steps / kRounds + 1; ++i) step(i);
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
    best = std::min(best, took.count() / (n_steps / kRounds + 1));
  }
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  const int n_steps = argc > 1 ? std::atoi(argv[1]) : 10000;
  const int width = argc > 2 ? std::atoi(argv[2]) : 32;
  weft::Plan plan(make_graph(width, 1.0f), weft::find_devices({"cpu"}),
                  {.allowed = {.shapes = true, .tensors = true, .topology = true}, .n_threads = 1});
  const auto columns = static_cast<std::size_t>(width);
  const std::vector<float> weight(columns * columns, 1e-3f), bias(columns, 0.5f), x(8 * columns, 1.0f);
  for (int i = 0; i < kBlocks; ++i) {
    plan.set_weight("block." + std::to_string(i) + ".weight", weight);
    plan.set_weight("block." + std::to_string(i) + ".bias", bias);
  }
  const auto rows = [&](int n) { return std::span(x).first(static_cast<std::size_t>(n) * columns); };
  const double none = microseconds(n_steps, [&](int) { plan.run({{"n", 1}}, {{"x", rows(1)}}); });
  const double shapes =
      microseconds(n_steps, [&](int i) { plan.run({{"n", 1 + i % 2}}, {{"x", rows(1 + i % 2)}}); });
  const double tensors = microseconds(n_steps / 10 + 1, [&](int) {
    plan.set_weight("block.7.bias", bias);
    plan.run({{"n", 1}}, {{"x", rows(1)}});
  });
  const double topology = microseconds(n_steps / 100 + 1, [&](int i) {
    plan.set_graph(make_graph(width, static_cast<float>(2 + i % 2)));
    plan.run({{"n", 1}}, {{"x", rows(1)}});
  });
  std::printf("{\"none\": %.2f, \"shapes\": %.2f, \"tensors\": %.2f, \"topology\": %.2f}\n", none, shapes,
              tensors, topology);
  return 0;
}
