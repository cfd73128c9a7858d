// SmallThinker (arXiv 2507.20984): the router reads the input of attention, before its norm. Experts have
// ReLU; one layer in four sees the whole sequence and uses no positions.
#include "model/blocks.h"
#include "model/family.h"

namespace weft::model {
namespace {

void read_smallthinker(const Metadata& metadata, HParams& h) {
  constexpr int kPattern = 4;
  h.rope.neox = true;
  const bool sigmoid = metadata.get_int("expert_gating_func", 1, 2, 2) == 2;
  require_experts(metadata, h).sigmoid = sigmoid;
  read_sliding(metadata, h, kPattern, FullLayer::kFirst);
}

ValueId build_smallthinker(Builder& b) {
  const HParams& h = b.hparams();
  ValueId layer_input = kNoValue;
  Decoder how;
  how.attend = [&](int layer, ValueId x, ValueId& residual) {
    AttentionBlock block;
    block.rope_params = h.rope;
    block.window = h.window_of(layer);
    block.rope = block.window > 0 || !h.window;
    const ValueId out = attention(b, layer, x, block, residual);
    layer_input = residual;
    return out;
  };
  how.own_ffn = [&](int layer, ValueId x) {
    const ChosenExperts chosen = choose_experts(b, layer, layer_input);
    return chosen_experts(b, layer, x, chosen, plain_glu(b, Activation::kRelu));
  };
  return decoder(b, embed_tokens(b), how);
}

}  // namespace

const Family kSmallThinker = {"smallthinker", read_smallthinker, build_smallthinker};

}  // namespace weft::model
