// NeoBERT (arXiv 2502.19587): a BERT with norms before blocks, rope and gates.
#include "model/encoder.h"
#include "model/family.h"

namespace weft::model {
namespace {

void read_neo_bert(const Metadata&, HParams&) {}

ValueId build_neo_bert(Builder& b) {
  Decoder how;
  how.attention.rope_params = b.hparams().rope;
  how.ffn = Ffn::kFused;
  return encoder(b, embed_texts(b, how.norm), how);
}

}  // namespace

const Family kNeoBert = {"neo-bert", read_neo_bert, build_neo_bert, LayerMix::kAttention,
                         FamilyKind::kEncoder};

}  // namespace weft::model
