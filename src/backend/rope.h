#pragma once
// The frequencies of RoPE with linear or YaRN scaling.
#include <vector>

#include "weft/graph/op.h"

namespace weft {

/// Radians per position of each pair of a head, n_rot / 2 of them. `factors` divide them, if there are any.
std::vector<double> rope_frequencies(const ops::Rope& op, const float* factors);

/// What rotated values are multiplied with.
double rope_magnitude(const ops::Rope& op);

}  // namespace weft
