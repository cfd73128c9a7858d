#pragma once
#include <weft/graph.h>
#include <weft/plan.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ct2_file.h"

namespace whisper {

/// What a plan reads of the file, by the names of the graph's weights.
using WeightBytes = std::map<std::string, std::vector<std::byte>>;

/// Equal parts of a layer's rows, which the file concatenates: queries, keys and values.
struct Part {
  int index = 0;
  int count = 1;
};
inline constexpr Part kAll = {0, 1};
// For self-attention, and for attention to the audio, whose queries are a separate layer.
inline constexpr Part kQueries = {0, 3}, kKeys = {1, 3}, kValues = {2, 3};
inline constexpr Part kHeardKeys = {0, 2}, kHeardValues = {1, 2};

/// The layers of which Whisper is made, as nodes of a graph with weights from the file. All weights and
/// results have names that begin with the prefix, so that one pin places them.
class GraphBuilder {
 public:
  /// Matrices become weights of this type: kF32, kF16 or kQ8_0. The file must outlive the builder.
  GraphBuilder(const Ct2File& file, std::string prefix, weft::DType matrices)
      : file_(file), prefix_(std::move(prefix)), matrices_(matrices) {}

  weft::Graph& graph() { return graph_; }

  // `path` names a layer in the file: "decoder/layer_0/attention/linear_0".

  weft::Value linear(weft::Value x, const std::string& path, Part part = kAll);
  weft::Value norm(weft::Value x, const std::string& path);
  /// A convolution over three times, with a padding of one.
  weft::Value conv(weft::Value x, const std::string& path, int stride);
  /// The matrix of a variable, as often as it is wanted.
  weft::Value matrix(const std::string& variable, Part part = kAll);
  /// x + linear_1(gelu(linear_0(norm(x)))).
  weft::Value feed_forward(weft::Value x, const std::string& path);

  /// Ends the building.
  std::pair<weft::Graph, WeightBytes> finish();

 private:
  weft::Value vector(const std::string& variable, Part part = kAll);
  weft::Value add_weight(const std::string& name, weft::Shape shape, weft::DType dtype,
                         std::vector<std::byte> bytes);
  std::string name_of(const std::string& variable, Part part) const;
  /// The matrices' type, or F16 where the columns do not make whole blocks of it.
  weft::DType type_for(std::int64_t columns) const;

  const Ct2File& file_;
  std::string prefix_;
  weft::DType matrices_;
  weft::Graph graph_;
  WeightBytes weights_;
};

}  // namespace whisper
