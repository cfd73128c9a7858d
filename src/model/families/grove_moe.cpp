// GroveMoE (arXiv 2508.07785): Qwen3's attention and experts. Experts of a group share a small expert, which
// is added with the weight of each chosen one.
#include "model/blocks.h"
#include "model/family.h"

namespace weft::model {
namespace {

void read_grove_moe(const Metadata& metadata, HParams& h) {
  h.rope.neox = true;
  ExpertParams& experts = require_experts(metadata, h);
  ExpertChunks& chunks = experts.chunks.emplace();
  chunks.n_experts = metadata.require_int("experts_per_group", 1, experts.n);
  if (experts.n % chunks.n_experts != 0)
    metadata.refuse("experts_per_group", "found " + std::to_string(chunks.n_experts) +
                                             ", expected a divisor of " + std::to_string(experts.n) +
                                             " experts");
  chunks.width =
      metadata.get_int("expert_chunk_feed_forward_length", 1, kMaxFfWidth, h.attention->k_head_dim);
  chunks.scale = metadata.require_float("expert_group_scale", 0.0, kMaxFactor);
}

ValueId build_grove_moe(Builder& b) {
  const HParams& h = b.hparams();
  Decoder how;
  how.attention.rope_params = h.rope;
  how.attention.qk_norm = QkNorm::kHeads;
  how.own_ffn = [&](int layer, ValueId x) {
    const auto name = [&](const char* part) { return layer_name(layer, part); };
    const Glu glu = plain_glu(b, Activation::kSilu);
    const ChosenExperts chosen = choose_experts(b, layer, x);
    const ValueId large = chosen_experts(b, layer, x, chosen, glu);
    const ExpertChunks& chunks = *h.experts->chunks;
    const ValueId ids =
        b.add(ops::IntBinary{IntKind::kFloorDivide, chunks.n_experts}, {chosen.ids}, name("chunks"));
    const ExpertStack stack{"chexps", h.experts->n / chunks.n_experts, chunks.width};
    const ValueId small = chosen_experts(b, layer, x, {ids, chosen.weights}, glu, stack);
    return add(b, large, b.add(ops::Scale{chunks.scale}, {small}, name("chunks_scaled")), name("ffn_sum"));
  };
  return decoder(b, embed_tokens(b), how);
}

}  // namespace

const Family kGroveMoe = {"grovemoe", read_grove_moe, build_grove_moe};

}  // namespace weft::model
