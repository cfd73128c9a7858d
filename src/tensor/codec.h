#pragma once
// The scalar codec of every type: the reference truth that kernels are tested against. Unpacking gives
// exactly the value that GGUF's definition of the type gives, in float32 arithmetic.
#include <cstddef>
#include <cstdint>
#include <span>

#include "weft/dtype.h"

namespace weft {

float f16_to_f32(std::uint16_t half);
std::uint16_t f32_to_f16(float value);  ///< Rounds to nearest even; NaN stays NaN.
float bf16_to_f32(std::uint16_t value);
std::uint16_t f32_to_bf16(float value);  ///< Rounds to nearest even; NaN stays NaN.
/// Of a float of 4 bits of exponent (bias 7) and 3 of mantissa, without its sign. Which codes stand for
/// something else, formats say.
float e4m3_magnitude(std::uint8_t code);

/// Unpacks out.size() elements of a row, which must be a multiple of the type's block.
/// `row` holds row_bytes(type, out.size()) bytes, of any alignment. Integer types convert to the nearest
/// float.
void unpack_row(DType type, const std::byte* row, std::span<float> out);

/// Packs a row. values.size() must be a multiple of the type's block; `row` takes row_bytes(...) bytes.
/// Non-finite values give finite scales or the type's own infinities, never undefined behaviour. `importance`
/// has for each value how much its error matters, at least 0, or is empty: then all matter alike, and types
/// whose bytes GGUF's own writers agree on get those.
void pack_row(DType type, std::span<const float> values, std::byte* row,
              std::span<const float> importance = {});

}  // namespace weft
