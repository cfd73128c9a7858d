#pragma once
// The best few of a row of logits on the host, in the order and with the bits of ops::Best.
#include <cstddef>
#include <limits>
#include <span>

#include "weft/types.h"

namespace weft::engine {

/// Logits that are compared as a block: most blocks have no value that is good enough.
inline constexpr std::size_t kLogitBlock = 128;
inline constexpr float kLowest = -std::numeric_limits<float>::infinity();

/// The order of tokens, of which the best come first. The kernels' entries have the same order, defined
/// separately in backend/cpu/kernels/kernels.h. Kernels are compiled for other instruction sets and share no
/// code.
inline constexpr auto goes_before = [](const auto& a, const auto& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
};

/// The best.size() largest logits, or all if there are fewer: largest first, lower ids first among equals.
/// NaN counts as minus infinity, and is returned as that.
void find_best(std::span<const float> logits, std::span<Best> best);

}  // namespace weft::engine
