#include "graph/operands.h"

#include "graph/refuse.h"
#include "weft/graph/order.h"

namespace weft {

void check(const char* op, Value x, std::initializer_list<Dim> dims, const Where& where) {
  if (!x) refuse(std::string(op) + ": an input is an empty value", where);
  const auto n_symbols = static_cast<SymbolId>(x.graph().symbols().size());
  for (const Dim& dim : dims)
    if (dim.last_symbol() >= n_symbols || dim.last_symbol() < kNoSymbol)
      refuse(std::string(op) + ": a size has a symbol of another graph", where);
}
void check(const char* op, Value x, const Shape& shape, const Where& where) {
  check(op, x, {}, where);
  for (int i = 0; i < shape.rank(); ++i) check(op, x, {shape[i]}, where);
}

std::string text(Value x) { return x.name() + " " + to_string(x.shape(), x.graph().symbols()); }

int axis_of(const char* op, Value x, int axis, int rank, const Where& where) {
  const int from_first = axis < 0 ? rank + axis : axis;
  if (from_first < 0 || from_first >= rank)
    refuse(std::string(op) + ": " + text(x) + " has no axis " + std::to_string(axis), where);
  return from_first;
}
int axis_of(const char* op, Value x, int axis, const Where& where) {
  check(op, x, {}, where);
  return axis_of(op, x, axis, x.rank(), where);
}

std::vector<Dim> dims_of(const Shape& shape) {
  std::vector<Dim> dims;
  for (int i = 0; i < shape.rank(); ++i) dims.push_back(shape[i]);
  return dims;
}

namespace {

/// Over the axes of these bits: what orders or adds whole numbers exactly leaves the result at the end of a
/// row.
Value reduce_ints(ReduceKind kind, Value x, std::uint32_t axes, bool keep, const Where& where) {
  std::vector<int> kept, over;
  Dim n = 1;
  std::vector<Dim> rows, result;
  for (int axis = 0; axis < x.rank(); ++axis) {
    const bool reduced = (axes >> axis & 1u) != 0;
    (reduced ? over : kept).push_back(axis);
    if (reduced)
      n = n * x.shape()[axis];
    else
      rows.push_back(x.shape()[axis]);
    if (!reduced || keep) result.push_back(reduced ? Dim(1) : x.shape()[axis]);
  }
  if (over.empty()) return x;
  kept.insert(kept.end(), over.begin(), over.end());
  rows.push_back(n);
  const Value row = reshape(permute(x, kept, where), Shape(rows), where);
  const Value made =
      kind == ReduceKind::kSum ? cumsum(row, -1, where) : sort(row, -1, kind == ReduceKind::kMin, where);
  return reshape(slice(made, -1, -1, n, 1, where), Shape(result), where);
}

}  // namespace

Value reduce(ReduceKind kind, Value x, const Axes& axes, bool keep, const Where& where) {
  check("reduce", x, {}, where);
  ops::Reduce op{kind, axes.list().empty() ? (1u << x.rank()) - 1u : 0u, keep};
  for (const int axis : axes.list()) {
    const std::uint32_t bit = 1u << axis_of("reduce", x, axis, where);
    if ((op.axes & bit) != 0)
      refuse("reduce: axis " + std::to_string(axis) + " of " + text(x) + " is named twice", where);
    op.axes |= bit;
  }
  if (x.dtype() == DType::kI32) {
    if (kind == ReduceKind::kSum || kind == ReduceKind::kMax || kind == ReduceKind::kMin)
      return reduce_ints(kind, x, op.axes, keep, where);
    refuse("reduce: " + text(x) + " is i32; cast it to f32 first", where);
  }
  return apply(op, {x}, where);
}

}  // namespace weft
