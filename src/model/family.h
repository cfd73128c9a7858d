#pragma once
// The families of models that weft runs: one row each, from the name in the file to its hyper-parameters and
// graph.
#include <span>
#include <string_view>

#include "model/builder.h"

namespace weft::model {

enum class FamilyKind : std::uint8_t {
  kDecoder,  ///< Generates tokens: build gives logits.
  /// Bidirectional: reads a whole sequence in one step and has no cache. build gives vectors (see encoder.h).
  kEncoder,
  /// Generates tokens from a source, which it first reads bidirectionally (ModelGraph::source). build gives
  /// logits.
  kEncoderDecoder,
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

/// Throws Error kInvalidFile with the key or tensor and the expected value. Throws kUnsupported for an
/// unknown architecture, with the reason or the names of known families.
ModelDescription describe(const gguf::File& file);

/// The graph at a context's sizes. Throws Error kInvalidFile where tensors do not fit the description, and
/// kUnsupported where the graph does not support an addition.
ModelGraph build_graph(const gguf::File& file, const ModelDescription& description, const GraphSizes& sizes);

#define WEFT_FAMILY(row) extern const Family row;
#include "model/families.inc"
#undef WEFT_FAMILY

}  // namespace weft::model
