// OLMo 2 (arXiv 2501.00656) and 3: norms after the blocks and none before; all heads of Q, and of K, are
// normed together. OLMo 3 has three sliding layers to each full one, whose rope alone is scaled.
#include "model/blocks.h"
#include "model/family.h"

namespace weft::model {
namespace {

void read_olmo2(const Metadata& metadata, HParams& h) {
  constexpr int kPattern = 4;
  h.rope.neox = true;
  read_sliding(metadata, h, kPattern);
  if (h.window && !metadata.has("rope.freq_base_swa")) h.window->rope_base = h.rope.freq_base;
}

ValueId build_olmo2(Builder& b) {
  const HParams& h = b.hparams();
  Decoder how;
  how.attention.rope_params = h.rope;
  how.norms_before = false;
  how.norms_behind = true;
  how.attention.qk_norm = QkNorm::kRow;
  how.vary = [&](int layer, AttentionBlock& block) {
    if (h.slides(layer)) slide_unscaled(h, block);
  };
  return decoder(b, embed_tokens(b), how);
}

}  // namespace

const Family kOlmo2 = {"olmo2", read_olmo2, build_olmo2};

}  // namespace weft::model
