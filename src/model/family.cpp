#include "model/family.h"

#include <array>

#include "weft/error.h"

namespace weft::model {

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
