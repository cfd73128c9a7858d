#pragma once
// Checks of operands for the functions of the graph language.
#include <initializer_list>
#include <string>
#include <vector>

#include "weft/graph/value.h"

namespace weft {

/// A value that is there, of a graph whose symbols the dimensions have.
void check(const char* op, Value x, std::initializer_list<Dim> dims, const Where& where);
void check(const char* op, Value x, const Shape& shape, const Where& where);
/// Its name and shape.
std::string text(Value x);
/// An axis of x, from 0; one of `rank` where it is a result's.
int axis_of(const char* op, Value x, int axis, int rank, const Where& where);
int axis_of(const char* op, Value x, int axis, const Where& where);
std::vector<Dim> dims_of(const Shape& shape);
/// Over these axes of x, or all if none are named.
Value reduce(ReduceKind kind, Value x, const Axes& axes, bool keep, const Where& where);

}  // namespace weft
