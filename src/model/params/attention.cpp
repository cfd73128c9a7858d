#include "model/params/attention.h"

#include <algorithm>

#include "base/to_size.h"
#include "model/hparams.h"
#include "weft/error.h"

namespace weft::model {
namespace {

/// attention.head_count.
void read_head_counts(const Metadata& metadata, LayerMix mix, int n_layers, AttentionParams& a) {
  constexpr std::string_view kKey = "attention.head_count";
  if (mix == LayerMix::kSparse) {
    a.n_heads_of = metadata.get_per_layer(kKey, n_layers, 0, kMaxHeads, 0);
  } else {
    const int n = mix == LayerMix::kMixed ? metadata.get_uniform_or_none(kKey, n_layers, kMaxHeads, 0)
                                          : metadata.get_uniform(kKey, n_layers, 1, kMaxHeads, 0);
    a.n_heads_of.assign(to_size(n_layers), n);
  }
  a.n_heads = *std::max_element(a.n_heads_of.begin(), a.n_heads_of.end());
  if (a.n_heads == 0) metadata.refuse(kKey, "missing, expected at least 1");
}

/// attention.head_count_kv, which says as well which layers have attention.
void read_kv_head_counts(const Metadata& metadata, LayerMix mix, int n_layers, AttentionParams& a,
                         std::vector<LayerKind>& kinds) {
  constexpr std::string_view kKey = "attention.head_count_kv";
  const bool sparse = mix == LayerMix::kSparse;
  const int least = mix == LayerMix::kMixed || sparse ? 0 : 1;
  a.n_kv_heads_of = metadata.get_per_layer(kKey, n_layers, least, kMaxHeads, a.n_heads);
  for (std::size_t layer = 0; layer < a.n_kv_heads_of.size(); ++layer) {
    const int n = a.n_kv_heads_of[layer], n_heads = a.n_heads_of[layer];
    const LayerKind without = sparse ? LayerKind::kNeither : LayerKind::kRecurrent;
    kinds.push_back(n == 0 ? without : LayerKind::kAttention);
    if (n == 0) continue;
    if (mix != LayerMix::kVaried && !sparse && a.n_kv_heads != 0 && a.n_kv_heads != n)
      throw Error(ErrorCode::kUnsupported,
                  metadata.about(kKey, "layers of different sizes are not supported"));
    if (n_heads == 0 || n_heads % n != 0)
      metadata.refuse(kKey, "found " + std::to_string(n) + ", expected a divisor of the head count " +
                                std::to_string(n_heads));
    a.n_kv_heads = std::max(a.n_kv_heads, n);
  }
  if (a.n_kv_heads == 0) metadata.refuse(kKey, "found no layer with attention, expected one at least");
}

}  // namespace

AttentionParams read_heads(const Metadata& metadata, LayerMix mix, int n_layers, int n_embd,
                           std::vector<LayerKind>& kinds) {
  AttentionParams a;
  read_head_counts(metadata, mix, n_layers, a);
  read_kv_head_counts(metadata, mix, n_layers, a, kinds);
  a.k_head_dim = metadata.get_int("attention.key_length", 1, kMaxHeadDim, 0);
  if (a.k_head_dim == 0) a.k_head_dim = head_dim_of_width(metadata, n_embd, a.n_heads);
  a.v_head_dim = metadata.get_int("attention.value_length", 1, kMaxHeadDim, a.k_head_dim);
  return a;
}

int head_dim_of_width(const Metadata& metadata, int n_embd, int n_heads) {
  if (n_embd % n_heads != 0 || n_embd / n_heads > kMaxHeadDim)
    metadata.refuse("attention.head_count", "found " + std::to_string(n_heads) +
                                                ", expected a divisor of the embedding length " +
                                                std::to_string(n_embd));
  return n_embd / n_heads;
}

std::optional<WindowParams> read_window(const Metadata& metadata, int otherwise) {
  WindowParams window;
  window.size = metadata.get_int("attention.sliding_window", 0, kMaxContext, otherwise);
  window.rope_base = metadata.get_float("rope.freq_base_swa", 1.001, 1e12, 10000.0f);
  return window.size > 0 ? std::optional(window) : std::nullopt;
}

WindowParams& require_window(const Metadata& metadata, HParams& h) {
  if (!h.window) metadata.refuse("attention.sliding_window", "missing or 0, expected at least 1");
  return *h.window;
}

void read_sliding(const Metadata& metadata, HParams& h, int n, FullLayer full) {
  constexpr std::string_view kKey = "attention.sliding_window_pattern";
  std::vector<bool> sliding;
  if (const auto listed = metadata.get_bools(kKey, h.n_layers)) {
    sliding = *listed;
  } else {
    n = metadata.get_int(kKey, 1, kMaxLayers, n);
    const int seen = full == FullLayer::kFirst ? 0 : n - 1;
    for (int layer = 0; layer < h.n_layers; ++layer) sliding.push_back(layer % n != seen);
  }
  if (h.window) h.window->sliding = std::move(sliding);
}

void read_layers_with_kv(const Metadata& metadata, HParams& h) {
  constexpr std::string_view kKey = "attention.shared_kv_layers";
  const int n = h.n_layers - metadata.get_int(kKey, 0, h.n_layers - 1, 0);
  h.attention->n_layers_with_kv = n;
  for (int layer = n; layer < h.n_layers; ++layer)
    if (kv_layer_of(h, layer) < 0)
      metadata.refuse(kKey, "layer " + std::to_string(layer) + " has no earlier layer of its kind with keys");
}

int kv_layer_of(const HParams& h, int layer) {
  int found = h.attention->n_layers_with_kv - 1;
  while (found >= 0 && h.slides(found) != h.slides(layer)) --found;
  return found;
}

void read_recurrent_layers(const Metadata& metadata, HParams& h) {
  constexpr std::string_view kKey = "attention.recurrent_layers";
  const std::optional<std::vector<bool>> listed = metadata.get_bools(kKey, h.n_layers);
  const int interval = metadata.get_int("full_attention_interval", 1, kMaxLayers, 4);
  for (int layer = 0; layer < h.n_layers; ++layer) {
    const auto i = to_size(layer);
    const bool recurrent = listed ? (*listed)[i] : (layer + 1) % interval != 0;
    h.layers[i] = recurrent ? LayerKind::kRecurrent : LayerKind::kAttention;
  }
}

}  // namespace weft::model
