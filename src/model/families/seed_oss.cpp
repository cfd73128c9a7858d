// Seed-OSS (ByteDance, 2025): biases on Q, K and V. Files name the norm of the feed-forward part like a norm
// after attention.
#include "model/blocks.h"
#include "model/family.h"

namespace weft::model {
namespace {

void read_seed_oss(const Metadata&, HParams& h) { h.rope.neox = true; }

ValueId build_seed_oss(Builder& b) {
  Decoder how;
  how.attention.rope_params = b.hparams().rope;
  how.ffn_norm = "post_attention_norm";
  return decoder(b, embed_tokens(b), how);
}

}  // namespace

const Family kSeedOss = {"seed_oss", read_seed_oss, build_seed_oss};

}  // namespace weft::model
