// Granite 4 (IBM, 2025): Mamba-2 layers, and every few of them attention, with the factors of Granite 3. The
// feed-forward part is dense, or has experts and a shared expert.
#include "model/family.h"
#include "model/mamba_blocks.h"

namespace weft::model {
namespace {

void read_granite_hybrid(const Metadata& metadata, HParams& h) {
  h.ssm = read_mamba2(metadata);
  read_scales(metadata, h);
  // What says so in files: whether rope was tuned.
  h.attention->rope = metadata.get_bool("rope.scaling.finetuned", true);
}

ValueId build_granite_hybrid(Builder& b) {
  AttentionBlock block;
  block.rope = b.hparams().attention->rope;
  block.rope_params = b.hparams().rope;
  Decoder how;
  how.attend = mixed_layers(b, block, [](Builder& builder, int layer, ValueId x, ValueId& residual) {
    return narrow_scan(builder, layer, mamba2_scan(builder, layer, x), residual);
  });
  return decoder(b, embed_tokens(b), how);
}

}  // namespace

const Family kGraniteHybrid = {"granitehybrid", read_granite_hybrid, build_granite_hybrid, LayerMix::kMixed};

}  // namespace weft::model
