// Adds adapters to the products of a graph: rows that use adapters are multiplied with the two small matrices
// of each.
#include <memory>
#include <string>

#include "model/builder.h"
#include "weft/context.h"

namespace weft::model {

const AdapterInputs* Builder::adapters_of_rows(const Dim& rows) {
  struct Kind {
    SymbolId symbol;
    std::int64_t bound;
    const char* name;
    AdapterInputs& inputs;
  };
  const Kind kinds[] = {
      {model_.n_tokens, sizes_.n_ubatch, "token", model_.adapters_of_tokens},
      {model_.n_wanted, sizes_.n_ubatch, "wanted", model_.adapters_of_wanted},
      {model_.n_outputs, sizes_.n_outputs, "output", model_.adapters_of_outputs},
      {model_.source.n_rows, sizes_.n_source, "source", model_.adapters_of_source},
  };
  for (const Kind& kind : kinds) {
    if (kind.symbol == kNoSymbol || !(rows == Dim(1, kind.symbol))) continue;
    AdapterInputs& inputs = kind.inputs;
    if (inputs.n_uses != kNoSymbol) return &inputs;
    const std::string prefix = std::string(kind.name) + "_adapter_";
    Graph& graph = model_.graph;
    const std::int64_t of_row = std::min<std::int64_t>(additions_.adapters->size(), Context::kMaxAdapters);
    inputs.n_uses = graph.add_symbol("n_" + prefix + "uses", 0, kind.bound * of_row);
    const Dim uses(1, inputs.n_uses);
    inputs.rows = graph.add_input(prefix + "rows", DType::kI32, {uses});
    inputs.ids = graph.add_input(prefix + "ids", DType::kI32, {uses, 1});
    inputs.weights = graph.add_input(prefix + "weights", DType::kF32, {uses, 1});
    inputs.begins = graph.add_input(prefix + "begins", DType::kI32, {rows});
    inputs.ends = graph.add_input(prefix + "ends", DType::kI32, {rows});
    inputs.is_adapted = graph.add_input("is_adapted_" + std::string(kind.name), DType::kI32, {rows});
    return &inputs;
  }
  return nullptr;
}

Builder::AdapterWeights Builder::adapter_weights(const AdapterStack& stack, std::int64_t begin,
                                                 std::int64_t n_out) {
  const std::shared_ptr<const Adapters>& adapters = additions_.adapters;
  const std::int64_t n_matrices = adapters->size() * stack.n_experts;
  const std::string a_name = stack.matrix + ".lora_a";
  const std::string b_name =
      stack.matrix + ".lora_b[" + std::to_string(begin) + ":" + std::to_string(begin + n_out) + "]";
  ValueId a = model_.graph.find(a_name);
  if (a == kNoValue)
    a = add_made(a_name, stack.dtype, {n_matrices, stack.rank, stack.n_in},
                 [adapters, &stack] { return adapters->a_bytes(stack); });
  ValueId b = model_.graph.find(b_name);
  if (b == kNoValue)
    b = add_made(b_name, stack.dtype, {n_matrices, n_out, stack.rank},
                 [adapters, &stack, begin, n_out] { return adapters->b_bytes(stack, begin, n_out); });
  adapted_.insert(stack.matrix);
  return {a, b};
}

ValueId Builder::with_means(ValueId y, ValueId each, const AdapterInputs& inputs, const std::string& name) {
  const ValueId added = add(ops::RaggedMean{}, {each, inputs.begins, inputs.ends}, name + "_added");
  const ValueId sum = add(ops::Add{}, {y, added}, name + "_sum");
  return add(ops::Override{}, {y, sum, inputs.is_adapted}, name + "_adapted");
}

ValueId Builder::adapted(ValueId x, ValueId y, const std::string& weight, std::int64_t begin,
                         std::int64_t n_out) {
  const AdapterStack* const stack =
      additions_.adapters != nullptr ? additions_.adapters->find(weight) : nullptr;
  if (stack == nullptr || stack->n_experts > 1) return y;
  const Shape shape = model_.graph.value(x).shape;
  const AdapterInputs* const inputs = shape.rank() == 2 ? adapters_of_rows(shape[0]) : nullptr;
  if (inputs == nullptr) return y;
  const std::string name = model_.graph.value(y).name;
  const std::string x_name = model_.graph.value(x).name + "_to_adapt";
  ValueId rows = model_.graph.find(x_name);
  if (rows == kNoValue) rows = add(ops::GetRows{}, {x, inputs->rows}, x_name);
  const auto [a, b] = adapter_weights(*stack, begin, n_out);
  // A row's uses are a mean, their number being in the weights: so rows without any cost nothing up to there,
  // and keep their bits.
  const ValueId low = add(ops::MatmulExperts{}, {a, rows, inputs->ids}, name + "_low_rank");
  const ValueId weighted = add(ops::SumExperts{}, {low, inputs->weights}, name + "_weighted");
  const ValueId up = add(ops::MatmulExperts{}, {b, weighted, inputs->ids}, name + "_of_uses");
  const ValueId each = add(ops::Reshape{{Dim(1, inputs->n_uses), n_out}}, {up}, name + "_each");
  return with_means(y, each, *inputs, name);
}

// An adapter of experts adds n_experts experts. A use selects the experts of its adapter that its row has
// chosen.
ValueId Builder::adapted_experts(ValueId x, ValueId y, const std::string& weight, ValueId ids) {
  const AdapterStack* const stack =
      additions_.adapters != nullptr ? additions_.adapters->find(weight) : nullptr;
  const Shape shape = model_.graph.value(y).shape;
  const AdapterInputs* const inputs = stack != nullptr ? adapters_of_rows(shape[0]) : nullptr;
  if (inputs == nullptr) return y;
  const Dim uses(1, inputs->n_uses);
  const std::string name = model_.graph.value(y).name, chosen_name = model_.graph.value(ids).name;
  const std::string ids_name = chosen_name + "_of_adapters";
  ValueId own_ids = model_.graph.find(ids_name);
  if (own_ids == kNoValue) {  // As floats, which represent these ids exactly.
    const ValueId chosen = add(ops::Cast{DType::kF32}, {ids}, chosen_name + "_as_floats");
    const ValueId of_uses = add(ops::GetRows{}, {chosen, inputs->rows}, chosen_name + "_of_uses");
    const ValueId adapters = add(ops::Cast{DType::kF32}, {inputs->ids}, chosen_name + "_adapters");
    const ValueId first =
        add(ops::Scale{static_cast<float>(stack->n_experts)}, {adapters}, chosen_name + "_first");
    const ValueId sum = add(ops::Add{}, {of_uses, first}, chosen_name + "_sums");
    own_ids = add(ops::Cast{DType::kI32}, {sum}, ids_name);
  }
  const Shape x_shape = model_.graph.value(x).shape;
  const bool apart = x_shape.rank() == 3;
  const ValueId flat_x = apart
                             ? add(ops::Reshape{{x_shape[0], x_shape[1].constant() * x_shape[2].constant()}},
                                   {x}, name + "_x_flat")
                             : x;
  ValueId rows = add(ops::GetRows{}, {flat_x, inputs->rows}, name + "_to_adapt");
  if (apart) rows = add(ops::Reshape{{uses, x_shape[1], x_shape[2]}}, {rows}, name + "_to_adapt_apart");
  const auto [a, b] = adapter_weights(*stack, 0, stack->n_out);
  const ValueId low = add(ops::MatmulExperts{}, {a, rows, own_ids}, name + "_low_rank");
  const ValueId weights = add(ops::Reshape{{uses, 1, 1}}, {inputs->weights}, name + "_weights");
  const ValueId weighted = add(ops::Mul{}, {low, weights}, name + "_weighted");
  const ValueId up = add(ops::MatmulExperts{}, {b, weighted, own_ids}, name + "_of_uses");
  const std::int64_t columns = shape[1].constant() * shape[2].constant();
  const ValueId each = add(ops::Reshape{{uses, columns}}, {up}, name + "_each");
  const ValueId flat_y = add(ops::Reshape{{shape[0], columns}}, {y}, name + "_flat");
  const ValueId all = with_means(flat_y, each, *inputs, name);
  return add(ops::Reshape{shape}, {all}, name + "_with_adapters");
}

}  // namespace weft::model
