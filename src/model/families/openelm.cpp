// OpenELM (arXiv 2404.14619): layers that grow from first to last, in heads and in width; norms of Q's and
// K's heads.
#include <algorithm>
#include <vector>

#include "base/to_size.h"
#include "model/blocks.h"
#include "model/family.h"

namespace weft::model {
namespace {

void read_openelm(const Metadata& metadata, HParams& h) {
  h.rope.neox = true;
  if (h.n_layers_of(LayerKind::kAttention) != h.n_layers)
    metadata.refuse("attention.head_count_kv", "found a layer with 0, expected at least 1");
  if (std::find(h.ffn.width_of.begin(), h.ffn.width_of.end(), 0) != h.ffn.width_of.end())
    metadata.refuse("feed_forward_length", "found a layer with 0, expected at least 1");
}

ValueId build_openelm(Builder& b) {
  const HParams& h = b.hparams();
  const auto of_layer = [](const std::vector<int>& counts, int layer) { return counts[to_size(layer)]; };
  Decoder how;
  how.attention.qk_norm = QkNorm::kHeads;
  how.attention.rope_params = h.rope;
  how.vary = [&](int layer, AttentionBlock& block) {
    block.n_heads = of_layer(h.attention->n_heads_of, layer);
    block.n_kv_heads = of_layer(h.attention->n_kv_heads_of, layer);
  };
  how.own_ffn = [&](int layer, ValueId x) {
    return gated_ffn(b, layer, x, Activation::kSilu, of_layer(h.ffn.width_of, layer));
  };
  return decoder(b, embed_tokens(b), how);
}

}  // namespace

const Family kOpenElm = {"openelm", read_openelm, build_openelm, LayerMix::kSparse};

}  // namespace weft::model
