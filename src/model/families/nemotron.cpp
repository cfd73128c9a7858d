// Nemotron 3 and 4 (arXiv 2402.16819): squared ReLUs, rope on a part of each head. Files store norm weights
// with their 1 added.
#include "model/blocks.h"
#include "model/family.h"

namespace weft::model {
namespace {

void read_nemotron(const Metadata&, HParams& h) { h.rope.neox = true; }

ValueId build_nemotron(Builder& b) {
  Decoder how;
  how.attention.rope_params = b.hparams().rope;
  how.norm = NormKind::kLayer;
  how.ffn = Ffn::kPlain;
  how.activation = Activation::kReluSquared;
  return decoder(b, embed_tokens(b), how);
}

}  // namespace

const Family kNemotron = {"nemotron", read_nemotron, build_nemotron};

}  // namespace weft::model
