#pragma once
// Experts and their routers.
#include <optional>
#include <string>
#include <vector>

#include "model/metadata.h"

namespace weft::model {

struct HParams;

/// Small experts that `n_experts` experts share each (GroveMoE).
struct ExpertChunks {
  int n_experts = 0;
  int width = 0;
  float scale = 0.0f;  ///< The factor of its output.
};

/// Present if expert_count is above 0.
struct ExpertParams {
  int n = 0;
  int n_used = 0;              ///< Experts of a row.
  int width = 0;               ///< The width of their feed-forward networks.
  std::vector<int> n_used_of;  ///< By layer; n_used is the most of them. 0: the layer has no experts.
  std::vector<int> width_of;   ///< The same of width.
  int row_width = 0;           ///< The width of experts' inputs and outputs, 0: n_embd
  int shared_width = 0;        ///< The width of the expert of all rows, 0: none
  std::optional<ExpertChunks> chunks = {};

  int n_dense_layers = 0;  ///< The first ones, which have no experts.
  int step = 1;            ///< One layer in `step` has experts: the last of them.

  int n_groups = 1;  ///< Only the experts of some groups, the best ones, are chosen from.
  int n_groups_used = 1;
  bool sigmoid = false;                      ///< Scores of experts are sigmoids, not shares of a softmax.
  bool normalise = true;                     ///< Weights of the chosen ones to sum 1.
  bool weights_before = false;               ///< Weights multiply the inputs of experts, not the outputs.
  float scale = 1.0f;                        ///< The factor of all weights.
  float router_softcap = 0.0f;               ///< Softcap of the router's logits, 0: none
  std::vector<float> limits, shared_limits;  ///< By layer: see clamped_glu (blocks.h). Empty: none
};

/// expert_count and the counts and widths that all families have. `width`: of experts in files without a key.
std::optional<ExpertParams> read_experts(const Metadata& metadata, int n_layers, int width,
                                         std::vector<std::string>& notes);
/// Refuses a model without experts.
ExpertParams& require_experts(const Metadata& metadata, HParams& hparams);

/// The router of a family whose files do not say.
struct RouterDefaults {
  bool sigmoid = false;
  bool normalise = true;
};
/// Reads the keys of routers like DeepSeek's: expert_gating_func, expert_weights_norm, expert_weights_scale,
/// groups, leading_dense_block_count, expert_shared_count. Refuses a model without experts.
ExpertParams& read_router(const Metadata& metadata, HParams& hparams, const RouterDefaults& usual = {});
/// expert_weights_scale, where files have 0 for none.
float read_expert_scale(const Metadata& metadata);

}  // namespace weft::model
