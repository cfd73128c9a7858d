// EmbeddingGemma (arXiv 2509.20354): Gemma 3 that reads both ways, its windows to either side.
#include <cmath>

#include "model/encoder.h"
#include "model/family.h"

namespace weft::model {
namespace {

void read_gemma_embedding(const Metadata& metadata, HParams& h) {
  h.rope.neox = true;
  h.embedding.scale = std::sqrt(static_cast<float>(h.n_embd));
  h.attention->scale = metadata.get_float("attention.scale", kMinFactor, kMaxFactor, 0.0f);
  constexpr int kPattern = 6;
  read_sliding(metadata, h, kPattern);
}

ValueId build_gemma_embedding(Builder& b) {
  const HParams& h = b.hparams();
  Decoder how;
  how.attention.rope_params = h.rope;
  how.attention.qk_norm = QkNorm::kHeads;
  how.norms_behind = true;
  how.vary = [&](int layer, AttentionBlock& block) {
    if (h.slides(layer)) slide_unscaled(h, block);
  };
  how.activation = Activation::kGelu;
  return encoder(b, embed_texts(b, how.norm), how);
}

}  // namespace

const Family kGemmaEmbedding = {"gemma-embedding", read_gemma_embedding, build_gemma_embedding,
                                LayerMix::kAttention, FamilyKind::kEncoder};

}  // namespace weft::model
