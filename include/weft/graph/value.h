// Since 0.1
#pragma once
// The functions that build graphs: values with operators, and a function per op, named as in NumPy and
// PyTorch.
//
// Each function adds a node to the graph of its operands and returns the result. All throw Error
// kInvalidArgument with the op, the given and expected shapes, and the program's line. Results are named by
// op and index. Several functions share an op: linear gives "matmul_7", gelu and silu "activate_7".
// Value::named() gives another name. Pins, Plan::explain and PlanParams::watched use these names.
//
// In the comments, "weight {o, i}" gives a shape, outermost first, and "?" marks an optional value.
#include <cstdint>
#include <initializer_list>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/graph/graph.h"

#pragma GCC visibility push(default)

namespace weft {

/// The program's line that makes a node.
using Where = std::source_location;

/// An index along an axis, with the program's line.
struct Place {
  Place(std::int64_t p, Where w = Where::current()) : place(p), where(w) {}  // NOLINT: an index is a place
  std::int64_t place;
  Where where;
};

/// One axis of a value, or a list of axes. Negative ones count from the innermost, -1.
class Axes {
 public:
  Axes() = default;
  Axes(int axis) : list_{axis} {}                          // NOLINT: an axis is a list of one
  Axes(std::initializer_list<int> list) : list_(list) {}   // NOLINT: and so is {0, 1}
  Axes(std::vector<int> list) : list_(std::move(list)) {}  // NOLINT
  std::span<const int> list() const { return list_; }

 private:
  std::vector<int> list_;
};

/// A value of a graph: a handle, cheap to copy, and valid until its graph is moved or destroyed. A
/// default-constructed Value is an absent optional operand.
class Value {
 public:
  Value() = default;
  Value(Graph& graph, ValueId id) : graph_(&graph), id_(id) {}

  explicit operator bool() const { return graph_ != nullptr; }
  Graph& graph() const { return *graph_; }
  ValueId id() const { return id_; }
  // These return copies, because the graph's storage moves as it grows. All throw Error kInvalidArgument if
  // the graph has no such value, for example after it was moved from.
  std::string name() const { return known().name; }
  DType dtype() const { return known().dtype; }
  Shape shape() const { return known().shape; }
  int rank() const { return known().shape.rank(); }
  /// A dimension, the outermost first; negative ones count from the innermost, -1. Throws Error
  /// kInvalidArgument where there is none.
  Dim size(int axis) const;
  /// The slice at an index of the first axis, without that axis. Negative indices count from the end.
  Value operator[](Place place) const;
  /// Renames the value and returns it.
  Value named(std::string name, Where where = Where::current()) const;

 private:
  const ValueInfo& known() const;

  Graph* graph_ = nullptr;
  ValueId id_ = kNoValue;
};

/// A value as an operand, with the program's line.
struct Operand {
  Operand(Value v, Where w = Where::current()) : value(v), where(w) {}  // NOLINT: a value is an operand
  Value value;
  Where where;
};

/// The result of a comparison: I32, 1 where true and 0 elsewhere. It has no value before a step, so it cannot
/// be used in `if`.
class Comparison : public Value {
 public:
  explicit Comparison(Value value) : Value(value) {}
  explicit operator bool() const = delete;
};

/// Makes a node of any op; the functions below use it. `op` may be a struct of ops (graph/op.h). Absent
/// optional inputs are left out.
Value apply(Op op, std::span<const Value> inputs, Where where = Where::current());
Value apply(Op op, std::initializer_list<Value> inputs, Where where = Where::current());
/// The same for ops with named inputs.
template <HasNamedInputs T>
Value apply(Graph& graph, const T& op, const typename T::Inputs& inputs, Where where = Where::current()) {
  const auto list = input_list<T>(inputs);
  std::array<Value, list.size()> values;
  for (std::size_t i = 0; i < list.size(); ++i)
    if (list[i] != kNoValue) values[i] = Value(graph, list[i]);
  return apply(Op(op), values, where);
}

// Elementwise. Operands broadcast as NumPy's do.
Value operator+(Operand a, Value b);
Value operator+(Operand a, float b);
Value operator+(float a, Operand b);
Value operator-(Operand a, Value b);
Value operator-(Operand a, float b);
Value operator-(float a, Operand b);
Value operator-(Operand x);
Value operator*(Operand a, Value b);
Value operator*(Operand a, float factor);
Value operator*(float factor, Operand a);
Value operator/(Operand a, Value b);
Value operator/(Operand a, float b);
Value operator/(float a, Operand b);

// Values have no operators == and !=: use equal() and not_equal().
Comparison operator<(Operand a, Value b);
Comparison operator<(Operand a, float b);
Comparison operator<(float a, Operand b);
Comparison operator<=(Operand a, Value b);
Comparison operator<=(Operand a, float b);
Comparison operator<=(float a, Operand b);
Comparison operator>(Operand a, Value b);
Comparison operator>(Operand a, float b);
Comparison operator>(float a, Operand b);
Comparison operator>=(Operand a, Value b);
Comparison operator>=(Operand a, float b);
Comparison operator>=(float a, Operand b);

/// x {m, i}, weight {o, i}, bias {o}? -> {m, o}: x times the weight's transpose, as
/// torch.nn.functional.linear.
Value linear(Value x, Value weight, Value bias = {}, Where where = Where::current());

Value relu(Value x, Where where = Where::current());
Value relu_squared(Value x, Where where = Where::current());
Value silu(Value x, Where where = Where::current());
Value gelu(Value x, Where where = Where::current());       ///< Exact, by erf.
Value gelu_tanh(Value x, Where where = Where::current());  ///< The tanh approximation.
Value gelu_quick(Value x, Where where = Where::current());
Value softplus(Value x, Where where = Where::current());
/// activation(gate) * up
Value glu(Activation activation, Value gate, Value up, Where where = Where::current());
/// cap * tanh(x / cap)
Value softcap(Value x, float cap, Where where = Where::current());
/// Softmax of each row's columns.
Value softmax(Value x, Where where = Where::current());

Value layer_norm(Value x, Value weight = {}, Value bias = {}, float eps = 1e-5f,
                 Where where = Where::current());
Value rms_norm(Value x, Value weight = {}, float eps = 1e-5f, Where where = Where::current());
/// Divides each row by its L2 norm, as torch.nn.functional.normalize.
Value normalize(Value x, float eps = 1e-12f, Where where = Where::current());

/// table {n, d}, rows {m} I32 -> {m, d}: an embedding lookup.
Value take(Value table, Value rows, Where where = Where::current());
/// Joins columns (the innermost axis).
Value concat(std::span<const Value> values, Where where = Where::current());
Value concat(std::initializer_list<Value> values, Where where = Where::current());
/// Along any axis. Negative axes count from the innermost, -1, here and below.
Value concat(std::initializer_list<Value> values, int axis, Where where = Where::current());
/// x {m, d} -> {m, k} I32: the columns of the k largest, the largest first.
Value top_k(Value x, int k, Where where = Where::current());
/// Each `block` of columns times the Hadamard matrix of that size (ops::Hadamard).
Value hadamard(Value x, int block, Where where = Where::current());
/// x {m, heads * head_dim}, positions {m} I32, factors {n_rot/2}?
Value rope(Value x, Value positions, const ops::Rope& params, Value factors = {},
           Where where = Where::current());

// For rows of several sequences that are packed without padding: see ops::RaggedAttention.

/// q {m, n_heads*d}, k {n, g*d}, v {n, g*e}, begins {m} I32, ends {m} I32 -> {m, n_heads*e}
Value ragged_attention(Value q, Value k, Value v, Value begins, Value ends, int n_heads, float scale = 0.0f,
                       Where where = Where::current());
/// state {n, 1, d} F32, x {m, d}, rows {m} I32 -> the state, with row i of x stored in row rows[i].
Value store_rows(Value state, Value x, Value rows, Where where = Where::current());
/// x {t, c}, weight {o, kernel*c}, bias {o}? -> {(t + 2 * padding - kernel) / stride + 1, o}: a 1D
/// convolution over the rows of one signal. A weight's row has the c inputs of the first time step, then the
/// c inputs of the next. torch.nn.functional.conv1d has {o, c, kernel}. For signals {n, c, t} use conv1d
/// (value_windows.h).
Value conv1d_channels_last(Value x, Value weight, Value bias, std::int64_t kernel, std::int64_t stride = 1,
                           std::int64_t padding = 0, Where where = Where::current());
/// x {m, d}, begins {s} I32, ends {s} I32 -> {s, d}
Value ragged_mean(Value x, Value begins, Value ends, Where where = Where::current());
// Elementwise functions. NaN where the result is not a real number.
Value abs(Value x, Where where = Where::current());
Value square(Value x, Where where = Where::current());
Value sqrt(Value x, Where where = Where::current());
Value rsqrt(Value x, Where where = Where::current());
Value reciprocal(Value x, Where where = Where::current());
Value exp(Value x, Where where = Where::current());
Value log(Value x, Where where = Where::current());
Value sin(Value x, Where where = Where::current());
Value cos(Value x, Where where = Where::current());
Value tanh(Value x, Where where = Where::current());
Value sigmoid(Value x, Where where = Where::current());
Value floor(Value x, Where where = Where::current());
Value ceil(Value x, Where where = Where::current());
Value round(Value x, Where where = Where::current());  ///< Halves round to even.
Value clamp(Value x, float low, float high, Where where = Where::current());

// Functions of two operands, which broadcast. One may be a number.
Value maximum(Value a, Value b, Where where = Where::current());
Value maximum(Value a, float b, Where where = Where::current());
Value minimum(Value a, Value b, Where where = Where::current());
Value minimum(Value a, float b, Where where = Where::current());
Value pow(Value a, Value b, Where where = Where::current());
Value pow(Value a, float b, Where where = Where::current());
Value pow(float a, Value b, Where where = Where::current());

// Comparisons: I32, 1 where true and 0 elsewhere.
Value equal(Value a, Value b, Where where = Where::current());
Value equal(Value a, float b, Where where = Where::current());
Value not_equal(Value a, Value b, Where where = Where::current());
Value not_equal(Value a, float b, Where where = Where::current());
Value less(Value a, Value b, Where where = Where::current());
Value less(Value a, float b, Where where = Where::current());
Value less_equal(Value a, Value b, Where where = Where::current());
Value less_equal(Value a, float b, Where where = Where::current());
Value greater(Value a, Value b, Where where = Where::current());
Value greater(Value a, float b, Where where = Where::current());
Value greater_equal(Value a, Value b, Where where = Where::current());
Value greater_equal(Value a, float b, Where where = Where::current());
/// a where the condition (I32) is not 0, b elsewhere.
Value where(Value condition, Value a, Value b, Where where = Where::current());
Value where(Value condition, Value a, float b, Where where = Where::current());
Value where(Value condition, float a, Value b, Where where = Where::current());
Value where(Value condition, float a, float b, Where where = Where::current());

// Reductions over some axes, or over all if none are given; `keep` keeps them with size 1. For I32 values,
// sum, max and min return I32, and sums wrap at 32 bits. The others need F32: cast first.
Value sum(Value x, const Axes& axes = {}, bool keep = false, Where where = Where::current());
Value mean(Value x, const Axes& axes = {}, bool keep = false, Where where = Where::current());
Value max(Value x, const Axes& axes = {}, bool keep = false, Where where = Where::current());
Value min(Value x, const Axes& axes = {}, bool keep = false, Where where = Where::current());
/// The population variance: the mean square of the differences from the mean.
Value var(Value x, const Axes& axes = {}, bool keep = false, Where where = Where::current());
/// I32: the index along the axis, the first among equals.
Value argmax(Value x, int axis, bool keep = false, Where where = Where::current());

/// a {..., m, k}, b {..., k, n} -> {..., m, n}, for inputs and results. For weights use `linear`.
Value matmul(Value a, Value b, Where where = Where::current());

// Views: they take no time if the ops that read them support strides, otherwise a copy.

/// One size may be -1: it follows from the others.
Value reshape(Value x, Shape shape, Where where = Where::current());
/// Axis i of the result is axis axes[i] of x.
Value permute(Value x, const Axes& axes, Where where = Where::current());
/// Exchanges two axes.
Value transpose(Value x, int axis_a = -2, int axis_b = -1, Where where = Where::current());
/// Elements begin, begin + step, ... below end of an axis. Negative constants count from the axis's end.
Value slice(Value x, int axis, Dim begin, Dim end, std::int64_t step = 1, Where where = Where::current());
Value broadcast_to(Value x, Shape shape, Where where = Where::current());
/// Removes an axis of size 1; adds one.
Value squeeze(Value x, int axis, Where where = Where::current());
Value unsqueeze(Value x, int axis, Where where = Where::current());

/// Pads an axis with elements of `value` before and after it.
Value pad(Value x, int axis, std::int64_t before, std::int64_t after, float value = 0.0f,
          Where where = Where::current());

}  // namespace weft

#pragma GCC visibility pop
