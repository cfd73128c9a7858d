// Nomic's BERT (arXiv 2402.01613): rope in place of learned positions, a gated feed-forward part. Its second
// version (arXiv 2502.07972): every few layers experts, in place of a plain one.
#include "model/encoder.h"
#include "model/family.h"

namespace weft::model {
namespace {

void read_nomic_bert(const Metadata&, HParams& h) { h.rope.neox = true; }

void read_nomic_bert_moe(const Metadata& metadata, HParams& h) {
  read_nomic_bert(metadata, h);
  ExpertParams& experts = require_experts(metadata, h);
  experts.normalise = false;
  experts.step = metadata.require_int("moe_every_n_layers", 2, kMaxLayers);
}

Decoder shape_of(const Builder& b) {
  Decoder how;
  how.norm = NormKind::kLayer;
  how.norms_before = false;
  how.norms_of_sums = true;
  how.attention.rope_params = b.hparams().rope;
  return how;
}

ValueId build_nomic_bert(Builder& b) {
  const Decoder how = shape_of(b);
  return encoder(b, embed_texts(b, how.norm), how);
}

ValueId build_moe(Builder& b) {
  Decoder how = shape_of(b);
  how.own_ffn = [&b](int layer, ValueId x) {
    const bool has_experts = layer % b.hparams().experts->step == 1;
    return has_experts ? plain_expert_ffn(b, layer, x, Activation::kGeluErf)
                       : plain_ffn(b, layer, x, Activation::kGeluErf);
  };
  return encoder(b, embed_texts(b, how.norm), how);
}

}  // namespace

const Family kNomicBert = {"nomic-bert", read_nomic_bert, build_nomic_bert, LayerMix::kAttention,
                           FamilyKind::kEncoder};
const Family kNomicBertMoe = {"nomic-bert-moe", read_nomic_bert_moe, build_moe, LayerMix::kAttention,
                              FamilyKind::kEncoder};

}  // namespace weft::model
