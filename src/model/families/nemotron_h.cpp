// Nemotron-H (arXiv 2504.03624) and Nemotron 3: each layer is Mamba-2, attention without positions, or a
// feed-forward part with squared ReLUs, which may have experts. Experts have no gates, and may read and write
// rows narrower than the others.
#include "base/to_size.h"
#include "model/family.h"
#include "model/mamba_blocks.h"

namespace weft::model {
namespace {

void read_nemotron_h(const Metadata& metadata, HParams& h) {
  h.ssm = read_mamba2(metadata);
  // The first of two kinds of layers without keys; the other has a feed-forward part instead.
  for (std::size_t i = 0; i < h.ffn.width_of.size(); ++i)
    if (h.ffn.width_of[i] > 0 || metadata.has_tensor("blk." + std::to_string(i) + ".ffn_down_exps.weight"))
      h.layers[i] = LayerKind::kNeither;
}

void read_nemotron_h_moe(const Metadata& metadata, HParams& h) {
  read_nemotron_h(metadata, h);
  ExpertParams& experts = read_router(metadata, h, {.sigmoid = true});
  read_unused_layers(metadata, h);
  experts.row_width = metadata.get_int("moe_latent_size", 0, kMaxRank, 0);
}

ValueId build_nemotron_h(Builder& b) {
  const HParams& h = b.hparams();
  constexpr Activation kActive = Activation::kReluSquared;
  AttentionBlock block;
  block.rope = false;
  ValueId x = embed_tokens(b);
  for (int layer = 0; layer < h.n_layers; ++layer) {
    const LayerKind kind = h.layers[to_size(layer)];
    const Part part = kind == LayerKind::kAttention   ? Part::kAttention
                      : kind == LayerKind::kRecurrent ? Part::kRecurrent
                                                      : Part::kFeedForward;
    b.enter(part, layer);
    const ValueId normed = norm(b, NormKind::kRms, x, layer_name(layer, "attn_norm"));
    ValueId y = kNoValue;
    if (kind == LayerKind::kAttention) {
      y = attention(b, layer, normed, block, x);
    } else if (kind == LayerKind::kRecurrent) {
      y = narrow_scan(b, layer, mamba2_scan(b, layer, normed), x);
    } else {
      const ValueId rows = wanted_rows(b, layer, normed, x);
      y = h.experts ? plain_expert_ffn(b, layer, rows, kActive) : plain_ffn(b, layer, rows, kActive);
    }
    x = b.pass_on(layer, add(b, x, y, layer_name(layer, "after_mixing")));
  }
  return output_logits(b, NormKind::kRms, x);
}

}  // namespace

const Family kNemotronH = {"nemotron_h", read_nemotron_h, build_nemotron_h, LayerMix::kMixed};
const Family kNemotronHMoe = {"nemotron_h_moe", read_nemotron_h_moe, build_nemotron_h, LayerMix::kMixed};

}  // namespace weft::model
