#pragma once
// How long a cluster would take for a model's tokens and prompts: worked out from figures of its nodes and
// links, nothing is run.
//
// A node reads R bytes of weights and caches a second, does F operations of products a second (a
// multiplication and an addition are two) and needs s seconds for a step that does nothing. What it computes
// takes by the roofline (Williams, Waterman, Patterson, "Roofline", 2009), summed over layers and the head:
//
//     T(rows) = s + sum of max(bytes / R, rows * operations / F)
//
// Bytes are those of the weights in the file; of experts, those that `rows` tokens are expected to choose
// when each is as likely as the others. A token also reads the keys and values of the texts before it.
// A link takes L + bytes / B; between two nodes the slower of both counts (larger L, smaller B).
//
// Nodes stand in their order in groups of t. Layers are divided over groups (pipeline), matrices over the
// nodes of a group in equal parts (tensor), so t = 1 is a pipeline alone and t = all nodes tensors alone.
//   Between groups cross 4 * width bytes for each row, and one small message goes back with the token.
//   In a group of t nodes each layer has two sums of 4 * width bytes for each row, behind attention and
//   behind the feed-forward part, and the head one small message. A sum of n bytes takes the shorter of a
//   ring, 2 (t-1) (L + n / (t B)), and a tree, 2 ceil(log2 t) (L + n / B) (Thakur, Rabenseifner, Gropp,
//   "Optimization of Collective Communication Operations in MPICH", 2005). Its slowest node decides.
// Layers are divided so that the slowest group is as fast as can be within its memory; groups that are then
// left over have no work.
//
// What is left out: sampling, work that does not shrink with t (norms), links that several messages share,
// and all that keeps a program from its roofline. So figures are a least time, unless a node's speeds are
// those that weft itself reached there (docs/machines.md).
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "json_output.h"
#include "weft/model.h"

namespace weft::cli {

inline constexpr int kMostNodes = 1000;

struct ClusterLink {
  double seconds = 0.0;  ///< Of a message without bytes, one way.
  double bytes_per_second = 0.0;
};

struct ClusterNode {
  std::string name = {};
  double memory_bytes = 0.0;
  /// Either the speeds, or what weft was measured to do there with this model and prompt; the others are 0.
  double bytes_per_second = 0.0, flops = 0.0;
  double tokens_per_second = 0.0, prompt_tokens_per_second = 0.0;
  double step_seconds = 0.0;
  ClusterLink link = {};
};

struct Cluster {
  std::vector<ClusterNode> nodes = {};
  /// Of the prompt; a token is one behind it.
  int prompt_tokens = 512;
  int ubatch_size = 512;  ///< Tokens of a prompt that are computed together.
};

/// Reads a description in JSON: {"nodes": [{"name", "count", "memory_bytes", "bytes_per_second", "flops",
/// "tokens_per_second", "prompt_tokens_per_second", "step_seconds", "link"}, ...], "link": {"seconds",
/// "bytes_per_second"}, "prompt_tokens", "ubatch_size"}. `count` nodes are alike; a node without a link of
/// its own has the common one. Throws Error kInvalidFile that says what is wrong with which node.
Cluster read_cluster(std::string_view json);

/// A model in the terms of the formula: its layers from first to last, and the head.
struct ModelWork {
  struct Part {
    double bytes = 0.0, multiply_adds = 0.0;                ///< Of a row, apart from experts.
    double expert_bytes = 0.0, expert_multiply_adds = 0.0;  ///< Of all experts.
    double memory_bytes = 0.0;                              ///< With its cache.
  };
  std::vector<Part> layers = {};
  Part head = {};
  double table_bytes = 0.0;  ///< Of embeddings, on the first group; a row of them is read.
  double used_experts = 0.0, n_experts = 0.0;
  double cache_bytes_per_token = 0.0;    ///< In each layer.
  double attention_multiply_adds = 0.0;  ///< In each layer, of a row with each token before it.
  int width = 0;                         ///< Of the rows between layers.
  int n_heads = 0;
};

/// Throws Error kUnsupported for files without a model that writes texts.
ModelWork work_of(const FileInfo& file);

/// One way to spread a model.
struct ClusterWay {
  struct Group {
    int first_node = 0, n_nodes = 0;
    int first_layer = 0, n_layers = 0;
    double memory_bytes = 0.0;  ///< Of each of its nodes.
    double token_seconds = 0.0;
  };
  int group_size = 1;
  std::vector<Group> groups = {};  ///< Those that have work.
  std::string problem = {};        ///< Why it is impossible; all else is then empty.
  double token_seconds = 0.0;      ///< Of one text.
  double tokens_per_second = 0.0;  ///< Of as many texts as there are groups: each computes another one's.
  double prompt_seconds = 0.0;     ///< One part of the prompt after another.
  double pipelined_prompt_seconds = 0.0;  ///< Each group computes another part.
  double token_bytes = 0.0;               ///< Over all links, of one token.
};

/// For groups of 1, 2, 4, ... and all nodes, as far as there are heads to divide.
std::vector<ClusterWay> plan_cluster(const ModelWork& work, const Cluster& cluster);

Json to_json(const std::vector<ClusterWay>& ways, const Cluster& cluster);
std::string to_report(const std::vector<ClusterWay>& ways, const Cluster& cluster);

}  // namespace weft::cli
