#include "cluster_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "json_input.h"
#include "text_format.h"
#include "weft/error.h"

namespace weft::cli {
namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorCode::kInvalidFile, "the cluster's description: " + what);
}

// Reading.

/// An object of the description, with its place in it for messages.
class Fields {
 public:
  Fields(const Json& json, std::string where, const std::set<std::string>& known)
      : json_(json), where_(std::move(where)) {
    if (!json.is_object()) refuse(where_ + " is no object");
    for (const auto& [key, value] : json.items())
      if (!known.contains(key))
        refuse(fmt::format("{} has no field '{}'; known are {}", where_, key, fmt::join(known, ", ")));
  }

  bool has(const char* key) const { return json_.contains(key); }
  const Json& at(const char* key) const { return json_[key]; }
  const std::string& where() const { return where_; }

  double number(const char* key, double otherwise) const {
    if (!has(key)) return otherwise;
    const Json& value = at(key);
    if (!value.is_number() || value.get<double>() < 0.0)
      refuse(fmt::format("{}: {} is {}; expected a number that is not negative", where_, key, value.dump()));
    return value.get<double>();
  }
  double positive(const char* key) const {
    if (!has(key)) refuse(fmt::format("{} lacks {}", where_, key));
    const double value = number(key, 0.0);
    if (value == 0.0) refuse(fmt::format("{}: {} is 0; expected more", where_, key));
    return value;
  }
  int count(const char* key, int otherwise, int most) const {
    if (!has(key)) return otherwise;
    const Json& value = at(key);
    if (!value.is_number_integer() || value.get<double>() < 1 || value.get<double>() > most)
      refuse(
          fmt::format("{}: {} is {}; expected a whole number from 1 to {}", where_, key, value.dump(), most));
    return value.get<int>();
  }

 private:
  const Json& json_;
  std::string where_;
};

ClusterLink read_link(const Json& json, const std::string& where) {
  const Fields fields(json, where, {"seconds", "bytes_per_second"});
  return {fields.number("seconds", 0.0), fields.positive("bytes_per_second")};
}

ClusterNode read_node(const Fields& fields) {
  ClusterNode node;
  const bool has_speeds = fields.has("bytes_per_second") || fields.has("flops");
  const bool has_measured = fields.has("tokens_per_second") || fields.has("prompt_tokens_per_second");
  if (has_speeds == has_measured)
    refuse(fields.where() +
           " needs either bytes_per_second and flops, or tokens_per_second and prompt_tokens_per_second");
  if (has_speeds) {
    node.bytes_per_second = fields.positive("bytes_per_second");
    node.flops = fields.positive("flops");
  } else {
    node.tokens_per_second = fields.positive("tokens_per_second");
    node.prompt_tokens_per_second = fields.positive("prompt_tokens_per_second");
  }
  node.memory_bytes = fields.positive("memory_bytes");
  node.step_seconds = fields.number("step_seconds", 0.0);
  return node;
}

// The formula.

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

/// The parts of a prompt that are computed one after another.
std::vector<StepRows> steps_of(const Cluster& cluster) {
  std::vector<StepRows> steps;
  for (int before = 0; before < cluster.prompt_tokens; before += cluster.ubatch_size)
    steps.push_back({static_cast<double>(std::min(cluster.ubatch_size, cluster.prompt_tokens - before)),
                     static_cast<double>(before)});
  return steps;
}

/// What was measured is turned into the speeds that the formula needs to give it again.
Speeds speeds_of(const ModelWork& work, const Cluster& cluster, const ClusterNode& node) {
  if (node.bytes_per_second > 0.0) return {node.bytes_per_second, node.flops, node.step_seconds};
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
  const double seconds =
      cluster.prompt_tokens / node.prompt_tokens_per_second - steps * node.step_seconds - head_bytes / speed;
  if (token_seconds <= 0.0 || seconds <= 0.0)
    refuse(fmt::format("node '{}': step_seconds is longer than what was measured", node.name));
  return {speed, operations / seconds, node.step_seconds};
}

double roofline(double bytes, double operations, const Speeds& speeds) {
  return std::max(bytes / speeds.bytes_per_second, operations / speeds.flops);
}

double message(const ClusterLink& link, double bytes) { return link.seconds + bytes / link.bytes_per_second; }

ClusterLink slower(const ClusterLink& a, const ClusterLink& b) {
  return {std::max(a.seconds, b.seconds), std::min(a.bytes_per_second, b.bytes_per_second)};
}

double tree_depth(int n) { return std::ceil(std::log2(static_cast<double>(n))); }

/// A sum over n nodes that all of them get.
double sum_seconds(const ClusterLink& link, int n, double bytes) {
  if (n == 1) return 0.0;
  const double ring = 2.0 * (n - 1) * message(link, bytes / n);
  const double tree = 2.0 * tree_depth(n) * message(link, bytes);
  return std::min(ring, tree);
}

/// A way for one size of groups.
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
        group.step_seconds = std::max(group.step_seconds, speeds[static_cast<std::size_t>(i)].step_seconds);
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
      way_.token_bytes += used[g].n_layers * 2.0 * 2.0 * (group.n - 1) * row_bytes;
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
    std::vector<double> token_seconds = {};  ///< Of each part: the layers, and the head.
  };

  const ClusterNode& node(int i) const { return cluster_.nodes[static_cast<std::size_t>(i)]; }
  const Group& group_of(const ClusterWay::Group& used) const {
    return groups_[static_cast<std::size_t>(used.first_node / way_.group_size)];
  }
  ClusterLink link_between(std::size_t a, std::size_t b) const {
    return slower(group_of(way_.groups[a]).link, group_of(way_.groups[b]).link);
  }
  const ModelWork::Part& part_at(int part) const {
    return part == n_layers_ ? work_.head : work_.layers[static_cast<std::size_t>(part)];
  }

  /// Of a layer, or of the head, which only a row that is wanted meets.
  double part_seconds(const Group& group, int part, StepRows step, bool wanted) const {
    const bool is_head = part == n_layers_;
    if (is_head && !wanted) return 0.0;
    const ModelWork::Part& what = part_at(part);
    const double bytes = is_head ? bytes_of(work_, what, 1.0) : layer_bytes(work_, what, step);
    const double operations = is_head ? operations_of(work_, what) : layer_operations(work_, what, step);
    double seconds = 0.0;
    for (int i = group.first; i < group.first + group.n; ++i)
      seconds = std::max(
          seconds, roofline(bytes / group.n, operations / group.n, speeds_[static_cast<std::size_t>(i)]));
    if (group.n == 1) return seconds;
    if (is_head) return seconds + 2.0 * tree_depth(group.n) * group.link.seconds;
    return seconds + 2.0 * sum_seconds(group.link, group.n, step.rows * 4.0 * work_.width);
  }

  /// The groups' parts where each has at most `limit` seconds for a token; empty if that is impossible.
  /// Taking as much as there is room for leaves the least to those behind.
  std::vector<ClusterWay::Group> fill(double limit) const {
    std::vector<ClusterWay::Group> filled;
    int part = 0;
    for (std::size_t g = 0; g < groups_.size() && part <= n_layers_; ++g) {
      const Group& group = groups_[g];
      double seconds = group.step_seconds, memory = g == 0 ? work_.table_bytes / group.n : 0.0;
      const int first = part;
      for (; part <= n_layers_; ++part) {
        const double more = part_at(part).memory_bytes / group.n;
        const double longer = group.token_seconds[static_cast<std::size_t>(part)];
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
      way_.problem = fmt::format("does not fit: weights and cache are {}",
                                 bytes_text(static_cast<std::uint64_t>(needed)));
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

std::string name_of(const ClusterWay& way, int n_nodes) {
  if (n_nodes == 1) return "one node";
  if (way.group_size == 1) return fmt::format("pipeline of {}", n_nodes);
  if (way.group_size == n_nodes) return fmt::format("tensors over {}", n_nodes);
  return fmt::format("pipeline of {} x {}", (n_nodes + way.group_size - 1) / way.group_size, way.group_size);
}

/// The number of a layer in the name of its tensor, or -1.
int layer_of(std::string_view name) {
  constexpr std::string_view kPrefix = "blk.";
  if (!name.starts_with(kPrefix)) return -1;
  int layer = 0;
  std::size_t i = kPrefix.size();
  for (; i < name.size() && name[i] >= '0' && name[i] <= '9' && layer < 1000000; ++i)
    layer = layer * 10 + (name[i] - '0');
  return i > kPrefix.size() && i < name.size() && name[i] == '.' ? layer : -1;
}

double number_in(const FileInfo& file, const std::string& key) {
  for (const FileInfo::Entry& entry : file.metadata)
    if (entry.key == file.model->architecture + "." + key) return std::strtod(entry.value.c_str(), nullptr);
  return 0.0;
}

}  // namespace

Cluster read_cluster(std::string_view json) {
  const Json description = parse_json(json);
  const Fields all(description, "it", {"nodes", "link", "prompt_tokens", "ubatch_size"});
  constexpr int kMostTokens = 1 << 24;
  Cluster cluster;
  cluster.prompt_tokens = all.count("prompt_tokens", cluster.prompt_tokens, kMostTokens);
  cluster.ubatch_size = all.count("ubatch_size", cluster.ubatch_size, kMostTokens);
  if (!all.has("nodes") || !all.at("nodes").is_array() || all.at("nodes").empty())
    refuse("it needs a list 'nodes' with at least one");
  const bool alone = all.at("nodes").size() == 1;
  for (const Json& entry : all.at("nodes")) {
    const Fields fields(entry, fmt::format("entry {} of nodes", cluster.nodes.size() + 1),
                        {"name", "count", "memory_bytes", "bytes_per_second", "flops", "tokens_per_second",
                         "prompt_tokens_per_second", "step_seconds", "link"});
    ClusterNode node = read_node(fields);
    const int count = fields.count("count", 1, kMostNodes);
    if (fields.has("link"))
      node.link = read_link(fields.at("link"), fields.where() + ": link");
    else if (all.has("link"))
      node.link = read_link(all.at("link"), "link");
    else if (!alone || count > 1)
      refuse(fields.where() + " has no link, nor has the whole");
    else
      node.link = {0.0, 1.0};  // That nothing goes over.
    if (fields.has("name") && !fields.at("name").is_string()) refuse(fields.where() + ": name is no text");
    const std::string name = fields.has("name") ? fields.at("name").get<std::string>()
                                                : fmt::format("node{}", cluster.nodes.size());
    if (cluster.nodes.size() + static_cast<std::size_t>(count) > kMostNodes)
      refuse(fmt::format("it has more than {} nodes", kMostNodes));
    for (int i = 0; i < count; ++i) {
      node.name = count > 1 ? fmt::format("{}.{}", name, i) : name;
      cluster.nodes.push_back(node);
    }
  }
  return cluster;
}

ModelWork work_of(const FileInfo& file) {
  if (!file.model) throw Error(ErrorCode::kUnsupported, "no model that weft can run: " + file.problem);
  const ModelInfo& model = *file.model;
  if (model.encoder || model.reads_source)
    throw Error(ErrorCode::kUnsupported,
                "clusters are planned for models that only decode; this one has an encoder");
  ModelWork work;
  work.width = model.n_embd;
  work.n_heads = model.n_heads;
  work.layers.resize(static_cast<std::size_t>(model.n_layers));
  work.n_experts = number_in(file, "expert_count");
  work.used_experts = std::min(number_in(file, "expert_used_count"), work.n_experts);
  bool own_head = false;
  for (const FileInfo::Tensor& tensor : file.tensors) own_head |= tensor.name == "output.weight";
  for (const FileInfo::Tensor& tensor : file.tensors) {
    const int layer = layer_of(tensor.name);
    if (layer >= model.n_layers) continue;  // Of layers that predict further tokens.
    const bool is_table = layer < 0 && tensor.name.find("_embd.weight") != std::string::npos;
    const bool is_head = tensor.name == (own_head ? "output.weight" : "token_embd.weight");
    const auto bytes = static_cast<double>(tensor.bytes);
    if (is_table) work.table_bytes += bytes;
    if (is_table && !is_head) continue;
    ModelWork::Part& part = layer < 0 ? work.head : work.layers[static_cast<std::size_t>(layer)];
    double multiply_adds = tensor.shape.size() < 2 ? 0.0 : 1.0;
    for (const std::int64_t extent : tensor.shape)
      if (multiply_adds > 0.0) multiply_adds *= static_cast<double>(extent);
    const bool experts = work.n_experts > 0.0 && tensor.name.find("_exps.") != std::string::npos;
    (experts ? part.expert_bytes : part.bytes) += bytes;
    (experts ? part.expert_multiply_adds : part.multiply_adds) += multiply_adds;
    part.memory_bytes += bytes;
  }
  if (model.n_layers > 0) {
    work.cache_bytes_per_token = static_cast<double>(file.cache.bytes_per_token) / model.n_layers;
    for (ModelWork::Part& layer : work.layers)
      layer.memory_bytes += static_cast<double>(file.cache.bytes) / model.n_layers;
  }
  if (model.n_heads > 0) {
    double head_size = number_in(file, "attention.key_length");
    if (head_size == 0.0) head_size = static_cast<double>(model.n_embd) / model.n_heads;
    work.attention_multiply_adds = 2.0 * model.n_heads * head_size;  // Scores, and sums of values.
  }
  return work;
}

std::vector<ClusterWay> plan_cluster(const ModelWork& work, const Cluster& cluster) {
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
}

Json to_json(const std::vector<ClusterWay>& ways, const Cluster& cluster) {
  Json json = {{"nodes", cluster.nodes.size()},
               {"prompt_tokens", cluster.prompt_tokens},
               {"ubatch_size", cluster.ubatch_size},
               {"ways", Json::array()}};
  for (const ClusterWay& way : ways) {
    Json entry = {{"name", name_of(way, static_cast<int>(cluster.nodes.size()))},
                  {"group_size", way.group_size}};
    if (!way.problem.empty()) {
      entry["problem"] = way.problem;
    } else {
      entry["token_seconds"] = way.token_seconds;
      entry["tokens_per_second"] = way.tokens_per_second;
      entry["prompt_seconds"] = way.prompt_seconds;
      entry["pipelined_prompt_seconds"] = way.pipelined_prompt_seconds;
      entry["token_bytes"] = way.token_bytes;
      entry["groups"] = Json::array();
      for (const ClusterWay::Group& group : way.groups)
        entry["groups"].push_back(
            {{"first_node", cluster.nodes[static_cast<std::size_t>(group.first_node)].name},
             {"nodes", group.n_nodes},
             {"first_layer", group.first_layer},
             {"layers", group.n_layers},
             {"memory_bytes", group.memory_bytes},
             {"token_seconds", group.token_seconds}});
    }
    json["ways"].push_back(std::move(entry));
  }
  return json;
}

std::string to_report(const std::vector<ClusterWay>& ways, const Cluster& cluster) {
  const int n_nodes = static_cast<int>(cluster.nodes.size());
  std::vector<std::vector<std::string>> rows = {{"split", "nodes used", "ms a token", "tokens/s, one text",
                                                 "texts", "tokens/s, all", "s a prompt", "pipelined",
                                                 "sent a token", "memory of a node"}};
  for (const ClusterWay& way : ways) {
    const std::string name = name_of(way, n_nodes);
    if (!way.problem.empty()) {
      rows.push_back({name, "0", way.problem});
      continue;
    }
    int used = 0;
    double memory = 0.0;
    for (const ClusterWay::Group& group : way.groups) {
      used += group.n_nodes;
      memory = std::max(memory, group.memory_bytes);
    }
    rows.push_back({name, fmt::format("{}", used), fmt::format("{:.2f}", way.token_seconds * 1e3),
                    fmt::format("{:.1f}", 1.0 / way.token_seconds), fmt::format("{}", way.groups.size()),
                    fmt::format("{:.1f}", way.tokens_per_second), fmt::format("{:.3f}", way.prompt_seconds),
                    fmt::format("{:.3f}", way.pipelined_prompt_seconds),
                    bytes_text(static_cast<std::uint64_t>(way.token_bytes)),
                    bytes_text(static_cast<std::uint64_t>(memory))});
  }
  return fmt::format("By formula, for a prompt of {} tokens and a token behind it; nothing was run.\n\n",
                     cluster.prompt_tokens) +
         table_text(rows);
}

}  // namespace weft::cli
