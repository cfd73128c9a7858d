#include "model/params/experts.h"

#include <algorithm>

#include "model/hparams.h"

namespace weft::model {
namespace {

/// width and width_of. `width`: in files without a key.
void read_expert_widths(const Metadata& metadata, int n_layers, int width, std::vector<std::string>& notes,
                        ExpertParams& e) {
  constexpr std::string_view kKey = "expert_feed_forward_length";
  e.width_of = metadata.has(kKey) || metadata.has("feed_forward_length")
                   ? metadata.get_per_layer(kKey, n_layers, 0, kMaxFfWidth, width)
                   : widths_of_tensors(metadata, kKey, "ffn_down_exps.weight", n_layers, notes);
  e.width = most_of(e.width_of);
}

}  // namespace

std::optional<ExpertParams> read_experts(const Metadata& metadata, int n_layers, int width,
                                         std::vector<std::string>& notes) {
  constexpr std::string_view kUsed = "expert_used_count";
  ExpertParams e;
  e.n = metadata.get_int("expert_count", 0, kMaxExperts, 0);
  if (e.n == 0) {
    if (const int used = metadata.get_int(kUsed, 0, kMaxExperts, 0); used != 0)
      notes.push_back(metadata.about(
          kUsed, "found " + std::to_string(used) + ", but expert_count is 0; there are no experts"));
    return std::nullopt;
  }
  e.n_used_of = metadata.get_per_layer(kUsed, n_layers, 0, e.n, 0);
  e.n_used = most_of(e.n_used_of);
  if (e.n_used == 0) metadata.refuse(kUsed, "missing or 0, expected at least 1");
  read_expert_widths(metadata, n_layers, width, notes, e);
  e.shared_width = metadata.get_int("expert_shared_feed_forward_length", 0, kMaxFfWidth, 0);
  return e;
}

ExpertParams& require_experts(const Metadata& metadata, HParams& h) {
  if (!h.experts) metadata.refuse("expert_count", "missing or 0, expected at least 1");
  return *h.experts;
}

float read_expert_scale(const Metadata& metadata) {
  const float scale = metadata.get_float("expert_weights_scale", 0.0, kMaxFactor, 1.0f);
  return scale == 0.0f ? 1.0f : scale;
}

ExpertParams& read_router(const Metadata& metadata, HParams& h, const RouterDefaults& usual) {
  ExpertParams& e = require_experts(metadata, h);
  e.normalise = usual.normalise;
  // 1: softmax, 2: sigmoid; 0 where files leave it to the family.
  const int function = metadata.get_int("expert_gating_func", 0, 2, 0);
  e.sigmoid = function == 0 ? usual.sigmoid : function == 2;
  e.scale = read_expert_scale(metadata);
  e.n_dense_layers = metadata.get_int("leading_dense_block_count", 0, h.n_layers, 0);
  if (e.shared_width == 0) {
    const std::int64_t wide =
        std::int64_t{e.width} * metadata.get_int("expert_shared_count", 0, kMaxExperts, 0);
    if (wide > kMaxFfWidth) metadata.refuse("expert_shared_count", "the shared experts are too wide");
    e.shared_width = static_cast<int>(wide);
  }
  // Files have 0 without groups.
  e.n_groups = std::max(1, metadata.get_int("expert_group_count", 0, e.n, 1));
  e.n_groups_used = metadata.get_int("expert_group_used_count", 0, e.n_groups, 0);
  if (e.n_groups_used == 0) e.n_groups_used = e.n_groups;
  const int per_group = e.n / e.n_groups;
  if (e.n % e.n_groups != 0 || per_group * e.n_groups_used < e.n_used)
    metadata.refuse("expert_group_count", "found " + std::to_string(e.n_groups) + " for " +
                                              std::to_string(e.n) + " experts, of which " +
                                              std::to_string(e.n_used) + " are used");
  return e;
}

}  // namespace weft::model
