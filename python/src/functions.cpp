// weft.ops: the functions of the graph language. Similar functions are in tables.
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/variant.h>

#include <array>
#include <tuple>
#include <variant>

#include "graph.h"

namespace weft::python {

namespace {

// Functions of one value.
struct OneRow {
  const char* name;
  Value (*make)(Value, Where);
};
constexpr std::array kOne = {
    OneRow{"abs", abs},
    OneRow{"square", square},
    OneRow{"sqrt", sqrt},
    OneRow{"rsqrt", rsqrt},
    OneRow{"reciprocal", reciprocal},
    OneRow{"exp", exp},
    OneRow{"log", log},
    OneRow{"sin", sin},
    OneRow{"cos", cos},
    OneRow{"tanh", tanh},
    OneRow{"sigmoid", sigmoid},
    OneRow{"floor", floor},
    OneRow{"ceil", ceil},
    OneRow{"round", round},
    OneRow{"erf", erf},
    OneRow{"expm1", expm1},
    OneRow{"log1p", log1p},
    OneRow{"relu", relu},
    OneRow{"relu_squared", relu_squared},
    OneRow{"silu", silu},
    OneRow{"gelu", gelu},
    OneRow{"gelu_tanh", gelu_tanh},
    OneRow{"gelu_quick", gelu_quick},
    OneRow{"softplus", softplus},
    OneRow{"logical_not", logical_not},
    OneRow{"isnan", isnan},
    OneRow{"isinf", isinf},
    OneRow{"isfinite", isfinite},
};

// Functions of two operands, either of which may be a number or an array.
struct TwoRow {
  const char* name;
  Value (*of_values)(Value, Value, Where);
  Value (*with_number)(Value, float, Where);
  /// A number and a value: with_number of the mirrored function, which takes the value first.
  Value (*of_number)(Value, float, Where);
};
Value number_to(Value exponent, float base, Where where) { return pow(base, exponent, where); }
Value difference(Value a, Value b, Where where) { return Operand(a, where) - b; }
Value less_number(Value a, float b, Where where) { return Operand(a, where) - b; }
Value number_less(Value b, float a, Where where) { return a - Operand(b, where); }
Value total(Value a, Value b, Where where) { return Operand(a, where) + b; }
Value plus_number(Value a, float b, Where where) { return Operand(a, where) + b; }
Value times(Value a, Value b, Where where) { return Operand(a, where) * b; }
Value times_number(Value a, float b, Where where) { return Operand(a, where) * b; }
Value quotient(Value a, Value b, Where where) { return Operand(a, where) / b; }
Value by_number(Value a, float b, Where where) { return Operand(a, where) / b; }
Value number_by(Value b, float a, Where where) { return a / Operand(b, where); }
constexpr std::array kTwo = {
    TwoRow{"add", total, plus_number, plus_number},
    TwoRow{"subtract", difference, less_number, number_less},
    TwoRow{"multiply", times, times_number, times_number},
    TwoRow{"divide", quotient, by_number, number_by},
    TwoRow{"maximum", maximum, maximum, maximum},
    TwoRow{"minimum", minimum, minimum, minimum},
    TwoRow{"pow", pow, pow, number_to},
    TwoRow{"equal", equal, equal, equal},
    TwoRow{"not_equal", not_equal, not_equal, not_equal},
    TwoRow{"less", less, less, greater},
    TwoRow{"less_equal", less_equal, less_equal, greater_equal},
    TwoRow{"greater", greater, greater, less},
    TwoRow{"greater_equal", greater_equal, greater_equal, less_equal},
};

// Reductions over axes, over all if none are named.
struct OverRow {
  const char* name;
  Value (*make)(Value, const Axes&, bool, Where);
};
constexpr std::array kOver = {
    OverRow{"sum", sum}, OverRow{"mean", mean}, OverRow{"max", max},
    OverRow{"min", min}, OverRow{"var", var},   OverRow{"prod", prod},
    OverRow{"any", any}, OverRow{"all", all},   OverRow{"logsumexp", logsumexp},
};

/// One axis or several; none are all.
using GivenAxes = std::variant<int, std::vector<int>>;
Axes axes_of(const GivenAxes& given) {
  if (const int* const one = std::get_if<int>(&given)) return *one;
  return std::get<std::vector<int>>(given);
}
Axes axes_of(const std::optional<GivenAxes>& given) { return given ? axes_of(*given) : Axes(); }

/// A parameter of a function from Python. A value may be an array, and parameters after the first kRequired
/// may be None.
template <std::size_t kRequired, std::size_t kPlace, typename T>
using Given =
    std::conditional_t<std::is_same_v<T, Value>,
                       std::conditional_t<kPlace >= kRequired, std::optional<ValueOrArray>, ValueOrArray>, T>;

const Argument* argument_of(const ValueOrArray& one) { return &one; }
const Argument* argument_of(const std::optional<ValueOrArray>& one) {
  static const Argument kNone;
  return one ? &*one : &kNone;
}
template <typename T>
const Argument* argument_of(const T&) {
  static const Argument kNone;
  return &kNone;
}

template <typename T, typename G>
T given(G&& argument, Graph* graph) {
  if constexpr (!std::is_same_v<T, Value>)
    return std::forward<G>(argument);
  else if constexpr (std::is_same_v<std::decay_t<G>, ValueOrArray>)
    return value_of(argument, *graph);
  else
    return argument ? value_of(*argument, *graph) : Value{};
}

/// The function without its last parameter, the line of a C++ program.
template <std::size_t kRequired, typename R, typename... All>
auto function(R (*make)(All...)) {
  using Types = std::tuple<All...>;
  return [make]<std::size_t... kPlaces>(std::index_sequence<kPlaces...>) {
    return [make](Given<kRequired, kPlaces, std::tuple_element_t<kPlaces, Types>>... arguments) {
      Graph* const graph = &first_value({argument_of(arguments)...}).graph();
      return make(given<std::tuple_element_t<kPlaces, Types>>(std::move(arguments), graph)..., Where{});
    };
  }(std::make_index_sequence<sizeof...(All) - 1>{});
}
constexpr std::size_t kAllRequired = 99;
template <typename R, typename... All>
auto function(R (*make)(All...)) {
  return function<kAllRequired>(make);
}

/// concat along an axis of any number of values; a node takes some at most.
Value join(std::vector<Value> values, int axis) {
  constexpr std::size_t kMost = ops::Concat::kMaxInputs;
  while (values.size() > kMost) {
    std::vector<Value> fewer;
    for (std::size_t i = 0; i < values.size(); i += kMost)
      fewer.push_back(join({values.begin() + static_cast<std::ptrdiff_t>(i),
                            values.begin() + static_cast<std::ptrdiff_t>(std::min(values.size(), i + kMost))},
                           axis));
    values = std::move(fewer);
  }
  if (values.empty()) refuse("concat: it has no inputs");
  const int rank = values.front().rank();
  if (axis < -rank || axis >= rank)
    refuse("concat: there is no axis " + std::to_string(axis) + " of " + std::to_string(rank));
  return apply(ops::Concat{.axis = axis < 0 ? axis + rank : axis}, values, Where{});
}

std::vector<Value> operands(const std::vector<ValueOrArray>& all) {
  Graph* graph = nullptr;
  for (const ValueOrArray& one : all)
    if (one.is_value()) graph = &one.value.graph();
  if (graph == nullptr) refuse(all.empty() ? "it has no inputs" : "an operand must be a value of a graph");
  std::vector<Value> values;
  for (const ValueOrArray& one : all) values.push_back(value_of(one, *graph));
  return values;
}
Value put_beside(const std::vector<ValueOrArray>& all, int axis) {
  std::vector<Value> parts;
  for (const Value& value : operands(all)) parts.push_back(unsqueeze(value, axis, Where{}));
  return join(std::move(parts), axis);
}

using Parts = std::variant<int, std::vector<Dim>>;
std::vector<Value> cut(Value x, const Parts& parts, int axis) {
  if (const int* const n = std::get_if<int>(&parts)) return split(x, *n, axis, Where{});
  return split(x, std::span<const Dim>(std::get<std::vector<Dim>>(parts)), axis, Where{});
}

/// The class, to which methods are added.
nb::class_<PyValue> value_class() { return nb::borrow<nb::class_<PyValue>>(nb::type<PyValue>()); }

void bind_tables(nb::module_& m) {
  nb::class_<PyValue> value = value_class();
  for (const OneRow& row : kOne) {
    const auto make = [make = row.make](Value x) { return make(x, Where{}); };
    m.def(row.name, make, nb::arg("x"));
    value.def(row.name, make);
  }
  for (const TwoRow& row : kTwo)
    m.def(
        row.name,
        [row](const Argument& a, const Argument& b) {
          return with_two(a, b, [&](auto left, auto right) {
            if constexpr (std::is_same_v<decltype(left), float>)
              return row.of_number(right, left, Where{});
            else if constexpr (std::is_same_v<decltype(right), float>)
              return row.with_number(left, right, Where{});
            else
              return row.of_values(left, right, Where{});
          });
        },
        nb::arg("a"), nb::arg("b"));
  for (const OverRow& row : kOver) {
    const auto make = [make = row.make](Value x, const std::optional<GivenAxes>& axis, bool keepdims) {
      return make(x, axes_of(axis), keepdims, Where{});
    };
    m.def(row.name, make, nb::arg("x"), nb::arg("axis") = nb::none(), nb::arg("keepdims") = false);
    value.def(row.name, make, nb::arg("axis") = nb::none(), nb::arg("keepdims") = false);
  }
}

/// Binds the methods for a value's shape.
void bind_methods() {
  value_class()
      .def(
          "reshape",
          [](Value x, const nb::args& sizes) {
            // reshape(2, 3) and reshape((2, 3)).
            const nb::object all =
                sizes.size() == 1 && !nb::isinstance<nb::int_>(sizes[0]) && !nb::isinstance<PyDim>(sizes[0])
                    ? nb::object(sizes[0])
                    : nb::object(sizes);
            return reshape(x, nb::cast<Shape>(all), Where{});
          },
          nb::sig("def reshape(self, *shape: typing.Any) -> Value"))
      .def(
          "permute", [](Value x, const std::vector<int>& axes) { return permute(x, axes, Where{}); },
          nb::arg("axes"))
      .def(
          "transpose", [](Value x, int a, int b) { return transpose(x, a, b, Where{}); },
          nb::arg("axis_a") = -2, nb::arg("axis_b") = -1)
      .def_prop_ro("T", [](Value x) { return x.rank() < 2 ? x : transpose(x, -2, -1, Where{}); })
      .def(
          "squeeze", [](Value x, int axis) { return squeeze(x, axis, Where{}); }, nb::arg("axis"))
      .def(
          "unsqueeze", [](Value x, int axis) { return unsqueeze(x, axis, Where{}); }, nb::arg("axis"))
      .def(
          "astype", [](Value x, std::string_view dtype) { return cast(x, dtype_of(dtype), Where{}); },
          nb::arg("dtype"));
}

void bind_layers(nb::module_& m) {
  m.def("linear", function<2>(&linear), nb::arg("x"), nb::arg("weight"), nb::arg("bias") = nb::none(),
        "x {m, i} times the transpose of weight {o, i}, plus bias {o}.");
  m.def("matmul", &product, nb::arg("a"), nb::arg("b"));
  m.def("softmax", function<1>(static_cast<Value (*)(Value, int, Where)>(&softmax)), nb::arg("x"),
        nb::arg("axis") = -1);
  m.def("softcap", function(&softcap), nb::arg("x"), nb::arg("cap"));
  m.def("layer_norm", function<1>(&layer_norm), nb::arg("x"), nb::arg("weight") = nb::none(),
        nb::arg("bias") = nb::none(), nb::arg("eps") = 1e-5f);
  m.def("rms_norm", function<1>(&rms_norm), nb::arg("x"), nb::arg("weight") = nb::none(),
        nb::arg("eps") = 1e-5f);
  m.def("normalize", function(&normalize), nb::arg("x"), nb::arg("eps") = 1e-12f);
  m.def("batch_norm", function<3>(&batch_norm), nb::arg("x"), nb::arg("mean"), nb::arg("var"),
        nb::arg("weight") = nb::none(), nb::arg("bias") = nb::none(), nb::arg("eps") = 1e-5f);
  m.def("group_norm", function<1>(&group_norm), nb::arg("x"), nb::arg("groups"),
        nb::arg("weight") = nb::none(), nb::arg("bias") = nb::none(), nb::arg("eps") = 1e-5f);
  m.def(
      "scaled_dot_product_attention",
      [](Value q, Value k, Value v, std::optional<Value> bias, bool causal, float scale, float cap) {
        return scaled_dot_product_attention(
            q, k, v, {.bias = bias.value_or(Value{}), .causal = causal, .scale = scale, .softcap = cap},
            Where{});
      },
      nb::arg("q"), nb::arg("k"), nb::arg("v"), nb::arg("bias") = nb::none(), nb::arg("causal") = false,
      nb::arg("scale") = 0.0f, nb::arg("softcap") = 0.0f);
  m.def("hadamard", function(&hadamard), nb::arg("x"), nb::arg("block"));
  m.def(
      "rope",
      [](Value x, Value positions, int head_dim, std::optional<int> n_rot, bool neox, float freq_base,
         float freq_scale, std::optional<Value> factors) {
        const ops::Rope params{.head_dim = head_dim,
                               .n_rot = n_rot.value_or(head_dim),
                               .neox = neox,
                               .freq_base = freq_base,
                               .freq_scale = freq_scale};
        return rope(x, positions, params, factors.value_or(Value{}), Where{});
      },
      nb::arg("x"), nb::arg("positions"), nb::arg("head_dim"), nb::arg("n_rot") = nb::none(),
      nb::arg("neox") = true, nb::arg("freq_base") = 10000.0f, nb::arg("freq_scale") = 1.0f,
      nb::arg("factors") = nb::none());
  m.def(
      "lstm",
      [](Value x, Value weight, std::optional<Value> h0, std::optional<Value> c0) {
        const Recurrence all = lstm(x, weight, h0.value_or(Value{}), c0.value_or(Value{}), Where{});
        return std::tuple(all.y, all.h, all.c);
      },
      nb::arg("x"), nb::arg("weight"), nb::arg("h0") = nb::none(), nb::arg("c0") = nb::none());
  m.def(
      "gru",
      [](Value x, Value weight, std::optional<Value> h0, std::optional<Value> bias) {
        const Recurrence all = gru(x, weight, h0.value_or(Value{}), bias.value_or(Value{}), Where{});
        return std::pair(all.y, all.h);
      },
      nb::arg("x"), nb::arg("weight"), nb::arg("h0") = nb::none(), nb::arg("bias") = nb::none());
  m.def("ragged_attention", function(&ragged_attention), nb::arg("q"), nb::arg("k"), nb::arg("v"),
        nb::arg("begins"), nb::arg("ends"), nb::arg("n_heads"), nb::arg("scale") = 0.0f);
  m.def("ragged_mean", function(&ragged_mean), nb::arg("x"), nb::arg("begins"), nb::arg("ends"));
  m.def("store_rows", function(&store_rows), nb::arg("state"), nb::arg("x"), nb::arg("rows"));
}

void bind_moves(nb::module_& m) {
  m.def(
      "concat", [](const std::vector<ValueOrArray>& all, int axis) { return join(operands(all), axis); },
      nb::arg("values"), nb::arg("axis") = -1);
  m.def("stack", &put_beside, nb::arg("values"), nb::arg("axis") = 0);
  m.def("split", &cut, nb::arg("x"), nb::arg("parts"), nb::arg("axis") = 0,
        "Splits into a number of equal parts, or into parts of these sizes.");
  m.def("reshape", function(&reshape), nb::arg("x"), nb::arg("shape"));
  m.def(
      "permute", [](Value x, const std::vector<int>& axes) { return permute(x, axes, Where{}); },
      nb::arg("x"), nb::arg("axes"));
  m.def("transpose", function(&transpose), nb::arg("x"), nb::arg("axis_a") = -2, nb::arg("axis_b") = -1);
  m.def("slice", function(&slice), nb::arg("x"), nb::arg("axis"), nb::arg("begin"), nb::arg("end"),
        nb::arg("step") = 1);
  m.def("broadcast_to", function(&broadcast_to), nb::arg("x"), nb::arg("shape"));
  m.def("squeeze", function(&squeeze), nb::arg("x"), nb::arg("axis"));
  m.def("unsqueeze", function(&unsqueeze), nb::arg("x"), nb::arg("axis"));
  m.def("pad", function(&pad), nb::arg("x"), nb::arg("axis"), nb::arg("before"), nb::arg("after"),
        nb::arg("value") = 0.0f);
  m.def(
      "flip", [](Value x, const GivenAxes& axes) { return flip(x, axes_of(axes), Where{}); }, nb::arg("x"),
      nb::arg("axes"));
  m.def("repeat", function(&repeat), nb::arg("x"), nb::arg("times"), nb::arg("axis"));
  m.def("tile", function(&tile), nb::arg("x"), nb::arg("times"), nb::arg("axis"));
  m.def("tril", function(&tril), nb::arg("x"), nb::arg("diagonal") = 0);
  m.def("triu", function(&triu), nb::arg("x"), nb::arg("diagonal") = 0);
  m.def("one_hot", function(&one_hot), nb::arg("indices"), nb::arg("n_classes"));
  m.def(
      "take",
      [](const ValueOrArray& x, const ValueOrArray& indices, std::optional<int> axis) {
        Graph& graph = first_value({&x, &indices}).graph();
        const Value table = value_of(x, graph), places = value_of(indices, graph);
        return axis ? take(table, places, *axis, Where{}) : take(table, places, Where{});
      },
      nb::arg("x"), nb::arg("indices"), nb::arg("axis") = nb::none(),
      "Elements of an axis by index. Without an axis: rows of a table, which may be a quantized weight.");
  m.def("take_along_axis", function(&take_along_axis), nb::arg("x"), nb::arg("indices"), nb::arg("axis"));
  m.def("scatter", function(&scatter), nb::arg("x"), nb::arg("indices"), nb::arg("source"), nb::arg("axis"));
  m.def("scatter_add", function(&scatter_add), nb::arg("x"), nb::arg("indices"), nb::arg("source"),
        nb::arg("axis"));
  m.def("set_rows", function(&set_rows), nb::arg("x"), nb::arg("indices"), nb::arg("source"),
        nb::arg("axis") = 0);
  m.def("index_add", function(&index_add), nb::arg("x"), nb::arg("indices"), nb::arg("source"),
        nb::arg("axis") = 0);
  m.def("argsort", function(&argsort), nb::arg("x"), nb::arg("axis") = -1, nb::arg("descending") = false);
  m.def("sort", function(&sort), nb::arg("x"), nb::arg("axis") = -1, nb::arg("descending") = false);
}

/// a where the condition holds, b elsewhere. Two integers give I32, as in NumPy.
Value choose(const ValueOrArray& condition, const Argument& a, const Argument& b) {
  Graph& graph = first_value({&condition, &a, &b}).graph();
  const Value holds = value_of(condition, graph);
  if (a.is_number() && b.is_number()) {
    const DType like = a.is_whole && b.is_whole ? DType::kI32 : DType::kF32;
    return where(holds, value_of(a, graph, like), value_of(b, graph, like), Where{});
  }
  if (!a.is_value() && !b.is_value()) {  // An array, and an array or a number.
    const Argument& array = a.is_array() ? a : b;
    const Value made = value_of(array, graph);
    const auto as = [&](const Argument& one) {
      return &one == &array ? made : value_of(one, graph, made.dtype());
    };
    return where(holds, as(a), as(b), Where{});
  }
  return with_two(a, b, [&](auto left, auto right) { return where(holds, left, right, Where{}); });
}

void bind_numbers(nb::module_& m) {
  m.def("clamp", function(&clamp), nb::arg("x"), nb::arg("low"), nb::arg("high"));
  m.def("where", &choose, nb::arg("condition"), nb::arg("a"), nb::arg("b"));
  m.def(
      "glu_silu", [](Value gate, Value up) { return glu(Activation::kSilu, gate, up, Where{}); },
      nb::arg("gate"), nb::arg("up"), "silu(gate) * up");
  m.def(
      "cast", [](Value x, std::string_view dtype) { return cast(x, dtype_of(dtype), Where{}); }, nb::arg("x"),
      nb::arg("dtype"));
  m.def("floor_divide", function(static_cast<Value (*)(Value, Value, Where)>(&floor_divide)), nb::arg("a"),
        nb::arg("b"));
  m.def("floor_divide", function(static_cast<Value (*)(Value, std::int32_t, Where)>(&floor_divide)),
        nb::arg("a"), nb::arg("b"));
  m.def("remainder", function(static_cast<Value (*)(Value, Value, Where)>(&remainder)), nb::arg("a"),
        nb::arg("b"));
  m.def("remainder", function(static_cast<Value (*)(Value, std::int32_t, Where)>(&remainder)), nb::arg("a"),
        nb::arg("b"));
  m.def("logical_and", function(&logical_and), nb::arg("a"), nb::arg("b"));
  m.def("logical_or", function(&logical_or), nb::arg("a"), nb::arg("b"));
  m.def("argmax", function(&argmax), nb::arg("x"), nb::arg("axis"), nb::arg("keepdims") = false);
  m.def("argmin", function(&argmin), nb::arg("x"), nb::arg("axis"), nb::arg("keepdims") = false);
  m.def("cumsum", function(&cumsum), nb::arg("x"), nb::arg("axis"));
  m.def("top_k", function(&top_k), nb::arg("x"), nb::arg("k"));
  m.def(
      "arange",
      [](PyGraph& graph, const Dim& begin, const Dim& end, std::int64_t step, std::string_view dtype) {
        return arange(graph, begin, end, step, dtype_of(dtype), Where{});
      },
      nb::arg("graph"), nb::arg("begin"), nb::arg("end"), nb::arg("step") = 1, nb::arg("dtype") = "i32");
  m.def(
      "full",
      [](PyGraph& graph, const Shape& shape, float value) { return full(graph, shape, value, Where{}); },
      nb::arg("graph"), nb::arg("shape"), nb::arg("value"));
  m.def("random_uniform", function(&random_uniform), nb::arg("counter"), nb::arg("shape"), nb::arg("seed"),
        nb::arg("low") = 0.0f, nb::arg("high") = 1.0f);
  m.def("random_normal", function(&random_normal), nb::arg("counter"), nb::arg("shape"), nb::arg("seed"),
        nb::arg("mean") = 0.0f, nb::arg("deviation") = 1.0f);
}

/// One number for height and width, or one for each.
using Size = std::variant<std::int64_t, std::pair<std::int64_t, std::int64_t>>;
HeightWidth size(const Size& given) {
  if (const std::int64_t* const both = std::get_if<std::int64_t>(&given)) return *both;
  const auto& [h, w] = std::get<1>(given);
  return {h, w};
}
std::optional<HeightWidth> size(const std::optional<Size>& given) {
  return given ? std::optional(size(*given)) : std::nullopt;
}

void bind_images(nb::module_& m) {
  const Size one = std::int64_t{1}, none = std::int64_t{0};
  m.def(
      "conv2d",
      [](Value x, Value weight, std::optional<Value> bias, const Size& stride, const Size& padding,
         const Size& dilation, std::int64_t groups) {
        return conv2d(
            x, weight, bias.value_or(Value{}),
            {.stride = size(stride), .padding = size(padding), .dilation = size(dilation), .groups = groups},
            Where{});
      },
      nb::arg("x"), nb::arg("weight"), nb::arg("bias") = nb::none(), nb::arg("stride") = one,
      nb::arg("padding") = none, nb::arg("dilation") = one, nb::arg("groups") = 1);
  m.def(
      "conv_transpose2d",
      [](Value x, Value weight, std::optional<Value> bias, const Size& stride, const Size& padding,
         const Size& output_padding, const Size& dilation, std::int64_t groups) {
        return conv_transpose2d(x, weight, bias.value_or(Value{}),
                                {.stride = size(stride),
                                 .padding = size(padding),
                                 .output_padding = size(output_padding),
                                 .dilation = size(dilation),
                                 .groups = groups},
                                Where{});
      },
      nb::arg("x"), nb::arg("weight"), nb::arg("bias") = nb::none(), nb::arg("stride") = one,
      nb::arg("padding") = none, nb::arg("output_padding") = none, nb::arg("dilation") = one,
      nb::arg("groups") = 1);
  m.def(
      "conv1d",
      [](Value x, Value weight, std::optional<Value> bias, std::int64_t stride, std::int64_t padding,
         std::int64_t dilation, std::int64_t groups) {
        return conv1d(x, weight, bias.value_or(Value{}),
                      Conv1d{.stride = stride, .padding = padding, .dilation = dilation, .groups = groups},
                      Where{});
      },
      nb::arg("x"), nb::arg("weight"), nb::arg("bias") = nb::none(), nb::arg("stride") = 1,
      nb::arg("padding") = 0, nb::arg("dilation") = 1, nb::arg("groups") = 1,
      "Signals {n, c, t}, weight {o, c / groups, 1, k}.");
  m.def(
      "conv_transpose1d",
      [](Value x, Value weight, std::optional<Value> bias, std::int64_t stride, std::int64_t padding,
         std::int64_t output_padding, std::int64_t dilation, std::int64_t groups) {
        return conv_transpose1d(x, weight, bias.value_or(Value{}),
                                {.stride = stride,
                                 .padding = padding,
                                 .output_padding = output_padding,
                                 .dilation = dilation,
                                 .groups = groups},
                                Where{});
      },
      nb::arg("x"), nb::arg("weight"), nb::arg("bias") = nb::none(), nb::arg("stride") = 1,
      nb::arg("padding") = 0, nb::arg("output_padding") = 0, nb::arg("dilation") = 1, nb::arg("groups") = 1);
  m.def(
      "max_pool2d",
      [](Value x, const Size& kernel, const std::optional<Size>& stride, const Size& padding) {
        return max_pool2d(x, size(kernel), size(stride), size(padding), Where{});
      },
      nb::arg("x"), nb::arg("kernel"), nb::arg("stride") = nb::none(), nb::arg("padding") = none);
  m.def(
      "avg_pool2d",
      [](Value x, const Size& kernel, const std::optional<Size>& stride, const Size& padding,
         bool count_include_pad) {
        return avg_pool2d(x, size(kernel), size(stride), size(padding), count_include_pad, Where{});
      },
      nb::arg("x"), nb::arg("kernel"), nb::arg("stride") = nb::none(), nb::arg("padding") = none,
      nb::arg("count_include_pad") = true);
  m.def(
      "upsample_nearest",
      [](Value x, const Size& scale) { return upsample_nearest(x, size(scale), Where{}); }, nb::arg("x"),
      nb::arg("scale"));
  m.def(
      "upsample_bilinear",
      [](Value x, const Size& scale, bool align_corners) {
        return upsample_bilinear(x, size(scale), align_corners, Where{});
      },
      nb::arg("x"), nb::arg("scale"), nb::arg("align_corners") = false);
  m.def("resize_nearest", function(&resize_nearest), nb::arg("x"), nb::arg("height"), nb::arg("width"));
  m.def("resize_bilinear", function(&resize_bilinear), nb::arg("x"), nb::arg("height"), nb::arg("width"),
        nb::arg("align_corners") = false);
}

}  // namespace

void bind_functions(nb::module_& m) {
  nb::module_ ops =
      m.def_submodule("ops", "Functions for building graphs, with the names of NumPy and PyTorch.");
  bind_tables(ops);
  bind_methods();
  bind_layers(ops);
  bind_moves(ops);
  bind_numbers(ops);
  bind_images(ops);
}

}  // namespace weft::python
