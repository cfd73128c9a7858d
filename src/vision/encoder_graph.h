#pragma once
// The graph of an image encoder: a vision transformer, followed by a family's projector.
//
// Each patch is a row of its pixels. Patches that are merged into one row of the result are adjacent
// (patches.h). An input has the position of each patch in the image.
#include <string>
#include <vector>

#include "encoders/transformer.h"
#include "vision/hparams.h"

namespace weft::vision {

/// How an encoder represents the positions of patches.
enum class Places : std::uint8_t {
  kTable,         ///< Learned: a row of a table is added to each patch.
  kTurns,         ///< Rope: the first half of a head rotates by lines, the second by columns.
  kHalves,        ///< The same within each half of a head.
  kInterpolated,  ///< kHalves, and a row that is interpolated from a table is added to each patch.
};

struct EncoderKind {
  Places places = Places::kTable;
  encoders::LayerKind layers = {};
  bool patch_bias = true;
  bool two_frames = false;  ///< A patch has two frames of a video. For an image both are the same.
  bool norm_before = false;
  bool norm_behind = true;
};

class EncoderBuilder : public encoders::TransformerBuilder {
 public:
  EncoderBuilder(Graph& graph, const WeightFile& file, const HParams& hparams, const EncoderKind& kind)
      : encoders::TransformerBuilder(graph, file, hparams, kind.layers), hparams_(hparams), kind_(kind) {}

  const HParams& hparams() const { return hparams_; }
  Dim n_rows() const { return n_rows_; }

  /// Inputs: "patches" {n, 3 * patch_size^2} and the inputs that inputs_of (patches.h) fills. Returns the
  /// encoder's rows. The symbol "n_rows" is n / merge^2.
  Value encode();
  /// The outputs of the layers in HParams::deepstack, with the layers' numbers.
  const std::vector<std::pair<int, Value>>& taps() const { return taps_; }

 private:
  Value at_its_place(Value x, const Dim& n);
  Value turned_by_halves(Value x) const;
  Value turned(Value x) const;

  const HParams& hparams_;
  const EncoderKind& kind_;
  Dim n_rows_;
  Value lines_, columns_;  // Positions for rope.
  std::vector<std::pair<int, Value>> taps_;
};

}  // namespace weft::vision
