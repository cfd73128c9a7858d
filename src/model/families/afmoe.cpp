// AFMoE of Arcee (Trinity, 2025): norms before and after each block, gated attention. Three sliding layers
// precede each full one, which uses no positions. Routers are sigmoids, and the first layers are dense.
#include <cmath>

#include "model/blocks.h"
#include "model/family.h"

namespace weft::model {
namespace {

void read_afmoe(const Metadata& metadata, HParams& h) {
  constexpr int kPattern = 4;
  h.rope.neox = true;
  h.embedding.scale = std::sqrt(static_cast<float>(h.n_embd));
  read_router(metadata, h, {.sigmoid = true});
  require_window(metadata, h);
  read_sliding(metadata, h, kPattern);
}

ValueId build_afmoe(Builder& b) {
  const HParams& h = b.hparams();
  Decoder how;
  how.norms_behind = true;
  how.attention.rope_params = h.rope;
  how.attention.qk_norm = QkNorm::kHeads;
  how.vary = [&](int layer, AttentionBlock& block) {
    block.rope = h.slides(layer);
    block.window = h.window_of(layer);
    block.finish = [&b, layer](ValueId x, ValueId attended) {
      const std::string name = layer_name(layer, "attn_gate");
      const ValueId logits = linear(b, x, name, b.model().graph.value(attended).shape.columns());
      const ValueId gate = b.add(ops::Unary{UnaryKind::kSigmoid}, {logits}, name + "_sigmoid");
      return b.add(ops::Mul{}, {attended, gate}, layer_name(layer, "attention_gated"));
    };
  };
  return decoder(b, embed_tokens(b), how);
}

}  // namespace

const Family kAfMoe = {"afmoe", read_afmoe, build_afmoe};

}  // namespace weft::model
