#pragma once
// The shape rules of ops over windows.
#include "graph/op_inputs.h"

namespace weft {

ValueType rule(const ops::Unfold& op, const Inputs& in);
ValueType rule(const ops::Conv2d& op, const Inputs& in);
ValueType rule(const ops::ConvTranspose2d& op, const Inputs& in);
ValueType rule(const ops::Pool2d& op, const Inputs& in);
ValueType rule(const ops::Resize2d& op, const Inputs& in);

}  // namespace weft
