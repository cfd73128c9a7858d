#pragma once
// Predicts the speed of a model on several machines, from the speeds of machines and links, without running
// it. The planning of clusters (plan_cluster) and the choice of a split (choose_split) use the same formula.
//
// Time of a step. A node reads R bytes of weights and cache per second. It does F floating-point operations
// of matrix products per second (a multiply-add is two). It needs s seconds for an empty step. Its time for
// `rows` tokens follows the roofline model (Williams, Waterman, Patterson, "Roofline", 2009), summed over its
// layers and the head:
//
//     T(rows) = s + sum of max(bytes / R, rows * operations / F)
//
// `bytes` are the weights in the file's types. Only experts count that `rows` tokens choose on average, if
// all experts are equally likely. A token also reads the keys and values of its sequence.
//
// Time of a message of b bytes: L + b / B, with the link's latency L and bandwidth B. Of two nodes' links the
// worse values count.
//
// Layout. Nodes form groups of t consecutive nodes. Layers are divided among groups (pipeline parallelism),
// and each layer's matrices among the t nodes of its group (tensor parallelism). So t = 1 is pipeline
// parallelism alone, and t = all nodes is tensor parallelism alone.
//   Between groups: each row sends 4 * width bytes, and each token returns with one small message.
//   Within a group: each node computes 1/t of a layer. Queries, keys and values are divided between KV heads,
//   so the largest share is ceil(heads / t) / heads. The first node computes what is not divided, while the
//   others wait.
//   Per row all nodes gather g bytes, the first node alone collects c bytes, and it sends h bytes to the
//   others. The first node's link then carries, in both directions at once,
//       in = (t-1)/t (g + c),   out = (t-1) (g/t + h).
//   A row also waits for the messages on the longest path through the layer, one after another. The model's
//   graph gives their number and bytes.
//   The slowest node of a group counts.
// Layers are divided so that the slowest group is as fast as its memory allows. Groups without layers do
// nothing.
//
// The formula leaves out sampling, work that t does not divide (norms), and the first node's work per
// message. It also leaves out links that messages share, and a program's distance from its roofline. So times
// are lower bounds, unless a node's speeds were measured with weft (docs/machines.md).
//
// Any number of threads may call these functions. The types are plain data.
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
  double seconds = 0.0;  ///< One-way latency of an empty message.
  double bytes_per_second = 0.0;
};

struct ClusterNode {
  std::string name = {};
  double memory_bytes = 0.0;
  /// Set either these speeds, or the tokens per second that weft was measured to reach with this model and
  /// prompt. The others stay 0.
  double bytes_per_second = 0.0, flops = 0.0;
  double tokens_per_second = 0.0, prompt_tokens_per_second = 0.0;
  double step_seconds = 0.0;
  ClusterLink link = {};
};

/// The most steps of a prompt that plan_cluster() accepts, as it computes each for each group and layer.
inline constexpr int kMostPromptSteps = 10'000;

struct Cluster {
  std::vector<ClusterNode> nodes = {};
  /// The length of the prompt. Times of a token are for the next one.
  int prompt_tokens = 512;
  int ubatch_size = 512;  ///< Prompt tokens per step.
};

/// A model's work, in the terms of the formula.
struct ModelWork {
  struct Part {
    /// Bytes of weights, and multiply-adds per row; without experts.
    double bytes = 0.0, multiply_adds = 0.0;
    double expert_bytes = 0.0, expert_multiply_adds = 0.0;  ///< The same of all experts together.
    double memory_bytes = 0.0;                              ///< Memory for its weights and cache.
    // For tensor parallelism:
    /// The part of these that is divided between KV heads.
    double heads_bytes = 0.0, heads_multiply_adds = 0.0;
    double whole_bytes = 0.0, whole_multiply_adds = 0.0;  ///< The part that the first node computes alone.
    bool is_cache_whole = false;    ///< Whether the first node computes all attention to the cache.
    double messages = 0.0;          ///< Messages, one after another, that a row waits for.
    double gathered_bytes = 0.0;    ///< Bytes per row that all nodes gather from each other.
    double collected_bytes = 0.0;   ///< Bytes per row that the first node collects.
    double handed_out_bytes = 0.0;  ///< Bytes per row that the first node sends to the others.
  };
  std::vector<Part> layers = {};
  Part head = {};
  double table_bytes = 0.0;  ///< The embedding table, on the first node; a token reads one row.
  double used_experts = 0.0, n_experts = 0.0;
  double cache_bytes_per_token = 0.0;    ///< In each layer.
  double attention_multiply_adds = 0.0;  ///< In each layer, per row and earlier token.
  int width = 0;                         ///< Elements of a row between layers.
  int n_heads = 0, n_kv_heads = 0;
};

/// The work of a model. Reads only the file's description. Throws Error kUnsupported for models that are not
/// decoder-only, and like inspect().
ModelWork work_of(const std::filesystem::path& path, const ContextParams& context = {});

/// One layout of a model on the nodes, and its predicted speed.
struct ClusterWay {
  struct Group {
    int first_node = 0, n_nodes = 0;
    int first_layer = 0, n_layers = 0;
    double memory_bytes = 0.0;  ///< The memory of its fullest node.
    double token_seconds = 0.0;
  };
  int group_size = 1;
  std::vector<Group> groups = {};  ///< The groups that have layers.
  std::string problem = {};  ///< Why the layout is impossible: all else is then empty. Empty: it is possible.
  double token_seconds = 0.0;      ///< Time of a token of one sequence.
  double tokens_per_second = 0.0;  ///< With one sequence per group, all groups busy.
  double prompt_seconds = 0.0;     ///< Time of the prompt, one step after another.
  /// Time of the prompt if groups compute different steps at the same time.
  double pipelined_prompt_seconds = 0.0;
  double token_bytes = 0.0;  ///< Bytes over all links per token.
};

/// Predicts layouts with groups of 1, 2, 4, ... nodes and one of all nodes, as far as there are heads to
/// divide. Throws Error kInvalidFile for a node whose figures contradict each other. Throws kInvalidArgument
/// if nodes, tokens or speeds are missing, and for more than kMostPromptSteps steps.
std::vector<ClusterWay> plan_cluster(const ModelWork& work, const Cluster& cluster);

/// Tensor parallelism (PlacementParams::split_rows), or layers per device.
struct SplitChoice {
  bool split_rows = false;
  std::string why = {};  ///< The reason for display, with both times. Empty if only one split was possible.
};

/// Chooses the faster split for ModelParams that leave it open: without devices, layers, shares and pins. At
/// least two CPUs of the same kind, and no other devices, must be available. Results are the same either way.
/// - With PlacementParams::n_sequences of 8 or more, layers are divided: groups of requests then keep all
///   devices busy, each at other layers.
/// - Otherwise split_rows is chosen if the token of one sequence is at least a tenth faster and a prompt no
///   slower, by the formula above with DeviceInfo::speed.
/// Throws like inspect_plan().
SplitChoice choose_split(const std::filesystem::path& path, const ModelParams& params);

}  // namespace weft

#pragma GCC visibility pop
