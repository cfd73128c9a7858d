// A custom net: a graph with a size that each step sets, placed on the available devices. It is compiled
// once, and run with other inputs, other sizes and another weight.
#include <weft/error.h>
#include <weft/graph.h>
#include <weft/plan.h>

#include <cmath>
#include <cstdio>
#include <vector>

int main() try {
  weft::Graph g;
  const weft::Dim n = g.symbol("n", 1, 64);  // Bounds, not a size.
  const weft::Value x = g.input("x", {n, 4});
  const weft::Value hidden =
      weft::gelu(weft::linear(x, g.weight("up.weight", {8, 4})) + g.weight("up.bias", {8}));
  g.output("y", weft::softmax(weft::linear(hidden, g.weight("down.weight", {3, 8}))));

  weft::Plan plan(g, weft::open_devices(), {.allowed = {.shapes = true, .tensors = true}});
  std::vector<float> up(32), bias(8), down(24);
  for (std::size_t i = 0; i < up.size(); ++i) up[i] = std::sin(static_cast<float>(i));
  for (std::size_t i = 0; i < down.size(); ++i) down[i] = std::cos(static_cast<float>(i));
  plan.set_weight("up.weight", up);
  plan.set_weight("up.bias", bias);
  plan.set_weight("down.weight", down);
  std::printf("%s", plan.explain().c_str());

  for (const int rows : {3, 1, 64}) {
    const std::vector<float> input(static_cast<std::size_t>(rows) * 4, 0.5f);
    plan.run({{n, rows}}, {{"x", input}});
    const std::vector<float> y = plan.read("y");
    float sum = 0.0f;
    for (std::size_t i = 0; i < 3; ++i) sum += y[i];
    std::printf("%d rows: %.3f %.3f %.3f, sum %.3f\n", rows, static_cast<double>(y[0]),
                static_cast<double>(y[1]), static_cast<double>(y[2]), static_cast<double>(sum));
  }
  bias.assign(8, 1.0f);
  plan.set_weight("up.bias", bias);  // A changed tensor.
  plan.run();
  const weft::PlanCounters& counters = plan.counters();
  std::printf("%lld steps, %lld with other shapes, %lld with other tensors, compiled %lld time\n",
              static_cast<long long>(counters.steps), static_cast<long long>(counters.shapes),
              static_cast<long long>(counters.tensors), static_cast<long long>(counters.compiled));
  return counters.compiled == 1 ? 0 : 1;
} catch (const weft::Error& error) {
  std::fprintf(stderr, "graph: %s\n", error.what());
  return 1;
}
