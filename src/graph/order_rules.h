#pragma once
// Shape rules of ops that count, move, order and draw elements, of attention over given keys, and of
// recurrent cells.
#include "graph/op_inputs.h"

namespace weft {

ValueType rule(const ops::Arange& op, const Inputs& in);
ValueType rule(const ops::Cast& op, const Inputs& in);
ValueType rule(const ops::IntBinary& op, const Inputs& in);
ValueType rule(const ops::TakeAlong& op, const Inputs& in);
ValueType rule(const ops::Scatter& op, const Inputs& in);
ValueType rule(const ops::Cumsum& op, const Inputs& in);
ValueType rule(const ops::Argsort& op, const Inputs& in);
ValueType rule(const ops::Random& op, const Inputs& in);
ValueType rule(const ops::DenseAttention& op, const Inputs& in);
ValueType rule(const ops::Lstm& op, const Inputs& in);
ValueType rule(const ops::Gru& op, const Inputs& in);
ValueType rule(const ops::Flip& op, const Inputs& in);

}  // namespace weft
