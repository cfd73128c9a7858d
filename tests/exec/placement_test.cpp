// Placement against brute force on small random graphs, and against the rule of thumb that others use.
#include "exec/placement.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <map>
#include <random>

#include "weft/error.h"

namespace weft::exec {
namespace {

constexpr int kMaxNodes = 12;
constexpr int kDevices = 3;

struct Case {
  Graph graph;
  Costs costs;
};

/// Sums, stores to caches, some nodes pinned as weights' homes pin them; whole numbers as costs, so that sums
/// are exact.
Case random_case(std::mt19937& random) {
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  Case result;
  Graph& graph = result.graph;
  const SymbolId n = graph.add_symbol("n", 1, 4);
  std::vector<ValueId> values;
  for (int i = 0; i < 2; ++i)
    values.push_back(graph.add_input("x" + std::to_string(i), DType::kF32, {Dim(1, n), 8}));
  const ValueId cells = graph.add_input("cells", DType::kI32, {Dim(1, n)});
  std::array<ValueId, 2> caches;
  for (ValueId& cache : caches) cache = graph.add_state("cache", DType::kF32, {64, 1, 8});
  const int n_nodes = 3 + below(kMaxNodes - 2);
  const auto any = [&] {  // Late values more often: chains rather than stars.
    const int back = std::min(below(3) + (below(5) == 0 ? below(8) : 0), static_cast<int>(values.size()) - 1);
    return values[values.size() - 1 - static_cast<std::size_t>(back)];
  };
  for (int i = 0; i < n_nodes; ++i) {
    const std::string name = "v" + std::to_string(i);
    if (below(5) == 0) {
      ValueId& cache = caches[static_cast<std::size_t>(below(2))];
      cache = graph.add(ops::StoreCache{}, {cache, any(), cells}, name);
    } else {
      values.push_back(below(2) == 0 ? graph.add(ops::Scale{}, {any()}, name)
                                     : graph.add(ops::Add{}, {any(), any()}, name));
    }
  }
  graph.add_output(values.back());
  if (below(3) == 0) graph.add_output(values[values.size() / 2]);

  Costs& costs = result.costs;
  costs.n_devices = kDevices;
  costs.host = below(kDevices);
  const std::array<int, kDevices> speed = {10, 4, 1};
  const int copy_cost = 1 + below(20);
  for (int i = 0; i < n_nodes; ++i) {
    const int work = 1 + below(10);
    const int pin = below(5) < 2 ? below(kDevices) : -1;
    for (int d = 0; d < kDevices; ++d)
      costs.node.push_back((pin >= 0 && d != pin) || (pin < 0 && below(8) == 0)
                               ? kImpossible
                               : static_cast<double>(work * speed[static_cast<std::size_t>(d)]));
  }
  for (std::size_t v = 0; v < graph.values().size(); ++v) {
    const bool is_state = state_behind(graph, static_cast<ValueId>(v)) != kNoValue;
    for (int from = 0; from < kDevices; ++from)
      for (int to = 0; to < kDevices; ++to)
        costs.copy.push_back(from == to ? 0.0 : is_state ? kImpossible : copy_cost + below(10));
  }
  return result;
}

/// All assignments, depth first, cut where the sum is no better than the best: written on its own from what
/// costs are said to be.
class BruteForce {
 public:
  explicit BruteForce(const Case& c) : graph_(c.graph), costs_(c.costs), live_(live_nodes(c.graph)) {}

  double run() {
    std::vector<std::array<bool, kDevices>> on(graph_.values().size());
    std::vector<int> home(graph_.values().size(), -1);
    for (std::size_t v = 0; v < home.size(); ++v)
      if (graph_.values()[v].kind == ValueKind::kInput) {
        home[v] = costs_.host;
        on[v][static_cast<std::size_t>(costs_.host)] = true;
      }
    descend(0, 0.0, on, home);
    return best_;
  }

 private:
  void descend(std::size_t n, double sum, const std::vector<std::array<bool, kDevices>>& on,
               const std::vector<int>& home) {
    if (sum >= best_) return;
    if (n == graph_.nodes().size()) {
      best_ = sum;
      return;
    }
    if (!live_[n]) return descend(n + 1, sum, on, home);
    const Node& node = graph_.nodes()[n];
    for (int device = 0; device < kDevices; ++device) {
      const auto d = static_cast<std::size_t>(device);
      double cost = sum + costs_.node_at(n, device);
      auto now = on;
      auto homes = home;
      for (const ValueId input : node.inputs) {
        const auto v = static_cast<std::size_t>(input);
        if (homes[v] < 0) {  // A state comes to be where it is used first.
          homes[v] = device;
          now[v][d] = true;
        }
        if (!now[v][d]) cost += costs_.copy_of(input, homes[v], device);
        now[v][d] = true;
      }
      const auto out = static_cast<std::size_t>(node.output);
      homes[out] = device;
      now[out][d] = true;
      for (const ValueId output : graph_.outputs())
        if (output == node.output && device != costs_.host) {
          cost += costs_.copy_of(output, device, costs_.host);
          break;
        }
      descend(n + 1, cost, now, homes);
    }
  }

  const Graph& graph_;
  const Costs& costs_;
  const std::vector<bool> live_;
  double best_ = kImpossible;
};

TEST(Placement, IsTheCheapestOfAllAssignmentsAndNeverWorseThanTheGreedyRule) {
  struct Row {
    int graphs = 0, better = 0, greedy_failed = 0;
    double sum = 0.0, most = 1.0;
  };
  std::map<int, Row> table;
  std::mt19937 random(1);
  int n_placed = 0;
  for (int i = 0; i < 1000; ++i) {
    const Case c = random_case(random);
    const double least = BruteForce(c).run();
    if (least == kImpossible) {
      EXPECT_THROW(place(c.graph, c.costs), Error);
      continue;
    }
    ++n_placed;
    const Placement placement = place(c.graph, c.costs);
    ASSERT_EQ(placement.seconds, least) << "graph " << i << "\n" << to_string(c.graph);
    EXPECT_EQ(cost_of(c.graph, c.costs, placement.device_of), least);
    EXPECT_TRUE(placement.exact);
    const Placement greedy = place_greedily(c.graph, c.costs);
    ASSERT_GE(greedy.seconds, least);
    Row& row = table[static_cast<int>(c.graph.nodes().size())];
    ++row.graphs;
    if (greedy.seconds == kImpossible) {
      ++row.greedy_failed;
      continue;
    }
    row.better += greedy.seconds > least ? 1 : 0;
    row.sum += greedy.seconds / least;
    row.most = std::max(row.most, greedy.seconds / least);
  }
  EXPECT_GT(n_placed, 500);
  std::printf("nodes  graphs  greedy costs more  on average  at most  greedy finds no place\n");
  for (const auto& [nodes, row] : table)
    std::printf("%5d  %6d  %17d  %9.2fx  %6.2fx  %21d\n", nodes, row.graphs, row.better,
                row.sum / std::max(row.graphs - row.greedy_failed, 1), row.most, row.greedy_failed);
}

TEST(Placement, WithFewStatesItIsStillNoWorseThanGreedyAndSaysSo) {
  std::mt19937 random(2);
  bool cut = false;
  for (int i = 0; i < 100; ++i) {
    const Case c = random_case(random);
    const Placement greedy = place_greedily(c.graph, c.costs);
    if (greedy.seconds == kImpossible) continue;
    const Placement placement = place(c.graph, c.costs, 3);
    EXPECT_LE(placement.seconds, greedy.seconds);
    cut = cut || !placement.exact;
  }
  EXPECT_TRUE(cut);
}

}  // namespace
}  // namespace weft::exec
