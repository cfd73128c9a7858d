#pragma once
// Builds the bidirectional transformers of encoders in mmproj files. The name and shape of each weight are
// checked when it is added to the graph.
#include <functional>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "weft/graph.h"
#include "weft/weights.h"

namespace weft::encoders {

enum class Activation : std::uint8_t { kGelu, kGeluTanh, kSilu, kGeluQuick };

/// The parts of layers. All layers of a family have the same ones: a missing tensor is an error.
struct LayerKind {
  bool rms = false;    ///< Norms by the root of the mean of squares, without biases.
  bool biases = true;  ///< Products have biases.
  bool k_bias = true;  ///< So does the product for keys, if the others have them.
  bool fused = false;  ///< Queries, keys and values are one product.
  bool gated = false;  ///< Feed-forward parts have a gate.
};

struct TransformerSizes {
  int width = 0;  ///< Of rows.
  int n_heads = 0;
  int n_layers = 0;
  float eps = 1e-6f;
  Activation activation = Activation::kGeluTanh;
};

/// Builds a graph of weights of a file. Throws Error kInvalidFile where the file lacks one, or has it in
/// another shape, and kUnsupported for types that an operation does not take.
class TransformerBuilder {
 public:
  TransformerBuilder(Graph& graph, const WeightFile& file, const TransformerSizes& sizes,
                     const LayerKind& kind)
      : graph_(graph), file_(file), sizes_(sizes), kind_(kind) {}

  Graph& graph() { return graph_; }
  Value weight(const std::string& name, std::initializer_list<std::int64_t> shape);
  bool has(const std::string& name) const { return file_.find(name) != nullptr; }
  /// A matrix that the file has the other way round, {inputs, outputs}: a copy, turned.
  Value turned_weight(const std::string& name, std::int64_t outputs, std::int64_t inputs);
  /// A weight whose last axes are one in the graph: {o, c, h, w} as {o, c * h * w}.
  Value flat_weight(const std::string& name, std::initializer_list<std::int64_t> shape);
  /// A weight {o, c, kernel} as {o, kernel * c}, as conv1d reads it.
  Value kernel_weight(const std::string& name, std::int64_t o, std::int64_t c, std::int64_t kernel);
  /// A vector that the file may have as {n} or {n, 1}.
  Value column(const std::string& name, std::int64_t n);
  /// With NAME.weight and, if `bias`, NAME.bias.
  Value linear(Value x, const std::string& name, std::int64_t outputs, std::int64_t inputs, bool bias);
  /// NAME.weight and, unless it is by the root of the mean of squares, NAME.bias, over rows so wide.
  Value norm(Value x, const std::string& name, std::int64_t width, bool rms);
  Value norm(Value x, const std::string& name) { return norm(x, name, sizes_.width, kind_.rms); }

  struct Ranges {
    Value begins, ends;  ///< {n} I32: the rows that each sees.
  };
  /// Layer NAME0. ... of `name`; `turn` turns queries and keys, if it is not empty.
  Value layer(Value x, const std::string& name, const Ranges& sees, const std::function<Value(Value)>& turn);
  Value activate(Value x) const;

  /// Weights that are not in the graph as they are in the file: their names in the graph, and their bytes.
  struct OwnWeight {
    std::string name;
    std::vector<std::byte> bytes;
  };
  std::vector<OwnWeight> take_own_weights() { return std::move(own_); }
  /// Throws Error kUnsupported where the file has tensors of these prefixes that the graph does not read.
  void check_all_used(std::initializer_list<std::string_view> prefixes,
                      std::initializer_list<std::string_view> except) const;

 private:
  const WeightFile::Tensor& find(const std::string& name, std::initializer_list<std::int64_t> shape) const;
  /// The tensor's elements in another order, which must be of a type without blocks.
  Value reordered(const std::string& name, std::initializer_list<std::int64_t> shape, const char* how,
                  std::int64_t rows, std::int64_t columns,
                  const std::function<std::int64_t(std::int64_t, std::int64_t)>& from);
  Value feed_forward(Value x, const std::string& name);

  Graph& graph_;
  const WeightFile& file_;
  const TransformerSizes& sizes_;
  const LayerKind& kind_;
  mutable std::vector<std::string> used_;
  std::vector<OwnWeight> own_;
};

/// Runs `build`, which builds an encoder's graph. If an operation refuses a file's tensors, the error becomes
/// kUnsupported.
void build_of_file(const std::function<void()>& build);

}  // namespace weft::encoders
