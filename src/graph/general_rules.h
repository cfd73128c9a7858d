#pragma once
// The shape rules of ops over values of any rank.
#include "graph/op_inputs.h"

namespace weft {

/// Shape rules of elementwise ops of one value, and of Add and Mul.
ValueType each_element(const Inputs& in);
ValueType sum_or_product(const Inputs& in);
ValueType rule(const ops::Custom& op, const Inputs& in);  // custom.cpp
ValueType rule(const ops::Concat& op, const Inputs& in);
ValueType rule(const ops::Unary& op, const Inputs& in);
ValueType rule(const ops::Clamp& op, const Inputs& in);
ValueType rule(const ops::Binary& op, const Inputs& in);
ValueType rule(const ops::Compare& op, const Inputs& in);
ValueType rule(const ops::Where& op, const Inputs& in);
ValueType rule(const ops::Reduce& op, const Inputs& in);
ValueType rule(const ops::BatchMatmul& op, const Inputs& in);
ValueType rule(const ops::Pad& op, const Inputs& in);
ValueType rule(const ops::Reshape& op, const Inputs& in);
ValueType rule(const ops::Permute& op, const Inputs& in);
ValueType rule(const ops::Slice& op, const Inputs& in);
ValueType rule(const ops::BroadcastTo& op, const Inputs& in);

}  // namespace weft
