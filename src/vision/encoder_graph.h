#pragma once
// The graph of an image encoder: a vision transformer, and a family's projector behind it.
//
// Patches are rows of their pixels, and come in an order in which those that become one row of the result
// stand one behind another (patches.h); where a patch lies in the picture is said by its position.
#include <string>
#include <vector>

#include "encoders/transformer.h"
#include "vision/hparams.h"

namespace weft::vision {

/// How an encoder knows where patches lie.
enum class Places : std::uint8_t {
  kTable,         ///< A row of a table is added to each patch.
  kTurns,         ///< Queries and keys turn: the first half of a head by lines, the second by columns.
  kHalves,        ///< The same, of each half of a head.
  kInterpolated,  ///< kHalves, and to each patch a row is added that lies between rows of a table.
};

struct EncoderKind {
  Places places = Places::kTable;
  encoders::LayerKind layers = {};
  bool patch_bias = true;
  bool two_frames = false;  ///< Patches are of two pictures, of a film; of one it is both.
  bool norm_before = false;
  bool norm_behind = true;
};

class EncoderBuilder : public encoders::TransformerBuilder {
 public:
  EncoderBuilder(Graph& graph, const WeightFile& file, const HParams& hparams, const EncoderKind& kind)
      : encoders::TransformerBuilder(graph, file, hparams, kind.layers), hparams_(hparams), kind_(kind) {}

  const HParams& hparams() const { return hparams_; }
  Dim n_rows() const { return n_rows_; }

  /// Inputs "patches" {n, 3 * patch_size^2} and, where layers read them, those of `write_inputs` -> the
  /// encoder's rows. The symbol "n_rows" is n / merge^2.
  Value encode();
  /// What layers that HParams::deepstack names have passed on, with their numbers.
  const std::vector<std::pair<int, Value>>& taps() const { return taps_; }

 private:
  Value at_its_place(Value x, const Dim& n);
  Value turned_by_halves(Value x) const;
  Value turned(Value x) const;

  const HParams& hparams_;
  const EncoderKind& kind_;
  Dim n_rows_;
  Value lines_, columns_;  // Where queries and keys turn.
  std::vector<std::pair<int, Value>> taps_;
};

}  // namespace weft::vision
