// Falcon-H1 (arXiv 2507.22448): in each layer attention and Mamba-2 read the same input, and both are added.
// The model's many factors are multiplied into the weights of its files.
#include "model/family.h"
#include "model/mamba_blocks.h"

namespace weft::model {
namespace {

void read_falcon_h1(const Metadata& metadata, HParams& h) {
  h.ssm = read_mamba2(metadata);
  h.rope.neox = true;
  h.layers.assign(h.layers.size(), LayerKind::kBoth);
}

ValueId build_falcon_h1(Builder& b) {
  const bool normed = has_in_any_layer(b, "ssm_norm.weight");  // Few are.
  AttentionBlock block;
  block.rope_params = b.hparams().rope;
  Decoder how;
  how.attend = [&](int layer, ValueId x, ValueId& residual) {
    b.enter(Part::kRecurrent, layer);
    ValueId scan = mamba2_scan(b, layer, x, normed);
    b.enter(Part::kAttention, layer);
    const ValueId attended = attention(b, layer, x, block, residual);
    b.enter(Part::kRecurrent, layer);
    // Attention has reduced the residual already.
    if (layer == b.hparams().n_layers - 1)
      scan = b.add(ops::GetRows{}, {scan, b.model().wanted_rows}, "last_scan_outputs");
    const ValueId narrowed = linear(b, scan, layer_name(layer, "ssm_out"), b.hparams().n_embd);
    return add(b, attended, narrowed, layer_name(layer, "mixed"));
  };
  return decoder(b, embed_tokens(b), how);
}

}  // namespace

const Family kFalconH1 = {"falcon-h1", read_falcon_h1, build_falcon_h1};

}  // namespace weft::model
