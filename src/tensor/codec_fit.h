#pragma once
// Searches for the scales of packed values. The extremes alone give a usable scale, but a slightly other one
// often leaves less error over all, so a few are tried around it and each is judged by weighted least
// squares, where larger values weigh more (they matter more to a dot product). Inside this layer only.
#include <cstdint>
#include <span>

namespace weft::codec {

/// The code of the value of kIQ4Values nearest to `value`.
int nearest_iq4(float value);

/// The scale with which x = scale * kIQ4Values[q] fits `values` best. 0 for zeros.
float fit_iq4_scale(std::span<const float> values);

/// The scale with which x = scale * q, low <= q <= high, fits `values` best. low < 0 must be the longer side:
/// the value that is farthest from 0 goes near it, so the scale may be negative. 0 for zeros.
float fit_scale(std::span<const float> values, int low, int high);

/// The scale and min with which x = scale * q - min, 0 <= q <= top, fits `values` best. Both are at least 0.
struct ScaleMin {
  float scale;
  float min;
};
ScaleMin fit_scale_min(std::span<const float> values, int top);

}  // namespace weft::codec
