#pragma once
// How long several machines would take for a model's tokens and prompts: worked out from figures of their
// speed and links, nothing is run. Choosing between layouts and planning clusters go by the same formula.
//
// A node reads R bytes of weights and caches a second, does F operations of products a second (a
// multiplication and an addition are two) and needs s seconds for a step that does nothing. What it computes
// takes by the roofline (Williams, Waterman, Patterson, "Roofline", 2009), summed over layers and the head:
//
//     T(rows) = s + sum of max(bytes / R, rows * operations / F)
//
// Bytes are those of the weights in the file; of experts, those that `rows` tokens are expected to choose
// when each is as likely as the others. A token also reads the keys and values of the texts before it.
// A message takes L + bytes / B; between two nodes the slower of both counts (larger L, smaller B).
//
// Nodes stand in their order in groups of t. Layers are divided over groups (pipeline), matrices over the
// nodes of a group in equal parts (tensor), so t = 1 is a pipeline alone and t = all nodes tensors alone.
//   Between groups cross 4 * width bytes for each row, and one small message goes back with the token.
//   In a group each node has 1/t of a layer, but of queries, keys and values, which are cut between KV heads,
//   the most has ceil(heads / t) / heads; what is not cut is the first node's, and the others wait.
//   What a node needs whole is gathered, not summed: each sends its part to those that need it. Of the bytes
//   of a row that all gather (g), that the first alone gathers (c), and that it hands out (h), its link
//   carries
//       in = (t-1)/t (g + c),   out = (t-1) (g/t + h),
//   at once; and a row waits for so many messages one behind another as there are on the longest way through
//   the layer. How many there are, and of how many bytes, is counted in the model's graph.
//   The slowest node decides.
// Layers are divided so that the slowest group is as fast as can be within its memory; groups that are then
// left over have no work.
//
// What is left out: sampling, work that does not shrink with t (norms), what the first node itself does for
// each of many messages, links that several messages share, and all that keeps a program from its roofline.
// So figures are a least time, unless a node's speeds are those that weft itself reached there
// (docs/machines.md).
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

/// Of a prompt: each is worked out for each group and layer.
inline constexpr int kMostPromptSteps = 10'000;

struct Cluster {
  std::vector<ClusterNode> nodes = {};
  /// Of the prompt; a token is one behind it.
  int prompt_tokens = 512;
  int ubatch_size = 512;  ///< Tokens of a prompt that are computed together.
};

/// A model in the terms of the formula: its layers from first to last, and the head.
struct ModelWork {
  struct Part {
    double bytes = 0.0, multiply_adds = 0.0;                ///< Of a row, apart from experts.
    double expert_bytes = 0.0, expert_multiply_adds = 0.0;  ///< Of all experts.
    double memory_bytes = 0.0;                              ///< With its cache.
    // Where nodes compute it together:
    double heads_bytes = 0.0, heads_multiply_adds = 0.0;  ///< Of those, what is cut between KV heads ...
    double whole_bytes = 0.0, whole_multiply_adds = 0.0;  ///< ... and what the first node does alone.
    bool is_cache_whole = false;                          ///< So it attends to the cache.
    double messages = 0.0;                                ///< That a row waits for one behind another.
    double gathered_bytes = 0.0;    ///< Of a row, that each node makes a part of and all need whole, ...
    double collected_bytes = 0.0;   ///< ... that the first alone needs so, ...
    double handed_out_bytes = 0.0;  ///< ... and that it makes and the others need.
  };
  std::vector<Part> layers = {};
  Part head = {};
  double table_bytes = 0.0;  ///< Of embeddings, on the first node; a row of them is read.
  double used_experts = 0.0, n_experts = 0.0;
  double cache_bytes_per_token = 0.0;    ///< In each layer.
  double attention_multiply_adds = 0.0;  ///< In each layer, of a row with each token before it.
  int width = 0;                         ///< Of the rows between layers.
  int n_heads = 0, n_kv_heads = 0;
};

/// Reads the file's description only. Throws Error kUnsupported for files without a model that writes texts
/// without a source, and what inspect() throws.
ModelWork work_of(const std::filesystem::path& path, const ContextParams& context = {});

/// One way to spread a model.
struct ClusterWay {
  struct Group {
    int first_node = 0, n_nodes = 0;
    int first_layer = 0, n_layers = 0;
    double memory_bytes = 0.0;  ///< Of each of its nodes, at most.
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

/// For groups of 1, 2, 4, ... and all nodes, as far as there are heads to divide. Throws Error kInvalidFile
/// for a node whose figures contradict each other, and kInvalidArgument where nodes, tokens or speeds are
/// missing, or steps are too many.
std::vector<ClusterWay> plan_cluster(const ModelWork& work, const Cluster& cluster);

/// Whether devices compute each layer together (PlacementParams::split_rows), or layers are divided.
struct SplitChoice {
  bool split_rows = false;
  std::string why = {};  ///< For people, with the times of both; empty where there was nothing to choose.
};

/// What is faster where `params` leave it open: they name no devices, layers, shares or pins, and only CPUs
/// would serve, several of the same kind. Layers are computed together where a token of one text is at least
/// a tenth faster so, and a prompt no slower, by the speeds and links that devices say (DeviceInfo::speed);
/// where texts in groups of a batcher are expected (PlacementParams::n_sequences of 8 and more), layers are
/// divided, as one group computes the first of them while the other is at the later ones. Texts are the same
/// either way. Throws as inspect_plan.
SplitChoice choose_split(const std::filesystem::path& path, const ModelParams& params);

}  // namespace weft

#pragma GCC visibility pop
