// The language model of Chameleon (arXiv 2405.09818): Llama with layer norms of heads. The larger one has
// norms after blocks and none before. Image tokens are read, and never generated.
#include "model/blocks.h"
#include "model/family.h"

namespace weft::model {
namespace {

/// The places of the image tokens in the vocabulary.
constexpr int kFirstOfImages = 4, kOfImages = 8192;

void read_chameleon(const Metadata& metadata, HParams& h) {
  constexpr float kHeadEps = 1e-5f;
  h.norm.head_eps = kHeadEps;
  h.blocks.norms_behind = metadata.get_bool("swin_norm", false);
  if (h.n_vocab < kFirstOfImages + kOfImages) return;
  h.logits.first_left_out = kFirstOfImages;
  h.logits.n_left_out = kOfImages;
}

ValueId build_chameleon(Builder& b) {
  const HParams& h = b.hparams();
  Decoder how;
  how.attention.qk_norm = QkNorm::kOwnOfHead;
  how.attention.rope_params = h.rope;
  if (h.blocks.norms_behind) {
    const auto normed = [&b](int layer, ValueId x, const char* name) {
      return norm(b, NormKind::kRms, x, layer_name(layer, name));
    };
    how.norms_before = false;
    how.attend = [&b, normed, block = how.attention](int layer, ValueId x, ValueId& residual) {
      return normed(layer, attention(b, layer, x, block, residual), "attn_norm");
    };
    how.own_ffn = [&b, normed](int layer, ValueId x) {
      return normed(layer, gated_ffn(b, layer, x, Activation::kSilu), "ffn_norm");
    };
  }
  return decoder(b, embed_tokens(b), how);
}

}  // namespace

const Family kChameleon = {"chameleon", read_chameleon, build_chameleon};

}  // namespace weft::model
