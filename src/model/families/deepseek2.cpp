// DeepSeek V2 (arXiv 2405.04434), V3 and R1 (arXiv 2412.19437), Kimi K2: attention over latent rows; experts
// are chosen among the best groups.
#include <cmath>

#include "model/family.h"
#include "model/latent_attention.h"

namespace weft::model {
namespace {

void read(const Metadata& metadata, HParams& h) {
  h.normalise_experts = false;  // Where the file does not say.
  read_router(metadata, h);
  read_unused_layers(metadata, h);
  read_latent(metadata, h);
  // YaRN's factor is for the scores, not for what turns alone.
  const float stretch = std::log(1.0f / h.rope.freq_scale);
  const float factor =
      1.0f + metadata.get_float("rope.scaling.yarn_log_multiplier", 0.0, 10.0, 0.0f) * stretch;
  h.attention_scale *= factor * factor;
  if (h.rope.ext_factor != 0.0f) h.rope.attn_factor = 1.0f / (1.0f + 0.1f * stretch);
}

ValueId build(Builder& b) {
  Decoder how;
  how.attend = [&](int layer, ValueId x, ValueId& residual) {
    return latent_attention(b, layer, x, residual, true);
  };
  return decoder(b, embed_tokens(b), how);
}

}  // namespace

const Family kDeepseek2 = {"deepseek2", read, build};

}  // namespace weft::model
