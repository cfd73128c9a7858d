#include "model/family.h"

#include <array>
#include <string>

#include "model/shard.h"
#include "weft/error.h"

namespace weft::model {

namespace {

/// Architectures without a family here, and the reason: their files have no language model, or need more.
struct ForeignModel {
  std::string_view architecture, reason;
};
constexpr std::string_view kDiffusion =
    "is a diffusion model, which fills in all positions over many passes; weft generates token by token";
constexpr std::string_view kDrafter =
    "is a drafter that reads another model's hidden states; run that model without it";
constexpr std::string_view kSparse =
    "selects the positions that each token attends to (sparse attention), which weft does not support";
constexpr ForeignModel kForeignModels[] = {
    {"clip",
     "is an image or audio encoder: load it as a VisionModel or AudioModel (--mmproj of the program), "
     "together with its language model"},
    {"controlvector", "is a control vector: give it as --control-vector, together with its model"},
    {"dream", kDiffusion},
    {"llada", kDiffusion},
    {"llada-moe", kDiffusion},
    {"rnd1", kDiffusion},
    {"diffusion-gemma", kDiffusion},
    {"whisper", "transcribes audio: use weft transcribe, or weft serve with /v1/audio/transcriptions"},
    {"wavtokenizer-dec", "converts tokens to audio, which weft does not support"},
    {"eagle3", kDrafter},
    {"dflash", kDrafter},
    {"gemma4-assistant", kDrafter},
    {"deepseek32", kSparse},
    {"glm-dsa", kSparse},
};

}  // namespace

std::span<const Family> families() {
#define WEFT_FAMILY(row) row,
  static const std::array kFamilies = std::to_array<Family>({
#include "model/families.inc"
  });
#undef WEFT_FAMILY
  return kFamilies;
}

ModelDescription describe(const gguf::File& file) {
  const std::optional<std::string_view> architecture = file.get_string("general.architecture");
  if (!architecture) throw Error(ErrorCode::kInvalidFile, "metadata key general.architecture is missing");
  if (file.get_string("general.type") == "adapter")
    throw Error(
        ErrorCode::kUnsupported,
        "the file is a LoRA adapter: give it as --lora (ModelParams::adapters), together with its model");
  for (const Family& family : families()) {
    if (family.architecture != *architecture) continue;
    const Metadata metadata(file, std::string(*architecture));
    ModelDescription description{read_hparams(metadata, family.layers), &family, {}};
    HParams& h = description.hparams;
    if (family.kind == FamilyKind::kEncoder) h.encoder.emplace();
    read_pooling(metadata, h);
    family.read(metadata, h);
    const auto& temperature = h.attention ? h.attention->temperature : std::nullopt;
    if (temperature && temperature->scale != 0.0f && temperature->length == 0)
      metadata.refuse("context_length",
                      "missing or not positive, but this model's attention.temperature_scale depends on it; "
                      "'weft quantize --override-kv' sets a key");
    // For any family: the default is the family's own.
    if (h.experts) h.experts->normalise = metadata.get_bool("expert_weights_norm", h.experts->normalise);
    return description;
  }
  for (const ForeignModel& stranger : kForeignModels)
    if (stranger.architecture == *architecture)
      throw Error(ErrorCode::kUnsupported, "the architecture \"" + std::string(*architecture) +
                                               "\" is not supported: it " + std::string(stranger.reason));
  std::string known;
  for (const Family& family : families())
    known += (known.empty() ? "" : ", ") + std::string(family.architecture);
  throw Error(ErrorCode::kUnsupported, "the architecture \"" + std::string(architecture->substr(0, 64)) +
                                           "\" is not supported; known are " + known);
}

ModelGraph build_graph(const gguf::File& file, const ModelDescription& description, const GraphSizes& sizes) {
  Builder builder(file, description.hparams, description.additions, sizes);
  const ValueId logits = description.family->build(builder);
  ModelGraph graph = builder.finish(logits);
  const bool shared =
      sizes.row_shares.size() > 1 && sizes.row_shares[first_with_share(sizes.row_shares)] > 0.0;
  return shared ? shard(graph, sizes.row_shares) : std::move(graph);
}

}  // namespace weft::model
