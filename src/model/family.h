#pragma once
// The families of models that weft runs: one row each, from the name in the file to its hyper-parameters and
// graph.
#include <span>
#include <string_view>

#include "model/builder.h"

namespace weft::model {

enum class FamilyKind : std::uint8_t {
  kDecoder,  ///< Writes text: build gives logits.
  /// Reads texts both ways, all of a text in one step, and keeps nothing of them: no cache. build gives
  /// vectors (see encoder.h).
  kEncoder,
};

struct Family {
  std::string_view architecture;  ///< general.architecture
  /// What the family adds to or changes in the hyper-parameters that all share.
  void (*read)(const Metadata& metadata, HParams& hparams);
  /// The graph; returns the logits, or vectors.
  ValueId (*build)(Builder& b);
  LayerMix layers = LayerMix::kAttention;
  FamilyKind kind = FamilyKind::kDecoder;
};

std::span<const Family> families();

/// A model as its file describes it, checked.
struct ModelDescription {
  HParams hparams;
  const Family* family = nullptr;
  Additions additions = {};
};

/// Throws Error: kInvalidFile with the key or tensor and what was expected, kUnsupported (with the names of
/// known families) for an unknown architecture.
ModelDescription describe(const gguf::File& file);

/// The graph at a context's sizes. Throws Error: kInvalidFile where tensors do not fit the description,
/// kUnsupported where the graph has no place for what is to be added.
ModelGraph build_graph(const gguf::File& file, const ModelDescription& description, const GraphSizes& sizes);

// One row each (families/*.cpp).
extern const Family kDots1, kHunyuanMoe, kLfm2Moe, kMiniMaxM2, kArcee, kCohere2, kCommandR, kDeepseek2,
    kGlm4Moe, kGptOss, kErnie45, kExaone4, kFalcon, kGemma, kGemma2, kGemma3, kGlm4, kGpt2, kGptNeox,
    kGranite, kGraniteMoe, kHunyuanDense, kInternLm2, kLfm2, kLlama, kMamba, kMamba2, kNemotron, kOlmo,
    kOlmo2, kOlmoe, kPhi2, kPhi3, kQwen2, kQwen2Moe, kQwen3, kQwen3Moe, kSeedOss, kSmolLm3, kStableLm,
    kStarCoder2, kBert, kNomicBert, kModernBert, kGemmaEmbedding;
extern const Family kAfMoe, kApertus, kBailingMoe, kBailingMoe2, kBitNet, kBitNet158, kChatGlm, kCodeShell,
    kDbrx, kErnie45Moe, kExaone, kGptJ, kJais2, kMiniCpm, kMiniCpm3, kMistral3, kOrion, kPhiMoe, kQwen,
    kStarCoder, kXverse, kQwen3Next, kQwen35, kQwen35Moe, kJamba, kGraniteHybrid, kNemotronH, kNemotronHMoe,
    kFalconH1, kKimiLinear, kBaichuan, kBloom, kGemma3n, kLlama4, kMpt, kRefact, kGemma4;

}  // namespace weft::model
