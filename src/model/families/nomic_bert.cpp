// Nomic's BERT (arXiv 2402.01613): rope in place of learned positions, a gated feed-forward part.
#include "model/encoder.h"
#include "model/family.h"

namespace weft::model {
namespace {

void read(const Metadata&, HParams& h) { h.rope.neox = true; }

ValueId build(Builder& b) {
  Decoder how;
  how.norm = NormKind::kLayer;
  how.norms_before = false;
  how.norms_of_sums = true;
  how.attention.rope_params = b.hparams().rope;
  return encoder(b, embed_texts(b, how.norm), how);
}

}  // namespace

const Family kNomicBert = {"nomic-bert", read, build, LayerMix::kAttention, FamilyKind::kEncoder};

}  // namespace weft::model
