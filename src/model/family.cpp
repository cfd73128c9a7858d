#include "model/family.h"

#include <array>

#include "weft/error.h"

namespace weft::model {

std::span<const Family> families() {
  static const std::array kFamilies = {
      kDeepseek2,    kDots1,      kHunyuanMoe,  kLfm2Moe,      kMiniMaxM2,     kGlm4Moe,
      kGptOss,       kArcee,      kCohere2,     kCommandR,     kErnie45,       kExaone4,
      kFalcon,       kGemma,      kGemma2,      kGemma3,       kGlm4,          kGpt2,
      kGptNeox,      kGranite,    kGraniteMoe,  kHunyuanDense, kInternLm2,     kLfm2,
      kLlama,        kMamba,      kMamba2,      kNemotron,     kOlmo,          kOlmo2,
      kOlmoe,        kPhi2,       kPhi3,        kQwen2,        kQwen2Moe,      kQwen3,
      kQwen3Moe,     kSeedOss,    kSmolLm3,     kStableLm,     kStarCoder2,    kAfMoe,
      kApertus,      kBailingMoe, kBailingMoe2, kBitNet,       kBitNet158,     kChatGlm,
      kCodeShell,    kDbrx,       kErnie45Moe,  kExaone,       kGptJ,          kJais2,
      kMiniCpm,      kMiniCpm3,   kMistral3,    kOrion,        kPhiMoe,        kQwen,
      kStarCoder,    kXverse,     kBert,        kNomicBert,    kModernBert,    kGemmaEmbedding,
      kQwen3Next,    kQwen35,     kQwen35Moe,   kJamba,        kGraniteHybrid, kNemotronH,
      kNemotronHMoe, kFalconH1,   kKimiLinear,  kBaichuan,     kBloom,         kGemma3n,
      kLlama4,       kMpt,        kRefact,      kGemma4};
  return kFamilies;
}

ModelDescription describe(const gguf::File& file) {
  const std::optional<std::string_view> architecture = file.get_string("general.architecture");
  if (!architecture) throw Error(ErrorCode::kInvalidFile, "metadata key general.architecture is missing");
  for (const Family& family : families()) {
    if (family.architecture != *architecture) continue;
    const Metadata metadata(file, std::string(*architecture));
    ModelDescription description{read_hparams(file, metadata, family.layers), &family, {}};
    description.hparams.encoder = family.kind == FamilyKind::kEncoder;
    read_pooling(metadata, description.hparams);
    family.read(metadata, description.hparams);
    return description;
  }
  std::string known;
  for (const Family& family : families())
    known += (known.empty() ? "" : ", ") + std::string(family.architecture);
  throw Error(ErrorCode::kUnsupported, "the architecture \"" + std::string(architecture->substr(0, 64)) +
                                           "\" is not supported; known are " + known);
}

ModelGraph build_graph(const gguf::File& file, const ModelDescription& description, const GraphSizes& sizes) {
  Builder builder(file, description.hparams, description.additions, sizes);
  const ValueId logits = description.family->build(builder);
  return builder.finish(logits);
}

}  // namespace weft::model
