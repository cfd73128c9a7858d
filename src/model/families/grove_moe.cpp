// GroveMoE (arXiv 2508.07785): Qwen3's attention and experts. Experts of a group share a small expert, which
// is added with the weight of each chosen one.
#include "model/blocks.h"
#include "model/family.h"

namespace weft::model {
namespace {

void read(const Metadata& metadata, HParams& h) {
  h.rope.neox = true;
  require_experts(metadata, h);
  h.n_of_chunk = metadata.require_int("experts_per_group", 1, h.n_experts);
  if (h.n_experts % h.n_of_chunk != 0)
    metadata.refuse("experts_per_group", "found " + std::to_string(h.n_of_chunk) +
                                             ", expected a divisor of " + std::to_string(h.n_experts) +
                                             " experts");
  h.n_ff_chunk = metadata.get_int("expert_chunk_feed_forward_length", 1, kMaxFfWidth, h.k_head_dim);
  h.chunk_scale = metadata.require_float("expert_group_scale", 0.0, kMaxFactor);
}

ValueId build(Builder& b) {
  const HParams& h = b.hparams();
  Decoder how;
  how.attention.rope_params = h.rope;
  how.attention.qk_norm = QkNorm::kHeads;
  how.own_ffn = [&](int layer, ValueId x) {
    const auto name = [&](const char* part) { return layer_name(layer, part); };
    const Glu glu = plain_glu(b, Activation::kSilu);
    const ChosenExperts chosen = choose_experts(b, layer, x);
    const ValueId large = chosen_experts(b, layer, x, chosen, glu);
    ChosenExperts chunks = chosen;
    chunks.ids = b.add(ops::IntBinary{IntKind::kFloorDivide, h.n_of_chunk}, {chosen.ids}, name("chunks"));
    const ExpertStack stack{"chexps", h.n_experts / h.n_of_chunk, h.n_ff_chunk};
    const ValueId small = chosen_experts(b, layer, x, chunks, glu, stack);
    return add(b, large, b.add(ops::Scale{h.chunk_scale}, {small}, name("chunks_scaled")), name("ffn_sum"));
  };
  return decoder(b, embed_tokens(b), how);
}

}  // namespace

const Family kGroveMoe = {"grovemoe", read, build};

}  // namespace weft::model
