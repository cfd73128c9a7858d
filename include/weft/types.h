// Since 0.1
#pragma once
// Basic types of weft.
#include <cstdint>

#include "weft/language.h"

namespace weft {

using Token = std::int32_t;  ///< Index into a model's vocabulary.
using SeqId = std::int32_t;  ///< A sequence of a context, 0 to ContextParams::n_sequences - 1.
using Pos = std::int32_t;    ///< Position of a token in its sequence, from 0.

inline constexpr Token kNoToken = -1;
/// The token at the places of an image or audio in a prompt (EmbeddedPart).
inline constexpr Token kMediaToken = -2;
inline constexpr Pos kNextPos = -1;  ///< The position after the sequence's last one.

/// The element type of cached keys or values. Head sizes must be multiples of 32 for quantised types, and
/// even for kBF16. With kAuto it is kBF16 if attention reads it faster than kF16 on all devices, otherwise
/// kF16.
enum class CacheType : std::uint8_t { kAuto, kF32, kF16, kBF16, kQ8_0, kQ4_0, kQ4_1, kQ5_0, kQ5_1, kIQ4_NL };

/// One of the best tokens of an item (Context::best): those with the largest logits, lower ids first among
/// equals.
struct Best {
  Token id = kNoToken;
  float logit = 0.0f;
};

}  // namespace weft
