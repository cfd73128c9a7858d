#pragma once
// Searches for the scales of packed values. The extreme values give a usable scale, but a slightly different
// one often has a smaller error. So a few scales around it are tried, and each is fitted by least squares to
// the codes that it gives. The packers then choose among the scales that can be stored by their error. Inside
// this layer only.
//
// Results are bit-identical on every processor: lanes are summed in one fixed order.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace weft::codec {

/// 16 or 32 values, and the weight of each value's error.
struct Weighed {
  const float* values;
  const float* weights;
  std::size_t n;
};

/// Weights of 1, enough for a block.
const float* equal_weights();

/// One number for each of 16 sub-blocks, or for each of 8 sub-blocks, stored twice in a row.
using PerSub = std::array<float, 16>;

/// 256 values in 16 sub-blocks of 16, or in 8 of 32, transposed so that all sub-blocks are searched at once.
class SubBlocks {
 public:
  /// `weights` may be null: all values count alike.
  SubBlocks(const float* values, const float* weights, int n_subs);

  alignas(64) float values[256];  ///< The first values of all runs of 16, then the second values ...
  alignas(64) float weights[256];
  bool pairs;
};

struct ScaleMin {
  float scale;
  float min;
};
struct ScaleMins {
  PerSub scales;
  PerSub mins;
};

/// The scale with which x = scale * q, low <= q <= high, fits the values best. low < 0 must be the longer
/// side: the value farthest from 0 is mapped near it. So the scale may be negative. 0 if all values are 0.
float fit_scale(Weighed x, int low, int high);
PerSub fit_scales(const SubBlocks& x, int low, int high);

/// The same with x = scale * kIQ4Values[q].
float fit_iq4_scale(Weighed x);
PerSub fit_iq4_scales(const SubBlocks& x);

/// The scale and min with which x = scale * q - min, 0 <= q <= top, fits the values best. Scales are at least
/// 0, and so are the minima of sub-blocks.
ScaleMin fit_scale_min(Weighed x, int top);
ScaleMins fit_scale_mins(const SubBlocks& x, int top);

/// The weighted squared error when each value gets its nearest code.
float error_of_fp4(Weighed x, float scale);
PerSub errors_of_scales(const SubBlocks& x, const PerSub& scales, int low, int high);
PerSub errors_of_iq4(const SubBlocks& x, const PerSub& scales);
PerSub errors_of_scale_mins(const SubBlocks& x, const ScaleMins& fits, int top);

/// The code of the value of kIQ4Values nearest to `value`.
int nearest_iq4(float value);

/// Computes the codes q, low <= q <= high, for which scale * q - min is nearest to each value. Stores q -
/// low. The number of values is a multiple of 16.
void nearest_codes(std::span<const float> values, ScaleMin fit, int low, int high, std::uint8_t* codes);

}  // namespace weft::codec
