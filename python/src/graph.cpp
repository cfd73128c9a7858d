// Graphs, values with operators, and sizes.
#include "graph.h"

#include <nanobind/operators.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/variant.h>

#include <map>
#include <string>
#include <variant>
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

using Number = std::variant<Value, double>;

/// An operator of two values, or of one and a number on either side.
template <typename F>
auto operate(const F& f) {
  return [f](const Value& a, const Number& b) {
    if (const Value* const value = std::get_if<Value>(&b)) return f(Operand(a, Where{}), *value);
    return f(Operand(a, Where{}), static_cast<float>(std::get<double>(b)));
  };
}
template <typename F>
auto operate_reversed(const F& f) {
  return [f](const Value& a, double b) { return f(static_cast<float>(b), Operand(a, Where{})); };
}

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
          nb::arg("sizes"), "The number that it is with these sizes of its symbols.")
      .def("__hash__",
           [](const PyDim& a) { return std::hash<std::string>()(to_string(a.dim, a.owner->symbols())); })
      .def("__repr__", [](const PyDim& a) { return to_string(a.dim, a.owner->symbols()); });
}

void bind_value(nb::module_& m) {
  nb::class_<PyValue> value(m, "Value",
                            "A value of a graph. Operators and the functions of weft.ops make further ones.");
  // With __getitem__ alone Python would go on for ever: an axis may have no end.
  value.attr("__iter__") = nb::none();
  value.attr("__contains__") = nb::none();
  value.def_prop_ro("name", [](const PyValue& self) { return to_str(self.value.name()); })
      .def_prop_ro("dtype", [](const PyValue& self) { return info(self.value.dtype()).name; })
      .def_prop_ro(
          "shape", [](const PyValue& self) { return to_python(self.owner, self.value.shape()); },
          nb::sig("def shape(self, /) -> tuple[int | Dim, ...]"))
      .def_prop_ro("ndim", [](const PyValue& self) { return self.value.rank(); })
      .def_prop_ro("graph", [](const PyValue& self) { return self.owner; })
      .def(
          "named", [](const Value& self, std::string name) { return self.named(std::move(name), Where{}); },
          nb::arg("name"), "Gives the value this name, and is it.")
      .def("__add__", operate([](const auto& a, const auto& b) { return a + b; }), nb::is_operator())
      .def("__radd__", operate_reversed([](float a, const Operand& b) { return a + b; }), nb::is_operator())
      .def("__sub__", operate([](const auto& a, const auto& b) { return a - b; }), nb::is_operator())
      .def("__rsub__", operate_reversed([](float a, const Operand& b) { return a - b; }), nb::is_operator())
      .def("__mul__", operate([](const auto& a, const auto& b) { return a * b; }), nb::is_operator())
      .def("__rmul__", operate_reversed([](float a, const Operand& b) { return a * b; }), nb::is_operator())
      .def("__truediv__", operate([](const auto& a, const auto& b) { return a / b; }), nb::is_operator())
      .def("__rtruediv__", operate_reversed([](float a, const Operand& b) { return a / b; }),
           nb::is_operator())
      .def("__pow__", operate([](const Operand& a, const auto& b) { return pow(a.value, b, Where{}); }),
           nb::is_operator())
      .def("__neg__", [](const Value& x) { return -Operand(x, Where{}); })
      .def("__abs__", [](const Value& x) { return abs(x, Where{}); })
      .def(
          "__matmul__", [](const Value& a, const Value& b) { return matmul(a, b, Where{}); },
          nb::is_operator())
      .def("__getitem__", &get_item, nb::arg("places").none())
      .def("__repr__", [](const PyValue& self) {
        return "<weft.Value " + self.value.name() + " " + std::string(info(self.value.dtype()).name) + " " +
               to_string(self.value.shape(), self.owner->symbols()) + ">";
      });
}

}  // namespace

void bind_graph(nb::module_& m) {
  bind_dim(m);
  bind_value(m);
  nb::class_<PyGraph>(m, "Graph",
                      "Values, the ops that make them, and sizes that are symbols until a step says them.")
      .def(nb::new_([](const nb::args& given, const nb::kwargs& named) {
        no_arguments("Graph", given, named);
        return std::make_shared<PyGraph>();
      }))
      .def(
          "symbol",
          [](PyGraph& self, std::string name, std::int64_t min, std::int64_t max) {
            return PyDim{self.shared_from_this(), self.symbol(std::move(name), min, max, Where{})};
          },
          nb::arg("name"), nb::arg("min"), nb::arg("max"), "A size that each step says, from min to max.")
      .def(
          "input",
          [](PyGraph& self, std::string name, Shape shape, std::string_view dtype) {
            return self.input(std::move(name), std::move(shape), dtype_of(dtype), Where{});
          },
          nb::arg("name"), nb::arg("shape"), nb::arg("dtype") = "f32", "What each step gives.")
      .def(
          "weight",
          [](PyGraph& self, std::string name, Shape shape, std::string_view dtype) {
            return self.weight(std::move(name), dtype_of(dtype), std::move(shape), Where{});
          },
          nb::arg("name"), nb::arg("shape"), nb::arg("dtype") = "f32",
          "What is given once, of any type of weft.")
      .def(
          "state",
          [](PyGraph& self, std::string name, Shape shape, std::string_view dtype) {
            return self.state(std::move(name), dtype_of(dtype), std::move(shape), Where{});
          },
          nb::arg("name"), nb::arg("shape"), nb::arg("dtype") = "f32", "What lives between steps.")
      .def(
          "output",
          [](PyGraph& self, std::string name, const Value& value) {
            return self.output(std::move(name), value, Where{});
          },
          nb::arg("name"), nb::arg("value"), "What is read after a step, under this name.")
      .def("copy", [](const PyGraph& self) { return std::make_shared<PyGraph>(self); })
      .def(
          "__eq__", [](const PyGraph& a, const PyGraph& b) { return Graph(a) == Graph(b); },
          nb::is_operator(), nb::sig("def __eq__(self, other: object, /) -> bool"))
      .def("__len__", [](const PyGraph& self) { return self.nodes().size(); })
      .def("__str__", [](const PyGraph& self) { return to_string(self); })
      .def("to_dot", [](const PyGraph& self) { return to_dot(self); }, "A drawing for Graphviz.");
}

}  // namespace weft::python
