// Embeddings that each layer has of its own.
#include <cmath>

#include "model/blocks.h"

namespace weft::model {

ValueId embed_for_layers(Builder& b, ValueId x) {
  const HParams& h = b.hparams();
  const std::int64_t width = h.embedding.n_per_layer, all = width * h.n_layers;
  const ValueId table = b.weight("per_layer_token_embd.weight", {h.n_vocab, all});
  const ValueId rows = b.add(ops::GetRows{}, {table, b.model().tokens}, "layer_embeddings");
  const ValueId scaled =
      b.add(ops::Scale{std::sqrt(static_cast<float>(width))}, {rows}, "layer_embeddings_scaled");
  ValueId projected = linear(b, x, "per_layer_model_proj", all);
  projected = b.add(ops::Scale{1.0f / std::sqrt(static_cast<float>(h.n_embd))}, {projected},
                    "layer_projections_scaled");
  projected = b.add(ops::Norm{.kind = NormKind::kRms, .eps = h.norm.eps, .group = width},
                    {projected, b.weight("per_layer_proj_norm.weight", {width})}, "layer_projections_normed");
  const ValueId sum = add(b, projected, scaled, "layer_inputs_sum");
  return b.add(ops::Scale{std::sqrt(0.5f)}, {sum}, "layer_inputs");
}

ValueId own_input(Builder& b, int layer, ValueId layer_inputs, ValueId x) {
  const HParams& h = b.hparams();
  const auto name = [&](const char* part) { return layer_name(layer, part); };
  const std::int64_t width = h.embedding.n_per_layer;
  ValueId own = b.add(ops::Slice{.axis = 1, .begin = layer * width, .end = (layer + 1) * width},
                      {layer_inputs}, name("own_input"));
  if (layer == h.n_layers - 1)
    own = b.add(ops::GetRows{}, {own, b.model().wanted_rows}, name("own_input_outputs"));
  const ValueId gate = linear(b, x, name("inp_gate"), width);
  const ValueId gated = b.add(ops::Glu{Activation::kGelu}, {gate, own}, name("own_input_gated"));
  return norm(b, NormKind::kRms, linear(b, gated, name("proj"), h.n_embd), name("post_norm"));
}

}  // namespace weft::model
