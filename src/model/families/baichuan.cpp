// Baichuan (arXiv 2309.10305): Llama, whose larger model has ALiBi in place of rope. Refact (2023): that,
// with one KV head.
#include "model/blocks.h"
#include "model/family.h"

namespace weft::model {
namespace {

constexpr float kAlibi = 8.0f;

void read_baichuan(const Metadata&, HParams& h) {
  // Files do not say otherwise which one they are.
  constexpr int kLayersOf13B = 40;
  if (h.n_layers == kLayersOf13B) h.attention->alibi = kAlibi;
}

void read_refact(const Metadata&, HParams& h) { h.attention->alibi = kAlibi; }

ValueId build_baichuan(Builder& b) {
  const HParams& h = b.hparams();
  Decoder how;
  how.attention.rope_params = h.rope;
  how.attention.rope = h.attention->alibi == 0.0f;
  return decoder(b, embed_tokens(b), how);
}

}  // namespace

const Family kBaichuan = {"baichuan", read_baichuan, build_baichuan};
const Family kRefact = {"refact", read_refact, build_baichuan};

}  // namespace weft::model
