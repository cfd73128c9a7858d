// ModernBERT (arXiv 2412.13663): norms before blocks. Two of three layers see a window of the sequence, with
// their own rope, the third sees all of it.
#include "model/encoder.h"
#include "model/family.h"

namespace weft::model {
namespace {

void read_modern_bert(const Metadata& metadata, HParams& h) {
  h.rope.neox = true;
  constexpr int kPattern = 3;
  read_sliding(metadata, h, kPattern, FullLayer::kFirst);
  const std::string active = metadata.get_string("hidden_activation", "gelu");
  h.ffn.silu = active == "silu" || active == "swish";
  if (!h.ffn.silu && active != "gelu")
    metadata.refuse("hidden_activation", "found \"" + active + "\", expected gelu or silu");
}

ValueId build_modern_bert(Builder& b) {
  const HParams& h = b.hparams();
  Decoder how;
  how.norm = NormKind::kLayer;
  how.first_norm = false;
  how.attention.rope_params = h.rope;
  how.vary = [&](int layer, AttentionBlock& block) {
    if (!h.slides(layer)) return;
    block.window = h.window->size;
    block.rope_params.freq_base = h.window->rope_base;
  };
  how.ffn = Ffn::kFused;
  how.activation = h.ffn.silu ? Activation::kSilu : Activation::kGeluErf;
  return encoder(b, embed_texts(b, how.norm), how, Activation::kGeluErf);
}

}  // namespace

const Family kModernBert = {"modern-bert", read_modern_bert, build_modern_bert, LayerMix::kAttention,
                            FamilyKind::kEncoder};

}  // namespace weft::model
