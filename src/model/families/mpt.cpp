// MPT (MosaicML, 2023): ALiBi, or learned positions; Q, K and V may be clamped.
#include "model/blocks.h"
#include "model/family.h"
#include "weft/error.h"

namespace weft::model {
namespace {

void read_mpt(const Metadata& metadata, HParams& h) {
  h.attention->alibi = metadata.get_float("attention.max_alibi_bias", 0.0, 1e3, 0.0f);
  h.attention->qkv_clamp = metadata.get_float("attention.clamp_kqv", 0.0, 1e6, 0.0f);
  h.embedding.learned_positions = h.attention->alibi == 0.0f;
}

ValueId build_mpt(Builder& b) {
  const HParams& h = b.hparams();
  if (!h.embedding.learned_positions && b.has("position_embd.weight"))
    throw Error(
        ErrorCode::kUnsupported,
        "tensor position_embd.weight: weft's \"mpt\" models have ALiBi or learned positions, not both");
  Decoder how;
  how.norm = NormKind::kLayer;
  how.attention.rope = false;
  how.ffn = Ffn::kPlain;
  how.activation = Activation::kGeluErf;
  const ValueId x = embed_tokens(b);
  return decoder(b, h.embedding.learned_positions ? add_learned_positions(b, x) : x, how);
}

}  // namespace

const Family kMpt = {"mpt", read_mpt, build_mpt};

}  // namespace weft::model
