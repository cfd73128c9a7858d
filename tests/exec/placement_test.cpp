// Placement against brute force on small random graphs, and against the rule of thumb that others use.
#include "exec/placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <numeric>
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
Case random_case(std::mt19937& random, int n_devices = kDevices, int max_nodes = kMaxNodes) {
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
  const int n_nodes = 3 + below(max_nodes - 2);
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
  costs.n_devices = n_devices;
  costs.host = below(n_devices);
  const std::array<int, kDevices> speed = {10, 4, 1};
  const int copy_cost = 1 + below(20);
  for (int i = 0; i < n_nodes; ++i) {
    const int work = 1 + below(10);
    const int pin = below(5) < 2 ? below(n_devices) : -1;
    for (int d = 0; d < n_devices; ++d)
      costs.node.push_back((pin >= 0 && d != pin) || (pin < 0 && below(8) == 0)
                               ? kImpossible
                               : static_cast<double>(work * speed[static_cast<std::size_t>(d % kDevices)]));
  }
  for (std::size_t v = 0; v < graph.values().size(); ++v) {
    const bool is_state = state_behind(graph, static_cast<ValueId>(v)) != kNoValue;
    for (int from = 0; from < n_devices; ++from)
      for (int to = 0; to < n_devices; ++to)
        costs.copy.push_back(from == to ? 0.0 : is_state ? kImpossible : copy_cost + below(10));
  }
  return result;
}

/// Tries all assignments depth first, and prunes sums that cannot beat the best. It is written independently
/// from the definition of the costs.
class BruteForce {
 public:
  explicit BruteForce(const Case& c) : graph_(c.graph), costs_(c.costs), live_(live_nodes(c.graph)) {}

  double run() {
    std::vector<std::uint32_t> on(graph_.values().size());
    std::vector<int> home(graph_.values().size(), -1);
    for (std::size_t v = 0; v < home.size(); ++v)
      if (graph_.values()[v].kind == ValueKind::kInput) {
        home[v] = costs_.host;
        on[v] = 1u << costs_.host;
      }
    descend(0, 0.0, on, home);
    return best_;
  }

 private:
  /// `on`: a bit for each device that has a value.
  void descend(std::size_t n, double sum, const std::vector<std::uint32_t>& on,
               const std::vector<int>& home) {
    if (sum >= best_) return;
    if (n == graph_.nodes().size()) {
      best_ = sum;
      return;
    }
    if (!live_[n]) return descend(n + 1, sum, on, home);
    const Node& node = graph_.nodes()[n];
    for (int device = 0; device < costs_.n_devices; ++device) {
      const std::uint32_t here = 1u << device;
      double cost = sum + costs_.node_at(n, device);
      auto now = on;
      auto homes = home;
      for (const ValueId input : node.inputs) {
        const auto v = static_cast<std::size_t>(input);
        if (homes[v] < 0) {  // A state comes to be where it is used first.
          homes[v] = device;
          now[v] |= here;
        }
        if ((now[v] & here) == 0) cost += costs_.copy_of(input, homes[v], device);
        now[v] |= here;
      }
      const auto out = static_cast<std::size_t>(node.output);
      homes[out] = device;
      now[out] |= here;
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

/// The rule of other schedulers: a node is placed with its weight or state, otherwise with the node before
/// it. Otherwise it is on the first device (the fastest) that can compute it.
double cost_of_the_peers_rule(const Case& c) {
  std::vector<int> device_of, of_state(c.graph.values().size(), -1);
  for (std::size_t n = 0; n < c.graph.nodes().size(); ++n) {
    const Node& node = c.graph.nodes()[n];
    std::vector<int> possible;
    for (int d = kDevices - 1; d >= 0; --d)
      if (c.costs.node_at(n, d) != kImpossible) possible.push_back(d);
    int device = possible.empty() ? 0 : possible.front();
    const bool free = possible.size() > 1;
    if (free && n > 0 && c.costs.node_at(n, device_of.back()) != kImpossible) device = device_of.back();
    for (const ValueId input : node.inputs) {
      const ValueId state = state_behind(c.graph, input);
      if (state == kNoValue) continue;
      int& home = of_state[static_cast<std::size_t>(state)];
      if (home >= 0 && free) device = home;
      home = device;
    }
    device_of.push_back(device);
  }
  return cost_of(c.graph, c.costs, device_of);
}

TEST(Placement, IsTheCheapestOnManyDevices) {
  std::mt19937 random(3);
  int n_better = 0;
  for (int i = 0; i < 60; ++i) {
    const int n_devices = 13 + i % 14;
    const Case c = random_case(random, n_devices, 4);
    const double least = BruteForce(c).run();
    if (least == kImpossible) continue;
    const Placement placement = place(c.graph, c.costs);
    ASSERT_EQ(placement.seconds, least) << "graph " << i << " on " << n_devices << "\n" << to_string(c.graph);
    EXPECT_TRUE(placement.exact);
    EXPECT_EQ(cost_of(c.graph, c.costs, placement.device_of), least);
    const Placement greedy = place_greedily(c.graph, c.costs);
    n_better += greedy.seconds > least ? 1 : 0;
  }
  EXPECT_GT(n_better, 0);
}

TEST(Placement, IsTheCheapestOfAllAssignmentsAndNeverWorseThanRulesOfThumb) {
  struct Row {
    int graphs = 0, better = 0, failed = 0;
    std::vector<double> ratios;
    void add(double cost, double least) {
      ++graphs;
      if (cost == kImpossible) {
        ++failed;
        return;
      }
      better += cost > least ? 1 : 0;
      ratios.push_back(cost / least);
    }
  };
  std::map<std::string, std::array<Row, 2>> table;  // By nodes: the greedy rule's row and the peers'.
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
    const double greedy = place_greedily(c.graph, c.costs).seconds, peers = cost_of_the_peers_rule(c);
    ASSERT_GE(greedy, least);
    ASSERT_GE(peers, least);
    const std::size_t n_nodes = c.graph.nodes().size();
    for (const char* const key : {n_nodes <= 6 ? " 3-6 " : n_nodes <= 9 ? " 7-9 " : "10-12", "all"}) {
      table[key][0].add(greedy, least);
      table[key][1].add(peers, least);
    }
  }
  EXPECT_GT(n_placed, 500);
  std::printf("%d of 1000 graphs can be placed; all of those are placed as brute force does\n", n_placed);
  std::printf("nodes  rule         graphs  costs more  by mean  median     max  finds no place\n");
  for (auto& [nodes, rows] : table)
    for (std::size_t r = 0; r < rows.size(); ++r) {
      Row& row = rows[r];
      std::sort(row.ratios.begin(), row.ratios.end());
      const double sum = std::accumulate(row.ratios.begin(), row.ratios.end(), 0.0);
      std::printf("%-5s  %-11s  %6d  %9.0f%%  %6.2fx  %5.2fx  %5.2fx  %13.0f%%\n", nodes.c_str(),
                  r == 0 ? "most inputs" : "peers'", row.graphs, 100.0 * row.better / std::ssize(row.ratios),
                  sum / static_cast<double>(row.ratios.size()), row.ratios[row.ratios.size() / 2],
                  row.ratios.back(), 100.0 * row.failed / row.graphs);
    }
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
