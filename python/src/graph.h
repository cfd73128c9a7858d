#pragma once
// Graphs, values and sizes between Python and C++. A value in Python keeps its graph alive. In C++ it is a
// plain handle. These casters convert between the two.
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "binding.h"
#include "weft/graph.h"

namespace weft::python {

/// A graph that its values and sizes share.
/// All graphs whose values Python sees are such, so that owner_of() finds the way back from a value.
struct PyGraph : Graph, std::enable_shared_from_this<PyGraph> {
  using Array = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;

  PyGraph() = default;
  explicit PyGraph(const Graph& graph) : Graph(graph) {}

  /// A weight with the numbers of an array of NumPy, which every plan of the graph is given. Whole numbers
  /// become I32, unless `like` is F32.
  Value constant(nb::handle array, std::optional<DType> like = {});

  std::map<std::string, Array> constants;  ///< By the names of their weights.

 private:
  Value constant_weight(const nb::object& array);
};

struct PyValue {
  std::shared_ptr<PyGraph> owner;
  Value value;
};

/// A size that is not a number.
struct PyDim {
  std::shared_ptr<PyGraph> owner;
  Dim dim;
};

/// An operand of a function from Python: a value, a number, or an array of NumPy.
class Argument {
 public:
  Value value;            ///< None: another.
  double number = 0.0;    ///< Where `value` and `array` are null.
  bool is_whole = false;  ///< Whether the number is an integer.
  nb::object array;

  bool is_value() const { return static_cast<bool>(value); }
  bool is_array() const { return array.is_valid(); }
  bool is_number() const { return !is_value() && !is_array(); }
};
/// An argument that is not a number.
struct ValueOrArray : Argument {};
/// Reads one; false where it is none of these.
bool read_argument(nb::handle source, Argument& into) noexcept;

/// The first value among operands, whose graph the others belong to. Throws Error kInvalidArgument where
/// there is none.
Value first_value(std::initializer_list<const Argument*> all);
/// Converts the argument to a value of the graph. Numbers and integer arrays get the type `like`.
Value value_of(const Argument& argument, Graph& graph, std::optional<DType> like = {});

/// a times b, as matrices.
Value product(const Argument& a, const Argument& b);

/// Calls f with two operands as it takes them: two values, or a value and a float on either side. A float is
/// passed only where it is exactly the number.
template <typename F>
Value with_two(const Argument& a, const Argument& b, const F& f) {
  const Value first = first_value({&a, &b});
  const auto is_float = [&](const Argument& one) {
    return one.is_number() && (first.dtype() == DType::kF32 ||
                               static_cast<double>(static_cast<float>(one.number)) == one.number);
  };
  if (is_float(b)) return f(first, static_cast<float>(b.number));
  if (is_float(a)) return f(static_cast<float>(a.number), first);
  const DType like = first.dtype();
  return f(value_of(a, first.graph(), like), value_of(b, first.graph(), like));
}

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
struct type_caster<weft::python::Argument> {
  NB_TYPE_CASTER(weft::python::Argument,
                 make_caster<weft::python::PyValue>::Name + const_name(" | float | numpy.ndarray"))
  bool from_python(handle source, std::uint8_t, cleanup_list*) noexcept {
    return weft::python::read_argument(source, value);
  }
};

template <>
struct type_caster<weft::python::ValueOrArray> {
  NB_TYPE_CASTER(weft::python::ValueOrArray,
                 make_caster<weft::python::PyValue>::Name + const_name(" | numpy.ndarray"))
  bool from_python(handle source, std::uint8_t, cleanup_list*) noexcept {
    return weft::python::read_argument(source, value) && !value.is_number();
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
