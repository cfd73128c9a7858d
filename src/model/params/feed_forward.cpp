#include "model/params/feed_forward.h"

#include <algorithm>

#include "base/counted.h"
#include "base/to_size.h"

namespace weft::model {

int most_of(const std::vector<int>& counts) { return *std::max_element(counts.begin(), counts.end()); }

std::vector<int> widths_of_tensors(const Metadata& metadata, std::string_view key, std::string_view name,
                                   int n_layers, std::vector<std::string>& notes) {
  std::vector<int> widths(to_size(n_layers), 0);
  bool noted = false;
  for (std::size_t layer = 0; layer < widths.size(); ++layer) {
    const std::string own = "blk." + std::to_string(layer) + "." + std::string(name);
    const gguf::TensorInfo* tensor = metadata.find_tensor(own);
    if (tensor == nullptr) tensor = metadata.find_tensor("enc." + own);
    if (tensor == nullptr) continue;
    const std::int64_t columns = tensor->shape.back();
    if (tensor->shape.size() < 2 || columns > kMaxFfWidth)
      metadata.refuse(key, "missing, and the shape of tensor " + tensor->name + " does not give it");
    widths[layer] = static_cast<int>(columns);
    if (noted) continue;
    notes.push_back(metadata.about(key, "missing, tensor " + tensor->name + " has " +
                                            base::counted(columns, "column") + "; weft uses the columns"));
    noted = true;
  }
  return widths;
}

FeedForwardParams read_feed_forward(const Metadata& metadata, LayerMix mix, int n_layers,
                                    std::vector<std::string>& notes) {
  constexpr std::string_view kKey = "feed_forward_length";
  FeedForwardParams f;
  if (!metadata.has(kKey)) {
    f.width_of = widths_of_tensors(metadata, kKey, "ffn_down.weight", n_layers, notes);
    if (most_of(f.width_of) == 0)
      f.width_of = widths_of_tensors(metadata, kKey, "channel_mix_value.weight", n_layers, notes);  // RWKV
    f.width = most_of(f.width_of);
    return f;
  }
  f.width_of = metadata.get_per_layer(kKey, n_layers, 0, kMaxFfWidth, 0);
  const bool has_experts = metadata.get_int("expert_count", 0, kMaxExperts, 0) > 0;
  if (mix == LayerMix::kVaried || mix == LayerMix::kSparse || (mix == LayerMix::kMixed && has_experts))
    f.width = most_of(f.width_of);
  else if (mix == LayerMix::kMixed)
    f.width = metadata.get_uniform_or_none(kKey, n_layers, kMaxFfWidth, 0);
  else
    f.width = metadata.get_uniform(kKey, n_layers, 0, kMaxFfWidth, 0);
  return f;
}

}  // namespace weft::model
