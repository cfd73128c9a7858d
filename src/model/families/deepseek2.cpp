// DeepSeek V2 (arXiv 2405.04434), V3 and R1 (arXiv 2412.19437), Kimi K2: attention over latent rows; experts
// are chosen among the best groups. Mistral Large 3 and Mistral 4 (2026) are the same, with sharpened queries
// beyond the original training length.
#include <cmath>

#include "model/family.h"
#include "model/latent_attention.h"

namespace weft::model {
namespace {

void read_deepseek2(const Metadata& metadata, HParams& h) {
  read_router(metadata, h, {.normalise = false});
  read_unused_layers(metadata, h);
  h.latent = read_latent(metadata, h.rope, *h.attention);
  const float scale = metadata.get_float("attention.temperature_scale", 0.0, 1e3, 0.0f);
  const int length = metadata.get_int("attention.temperature_length", 1, kMaxContext, h.rope.n_ctx_orig);
  if (scale != 0.0f) h.attention->temperature = {.length = length, .scale = scale};
  // YaRN's factor is for the scores, not for what turns alone.
  const float stretch = std::log(1.0f / h.rope.freq_scale);
  const float factor =
      1.0f + metadata.get_float("rope.scaling.yarn_log_multiplier", 0.0, 10.0, 0.0f) * stretch;
  h.attention->scale *= factor * factor;
  if (h.rope.ext_factor != 0.0f) h.rope.attn_factor /= 1.0f + 0.1f * stretch;
}

ValueId build_deepseek2(Builder& b) {
  const ValueId x = embed_tokens(b);
  const ValueId temperature = b.hparams().attention->temperature ? temperatures(b, 0) : kNoValue;
  Decoder how;
  how.attend = [&](int layer, ValueId in, ValueId& residual) {
    return latent_attention(b, layer, in, residual, true, temperature);
  };
  return decoder(b, x, how);
}

}  // namespace

const Family kDeepseek2 = {"deepseek2", read_deepseek2, build_deepseek2};
const Family kMistral4 = {"mistral4", read_deepseek2, build_deepseek2};

}  // namespace weft::model
