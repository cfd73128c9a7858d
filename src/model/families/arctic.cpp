// Snowflake Arctic (2024): a small feed-forward part after attention, and experts in parallel to both. The
// experts read the input of attention, with their own norm.
#include "model/blocks.h"
#include "model/family.h"

namespace weft::model {
namespace {

void read_arctic(const Metadata& metadata, HParams& h) {
  require_experts(metadata, h);
  h.ffn.width = h.n_embd;  // The dense part's width.
}

ValueId build_arctic(Builder& b) {
  ValueId layer_input = kNoValue;
  Decoder how;
  how.attend = [&](int layer, ValueId x, ValueId& residual) {
    AttentionBlock block;
    block.rope_params = b.hparams().rope;
    const ValueId out = attention(b, layer, x, block, residual);
    layer_input = residual;
    return out;
  };
  how.own_ffn = [&](int layer, ValueId x) {
    const ValueId dense = gated_ffn(b, layer, x, Activation::kSilu);
    const ValueId normed = norm(b, NormKind::kRms, layer_input, layer_name(layer, "ffn_norm_exps"));
    return add(b, dense, expert_ffn(b, layer, normed, Activation::kSilu), layer_name(layer, "ffn_sum"));
  };
  return decoder(b, embed_tokens(b), how);
}

}  // namespace

const Family kArctic = {"arctic", read_arctic, build_arctic};

}  // namespace weft::model
