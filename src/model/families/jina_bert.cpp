// Jina's BERTs: v2 (arXiv 2310.19923) with ALiBi and a gated feed-forward part, which reads one sequence a
// step; v3 (arXiv 2409.10173) with rope.
#include "model/encoder.h"
#include "model/family.h"

namespace weft::model {
namespace {

void read_jina_bert2(const Metadata&, HParams& h) {
  constexpr float kMostBias = 8.0f;
  h.attention->alibi = kMostBias;
  h.encoder->one_text = true;
}

void read_jina_bert3(const Metadata&, HParams& h) { h.rope.neox = true; }

ValueId build_jina_bert_with(Builder& b, bool rope, Ffn ffn) {
  Decoder how;
  how.norm = NormKind::kLayer;
  how.norms_before = false;
  how.norms_of_sums = true;
  how.attention.rope = rope;
  how.attention.rope_params = b.hparams().rope;
  how.ffn = ffn;
  how.activation = Activation::kGeluErf;
  return encoder(b, embed_texts(b, how.norm), how);
}

ValueId build_jina_bert2(Builder& b) {
  // Newer files have the gate and its factor in one matrix, the gate first.
  const bool apart = has_in_any_layer(b, "ffn_gate.weight");
  return build_jina_bert_with(b, false, apart ? Ffn::kGated : Ffn::kFused);
}

ValueId build_jina_bert3(Builder& b) { return build_jina_bert_with(b, true, Ffn::kPlain); }

}  // namespace

const Family kJinaBert2 = {"jina-bert-v2", read_jina_bert2, build_jina_bert2, LayerMix::kAttention,
                           FamilyKind::kEncoder};
const Family kJinaBert3 = {"jina-bert-v3", read_jina_bert3, build_jina_bert3, LayerMix::kAttention,
                           FamilyKind::kEncoder};

}  // namespace weft::model
