// BERT (arXiv 1810.04805) and what shares its shape: MiniLM, BGE, E5, RoBERTa and XLM-RoBERTa, whose files
// leave out the positions that they do not use.
#include "model/encoder.h"
#include "model/family.h"

namespace weft::model {
namespace {

void read_bert(const Metadata&, HParams& h) { h.embedding.learned_positions = true; }

ValueId build_bert(Builder& b) {
  Decoder how;
  how.norm = NormKind::kLayer;
  how.norms_before = false;
  how.norms_of_sums = true;
  how.attention.rope = false;
  how.ffn = Ffn::kPlain;
  how.activation = Activation::kGeluErf;
  return encoder(b, embed_texts(b, how.norm), how);
}

}  // namespace

const Family kBert = {"bert", read_bert, build_bert, LayerMix::kAttention, FamilyKind::kEncoder};

}  // namespace weft::model
