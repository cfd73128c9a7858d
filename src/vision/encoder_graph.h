#pragma once
// The graph of an image encoder: a vision transformer, and a family's projector behind it. What the file has
// says which: with biases or without, norms of layers or of roots of means, gates, a table of positions.
//
// Patches are rows of their pixels, and come in an order in which those that become one row of the result
// stand one behind another; where a patch lies in the picture is said by its position.
#include <string>
#include <vector>

#include "vision/hparams.h"
#include "weft/graph.h"
#include "weft/vision.h"
#include "weft/weights.h"

namespace weft::vision {

/// Weights of a file become a graph's, checked by name and shape.
class EncoderBuilder {
 public:
  EncoderBuilder(Graph& graph, const WeightFile& file, const HParams& hparams)
      : graph_(graph), file_(file), hparams_(hparams) {}

  const HParams& hparams() const { return hparams_; }
  Dim n_rows() const { return n_rows_; }

  /// Throws Error kInvalidFile where the file has it not, or in another shape.
  Value weight(const std::string& name, std::initializer_list<std::int64_t> shape);
  bool has(const std::string& name) const { return file_.find(name) != nullptr; }
  /// A matrix that the file has the other way round, {shape[1], shape[0]}: a copy, turned.
  Value turned_weight(const std::string& name, std::int64_t outputs, std::int64_t inputs);
  /// A weight whose last axes are one in the graph: {o, c, h, w} as {o, c * h * w}.
  Value flat_weight(const std::string& name, std::initializer_list<std::int64_t> shape);
  /// With NAME.weight, and NAME.bias where there is one.
  Value linear(Value x, const std::string& name, std::int64_t outputs, std::int64_t inputs);
  /// The norm of a layer, or without NAME.bias by the root of the mean of squares.
  Value norm(Value x, const std::string& name);

  /// Inputs "patches" {n, 3 * patch_size^2}, {n} I32 "begins" and "ends", "positions" (rows of the
  /// table) or with `turns`, where queries and keys turn by where patches lie, "rows" and "columns" -> the
  /// encoder's rows. The symbol "n_rows" is n / merge^2.
  Value encode(bool turns);

  /// Weights that are not in the graph as they are in the file: their names in the graph, and their bytes.
  struct OwnWeight {
    std::string name;
    std::vector<std::byte> bytes;
  };
  std::vector<OwnWeight> take_own_weights() { return std::move(own_); }

 private:
  const WeightFile::Tensor& find(const std::string& name, std::initializer_list<std::int64_t> shape) const;
  struct Places {
    Value begins, ends;
    Value rows, columns;  // Where queries and keys turn.
  };
  Value layer(Value x, int i, const Places& places);
  Value feed_forward(Value x, const std::string& name);
  Value turned(Value x, const Places& places) const;
  Value activate(Value x) const;

  Graph& graph_;
  const WeightFile& file_;
  const HParams& hparams_;
  Dim n_rows_;
  std::vector<OwnWeight> own_;
};

/// The pixels of the picture, of a whole number of patches, as the graph's rows, and their positions.
struct Patches {
  std::vector<float> rows;
  std::vector<std::int32_t> positions;
  std::vector<std::int32_t> row_of, column_of;  ///< Of each patch.
};
Patches cut_into_patches(const HParams& hparams, const Image& image);

}  // namespace weft::vision
