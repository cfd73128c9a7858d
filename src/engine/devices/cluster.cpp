#include "weft/cluster.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "base/to_size.h"
#include "engine/boundary.h"
#include "engine/refuse.h"
#include "weft/error.h"

namespace weft {
namespace {

/// Speeds of a node in the formula's terms.
struct Speeds {
  double bytes_per_second, flops, step_seconds;
};

double bytes_of(const ModelWork& work, const ModelWork::Part& part, double rows) {
  if (part.expert_bytes == 0.0) return part.bytes;
  const double missed = std::pow(1.0 - work.used_experts / work.n_experts, rows);
  return part.bytes + part.expert_bytes * (1.0 - missed);
}

double operations_of(const ModelWork& work, const ModelWork::Part& part) {
  const double share = part.expert_bytes == 0.0 ? 0.0 : work.used_experts / work.n_experts;
  return 2.0 * (part.multiply_adds + share * part.expert_multiply_adds);
}

/// Rows of a step, and how many tokens are in the cache before them.
struct StepRows {
  double rows = 1.0, before = 0.0;
};

double layer_bytes(const ModelWork& work, const ModelWork::Part& part, StepRows step) {
  return bytes_of(work, part, step.rows) + work.cache_bytes_per_token * step.before;
}

double layer_operations(const ModelWork& work, const ModelWork::Part& part, StepRows step) {
  const double seen = step.before + step.rows / 2.0;
  return step.rows * (operations_of(work, part) + 2.0 * work.attention_multiply_adds * seen);
}

/// Rejects numbers that would divide by zero or never end.
void check(const Cluster& cluster) {
  if (cluster.nodes.empty()) engine::refuse("a cluster needs a node");
  if (cluster.prompt_tokens < 1 || cluster.ubatch_size < 1)
    engine::refuse("a cluster's prompt and its parts need a token at least");
  if (cluster.prompt_tokens / cluster.ubatch_size > kMostPromptSteps)
    engine::refuse("a cluster's prompt has more than " + std::to_string(kMostPromptSteps) + " steps");
  for (const ClusterNode& node : cluster.nodes) {
    const bool has_speeds = node.bytes_per_second > 0.0 && node.flops > 0.0;
    const bool is_measured = node.tokens_per_second > 0.0 && node.prompt_tokens_per_second > 0.0;
    if (!has_speeds && !is_measured) engine::refuse("node '" + node.name + "' of a cluster has no speeds");
    if (cluster.nodes.size() > 1 && !(node.link.bytes_per_second > 0.0))
      engine::refuse("node '" + node.name + "' of a cluster has no link");
  }
}

/// The chunks of a prompt that are computed one after another.
std::vector<StepRows> steps_of(const Cluster& cluster) {
  std::vector<StepRows> steps;
  const std::int64_t end = cluster.prompt_tokens, size = cluster.ubatch_size;
  for (std::int64_t before = 0; before < end; before += size)
    steps.push_back({static_cast<double>(std::min(size, end - before)), static_cast<double>(before)});
  return steps;
}

/// Converts measurements into speeds with which the formula reproduces them.
Speeds speeds_of(const ModelWork& work, const Cluster& cluster, const ClusterNode& node) {
  if (node.bytes_per_second > 0.0 && node.flops > 0.0)
    return {node.bytes_per_second, node.flops, node.step_seconds};
  const StepRows token = {1.0, static_cast<double>(cluster.prompt_tokens)};
  const double head_bytes = bytes_of(work, work.head, 1.0);
  double bytes = head_bytes;
  for (const ModelWork::Part& layer : work.layers) bytes += layer_bytes(work, layer, token);
  const double token_seconds = 1.0 / node.tokens_per_second - node.step_seconds;
  const double speed = bytes / token_seconds;
  double operations = 0.0, steps = 0.0;
  for (const StepRows& step : steps_of(cluster)) {
    steps += 1.0;
    for (const ModelWork::Part& layer : work.layers) operations += layer_operations(work, layer, step);
  }
  double seconds = cluster.prompt_tokens / node.prompt_tokens_per_second - steps * node.step_seconds;
  // For a prompt of few tokens this deviates from the measurement: the head is a small part of a long one.
  if (seconds > head_bytes / speed) seconds -= head_bytes / speed;
  if (token_seconds <= 0.0 || seconds <= 0.0)
    throw Error(ErrorCode::kInvalidFile, "the cluster's description: node '" + node.name +
                                             "': step_seconds is longer than what was measured");
  return {speed, operations / seconds, node.step_seconds};
}

double roofline(double bytes, double operations, const Speeds& speeds) {
  return std::max(bytes / speeds.bytes_per_second, operations / speeds.flops);
}

double message(const ClusterLink& link, double bytes) { return link.seconds + bytes / link.bytes_per_second; }

ClusterLink slower(const ClusterLink& a, const ClusterLink& b) {
  return {std::max(a.seconds, b.seconds), std::min(a.bytes_per_second, b.bytes_per_second)};
}

/// The messages that nodes which compute a part together wait for.
double exchange_seconds(const ModelWork::Part& part, const ClusterLink& link, int n, double rows) {
  if (n == 1) return 0.0;
  const double others = n - 1.0;
  const double in = rows * others / n * (part.gathered_bytes + part.collected_bytes);
  const double out = rows * others * (part.gathered_bytes / n + part.handed_out_bytes);
  return part.messages * link.seconds + std::max(in, out) / link.bytes_per_second;
}

/// Bytes that a row sends in it.
double exchanged_bytes(const ModelWork::Part& part, int n) {
  const double others = n - 1.0;
  return others * (part.gathered_bytes + part.collected_bytes / n + part.handed_out_bytes);
}

/// The result for one size of groups.
class WayPlanner {
 public:
  WayPlanner(const ModelWork& work, const Cluster& cluster, const std::vector<Speeds>& speeds, int group_size)
      : work_(work), cluster_(cluster), speeds_(speeds), n_layers_(static_cast<int>(work.layers.size())) {
    way_.group_size = group_size;
    const int n_nodes = static_cast<int>(cluster.nodes.size());
    for (int first = 0; first < n_nodes; first += group_size) {
      Group group = {.first = first, .n = std::min(group_size, n_nodes - first)};
      group.link = node(first).link;
      group.memory = node(first).memory_bytes;
      for (int i = first; i < first + group.n; ++i) {
        group.link = slower(group.link, node(i).link);
        group.memory = std::min(group.memory, node(i).memory_bytes);
        group.step_seconds = std::max(group.step_seconds, speeds[to_size(i)].step_seconds);
      }
      const StepRows token = {1.0, static_cast<double>(cluster.prompt_tokens)};
      for (int part = 0; part <= n_layers_; ++part)
        group.token_seconds.push_back(part_seconds(group, part, token, true));
      groups_.push_back(std::move(group));
    }
  }

  ClusterWay plan() {
    if (!divide()) return way_;
    const double row_bytes = 4.0 * work_.width;
    const auto& used = way_.groups;
    double slowest = 0.0;
    for (std::size_t g = 0; g < used.size(); ++g) {
      const Group& group = group_of(used[g]);
      const double passed_on = g + 1 < used.size() ? message(link_between(g, g + 1), row_bytes) : 0.0;
      way_.token_seconds += used[g].token_seconds + passed_on;
      slowest = std::max(slowest, used[g].token_seconds + passed_on);
      if (g + 1 < used.size()) way_.token_bytes += row_bytes * std::max(group.n, group_of(used[g + 1]).n);
      const bool has_head = g + 1 == used.size();
      for (int part = used[g].first_layer; part < used[g].first_layer + used[g].n_layers + has_head; ++part)
        way_.token_bytes += exchanged_bytes(part_at(part), group.n);
    }
    if (used.size() > 1) way_.token_seconds += link_between(0, used.size() - 1).seconds;
    way_.tokens_per_second = 1.0 / slowest;
    read_prompt();
    return way_;
  }

 private:
  struct Group {
    int first = 0, n = 1;
    ClusterLink link = {};
    double memory = 0.0;  ///< Of its smallest node.
    double step_seconds = 0.0;
    std::vector<double> token_seconds = {};  ///< By part: the layers, and the head.
  };

  const ClusterNode& node(int i) const { return cluster_.nodes[to_size(i)]; }
  const Group& group_of(const ClusterWay::Group& used) const {
    return groups_[to_size(used.first_node / way_.group_size)];
  }
  ClusterLink link_between(std::size_t a, std::size_t b) const {
    return slower(group_of(way_.groups[a]).link, group_of(way_.groups[b]).link);
  }
  const Speeds& speeds_of_node(int i) const { return speeds_[to_size(i)]; }
  const ModelWork::Part& part_at(int part) const {
    return part == n_layers_ ? work_.head : work_.layers[to_size(part)];
  }

  /// The time of a layer, or of the head, which computes wanted rows only.
  double part_seconds(const Group& group, int part, StepRows step, bool wanted) const {
    const bool is_head = part == n_layers_;
    if (is_head && !wanted) return 0.0;
    const ModelWork::Part& what = part_at(part);
    const double rows = is_head ? 1.0 : step.rows;
    const double bytes = is_head ? bytes_of(work_, what, 1.0) : layer_bytes(work_, what, step);
    const double operations = is_head ? operations_of(work_, what) : layer_operations(work_, what, step);
    if (group.n == 1) return roofline(bytes, operations, speeds_of_node(group.first));
    // Work divided by KV heads, work of the first node alone, and the rest.
    double heads_bytes = what.heads_bytes, heads_operations = rows * 2.0 * what.heads_multiply_adds;
    double whole_bytes = what.whole_bytes, whole_operations = rows * 2.0 * what.whole_multiply_adds;
    if (!is_head) {
      (what.is_cache_whole ? whole_bytes : heads_bytes) += bytes - bytes_of(work_, what, step.rows);
      (what.is_cache_whole ? whole_operations : heads_operations) +=
          operations - rows * operations_of(work_, what);
    }
    const double heads = std::max(work_.n_kv_heads, 1);
    const double most_heads = std::ceil(heads / group.n) / heads;
    const double own_bytes = heads_bytes * most_heads + (bytes - heads_bytes - whole_bytes) / group.n;
    const double own_operations =
        heads_operations * most_heads + (operations - heads_operations - whole_operations) / group.n;
    double seconds = 0.0;
    for (int i = group.first; i < group.first + group.n; ++i)
      seconds = std::max(seconds, roofline(own_bytes, own_operations, speeds_of_node(i)));
    return seconds + roofline(whole_bytes, whole_operations, speeds_of_node(group.first)) +
           exchange_seconds(what, group.link, group.n, rows);
  }

  /// For the node with the largest share.
  double part_memory(const Group& group, int part) const {
    const ModelWork::Part& what = part_at(part);
    if (group.n == 1) return what.memory_bytes;
    const double cache = what.memory_bytes - what.bytes - what.expert_bytes;
    const double whole = what.whole_bytes + (what.is_cache_whole ? cache : 0.0);
    return whole + (what.memory_bytes - whole) / group.n;
  }

  /// The groups' parts if each takes at most `limit` seconds for a token; empty if that is impossible. Each
  /// group takes as much as fits, which leaves the least to the later ones.
  std::vector<ClusterWay::Group> fill(double limit) const {
    std::vector<ClusterWay::Group> filled;
    int part = 0;
    for (std::size_t g = 0; g < groups_.size() && part <= n_layers_; ++g) {
      const Group& group = groups_[g];
      double seconds = group.step_seconds, memory = g == 0 ? work_.table_bytes : 0.0;
      const int first = part;
      for (; part <= n_layers_; ++part) {
        const double more = part_memory(group, part);
        const double longer = group.token_seconds[to_size(part)];
        if (seconds + longer > limit || memory + more > group.memory) break;
        seconds += longer;
        memory += more;
      }
      if (part > first)
        filled.push_back({group.first, group.n, first, std::min(part, n_layers_) - first, memory, seconds});
    }
    if (part <= n_layers_) filled.clear();
    return filled;
  }

  bool divide() {
    double most = 0.0;
    for (const Group& group : groups_)
      most = std::max(
          most, std::accumulate(group.token_seconds.begin(), group.token_seconds.end(), group.step_seconds));
    way_.groups = fill(most);
    if (way_.groups.empty()) {
      double needed = work_.table_bytes + work_.head.memory_bytes;
      for (const ModelWork::Part& layer : work_.layers) needed += layer.memory_bytes;
      way_.problem = "does not fit: weights and cache are " +
                     std::to_string(static_cast<std::uint64_t>(needed) >> 20) + " MiB";
      return false;
    }
    constexpr int kHalvings = 60;
    double least = 0.0;
    for (int i = 0; i < kHalvings; ++i) {
      const double middle = (least + most) / 2.0;
      std::vector<ClusterWay::Group> filled = fill(middle);
      if (filled.empty()) {
        least = middle;
      } else {
        most = middle;
        way_.groups = std::move(filled);
      }
    }
    return true;
  }

  void read_prompt() {
    const std::vector<StepRows> steps = steps_of(cluster_);
    std::vector<double> free_at(way_.groups.size(), 0.0);
    for (std::size_t s = 0; s < steps.size(); ++s) {
      double arrived = 0.0;
      for (std::size_t g = 0; g < way_.groups.size(); ++g) {
        const ClusterWay::Group& used = way_.groups[g];
        const Group& group = group_of(used);
        const bool last = g + 1 == way_.groups.size();
        double seconds = group.step_seconds;
        for (int layer = used.first_layer; layer < used.first_layer + used.n_layers; ++layer)
          seconds += part_seconds(group, layer, steps[s], false);
        if (last) seconds += part_seconds(group, n_layers_, steps[s], s + 1 == steps.size());
        if (!last) seconds += message(link_between(g, g + 1), steps[s].rows * 4.0 * work_.width);
        way_.prompt_seconds += seconds;
        arrived = free_at[g] = std::max(arrived, free_at[g]) + seconds;
      }
    }
    way_.pipelined_prompt_seconds = free_at.back();
    if (way_.groups.size() > 1) {
      const double back = link_between(0, way_.groups.size() - 1).seconds;
      way_.prompt_seconds += back;
      way_.pipelined_prompt_seconds += back;
    }
  }

  const ModelWork& work_;
  const Cluster& cluster_;
  const std::vector<Speeds>& speeds_;
  int n_layers_;
  std::vector<Group> groups_;
  ClusterWay way_;
};

}  // namespace

std::vector<ClusterWay> plan_cluster(const ModelWork& work, const Cluster& cluster) try {
  check(cluster);
  std::vector<Speeds> speeds;
  for (const ClusterNode& node : cluster.nodes) speeds.push_back(speeds_of(work, cluster, node));
  const int n_nodes = static_cast<int>(cluster.nodes.size());
  const int most = std::min(n_nodes, work.n_heads > 0 ? work.n_heads : work.width);
  std::set<int> sizes;
  for (int size = 1; size <= most; size *= 2) sizes.insert(size);
  if (n_nodes == most) sizes.insert(n_nodes);
  std::vector<ClusterWay> ways;
  for (const int size : sizes) ways.push_back(WayPlanner(work, cluster, speeds, size).plan());
  return ways;
} catch (...) {
  engine::rethrow_as_error();
}

}  // namespace weft
