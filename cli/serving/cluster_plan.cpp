#include "serving/cluster_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <set>

#include "base/to_size.h"
#include "files/json_input.h"
#include "terminal/text_format.h"
#include "weft/error.h"

namespace weft::cli {
namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorCode::kInvalidFile, "the cluster's description: " + what);
}

/// Far above the figures of any machine, and small enough that results stay finite.
constexpr double kLargest = 1e30;

/// An object of the description, with its place in it for messages.
class Fields {
 public:
  Fields(const Json& json, std::string where, const std::set<std::string>& known)
      : json_(json), where_(std::move(where)) {
    if (!json.is_object()) refuse(where_ + " is not an object");
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
    if (!value.is_number() || !(value.get<double>() >= 0.0 && value.get<double>() <= kLargest))
      refuse(
          fmt::format("{}: {} is {}; expected a number from 0 to {:g}", where_, key, value.dump(), kLargest));
    return value.get<double>();
  }
  double positive(const char* key) const {
    if (!has(key)) refuse(fmt::format("{} lacks {}", where_, key));
    const double value = number(key, 0.0);
    if (value < 1.0 / kLargest) refuse(fmt::format("{}: {} is {:g}; expected more", where_, key, value));
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

std::string name_of(const ClusterWay& way, int n_nodes) {
  if (n_nodes == 1) return "one node";
  if (way.group_size == 1) return fmt::format("pipeline of {}", n_nodes);
  if (way.group_size == n_nodes) return fmt::format("tensors over {}", n_nodes);
  return fmt::format("pipeline of {} x {}", (n_nodes + way.group_size - 1) / way.group_size, way.group_size);
}

}  // namespace

Cluster read_cluster(std::string_view json) {
  const Json description = parse_json(json);
  const Fields all(description, "it", {"nodes", "link", "prompt_tokens", "ubatch_size"});
  constexpr int kMostTokens = 1 << 24;
  Cluster cluster;
  cluster.prompt_tokens = all.count("prompt_tokens", cluster.prompt_tokens, kMostTokens);
  cluster.ubatch_size = all.count("ubatch_size", cluster.ubatch_size, kMostTokens);
  if (cluster.prompt_tokens / cluster.ubatch_size > kMostPromptSteps)
    refuse(fmt::format("ubatch_size is {}, so the prompt has more than {} steps", cluster.ubatch_size,
                       kMostPromptSteps));
  if (!all.has("nodes") || !all.at("nodes").is_array() || all.at("nodes").empty())
    refuse("expected a list 'nodes' with at least one node");
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
      refuse(fields.where() + " has no link, and there is no common link");
    else
      node.link = {0.0, 1.0};  // Unused: a single node sends nothing.
    if (fields.has("name") && !fields.at("name").is_string())
      refuse(fields.where() + ": name is not a string");
    const std::string name = fields.has("name") ? fields.at("name").get<std::string>()
                                                : fmt::format("node{}", cluster.nodes.size());
    if (cluster.nodes.size() + to_size(count) > kMostNodes)
      refuse(fmt::format("it has more than {} nodes", kMostNodes));
    for (int i = 0; i < count; ++i) {
      node.name = count > 1 ? fmt::format("{}.{}", name, i) : name;
      cluster.nodes.push_back(node);
    }
  }
  return cluster;
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
        entry["groups"].push_back({{"first_node", cluster.nodes[to_size(group.first_node)].name},
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
  return fmt::format(
             "Estimated by formula for a prompt of {} tokens and one generated token; nothing was run.\n\n",
             cluster.prompt_tokens) +
         table_text(rows);
}

}  // namespace weft::cli
