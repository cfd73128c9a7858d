// Jamba (arXiv 2403.19887): Mamba layers with norms of dt, B and C, and every few of them attention that
// knows no positions; some layers have experts.
#include "model/family.h"
#include "model/mamba_blocks.h"

namespace weft::model {
namespace {

void read_jamba(const Metadata& metadata, HParams& h) {
  h.ssm = read_mamba(metadata);
  if (h.experts) h.experts->normalise = false;
}

ValueId build_jamba(Builder& b) {
  AttentionBlock block;
  block.rope = false;
  Decoder how;
  how.attend = mixed_layers(b, block, [](Builder& builder, int layer, ValueId x, ValueId& residual) {
    return narrow_scan(builder, layer, mamba_scan(builder, layer, x, ScanNorms::kWeighted), residual);
  });
  how.own_ffn = [&](int layer, ValueId x) {
    const bool experts = b.has(layer_name(layer, "ffn_gate_inp.weight")) && b.hparams().experts;
    return experts ? expert_ffn(b, layer, x, how.activation) : gated_ffn(b, layer, x, how.activation);
  };
  return decoder(b, embed_tokens(b), how);
}

}  // namespace

const Family kJamba = {"jamba", read_jamba, build_jamba, LayerMix::kMixed};

}  // namespace weft::model
