#pragma once
// Predicts the time of a model's tokens and prompts on several machines, from the speeds of machines and
// links, without running anything. The choice between layouts and the planning of clusters use the same
// formula.
//
// A node reads R bytes of weights and caches a second. It does F operations of matrix products a second (a
// multiplication and an addition are two). A step without work takes s seconds. Its time follows the roofline
// (Williams, Waterman, Patterson, "Roofline", 2009), summed over layers and the head:
//
//     T(rows) = s + sum of max(bytes / R, rows * operations / F)
//
// Bytes are the weights in the file. For experts they are the weights of the experts that `rows` tokens are
// expected to choose when all are equally likely. A token also reads the keys and values of its sequence. A
// message takes L + bytes / B; between two nodes the slower of both counts (larger L, smaller B).
//
// Nodes form groups of t, in their order. Layers are divided over groups (pipeline), matrices equally over
// the nodes of a group (tensor). So t = 1 is only a pipeline, and t = all nodes only tensors.
//   4 * width bytes cross between groups for each row, and one small message returns with the token.
//   In a group each node has 1/t of a layer. Queries, keys and values are cut between KV heads, so the
//   largest share is ceil(heads / t) / heads. Uncut parts are the first node's, and the others wait.
//   Values that a node needs whole are gathered, not summed. Let all nodes gather g bytes of a row, and let
//   the first node alone gather c bytes and send h bytes to the others. Its link then carries, both ways at
//   once,
//       in = (t-1)/t (g + c),   out = (t-1) (g/t + h).
//   A row also waits for all messages on the longest path through the layer, one after another. Their number
//   and bytes are counted in the model's graph.
//   The slowest node decides.
// Layers are divided so that the slowest group is as fast as possible within its memory. Groups without
// layers have no work.
//
// The formula leaves out sampling, work that does not shrink with t (norms), and the first node's work for
// each message. It also leaves out links that several messages share, and all that keeps a program from its
// roofline. So times are lower bounds, unless a node's speeds were measured with weft (docs/machines.md).
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "weft/context.h"
#include "weft/device.h"
#include "weft/model.h"

#pragma GCC visibility push(default)

namespace weft {

struct ClusterLink {
  double seconds = 0.0;  ///< Latency of an empty message, one way.
  double bytes_per_second = 0.0;
};

struct ClusterNode {
  std::string name = {};
  double memory_bytes = 0.0;
  /// Either the speeds, or measurements of weft with this model and prompt; the others are 0.
  double bytes_per_second = 0.0, flops = 0.0;
  double tokens_per_second = 0.0, prompt_tokens_per_second = 0.0;
  double step_seconds = 0.0;
  ClusterLink link = {};
};

/// The most steps of a prompt: each is computed for each group and layer.
inline constexpr int kMostPromptSteps = 10'000;

struct Cluster {
  std::vector<ClusterNode> nodes = {};
  /// Of the prompt. The predicted token follows it.
  int prompt_tokens = 512;
  int ubatch_size = 512;  ///< Tokens of a prompt that are computed together.
};

/// A model in the terms of the formula: its layers from first to last, and the head.
struct ModelWork {
  struct Part {
    double bytes = 0.0, multiply_adds = 0.0;                ///< Per row, apart from experts.
    double expert_bytes = 0.0, expert_multiply_adds = 0.0;  ///< Of all experts.
    double memory_bytes = 0.0;                              ///< With its cache.
    // If nodes compute it together:
    double heads_bytes = 0.0, heads_multiply_adds = 0.0;  ///< Part of these that is cut between KV heads ...
    double whole_bytes = 0.0, whole_multiply_adds = 0.0;  ///< ... and the part of the first node alone.
    bool is_cache_whole = false;                          ///< So it attends to the cache.
    double messages = 0.0;                                ///< Sequential messages that a row waits for.
    double gathered_bytes = 0.0;    ///< Bytes of a row made in parts by all nodes and needed by all, ...
    double collected_bytes = 0.0;   ///< ... needed by the first node only, ...
    double handed_out_bytes = 0.0;  ///< ... and made by the first node for the others.
  };
  std::vector<Part> layers = {};
  Part head = {};
  double table_bytes = 0.0;  ///< The embedding table, on the first node; a step reads one row.
  double used_experts = 0.0, n_experts = 0.0;
  double cache_bytes_per_token = 0.0;    ///< In each layer.
  double attention_multiply_adds = 0.0;  ///< In each layer, of a row with each token before it.
  int width = 0;                         ///< Size of the rows between layers.
  int n_heads = 0, n_kv_heads = 0;
};

/// Reads the file's description only. Throws Error kUnsupported for files without a decoder-only model, and
/// errors of inspect().
ModelWork work_of(const std::filesystem::path& path, const ContextParams& context = {});

/// One way to spread a model.
struct ClusterWay {
  struct Group {
    int first_node = 0, n_nodes = 0;
    int first_layer = 0, n_layers = 0;
    double memory_bytes = 0.0;  ///< The most of any of its nodes.
    double token_seconds = 0.0;
  };
  int group_size = 1;
  std::vector<Group> groups = {};         ///< Groups with work.
  std::string problem = {};               ///< Why it is impossible; all else is then empty.
  double token_seconds = 0.0;             ///< Of one sequence.
  double tokens_per_second = 0.0;         ///< With one sequence per group, each at another group.
  double prompt_seconds = 0.0;            ///< One part of the prompt after another.
  double pipelined_prompt_seconds = 0.0;  ///< Each group computes another part.
  double token_bytes = 0.0;               ///< Over all links, of one token.
};

/// For groups of 1, 2, 4, ... and all nodes, as far as there are heads to divide. Throws Error kInvalidFile
/// for a node whose figures contradict each other, and kInvalidArgument where nodes, tokens or speeds are
/// missing, or steps are too many.
std::vector<ClusterWay> plan_cluster(const ModelWork& work, const Cluster& cluster);

/// Whether devices compute each layer together (PlacementParams::split_rows), or layers are divided.
struct SplitChoice {
  bool split_rows = false;
  std::string why = {};  ///< For people, with the times of both; empty where there was nothing to choose.
};

/// The faster split where `params` leave it open. They must name no devices, layers, shares or pins, and at
/// least two CPUs of the same kind, and no other devices, must serve. Layers are computed together if a token
/// of one sequence is then at least a tenth faster, and a prompt no slower. That is computed from the
/// devices' speeds and links (DeviceInfo::speed). They are divided if groups of a batcher are expected
/// (PlacementParams::n_sequences of 8 and more): one group computes the first layers while another is at the
/// later ones. Results are the same either way. Throws as inspect_plan.
SplitChoice choose_split(const std::filesystem::path& path, const ModelParams& params);

}  // namespace weft

#pragma GCC visibility pop
