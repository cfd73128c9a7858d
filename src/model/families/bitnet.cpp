// BitNet b1.58 (arXiv 2402.17764, 2504.12285): weights of three values, and norms within the blocks, before
// their last products.
#include "model/blocks.h"
#include "model/family.h"

namespace weft::model {
namespace {

void read_bitnet(const Metadata&, HParams& h) { h.rope.neox = true; }

ValueId build_bitnet_with(Builder& b, Activation activation) {
  const HParams& h = b.hparams();
  Decoder how;
  how.attention.rope_params = h.rope;
  how.vary = [&](int layer, AttentionBlock& block) {
    block.finish = [&b, layer](ValueId, ValueId attended) {
      return norm(b, NormKind::kRms, attended, layer_name(layer, "attn_sub_norm"));
    };
  };
  how.own_ffn = [&](int layer, ValueId x) {
    const ValueId gate = linear(b, x, layer_name(layer, "ffn_gate"), h.ffn.width);
    const ValueId up = linear(b, x, layer_name(layer, "ffn_up"), h.ffn.width);
    const ValueId product = b.add(ops::Glu{activation}, {gate, up}, layer_name(layer, "ffn_glu"));
    const ValueId normed = norm(b, NormKind::kRms, product, layer_name(layer, "ffn_sub_norm"));
    return linear(b, normed, layer_name(layer, "ffn_down"), h.n_embd);
  };
  return decoder(b, embed_tokens(b), how);
}

ValueId build_bitnet(Builder& b) { return build_bitnet_with(b, Activation::kSilu); }
ValueId build_squared(Builder& b) { return build_bitnet_with(b, Activation::kReluSquared); }

}  // namespace

const Family kBitNet = {"bitnet", read_bitnet, build_bitnet};
const Family kBitNet158 = {"bitnet-b1.58", read_bitnet, build_squared};

}  // namespace weft::model
