// Qwen3 (arXiv 2505.09388), dense and with experts: the heads of Q and K are normed. Mellum 2 (JetBrains,
// 2026) has layers with a window and a rope of their own among them.
#include "model/blocks.h"
#include "model/family.h"

namespace weft::model {
namespace {

void read_qwen3(const Metadata&, HParams& h) { h.rope.neox = true; }

void read_qwen3_moe(const Metadata& metadata, HParams& h) {
  read_qwen3(metadata, h);
  require_experts(metadata, h);
}

ValueId build_qwen3(Builder& b) {
  const HParams& h = b.hparams();
  Decoder how;
  how.attention.rope_params = h.rope;
  how.attention.qk_norm = QkNorm::kHeads;
  return decoder(b, embed_tokens(b), how);
}

void read_mellum(const Metadata& metadata, HParams& h) {
  read_qwen3_moe(metadata, h);
  constexpr int kNone = 1;  // Files list them.
  read_sliding(metadata, h, kNone);
  if (h.window && !metadata.has("rope.freq_base_swa")) h.window->rope_base = h.rope.freq_base;
}

ValueId build_mellum(Builder& b) {
  const HParams& h = b.hparams();
  Decoder how;
  how.attention.rope_params = h.rope;
  how.attention.qk_norm = QkNorm::kHeads;
  how.vary = [&](int layer, AttentionBlock& block) {
    if (h.slides(layer)) slide_unscaled(h, block);
  };
  return decoder(b, embed_tokens(b), how);
}

}  // namespace

const Family kMellum = {"mellum", read_mellum, build_mellum};
const Family kQwen3 = {"qwen3", read_qwen3, build_qwen3};
const Family kQwen3Moe = {"qwen3moe", read_qwen3_moe, build_qwen3};

}  // namespace weft::model
