#include "model/column_sums.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace weft::model {
namespace {

/// The input of a product, and the index of the matrix for each row; kNoValue if there is one matrix.
struct Multiplied {
  ValueId x = kNoValue;
  ValueId ids = kNoValue;
  std::int64_t n_matrices = 1;
};

class Adder {
 public:
  explicit Adder(Graph& graph) : graph_(graph) {}

  ColumnSum sum(const Multiplied& of) {
    const std::string name = graph_.value(of.x).name;
    const Shape shape = graph_.value(of.x).shape;
    const ValueId squares = add(ops::Mul{}, {of.x, of.x}, name + "_squares");
    ColumnSum result{.x = of.x};
    if (of.ids == kNoValue) {
      const std::uint32_t rows = (1u << (shape.rank() - 1)) - 1;
      result.sums =
          add(ops::Reduce{.kind = ReduceKind::kSum, .axes = rows}, {squares}, name + "_column_sums");
    } else {
      const auto& ids = graph_.value(of.ids).shape;
      const Dim columns = shape[shape.rank() - 1], of_row = ids[1], all = ids[0] * ids[1];
      ValueId rows = squares;
      if (shape.rank() == 2) {
        rows = add(ops::Reshape{{shape[0], 1, columns}}, {rows}, name + "_squares_apart");
        rows = add(ops::BroadcastTo{{shape[0], of_row, columns}}, {rows}, name + "_squares_of_each");
      }
      rows = add(ops::Reshape{{all, columns}}, {rows}, name + "_squares_in_rows");
      const ValueId flat = add(ops::Reshape{{all}}, {of.ids}, name + "_matrices");
      const ValueId column = add(ops::Reshape{{all, 1}}, {of.ids}, name + "_matrices_in_rows");
      const ValueId places = add(ops::BroadcastTo{{all, columns}}, {column}, name + "_matrices_of_columns");
      result.sums = add(ops::Scatter{.axis = 0, .add = true},
                        {filled({of.n_matrices, columns}, 0, DType::kF32, name + "_no_sums"), places, rows},
                        name + "_column_sums");
      result.counts = add(ops::Scatter{.axis = 0, .add = true},
                          {filled({of.n_matrices}, 0, DType::kI32, name + "_no_rows"), flat,
                           filled({all}, 1, DType::kI32, name + "_ones")},
                          name + "_counts");
      graph_.add_output(result.counts);
    }
    graph_.add_output(result.sums);
    return result;
  }

 private:
  template <typename T>
  ValueId add(T op, std::initializer_list<ValueId> inputs, const std::string& stem) {
    return graph_.add(std::move(op), inputs, graph_.free_name(stem));
  }

  ValueId filled(const Shape& shape, std::int64_t value, DType dtype, const std::string& stem) {
    const ValueId one = add(ops::Arange{.size = 1, .begin = value, .dtype = dtype}, {}, stem + "_one");
    return add(ops::BroadcastTo{shape}, {one}, stem);
  }

  Graph& graph_;
};

}  // namespace

std::vector<ColumnSum> add_column_sums(ModelGraph& model) {
  std::vector<ColumnSum> all;
  std::map<ValueId, const gguf::TensorInfo*> tensors;
  for (const WeightUse& use : model.weights)
    if (use.tensor != nullptr) tensors.emplace(use.value, use.tensor);
  Adder adder(model.graph);
  std::map<std::pair<ValueId, ValueId>, std::size_t>
      places;                                     // By the multiplied value, and the choice of matrices.
  std::map<const gguf::TensorInfo*, int> shards;  // The first shard of a tensor, which reads the same as all.
  const std::size_t n_nodes = model.graph.nodes().size();
  for (std::size_t n = 0; n < n_nodes; ++n) {
    const Node node = model.graph.nodes()[n];
    const bool chosen = get_op<ops::MatmulExperts>(node) != nullptr;
    if (!chosen && get_op<ops::Matmul>(node) == nullptr) continue;
    const auto tensor = tensors.find(node.inputs[0]);
    if (tensor == tensors.end()) continue;
    if (shards.emplace(tensor->second, node.tag.shard).first->second != node.tag.shard) continue;
    Multiplied of{.x = node.inputs[1]};
    if (chosen) of.ids = node.inputs[2], of.n_matrices = tensor->second->shape[0];
    const auto [place, is_new] = places.emplace(std::pair(of.x, of.ids), all.size());
    if (is_new) all.push_back(adder.sum(of));
    auto& names = all[place->second].tensors;
    // Products with parts of a tensor's rows read the same.
    if (std::find(names.begin(), names.end(), tensor->second->name) == names.end())
      names.push_back(tensor->second->name);
  }
  return all;
}

}  // namespace weft::model
