#include "tensor/codec_fit.h"

#include <algorithm>
#include <cfloat>
#include <cmath>

#include "tensor/codec_blocks.h"
#include "tensor/codec_bytes.h"

namespace weft::codec {
namespace {

// Tries scales with which the farthest value becomes `extreme` + step / 10 codes, and fits each by least
// squares. level(y) is the value that stands for y = x / scale.
template <typename Level>
float search_scale(std::span<const float> values, float extreme, Level level) {
  constexpr int kSteps = 9;
  float farthest = 0.0f;
  for (const float x : values)
    if (std::fabs(x) > std::fabs(farthest)) farthest = x;
  if (std::fabs(farthest) < FLT_MIN) return 0.0f;

  // With weights w the best scale of given levels l is sum(w x l) / sum(w l^2), which takes sum(w x l)^2 /
  // sum(w l^2) off the error.
  double best_gain = -1.0;
  double best_scale = 0.0;
  for (int step = -kSteps; step <= kSteps; ++step) {
    const float to_level = (extreme + 0.1f * static_cast<float>(step)) / farthest;
    double sum_xl = 0.0;
    double sum_ll = 0.0;
    for (const float x : values) {
      const double l = level(x * to_level);
      const double weight = static_cast<double>(x) * x;
      sum_xl += weight * x * l;
      sum_ll += weight * l * l;
    }
    if (sum_ll > 0.0 && sum_xl * sum_xl / sum_ll > best_gain) {
      best_gain = sum_xl * sum_xl / sum_ll;
      best_scale = sum_xl / sum_ll;
    }
  }
  return static_cast<float>(best_scale);
}

// Weighted sums over the codes q that a choice of scale and min gives. Larger values weigh more, small ones
// not nothing.
struct Sums {
  double w = 0.0, x = 0.0, q = 0.0, xx = 0.0, qq = 0.0, xq = 0.0;

  Sums(std::span<const float> values, float rms, float to_code, float min, int top) {
    for (const float value : values) {
      const double code = nearest((value + min) * to_code, 0, top);
      const double weight = static_cast<double>(rms) + std::fabs(value);
      w += weight;
      x += weight * value;
      q += weight * code;
      xx += weight * value * value;
      qq += weight * code * code;
      xq += weight * value * code;
    }
  }

  // The least squares of x = scale * q - min.
  ScaleMin solve() const {
    const double determinant = w * qq - q * q;
    if (!(determinant > 0.0)) return {0.0f, static_cast<float>(std::max(-x / w, 0.0))};
    const double scale = (w * xq - x * q) / determinant;
    const double min = (q * xq - qq * x) / determinant;
    // The type has no negative min, so then the best without one.
    if (min < 0.0) return {static_cast<float>(std::max(xq / qq, 0.0)), 0.0f};
    return {static_cast<float>(std::max(scale, 0.0)), static_cast<float>(min)};
  }

  // The sum of w (scale * q - min - x)^2.
  double error(ScaleMin fit) const {
    const double s = fit.scale;
    const double m = fit.min;
    return s * s * qq - 2.0 * s * (m * q + xq) + m * m * w + 2.0 * m * x + xx;
  }
};

}  // namespace

int nearest_iq4(float value) {
  int code = 0;
  while (code < 15 && value > 0.5f * static_cast<float>(kIQ4Values[code] + kIQ4Values[code + 1])) ++code;
  return code;
}

float fit_iq4_scale(std::span<const float> values) {
  return search_scale(values, kIQ4Values[0], [](float y) { return kIQ4Values[nearest_iq4(y)]; });
}

float fit_scale(std::span<const float> values, int low, int high) {
  return search_scale(values, static_cast<float>(low), [=](float y) { return nearest(y, low, high); });
}

ScaleMin fit_scale_min(std::span<const float> values, int top) {
  constexpr int kSteps = 10;
  const auto [least, greatest] = std::minmax_element(values.begin(), values.end());
  const float min = std::max(-*least, 0.0f);
  const float range = *greatest + min;
  if (range < FLT_MIN) return {0.0f, min};

  double squares = 0.0;
  for (const float x : values) squares += static_cast<double>(x) * x;
  const auto rms = static_cast<float>(std::sqrt(squares / static_cast<double>(values.size())));

  ScaleMin best{range / static_cast<float>(top), min};
  double best_error = Sums(values, rms, inverse(best.scale), min, top).error(best);
  for (int step = -kSteps; step <= kSteps; ++step) {
    const float to_code = (static_cast<float>(top) + 0.1f * static_cast<float>(step)) / range;
    const Sums sums(values, rms, to_code, min, top);
    const ScaleMin candidate = sums.solve();
    const double error = sums.error(candidate);
    if (error < best_error) {
      best_error = error;
      best = candidate;
    }
  }
  return best;
}

}  // namespace weft::codec
