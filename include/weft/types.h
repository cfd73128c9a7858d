#pragma once
// Basic types of weft.
#include <cstdint>

namespace weft {

using Token = std::int32_t;  ///< Index into a model's vocabulary.
using SeqId = std::int32_t;  ///< A sequence of a context, 0 to ContextParams::n_sequences - 1.
using Pos = std::int32_t;    ///< Position of a token in its sequence, from 0.

inline constexpr Token kNoToken = -1;

/// One of the best tokens of an item (Context::best): those with the largest logits, lower ids first among
/// equals.
struct Best {
  Token id = kNoToken;
  float logit = 0.0f;
};

}  // namespace weft
