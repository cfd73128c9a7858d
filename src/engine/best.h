#pragma once
// The best few of a row of logits on the host, in the order and with the bits of ops::Best.
#include <span>

#include "weft/types.h"

namespace weft::engine {

/// The best.size() largest, at most as many as there are: largest first, lower ids first among equals. NaN
/// counts as minus infinity, and becomes that.
void find_best(std::span<const float> logits, std::span<Best> best);

}  // namespace weft::engine
