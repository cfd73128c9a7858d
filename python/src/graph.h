#pragma once
// Graphs, values and sizes between Python and C++. A value in Python keeps its graph alive; in C++ it is the
// handle that it always is, and these casters go from one to the other.
#include <memory>
#include <optional>
#include <string>

#include "binding.h"
#include "weft/graph.h"

namespace weft::python {

/// A graph that its values and sizes share.
/// All graphs whose values Python sees are such, so that owner_of() finds the way back from a value.
struct PyGraph : Graph, std::enable_shared_from_this<PyGraph> {
  PyGraph() = default;
  explicit PyGraph(const Graph& graph) : Graph(graph) {}
};

struct PyValue {
  std::shared_ptr<PyGraph> owner;
  Value value;
};

/// A size that is no number.
struct PyDim {
  std::shared_ptr<PyGraph> owner;
  Dim dim;
};

std::shared_ptr<PyGraph> owner_of(Graph& graph);
DType dtype_of(std::string_view name);
/// A number where it is one.
nb::object to_python(const std::shared_ptr<PyGraph>& owner, const Dim& dim);
nb::tuple to_python(const std::shared_ptr<PyGraph>& owner, const Shape& shape);

}  // namespace weft::python

namespace nanobind::detail {

template <>
struct type_caster<weft::Value> {
  NB_TYPE_CASTER(weft::Value, make_caster<weft::python::PyValue>::Name)
  bool from_python(handle source, std::uint8_t, cleanup_list*) noexcept {
    if (!isinstance<weft::python::PyValue>(source)) return false;
    value = inst_ptr<weft::python::PyValue>(source)->value;
    return true;
  }
  static handle from_cpp(const weft::Value& value, rv_policy, cleanup_list*) noexcept {
    return cast(weft::python::PyValue{weft::python::owner_of(value.graph()), value}).release();
  }
};

template <>
struct type_caster<weft::Dim> {
  NB_TYPE_CASTER(weft::Dim, const_name("int | ") + make_caster<weft::python::PyDim>::Name)
  bool from_python(handle source, std::uint8_t flags, cleanup_list*) noexcept {
    if (isinstance<weft::python::PyDim>(source)) {
      value = inst_ptr<weft::python::PyDim>(source)->dim;
      return true;
    }
    std::int64_t number = 0;
    if (!try_cast(source, number, (flags & static_cast<std::uint8_t>(cast_flags::convert)) != 0))
      return false;
    value = weft::Dim(number);
    return true;
  }
};

template <>
struct type_caster<weft::Shape> {
  NB_TYPE_CASTER(weft::Shape, const_name("collections.abc.Sequence[int | ") +
                                  make_caster<weft::python::PyDim>::Name + const_name("]"))
  bool from_python(handle source, std::uint8_t, cleanup_list*) noexcept {
    std::vector<weft::Dim> dims;
    if (!try_cast(source, dims)) return false;
    try {
      value = weft::Shape(std::span<const weft::Dim>(dims));
    } catch (const weft::Error&) {
      return false;
    }
    return true;
  }
};

}  // namespace nanobind::detail
