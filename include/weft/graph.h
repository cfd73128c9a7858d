// Since 0.1
#pragma once
// Graphs: values, the ops that compute them, and symbolic sizes whose values each step sets. weft/plan.h runs
// them.
//
//   weft::Graph g;
//   auto n = g.symbol("n", 1, 512);  // 1 to 512
//   auto x = g.input("x", {n, 768});
//   auto y = weft::gelu(weft::linear(x, g.weight("up.weight", weft::DType::kQ4_K, {3072, 768})));
//   g.output("y", y);
#include "weft/graph/custom.h"
#include "weft/graph/graph.h"
#include "weft/graph/order.h"
#include "weft/graph/sequence.h"
#include "weft/graph/value.h"
#include "weft/graph/value_windows.h"
