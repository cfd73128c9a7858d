#pragma once
// Cluster descriptions in files, and reports of weft/cluster.h's estimates, for people and scripts.
#include <string>
#include <string_view>
#include <vector>

#include "files/json_output.h"
#include "weft/cluster.h"

namespace weft::cli {

inline constexpr int kMostNodes = 1000;

/// Reads a description in JSON: {"nodes": [{"name", "count", "memory_bytes", "bytes_per_second", "flops",
/// "tokens_per_second", "prompt_tokens_per_second", "step_seconds", "link"}, ...], "link": {"seconds",
/// "bytes_per_second"}, "prompt_tokens", "ubatch_size"}. `count` is the number of such nodes; a node without
/// a link of its own has the common one. Throws Error kInvalidFile that names the node and its error.
Cluster read_cluster(std::string_view json);

Json to_json(const std::vector<ClusterWay>& ways, const Cluster& cluster);
std::string to_report(const std::vector<ClusterWay>& ways, const Cluster& cluster);

}  // namespace weft::cli
