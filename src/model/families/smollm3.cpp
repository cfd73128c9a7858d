// SmolLM3 (Hugging Face, 2025): Llama in which every fourth layer has no positions.
#include "model/blocks.h"
#include "model/family.h"

namespace weft::model {
namespace {

constexpr int kNoRopeEvery = 4;

void read_smollm3(const Metadata&, HParams&) {}

ValueId build_smollm3(Builder& b) {
  Decoder how;
  how.attention.rope_params = b.hparams().rope;
  how.vary = [](int layer, AttentionBlock& block) { block.rope = (layer + 1) % kNoRopeEvery != 0; };
  return decoder(b, embed_tokens(b), how);
}

}  // namespace

const Family kSmolLm3 = {"smollm3", read_smollm3, build_smollm3};

}  // namespace weft::model
