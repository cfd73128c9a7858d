// Expressions of sizes, which the headers define partly inline, from outside the library.
#include <weft/error.h>
#include <weft/graph.h>
#include <weft/plan.h>

#include <cstdio>
#include <vector>

int main() try {
  weft::Graph g;
  const weft::Dim n = g.symbol("n", 1, 8);
  const weft::Dim m = (2 * n + 4) / 2 - 1;
  if (!(m == n + 1) || weft::to_string(m, g.symbols()) != "n + 1") return 1;
  const weft::Value x = g.input("x", {n + 1, 4});
  g.output("y", x + x);
  if (!(x.shape() == weft::Shape{m, 4})) return 1;
  weft::Plan plan(g, weft::open_devices({"cpu"}));
  plan.run({{n, 2}}, {{"x", std::vector<float>(12, 1.5f)}});
  std::printf("%zu elements of %.1f\n", plan.read("y").size(), static_cast<double>(plan.read("y")[11]));
  return 0;
} catch (const weft::Error& error) {
  std::fprintf(stderr, "sizes: %s\n", error.what());
  return 1;
}
