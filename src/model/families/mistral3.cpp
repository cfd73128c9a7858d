// Ministral 3 (Mistral, 2025) and its vision models: Llama with YaRN, and sharpened queries beyond the
// original training length.
#include <cmath>

#include "model/blocks.h"
#include "model/family.h"

namespace weft::model {
namespace {

void read_mistral3(const Metadata& metadata, HParams& h) {
  const float scale = metadata.get_float("attention.temperature_scale", 0.0, 1e3, 0.0f);
  if (scale != 0.0f) h.attention->temperature = {.length = h.rope.n_ctx_orig, .scale = scale};
  // YaRN's factor for scores is applied to queries and keys, without the part that the key disables.
  const float all = metadata.get_float("rope.scaling.yarn_log_multiplier", 0.0, 10.0, 0.0f);
  if (h.rope.ext_factor != 0.0f && all != 0.0f && !metadata.has("rope.scaling.attn_factor"))
    h.rope.attn_factor = 1.0f / (1.0f + 0.1f * all * std::log(1.0f / h.rope.freq_scale));
}

ValueId build_mistral3(Builder& b) {
  const HParams& h = b.hparams();
  Decoder how;
  how.attention.rope_params = h.rope;
  how.attention.window = h.window_size();
  const ValueId x = embed_tokens(b);
  if (h.attention->temperature) how.attention.temperature = temperatures(b, 0);
  return decoder(b, x, how);
}

}  // namespace

const Family kMistral3 = {"mistral3", read_mistral3, build_mistral3};

}  // namespace weft::model
