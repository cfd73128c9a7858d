// Graphs, values with operators, and sizes.
#include "graph.h"

#include <nanobind/operators.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/shared_ptr.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <type_traits>
#include <vector>

namespace weft::python {

std::shared_ptr<PyGraph> owner_of(Graph& graph) { return static_cast<PyGraph&>(graph).shared_from_this(); }

DType dtype_of(std::string_view name) {
  const std::optional<DType> type = dtype_from_name(name);
  if (!type)
    refuse("there is no type '" + std::string(name) + "'; types are f32, f16, bf16, i32, q8_0, q4_K, ...");
  return *type;
}

nb::object to_python(const std::shared_ptr<PyGraph>& owner, const Dim& dim) {
  if (dim.is_constant()) return nb::cast(dim.constant());
  return nb::cast(PyDim{owner, dim});
}

nb::tuple to_python(const std::shared_ptr<PyGraph>& owner, const Shape& shape) {
  nb::list dims;
  for (int i = 0; i < shape.rank(); ++i) dims.append(to_python(owner, shape[i]));
  return nb::tuple(dims);
}

namespace {

/// A value as operators take it.
Operand with_line(Value x) { return {x, Where{}}; }

/// An operator of a value and another operand.
template <typename F>
auto operate(const F& f) {
  return [f](const Argument& a, const Argument& b) {
    return with_two(a, b, [&](auto left, auto right) -> Value {
      if constexpr (std::is_same_v<decltype(left), Value>)
        return f(with_line(left), right);
      else
        return f(left, with_line(right));
    });
  };
}
template <typename F>
auto operate_reversed(const F& f) {
  return [make = operate(f)](const Argument& a, const Argument& b) { return make(b, a); };
}

/// Comparisons that are the same either way round.
template <typename F>
auto compare(const F& f) {
  return [f](const Argument& a, const Argument& b) {
    return with_two(a, b, [&](auto left, auto right) {
      if constexpr (std::is_same_v<decltype(left), Value>)
        return f(left, right);
      else
        return f(right, left);
    });
  };
}

Value power(const Operand& a, const Value& b) { return pow(a.value, b, Where{}); }
Value power(const Operand& a, float b) { return pow(a.value, b, Where{}); }
Value power(float a, const Operand& b) { return pow(a, b.value, Where{}); }

template <typename T>
T place_of(nb::handle given) {
  T place{};
  if (!nb::try_cast(given, place)) wrong_type("a place in a value", given);
  return place;
}

/// x[i], x[a:b, ...], x[None]: of one axis after the other.
Value get_item(const Value& x, const nb::object& key) {
  const nb::tuple all = nb::isinstance<nb::tuple>(key) ? nb::borrow<nb::tuple>(key) : nb::make_tuple(key);
  int n_axes = 0, n_ellipses = 0;
  for (const nb::handle part : all) {
    n_ellipses += part.is(nb::handle(Py_Ellipsis)) ? 1 : 0;
    n_axes += !part.is_none() && !part.is(nb::handle(Py_Ellipsis)) ? 1 : 0;
  }
  if (n_axes > x.rank() || n_ellipses > 1)
    refuse("a value of " + std::to_string(x.rank()) + " axes is read at " + std::to_string(n_axes) +
           " places");
  Value result = x;
  int axis = 0;
  for (const nb::handle part : all) {
    if (part.is(nb::handle(Py_Ellipsis))) {
      axis += x.rank() - n_axes;
    } else if (part.is_none()) {
      result = unsqueeze(result, axis++, Where{});
    } else if (nb::isinstance<nb::slice>(part)) {
      const auto bound = [&](const char* name, const Dim& otherwise) {
        const nb::object given = part.attr(name);
        return given.is_none() ? otherwise : place_of<Dim>(given);
      };
      const Dim step = bound("step", 1);
      if (!step.is_constant() || step.constant() < 1)
        refuse("a slice's step is a number above 0; see weft.ops.flip");
      result =
          slice(result, axis, bound("start", 0), bound("stop", result.size(axis)), step.constant(), Where{});
      ++axis;
    } else {
      const auto place = place_of<std::int64_t>(part);
      const Dim end = place == -1 ? result.size(axis) : Dim(place + 1);
      result = squeeze(slice(result, axis, place, end, 1, Where{}), axis, Where{});
    }
  }
  return result;
}

Dim combine(const PyDim& a, const Dim& b, char op) {
  switch (op) {
    case '+':
      return a.dim + b;
    case '-':
      return a.dim - b;
    case '*':
      return a.dim * b;
    default:
      return b - a.dim;
  }
}
template <char kOp>
nb::object arithmetic(const PyDim& a, const Dim& b) {
  return to_python(a.owner, combine(a, b, kOp));
}

void bind_dim(nb::module_& m) {
  nb::class_<PyDim>(m, "Dim", "A size that each step says, or an expression of such sizes.")
      .def("__add__", &arithmetic<'+'>, nb::is_operator(),
           nb::sig("def __add__(self, other: int | Dim, /) -> int | Dim"))
      .def("__radd__", &arithmetic<'+'>, nb::is_operator(),
           nb::sig("def __radd__(self, other: int | Dim, /) -> int | Dim"))
      .def("__sub__", &arithmetic<'-'>, nb::is_operator(),
           nb::sig("def __sub__(self, other: int | Dim, /) -> int | Dim"))
      .def("__rsub__", &arithmetic<'r'>, nb::is_operator(),
           nb::sig("def __rsub__(self, other: int | Dim, /) -> int | Dim"))
      .def("__mul__", &arithmetic<'*'>, nb::is_operator(),
           nb::sig("def __mul__(self, other: int | Dim, /) -> int | Dim"))
      .def("__rmul__", &arithmetic<'*'>, nb::is_operator(),
           nb::sig("def __rmul__(self, other: int | Dim, /) -> int | Dim"))
      .def(
          "__floordiv__",
          [](const PyDim& a, std::int64_t divisor) { return to_python(a.owner, a.dim / divisor); },
          nb::is_operator(), nb::sig("def __floordiv__(self, divisor: int, /) -> int | Dim"))
      .def(
          "__eq__", [](const PyDim& a, const Dim& b) { return a.dim == b; }, nb::is_operator(),
          nb::sig("def __eq__(self, other: object, /) -> bool"))
      .def(
          "value",
          [](const PyDim& a, const std::map<std::string, std::int64_t>& sizes) {
            std::vector<std::int64_t> numbers;
            for (const Symbol& symbol : a.owner->symbols()) {
              const auto found = sizes.find(symbol.name);
              if (found == sizes.end() && a.dim.uses(static_cast<SymbolId>(numbers.size())))
                refuse("the size " + symbol.name + " is not among those that are given");
              numbers.push_back(found == sizes.end() ? 0 : found->second);
            }
            return a.dim.value(numbers);
          },
          nb::arg("sizes"), "The number, for these values of its symbols.")
      .def("__hash__",
           [](const PyDim& a) { return std::hash<std::string>()(to_string(a.dim, a.owner->symbols())); })
      .def("__repr__", [](const PyDim& a) { return to_string(a.dim, a.owner->symbols()); });
}

void bind_value(nb::module_& m) {
  nb::class_<PyValue> value(m, "Value",
                            "A value of a graph. Operators and the functions of weft.ops make further ones.");
  // With __getitem__ alone Python would iterate forever: an axis may have no end.
  value.attr("__iter__") = nb::none();
  value.attr("__contains__") = nb::none();
  value.attr("__array_ufunc__") = nb::none();  // So NumPy leaves operators with a value to the value.
  value.def_prop_ro("name", [](const PyValue& self) { return to_str(self.value.name()); })
      .def_prop_ro("dtype", [](const PyValue& self) { return info(self.value.dtype()).name; })
      .def_prop_ro(
          "shape", [](const PyValue& self) { return to_python(self.owner, self.value.shape()); },
          nb::sig("def shape(self, /) -> tuple[int | Dim, ...]"))
      .def_prop_ro("ndim", [](const PyValue& self) { return self.value.rank(); })
      .def_prop_ro("graph", [](const PyValue& self) { return self.owner; })
      .def(
          "named", [](const Value& self, std::string name) { return self.named(std::move(name), Where{}); },
          nb::arg("name"), "Names the value, and returns it.")
      .def("__add__", operate([](const auto& a, const auto& b) { return a + b; }), nb::is_operator())
      .def("__radd__", operate_reversed([](const auto& a, const auto& b) { return a + b; }),
           nb::is_operator())
      .def("__sub__", operate([](const auto& a, const auto& b) { return a - b; }), nb::is_operator())
      .def("__rsub__", operate_reversed([](const auto& a, const auto& b) { return a - b; }),
           nb::is_operator())
      .def("__mul__", operate([](const auto& a, const auto& b) { return a * b; }), nb::is_operator())
      .def("__rmul__", operate_reversed([](const auto& a, const auto& b) { return a * b; }),
           nb::is_operator())
      .def("__truediv__", operate([](const auto& a, const auto& b) { return a / b; }), nb::is_operator())
      .def("__rtruediv__", operate_reversed([](const auto& a, const auto& b) { return a / b; }),
           nb::is_operator())
      .def("__pow__", operate([](const auto& a, const auto& b) { return power(a, b); }), nb::is_operator())
      .def("__rpow__", operate_reversed([](const auto& a, const auto& b) { return power(a, b); }),
           nb::is_operator())
      .def("__lt__", operate([](const auto& a, const auto& b) { return Value(a < b); }), nb::is_operator())
      .def("__le__", operate([](const auto& a, const auto& b) { return Value(a <= b); }), nb::is_operator())
      .def("__gt__", operate([](const auto& a, const auto& b) { return Value(a > b); }), nb::is_operator())
      .def("__ge__", operate([](const auto& a, const auto& b) { return Value(a >= b); }), nb::is_operator())
      .def("__eq__", compare([](Value a, auto b) { return equal(a, b, Where{}); }), nb::is_operator(),
           nb::sig("def __eq__(self, other: object, /) -> Value"))
      .def("__ne__", compare([](Value a, auto b) { return not_equal(a, b, Where{}); }), nb::is_operator(),
           nb::sig("def __ne__(self, other: object, /) -> Value"))
      .def("__hash__",
           [](const Value& x) {
             return static_cast<Py_hash_t>(std::hash<const void*>()(&x.graph()) ^
                                           std::hash<ValueId>()(x.id()));
           })
      .def("__bool__",
           [](const Value&) -> bool {
             throw nb::type_error(
                 "a value has no truth before a step; weft.ops.where chooses by it, any and all join it");
           })
      .def("__neg__", [](const Value& x) { return -Operand(x, Where{}); })
      .def("__abs__", [](const Value& x) { return abs(x, Where{}); })
      .def("__matmul__", &product, nb::is_operator())
      .def(
          "__rmatmul__", [](const Argument& a, const Argument& b) { return product(b, a); },
          nb::is_operator())
      .def("__getitem__", &get_item, nb::arg("places").none())
      .def("__repr__", [](const PyValue& self) {
        return "<weft.Value " + self.value.name() + " " + std::string(info(self.value.dtype()).name) + " " +
               to_string(self.value.shape(), self.owner->symbols()) + ">";
      });
}

}  // namespace

bool read_argument(nb::handle source, Argument& into) noexcept {
  try {
    into = {};
    if (nb::isinstance<PyValue>(source)) {
      into.value = nb::inst_ptr<PyValue>(source)->value;
      return into.is_value();
    }
    nb::object item = nb::borrow(source);
    if (!PyFloat_Check(source.ptr()) && !PyLong_Check(source.ptr())) {
      if (!nb::hasattr(source, "__array_interface__")) return false;
      nb::object array = nb::module_::import_("numpy").attr("asarray")(source);
      if (nb::cast<int>(array.attr("ndim")) > 0) {
        into.array = std::move(array);
        return true;
      }
      item = array.attr("item")();
      if (!PyFloat_Check(item.ptr()) && !PyLong_Check(item.ptr())) return false;
    }
    into.is_whole = PyLong_Check(item.ptr()) != 0;
    into.number = nb::cast<double>(nb::float_(item));
    return true;
  } catch (...) {
    PyErr_Clear();
    return false;
  }
}

Value first_value(std::initializer_list<const Argument*> all) {
  for (const Argument* const one : all)
    if (one->is_value()) return one->value;
  refuse("an operand must be a value of a graph");
}

Value value_of(const Argument& argument, Graph& graph, std::optional<DType> like) {
  if (argument.is_value()) return argument.value;
  PyGraph& owner = *owner_of(graph);
  if (argument.is_array()) return owner.constant(argument.array, like);
  const bool is_int = argument.is_whole && like.value_or(DType::kI32) == DType::kI32;
  nb::list one;
  one.append(is_int ? nb::object(nb::int_(static_cast<std::int64_t>(argument.number)))
                    : nb::object(nb::float_(argument.number)));
  return reshape(owner.constant(nb::module_::import_("numpy").attr("array")(one), like), Shape{}, Where{});
}

Value product(const Argument& a, const Argument& b) {
  Graph& graph = first_value({&a, &b}).graph();
  const auto factor = [&](const Argument& one) {
    const Value value = value_of(one, graph, DType::kF32);
    return one.is_value() ? value : reshape(value, value.shape(), Where{});  // Factors must not be weights.
  };
  return matmul(factor(a), factor(b), Where{});
}

Value PyGraph::constant(nb::handle array, std::optional<DType> like) {
  const auto kind = nb::cast<std::string>(array.attr("dtype").attr("kind"));
  const nb::object checked = nb::module_::import_("weft.arguments").attr("array");
  const bool is_int =
      (kind == "i" || kind == "u" || kind == "b") && like.value_or(DType::kI32) == DType::kI32;
  const nb::object numbers = checked("the constant", array, is_int ? "int32" : "float32");
  if (!is_int) return constant_weight(numbers);
  // Weights cannot be integers: floats hold them, in two parts where they have too many digits.
  constexpr std::int32_t kExact = 1 << 24, kBits = 12;
  const bool fits = nb::cast<std::int64_t>(numbers.attr("size")) == 0 ||
                    (nb::cast<std::int64_t>(nb::int_(numbers.attr("max")())) <= kExact &&
                     nb::cast<std::int64_t>(nb::int_(numbers.attr("min")())) >= -kExact);
  if (fits) return cast(constant_weight(numbers), DType::kI32, Where{});
  const Value high = cast(constant_weight(numbers.attr("__rshift__")(kBits)), DType::kI32, Where{});
  const Value low = cast(constant_weight(numbers.attr("__and__")((1 << kBits) - 1)), DType::kI32, Where{});
  return Operand(Operand(high, Where{}) * static_cast<float>(1 << kBits), Where{}) + low;
}

/// A copy of the numbers in f32, which the array's owner may change.
Value PyGraph::constant_weight(const nb::object& array) {
  nb::object numbers = array.attr("astype")("float32", "C");
  const auto held = nb::cast<Array>(numbers);
  std::vector<Dim> dims;
  for (std::size_t i = 0; i < held.ndim(); ++i) dims.emplace_back(static_cast<std::int64_t>(held.shape(i)));
  std::string name = free_name("constant");
  const Value made = weight(name, DType::kF32, Shape(dims), Where{});
  constants.emplace(std::move(name), held);
  return made;
}

void bind_graph(nb::module_& m) {
  bind_dim(m);
  bind_value(m);
  nb::class_<PyGraph>(
      m, "Graph",
      "Values and the ops that compute them. Sizes may be symbols, which get their values in each step.")
      .def(nb::new_([](const nb::args& given, const nb::kwargs& named) {
        no_arguments("Graph", given, named);
        return std::make_shared<PyGraph>();
      }))
      .def(
          "symbol",
          [](PyGraph& self, std::string name, std::int64_t min, std::int64_t max) {
            return PyDim{self.shared_from_this(), self.symbol(std::move(name), min, max, Where{})};
          },
          nb::arg("name"), nb::arg("min"), nb::arg("max"),
          "A size from min to max. Each step gives its value.")
      .def(
          "input",
          [](PyGraph& self, std::string name, Shape shape, std::string_view dtype) {
            return self.input(std::move(name), std::move(shape), dtype_of(dtype), Where{});
          },
          nb::arg("name"), nb::arg("shape"), nb::arg("dtype") = "f32", "An array that each step gives.")
      .def(
          "weight",
          [](PyGraph& self, std::string name, Shape shape, std::string_view dtype) {
            return self.weight(std::move(name), dtype_of(dtype), std::move(shape), Where{});
          },
          nb::arg("name"), nb::arg("shape"), nb::arg("dtype") = "f32",
          "An array that is set once (Plan.set_weight), of any type of weft.")
      .def(
          "state",
          [](PyGraph& self, std::string name, Shape shape, std::string_view dtype) {
            return self.state(std::move(name), dtype_of(dtype), std::move(shape), Where{});
          },
          nb::arg("name"), nb::arg("shape"), nb::arg("dtype") = "f32",
          "An array that keeps its contents between steps.")
      .def(
          "output",
          [](PyGraph& self, std::string name, const Value& value) {
            return self.output(std::move(name), value, Where{});
          },
          nb::arg("name"), nb::arg("value"), "Makes a value an output of the plan, under this name.")
      .def(
          "constant",
          [](PyGraph& self, nb::handle array) {
            return self.constant(nb::module_::import_("numpy").attr("asarray")(array));
          },
          nb::arg("array"), nb::sig("def constant(self, array: numpy.typing.ArrayLike) -> Value"),
          "A value with the numbers of an array, which are copied. Integers become i32, others f32.")
      .def(
          "live_inputs",
          [](const PyGraph& self) {
            const std::vector<bool> live = live_nodes(self);
            std::vector<bool> read(self.values().size());
            for (std::size_t n = 0; n < live.size(); ++n)
              if (live[n])
                for (const ValueId input : self.nodes()[n].inputs) read[index(input)] = true;
            std::vector<std::string> names;
            for (std::size_t v = 0; v < read.size(); ++v)
              if (read[v] && self.values()[v].kind == ValueKind::kInput)
                names.push_back(self.values()[v].name);
            return names;
          },
          "The inputs that an output or a state depends on.")
      .def("copy", [](const PyGraph& self) { return std::make_shared<PyGraph>(self); })
      .def(
          "__eq__",
          [](const PyGraph& a, const PyGraph& b) {
            return Graph(a) == Graph(b) && std::ranges::equal(a.constants, b.constants, [](auto& x, auto& y) {
                     return x.first == y.first && x.second.nbytes() == y.second.nbytes() &&
                            std::memcmp(x.second.data(), y.second.data(), x.second.nbytes()) == 0;
                   });
          },
          nb::is_operator(), nb::sig("def __eq__(self, other: object, /) -> bool"))
      .def("__len__", [](const PyGraph& self) { return self.nodes().size(); })
      .def("__str__", [](const PyGraph& self) { return to_string(self); })
      .def(
          "to_dot", [](const PyGraph& self) { return to_dot(self); },
          "The graph as a drawing in Graphviz's format.");
}

}  // namespace weft::python
