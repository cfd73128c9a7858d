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
/// Magnitude of an E4M3 float (4 exponent bits with bias 7, 3 mantissa bits); ignores the sign bit. Codes
/// with a special meaning depend on the format and are handled by the callers.
float e4m3_magnitude(std::uint8_t code);

/// Unpacks out.size() elements of a row, which must be a multiple of the type's block.
/// `row` holds row_bytes(type, out.size()) bytes, of any alignment. Integer types convert to the nearest
/// float.
void unpack_row(DType type, const std::byte* row, std::span<float> out);

/// Packs a row. values.size() must be a multiple of the type's block; `row` takes row_bytes(...) bytes.
/// Non-finite values give finite scales or the type's own infinities, never undefined behaviour. `importance`
/// weighs the error of each value (at least 0). If it is empty, all values count alike. Types whose bytes
/// GGUF's reference writers agree on then get these bytes.
void pack_row(DType type, std::span<const float> values, std::byte* row,
              std::span<const float> importance = {});

}  // namespace weft
