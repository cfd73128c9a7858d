#pragma once
// THE table of architectures that are converted: one row each.
#include <span>
#include <string_view>

namespace weft::convert_impl {

/// The name of a tensor in a folder and in GGUF, without its ending (.weight, .bias). Names within layers
/// lack the prefix and the layer's number. '*' is the number of an expert or of another stacked part. A GGUF
/// name with '#0', '#1' ... at its end is a part of that tensor's rows.
struct Rename {
  std::string_view from, to;
};

enum Trait : unsigned {
  kPlain = 0,
  /// Rope rotates adjacent elements in GGUF's rows of Q and K, halves in the folder's.
  kNeighbours = 1 << 0,
  kNormsPlusOne = 1 << 1,   ///< Weights of norms are stored without their 1.
  kSliding = 1 << 2,        ///< Some layers have sliding-window attention.
  kSigmoidRouter = 1 << 3,  ///< The router uses sigmoids.
  kQkvByHeads = 1 << 4,     ///< Q, K and V of each head are adjacent.
  /// In newer models, Q, K and V of each group of heads that share K and V are adjacent.
  kQkvByGroups = 1 << 5,
  kEncoder = 1 << 6,            ///< An encoder; it has rope unless it has a table of positions.
  kInputsFirst = 1 << 7,        ///< Layers' matrices have a column for each output.
  kExpertInputsFirst = 1 << 8,  ///< The same for the matrices of experts.
  kAlternating = 1 << 9,        ///< Rows of experts' gate and up alternate.
  kLatent = 1 << 10,            ///< Multi-head latent attention.
  kHybrid = 1 << 11,            ///< Only some layers have attention.
  kMamba2 = 1 << 12,            ///< Heads of recurrent layers have one decay each.
  kDeltaByGroups = 1 << 13,     ///< Q, K, V and the gate of each group of a delta net are adjacent.
  kDeltaTiled = 1 << 14,     ///< Value heads that share a key head are adjacent in the folder, not in GGUF.
  kMultipliers = 1 << 15,    ///< Factors of the configuration are multiplied into weights.
  kFfOfTensors = 1 << 16,    ///< The feed-forward width is taken from the tensors.
  kRmsNorms = 1 << 17,       ///< Norms have no means, whatever the configuration calls their epsilon.
  kNoAttention = 1 << 18,    ///< All layers are recurrent.
  kRowsOfExperts = 1 << 20,  ///< Experts are concatenated along the rows; ffn_down has the layout of ffn_up.
  kMoeByExperts = 1 << 21,   ///< With experts, the architecture's name has an end of its own: _moe.
  kOffsetPositions = 1 << 22,  ///< Positions begin after the padding token's id (RoBERTa).
  kBothSides = 1 << 23,        ///< T5: layers of an encoder, or of that and a decoder.
  kSections = 1 << 24,         ///< Rope of several axes of positions.
  kLearnedCurve = 1 << 25,     ///< xIELU: numbers of each layer become metadata.
  kTwoHeadSizes = 1 << 26,     ///< Sliding-window layers have another head size than full-attention layers.
  kOfOneKey = 1 << 19,         ///< All heads share a K and a V, where the configuration does not deny it.
};

struct Family {
  std::string_view name;          ///< The class in config.json.
  std::string_view architecture;  ///< In GGUF.
  unsigned traits = kPlain;
  std::span<const Rename> layer = {};  ///< Searched before the shared names.
  std::span<const Rename> whole = {};
  std::string_view prefix = "layers.";  ///< Before a layer's number.
  std::string_view defaults = "{}";     ///< JSON: the class's own, where published files leave them out.
};

/// A class of models that weft runs, whose folders are not converted.
struct NotConverted {
  std::string_view name, architecture;
};

std::span<const Family> families();
/// Each architecture that weft runs is in one of the two tables: the documentation is generated from them.
std::span<const NotConverted> not_converted();
/// Null if the class is unknown.
const Family* find_family(std::string_view name);

/// Names of tensors that all families share.
std::span<const Rename> shared_layer_names();
std::span<const Rename> shared_whole_names();

}  // namespace weft::convert_impl
