// Qwen (arXiv 2309.16609), Qwen2 and Qwen2.5 (arXiv 2407.10671): biases on Q, K and V; rope in halves.
// Qwen1.5-MoE and Qwen2-57B have experts and one that all rows go through. Pangu Embedded (arXiv 2505.22375):
// the same with a bias after attention.
#include "model/blocks.h"
#include "model/family.h"

namespace weft::model {
namespace {

void read_qwen2(const Metadata&, HParams& h) { h.rope.neox = true; }

void read1(const Metadata& metadata, HParams& h) {
  read_qwen2(metadata, h);
  if (!metadata.has("feed_forward_length")) return;
  if (h.ffn.width % 2 != 0)
    metadata.refuse("feed_forward_length", "found an odd number, expected an even one");
  h.ffn.width /= 2;  // Files give gate and up together.
}

void read_qwen2_moe(const Metadata& metadata, HParams& h) {
  read_qwen2(metadata, h);
  ExpertParams& experts = require_experts(metadata, h);
  experts.normalise = false;
  if (experts.shared_width == 0)
    metadata.refuse("expert_shared_feed_forward_length", "missing or 0, expected at least 1");
}

ValueId build_qwen2(Builder& b) {
  const HParams& h = b.hparams();
  Decoder how;
  how.attention.rope_params = h.rope;
  return decoder(b, embed_tokens(b), how);
}

}  // namespace

const Family kPanguEmbedded = {"pangu-embedded", read_qwen2, build_qwen2};
const Family kQwen = {"qwen", read1, build_qwen2};
const Family kQwen2 = {"qwen2", read_qwen2, build_qwen2};
const Family kQwen2Moe = {"qwen2moe", read_qwen2_moe, build_qwen2};

}  // namespace weft::model
