// What makes two models the same to a saved state: K and V of one mean the same in the other.
#include <algorithm>
#include <array>

#include "engine/model_impl.h"

namespace weft::engine {
namespace {

constexpr std::size_t kSamples = 8;
constexpr std::size_t kSampleBytes = 64;

void add_text(base::Hasher& hash, std::string_view text) {
  hash.add_value(text.size());
  hash.add(std::as_bytes(std::span(text)));
}

/// Samples from its first byte to its last; all of a small tensor.
void add_samples(base::Hasher& hash, const gguf::File& file, std::span<const std::byte> data) {
  std::array<std::byte, kSamples * kSampleBytes> buffer;
  const auto add = [&](std::span<const std::byte> part) {
    const std::span<std::byte> copy = std::span(buffer).first(part.size());
    file.read(part, copy);
    hash.add(copy);
  };
  if (data.size() <= buffer.size()) return add(data);
  for (std::size_t i = 0; i < kSamples; ++i)
    add(data.subspan((data.size() - kSampleBytes) / (kSamples - 1) * i, kSampleBytes));
}

}  // namespace

base::Hash128 model_fingerprint(const gguf::File& file, const model::ModelDescription& description) {
  const model::HParams& h = description.hparams;
  base::Hasher hash;
  add_text(hash, h.architecture);
  for (const int value : {h.n_layers,       h.n_embd,
                          h.n_vocab,        h.n_ctx_train,
                          h.n_ff,           h.n_heads,
                          h.n_kv_heads,     h.k_head_dim,
                          h.v_head_dim,     h.n_experts,
                          h.n_experts_used, h.n_ff_expert,
                          h.window,         h.learned_positions ? 1 : 0,
                          h.conv_taps,      h.n_ssm_inner,
                          h.n_ssm_state,    h.n_ssm_dt_rank,
                          h.n_ssm_heads,    h.n_ssm_groups})
    hash.add_value(value);
  for (const float value :
       {h.norm_eps, h.rope_base_window, h.attention_softcap, h.logit_softcap, h.alibi, h.temperature_scale})
    hash.add_value(value);
  if (const auto& control = description.additions.control; control != nullptr)
    for (int layer = 0; layer < h.n_layers; ++layer) {
      hash.add_value(control->behind(layer).size());
      hash.add(std::as_bytes(control->behind(layer)));
    }
  hash.add_value(file.tensors().size());
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    add_text(hash, tensor.name);
    hash.add_value(static_cast<std::uint32_t>(tensor.dtype));
    hash.add_value(tensor.shape.size());
    hash.add(std::as_bytes(std::span(tensor.shape)));
    add_samples(hash, file, tensor.data);
  }
  return hash.result();
}

}  // namespace weft::engine
