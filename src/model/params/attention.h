#pragma once
// Attention: heads, windows, and the layers that have it.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/metadata.h"

namespace weft::model {

struct HParams;

/// The token mixer of a layer.
enum class LayerKind : std::uint8_t {
  kAttention,
  kRecurrent,  ///< A running state of a fixed size.
  kBoth,
  kNeither,  ///< The layer has only a feed-forward part.
};

/// The kinds of layers of a family. With kMixed, layers whose head_count_kv is 0 are recurrent. With kVaried
/// all have attention, with different n_kv_heads and widths of feed-forward parts. With kSparse n_heads
/// differs as well, and each of the three may be 0.
enum class LayerMix : std::uint8_t { kAttention, kRecurrent, kMixed, kVaried, kSparse };

/// Sharpens the attention of rows at late positions: see temperatures (blocks.h). Families read their keys.
struct TemperatureParams {
  int length = 0;  ///< In positions; describe refuses 0 with a scale other than 0.
  float scale = 0.0f;
};

/// Heads, scores and keys. Present if any layer has attention, over latent rows or not.
struct AttentionParams {
  int n_heads = 0;
  int n_kv_heads = 0;
  int k_head_dim = 0;
  int v_head_dim = 0;
  std::vector<int> n_heads_of;     ///< By layer; n_heads is the most of them.
  std::vector<int> n_kv_heads_of;  ///< The same of n_kv_heads.

  bool rope = true;          ///< Whether attention knows positions, where models differ.
  float scale = 0.0f;        ///< Of scores. 0: 1 / sqrt(k_head_dim)
  float softcap = 0.0f;      ///< Of scores, 0: none
  float alibi = 0.0f;        ///< See ops::Attention.
  float qkv_clamp = 0.0f;    ///< Limit of Q, K and V, 0: none
  float value_scale = 1.0f;  ///< Factor of attention outputs.
  std::optional<TemperatureParams> temperature = {};
  int n_distance_buckets = 0;  ///< For the bias of scores by a key's distance (T5), 0: none
  bool k_may_be_v = false;     ///< In layers without attn_v.
  int n_layers_with_kv = 0;    ///< The first layers have K and V; the others use these. 0: all have them.
};

/// Sliding layers. Present if attention.sliding_window is above 0, or a family has a window of its own.
struct WindowParams {
  int size = 0;               ///< In positions.
  std::vector<bool> sliding;  ///< By layer, where a family has both kinds (read_sliding).
  float rope_base = 0.0f;     ///< Rope's base in sliding layers.
  int head_dim = 0;           ///< Their head size, where families read it (Gemma 4).
  int n_rot = 0;              ///< The part of their heads that rope turns, where families read it.
};

/// The keys "attention.*" of heads. Adds a kind for each layer to `kinds`.
AttentionParams read_heads(const Metadata& metadata, LayerMix mix, int n_layers, int n_embd,
                           std::vector<LayerKind>& kinds);
/// The size of a head where all heads together are as wide as a row. Refuses widths that do not divide.
int head_dim_of_width(const Metadata& metadata, int n_embd, int n_heads);
/// attention.sliding_window, or `otherwise` if the file does not have the key.
std::optional<WindowParams> read_window(const Metadata& metadata, int otherwise = 0);
/// Refuses a model without a window.
WindowParams& require_window(const Metadata& metadata, HParams& hparams);

/// The layer among n that sees the whole sequence.
enum class FullLayer : std::uint8_t { kLast, kFirst };
/// The layers with the window: as in attention.sliding_window_pattern (an array, or n), otherwise all but one
/// in n.
void read_sliding(const Metadata& metadata, HParams& hparams, int n, FullLayer full = FullLayer::kLast);
/// attention.shared_kv_layers: n_layers_with_kv. Refuses layers that find none to share with (kv_layer_of).
void read_layers_with_kv(const Metadata& metadata, HParams& hparams);
/// The last of the first n_layers_with_kv layers that slides as this one does, or does not; -1 if none.
int kv_layer_of(const HParams& hparams, int layer);
/// The recurrent layers: as in attention.recurrent_layers, otherwise all but every
/// full_attention_interval-th.
void read_recurrent_layers(const Metadata& metadata, HParams& hparams);

}  // namespace weft::model
