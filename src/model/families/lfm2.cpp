// LFM2 (Liquid AI, 2025): most layers mix their tokens by a gated short convolution, some by attention; all
// have a gated feed-forward part, or experts.
#include "base/to_size.h"
#include "model/blocks.h"
#include "model/family.h"

namespace weft::model {
namespace {

void read_lfm2(const Metadata& metadata, HParams& h) {
  h.rope.neox = true;
  h.ssm.emplace().conv_taps = read_conv_taps(metadata, "shortconv.l_cache");
}

void read_lfm2_moe(const Metadata& metadata, HParams& h) {
  read_lfm2(metadata, h);
  read_router(metadata, h, {.sigmoid = true});
}

/// out_proj(c * conv(b * x)) with b, c and x from one projection.
ValueId gated_conv(Builder& b, int layer, ValueId x, ValueId& residual) {
  const std::int64_t n = b.hparams().n_embd;
  const std::string in = layer_name(layer, "shortconv.in_proj");
  const ValueId before = linear_rows(b, x, in, 3 * n, 0, n);
  const ValueId after = linear_rows(b, x, in, 3 * n, n, n);
  const ValueId value = linear_rows(b, x, in, 3 * n, 2 * n, n);
  const ValueId gated = b.add(ops::Mul{}, {before, value}, layer_name(layer, "conv_in"));
  const ValueId mixed = short_conv(b, layer, gated, layer_name(layer, "shortconv.conv"));
  const ValueId out = b.add(ops::Mul{}, {after, mixed}, layer_name(layer, "conv_out"));
  return linear(b, wanted_rows(b, layer, out, residual), layer_name(layer, "shortconv.out_proj"), n);
}

ValueId build_lfm2(Builder& b) {
  const HParams& h = b.hparams();
  AttentionBlock block;
  block.qk_norm = QkNorm::kHeads;
  block.rope_params = h.rope;

  ValueId x = embed_tokens(b);
  for (int layer = 0; layer < h.n_layers; ++layer) {
    const bool attends = h.layers[to_size(layer)] == LayerKind::kAttention;
    b.enter(attends ? Part::kAttention : Part::kRecurrent, layer);
    const ValueId normed = norm(b, NormKind::kRms, x, layer_name(layer, "attn_norm"));
    const ValueId mixed = attends ? attention(b, layer, normed, block, x) : gated_conv(b, layer, normed, x);
    x = add(b, x, mixed, layer_name(layer, "after_mixing"));
    b.enter(Part::kFeedForward, layer);
    const ValueId ffn_in = norm(b, NormKind::kRms, x, layer_name(layer, "ffn_norm"));
    const ValueId ffn_out = ffn(b, layer, ffn_in, Ffn::kGated, Activation::kSilu);
    x = b.pass_on(layer, add(b, x, ffn_out, layer_name(layer, "after_ffn")));
  }
  // Files call the output norm as the model's authors do.
  return output_logits(b, NormKind::kRms, x, "token_embd_norm");
}

}  // namespace

const Family kLfm2 = {"lfm2", read_lfm2, build_lfm2, LayerMix::kMixed};
const Family kLfm2Moe = {"lfm2moe", read_lfm2_moe, build_lfm2, LayerMix::kMixed};

}  // namespace weft::model
