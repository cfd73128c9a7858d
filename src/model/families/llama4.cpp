// Llama 4 (Meta, 2025): three layers that see a chunk of the sequence precede each full one. The full one
// uses no positions and sharpens its queries at late positions. Routers are sigmoids whose weights multiply
// the experts' input; there is a shared expert. Small ones have no experts.
#include "model/blocks.h"
#include "model/family.h"

namespace weft::model {
namespace {

void read_llama4(const Metadata& metadata, HParams& h) {
  constexpr int kChunk = 8192, kPattern = 4;
  if (h.experts) {
    ExpertParams& e = *h.experts;
    e.step = metadata.require_int("interleave_moe_layer_step", 1, h.n_layers);
    e.shared_width = e.width;
    e.sigmoid = e.weights_before = true;
    e.normalise = false;
  }
  // Files have the key only if attention is not chunked.
  h.window = read_window(metadata, kChunk);
  read_sliding(metadata, h, kPattern);
  TemperatureParams& temperature = h.attention->temperature.emplace();
  temperature.length = metadata.get_int("attention.temperature_length", 1, kMaxContext, kChunk);
  temperature.scale = metadata.get_float("attention.temperature_scale", 0.0, 1e3, 0.1f);
}

ValueId build_llama4(Builder& b) {
  // The larger model is known by its experts: files do not say that it lacks these norms.
  constexpr int kExpertsOfMaverick = 128;
  const HParams& h = b.hparams();
  const bool is_maverick = h.experts && h.experts->n == kExpertsOfMaverick;
  Decoder how;
  how.attention.rope_params = h.rope;
  how.attention.rope_factors = b.optional_weight("rope_freqs.weight", {h.rope.n_rot / 2});
  const ValueId x = embed_tokens(b);
  const ValueId temperature = h.window ? temperatures(b, 1) : kNoValue;
  how.vary = [&](int layer, AttentionBlock& block) {
    block.chunked = h.slides(layer);
    block.window = h.window_of(layer);
    block.rope = block.chunked || !h.window;
    if (!block.rope) block.temperature = temperature;
    if (block.rope && !is_maverick) block.qk_norm = QkNorm::kTurnedPlain;
  };
  return decoder(b, x, how);
}

}  // namespace

const Family kLlama4 = {"llama4", read_llama4, build_llama4};

}  // namespace weft::model
