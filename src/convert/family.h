#pragma once
// THE table of architectures that are converted: one row each.
#include <span>
#include <string_view>

namespace weft::convert_impl {

/// What a folder calls a tensor, without its ending (.weight, .bias), and what GGUF does. In names of layers
/// these are without what stands before and in the layer's number; '*' is the number of an expert.
struct Rename {
  std::string_view from, to;
};

enum Trait : unsigned {
  kPlain = 0,
  kNeighbours = 1 << 0,     ///< Rope turns neighbours in GGUF's rows of Q and K, halves in the folder's.
  kNormsPlusOne = 1 << 1,   ///< Weights of norms are stored without their 1.
  kSliding = 1 << 2,        ///< Some layers see a window.
  kSigmoidRouter = 1 << 3,  ///< Experts are chosen by sigmoids.
  kQkvByHeads = 1 << 4,     ///< Q, K and V of each head stand together.
  kQkvByGroups = 1 << 5,    ///< Those of each group of heads that share K and V, where the model is of the
                            ///< newer kind.
  kEncoder = 1 << 6,        ///< BERT: no rope, no head, tables of positions.
};

struct Family {
  std::string_view name;          ///< Of the class in config.json.
  std::string_view architecture;  ///< In GGUF.
  unsigned traits = kPlain;
  std::span<const Rename> layer = {};  ///< Before those that all share.
  std::span<const Rename> whole = {};
  std::string_view prefix = "layers.";  ///< Before a layer's number.
  std::string_view defaults = "{}";     ///< JSON: the class's own, where published files leave them out.
};

std::span<const Family> families();
/// Null where there is none.
const Family* find_family(std::string_view name);

/// Names of tensors that all families share.
std::span<const Rename> shared_layer_names();
std::span<const Rename> shared_whole_names();

}  // namespace weft::convert_impl
