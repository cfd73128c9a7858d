#pragma once
// The widths and activations of feed-forward parts.
#include <string>
#include <string_view>
#include <vector>

#include "model/metadata.h"
#include "model/params/attention.h"

namespace weft::model {

/// The parameters of xIELU.
struct Xielu {
  float positive, negative, beta, eps;
};

/// Feed-forward parts without experts. The width is 0 in models without such parts.
struct FeedForwardParams {
  int width = 0;
  std::vector<int> width_of;  ///< By layer; width is the most of them.
  bool silu = false;          ///< In place of GELU, where models differ.
  /// By layer: gates keep the amount above their mean plus this many standard deviations. -infinity: all of
  /// it. Empty: the family has no cuts.
  std::vector<float> gate_cuts;
  std::vector<Xielu> xielu;  ///< By layer, where that is the activation.
};

/// feed_forward_length. Without the key, widths come from the tensors.
FeedForwardParams read_feed_forward(const Metadata& metadata, LayerMix mix, int n_layers,
                                    std::vector<std::string>& notes);

/// The width of each layer's feed-forward part from its last matrix, `name`; 0 for a layer without one.
std::vector<int> widths_of_tensors(const Metadata& metadata, std::string_view key, std::string_view name,
                                   int n_layers, std::vector<std::string>& notes);
/// The largest of counts by layer.
int most_of(const std::vector<int>& counts);

}  // namespace weft::model
