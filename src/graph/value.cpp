#include "weft/graph/value.h"

#include <utility>
#include <vector>

#include "graph/int_value.h"
#include "graph/refuse.h"
#include "weft/error.h"

namespace weft {
namespace {

Value activate(Activation kind, Value x, const Where& where) {
  return apply(ops::Activate{kind}, {x}, where);
}

}  // namespace

std::string line_text(const Where& where) {
  const std::string_view file = where.file_name();
  return where.line() == 0
             ? ""
             : std::string(file.substr(file.rfind('/') + 1)) + ":" + std::to_string(where.line()) + ": ";
}

void refuse(const std::string& reason, const Where& where) {
  throw Error(ErrorCode::kInvalidArgument, line_text(where) + reason);
}

const ValueInfo& Value::known() const {
  if (graph_ == nullptr || id_ < 0 || index(id_) >= graph_->values().size())
    throw Error(ErrorCode::kInvalidArgument, "the graph does not have the value");
  return graph_->value(id_);
}

Dim Value::size(int axis) const {
  const int i = axis < 0 ? rank() + axis : axis;
  if (i < 0 || i >= rank())
    throw Error(ErrorCode::kInvalidArgument, name() + " " + to_string(shape(), graph_->symbols()) +
                                                 " has no axis " + std::to_string(axis));
  return shape()[i];
}

Value Value::operator[](Place place) const {
  const Dim end = place.place == -1 ? size(0) : Dim(place.place + 1);
  return squeeze(slice(*this, 0, place.place, end, 1, place.where), 0, place.where);
}

Value Value::named(std::string name, Where where) const {
  known();
  if (const ValueId other = graph_->find(name); other != kNoValue && other != id_)
    refuse("there is a value '" + name + "' already", where);
  graph_->rename(id_, std::move(name));
  return *this;
}

Value apply(Op op, std::span<const Value> inputs, Where where) {
  const std::string op_name(to_string(op));
  Graph* graph = nullptr;
  std::vector<ValueId> ids;
  ids.reserve(inputs.size());
  for (const Value& input : inputs) {
    if (!input) continue;
    if (graph != nullptr && graph != &input.graph())
      refuse(op_name + ": its inputs are of two graphs", where);
    graph = &input.graph();
  }
  if (graph == nullptr) refuse(op_name + ": it has no inputs", where);
  bool ended = false;
  for (const Value& input : inputs) {
    if (input && ended) refuse(op_name + ": an empty input precedes another input", where);
    ended = ended || !input;
    if (!input) continue;
    if (input.id() < 0 || index(input.id()) >= graph->values().size())
      refuse(op_name + ": an input is a value that its graph does not have", where);
    ids.push_back(input.id());
  }
  try {
    const Value result(*graph, graph->add(std::move(op), ids, graph->free_name(op_name)));
    graph->set_source(graph->value(result.id()).producer, where);
    return result;
  } catch (const Error& error) {
    refuse(error.what(), where);
  }
}

Value apply(Op op, std::initializer_list<Value> inputs, Where where) {
  return apply(std::move(op), std::span(inputs.begin(), inputs.size()), where);
}

Value operator+(Operand a, Value b) {
  if (are_ints(a.value, b)) return int_binary(IntKind::kAdd, a.value, b, a.where);
  return apply(ops::Add{}, {a.value, b}, a.where);
}
Value operator*(Operand a, Value b) {
  if (are_ints(a.value, b)) return int_binary(IntKind::kMul, a.value, b, a.where);
  return apply(ops::Mul{}, {a.value, b}, a.where);
}
Value operator*(Operand a, float factor) {
  if (is_int(a.value)) return int_binary(IntKind::kMul, a.value, factor, false, a.where);
  return apply(ops::Scale{factor}, {a.value}, a.where);
}
Value operator*(float factor, Operand a) { return a * factor; }

Value linear(Value x, Value weight, Value bias, Where where) {
  return apply(ops::Matmul{}, {weight, x, bias}, where);
}

Value relu(Value x, Where where) { return activate(Activation::kRelu, x, where); }
Value relu_squared(Value x, Where where) { return activate(Activation::kReluSquared, x, where); }
Value silu(Value x, Where where) { return activate(Activation::kSilu, x, where); }
Value gelu(Value x, Where where) { return activate(Activation::kGeluErf, x, where); }
Value gelu_tanh(Value x, Where where) { return activate(Activation::kGelu, x, where); }
Value gelu_quick(Value x, Where where) { return activate(Activation::kGeluQuick, x, where); }
Value softplus(Value x, Where where) { return activate(Activation::kSoftplus, x, where); }
Value glu(Activation activation, Value gate, Value up, Where where) {
  return apply(ops::Glu{activation}, {gate, up}, where);
}
Value softcap(Value x, float cap, Where where) { return apply(ops::Softcap{cap}, {x}, where); }
Value softmax(Value x, Where where) { return apply(ops::Softmax{}, {x}, where); }

Value layer_norm(Value x, Value weight, Value bias, float eps, Where where) {
  return apply(ops::Norm{NormKind::kLayer, eps}, {x, weight, bias}, where);
}
Value rms_norm(Value x, Value weight, float eps, Where where) {
  return apply(ops::Norm{NormKind::kRms, eps}, {x, weight}, where);
}
Value normalize(Value x, float eps, Where where) { return apply(ops::Norm{NormKind::kL2, eps}, {x}, where); }

Value take(Value table, Value rows, Where where) { return apply(ops::GetRows{}, {table, rows}, where); }
Value concat(std::span<const Value> values, Where where) { return apply(ops::Concat{}, values, where); }
Value concat(std::initializer_list<Value> values, Where where) { return apply(ops::Concat{}, values, where); }
Value top_k(Value x, int k, Where where) { return apply(ops::TopK{k}, {x}, where); }
Value hadamard(Value x, int block, Where where) { return apply(ops::Hadamard{block}, {x}, where); }
Value rope(Value x, Value positions, const ops::Rope& params, Value factors, Where where) {
  return apply(params, {x, positions, factors}, where);
}
Value ragged_attention(Value q, Value k, Value v, Value begins, Value ends, int n_heads, float scale,
                       Where where) {
  return apply(ops::RaggedAttention{n_heads, scale}, {q, k, v, begins, ends}, where);
}
Value store_rows(Value state, Value x, Value rows, Where where) {
  return apply(ops::StoreCache{CacheRole::kSlots}, {state, x, rows}, where);
}
Value conv1d_channels_last(Value x, Value weight, Value bias, std::int64_t kernel, std::int64_t stride,
                           std::int64_t padding, Where where) {
  return linear(apply(ops::Unfold{kernel, stride, padding}, {x}, where), weight, bias, where);
}
Value ragged_mean(Value x, Value begins, Value ends, Where where) {
  return apply(ops::RaggedMean{}, {x, begins, ends}, where);
}

// Functions that add inputs, weights and states to a graph.

namespace {

/// Checks that a shape has only the graph's own symbols and is never negative. If `fixed`, it must be
/// constant with all sizes above 0.
void check_shape(const Graph& graph, const std::string& name, const Shape& shape, bool fixed,
                 const Where& where) {
  const auto n_symbols = static_cast<SymbolId>(graph.symbols().size());
  std::vector<std::int64_t> least;
  for (const Symbol& symbol : graph.symbols()) least.push_back(symbol.min);
  for (int i = 0; i < shape.rank(); ++i) {
    if (fixed && !shape[i].is_constant()) refuse("'" + name + "': its shape must be constant", where);
    if (shape[i].last_symbol() >= n_symbols || shape[i].last_symbol() < kNoSymbol)
      refuse("'" + name + "': its shape has a symbol of another graph", where);
    if (shape[i].value(least) < (fixed ? 1 : 0))
      refuse("'" + name + "' " + to_string(shape, graph.symbols()) + ": a dimension is too small", where);
  }
}

void check_name(const Graph& graph, const std::string& name, const Where& where) {
  if (name.empty()) refuse("a value needs a name here", where);
  if (graph.find(name) != kNoValue) refuse("there is a value '" + name + "' already", where);
}

/// Whether apply() gave the value its name.
bool is_unnamed(const Graph& graph, const ValueInfo& value) {
  if (value.kind != ValueKind::kResult) return false;
  const std::string stem = std::string(to_string(graph.node(value.producer).op)) + "_";
  return value.name.size() > stem.size() && value.name.starts_with(stem) &&
         value.name.find_first_not_of("0123456789", stem.size()) == std::string::npos;
}

/// The properties of a type. Throws for unknown ones.
const DTypeInfo& known_type(const std::string& name, DType dtype, const Where& where) {
  const auto id = static_cast<std::uint32_t>(dtype);
  if (!dtype_from_id(id)) refuse("'" + name + "': there is no type " + std::to_string(id), where);
  return info(dtype);
}

}  // namespace

Dim Graph::symbol(std::string name, std::int64_t min, std::int64_t max, Where where) {
  for (const Symbol& other : symbols())
    if (other.name == name) refuse("there is a symbol '" + name + "' already", where);
  if (max > kMaxSymbol) refuse("symbol '" + name + "' exceeds 2^31", where);
  if (min < 0 || max < min)
    refuse("symbol '" + name + "': the bounds " + std::to_string(min) + " to " + std::to_string(max) +
               " are invalid",
           where);
  return {1, add_symbol(std::move(name), min, max)};
}

Value Graph::input(std::string name, Shape shape, DType dtype, Where where) {
  check_name(*this, name, where);
  check_shape(*this, name, shape, false, where);
  if (dtype != DType::kF32 && dtype != DType::kI32)
    refuse("input '" + name + "': inputs are f32 or i32", where);
  return {*this, add_input(std::move(name), dtype, std::move(shape))};
}
Value Graph::weight(std::string name, DType dtype, Shape shape, Where where) {
  check_name(*this, name, where);
  check_shape(*this, name, shape, true, where);
  if (const DTypeInfo& type = known_type(name, dtype, where);
      shape.rank() > 0 && shape.columns() % type.block_elements != 0)
    refuse("weight '" + name + "': rows of " + std::string(type.name) + " have a multiple of " +
               std::to_string(type.block_elements) + " columns",
           where);
  return {*this, add_weight(std::move(name), dtype, std::move(shape))};
}
Value Graph::weight(std::string name, Shape shape, Where where) {
  return weight(std::move(name), DType::kF32, std::move(shape), where);
}
Value Graph::state(std::string name, DType dtype, Shape shape, Where where) {
  check_name(*this, name, where);
  check_shape(*this, name, shape, true, where);
  if (const DTypeInfo& type = known_type(name, dtype, where);
      shape.rank() != 3 || shape.columns() % type.block_elements != 0)
    refuse("state '" + name + "': states are {cells, heads, columns}, of whole blocks", where);
  return {*this, add_state(std::move(name), dtype, std::move(shape))};
}
Value Graph::output(std::string name, Value value, Where where) {
  if (!value || &value.graph() != this || value.id() < 0 || index(value.id()) >= values().size())
    refuse("output '" + name + "': the value is not in this graph", where);
  if (state_behind(*this, value.id()) != kNoValue)
    refuse("output '" + name + "': " + value.name() + " is a state, which cannot be an output", where);
  if (is_output(value.id()) && value.name() == name) return value;
  const ValueInfo& info = this->value(value.id());
  const bool is_named_so = info.kind == ValueKind::kResult && info.name == name;
  if (!is_named_so) {
    if (!is_unnamed(*this, info) || is_output(value.id())) value = reshape(value, value.shape(), where);
    value.named(std::move(name), where);
  }
  add_output(value.id());
  return value;
}

}  // namespace weft
