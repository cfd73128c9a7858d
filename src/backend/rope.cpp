#include "backend/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/to_size.h"

namespace weft {

// YaRN (arXiv 2309.00071): pairs that turn fast keep their frequency, slow ones are interpolated, a ramp lies
// between.
std::vector<double> rope_frequencies(const ops::Rope& op, const float* factors) {
  const auto pair_of_turns = [&](double turns) {
    return op.n_rot * std::log(op.n_ctx_orig / (turns * 2.0 * std::numbers::pi)) /
           (2.0 * std::log(op.freq_base));
  };
  double low = 0.0, high = 0.0;
  if (op.ext_factor != 0.0f) {
    low = pair_of_turns(op.beta_fast);
    high = pair_of_turns(op.beta_slow);
    if (op.whole_pairs) low = std::floor(low), high = std::ceil(high);
    low = std::max(0.0, low);
    high = std::min(op.n_rot - 1.0, high);
  }
  std::vector<double> frequencies(to_size(op.n_rot / 2));
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const double pair = static_cast<double>(i);
    double extrapolated = std::pow(static_cast<double>(op.freq_base), -2.0 * pair / op.n_rot);
    if (factors != nullptr) extrapolated /= factors[i];
    const double interpolated = op.freq_scale * extrapolated;
    double mix = 0.0;
    if (op.ext_factor != 0.0f)
      mix = (1.0 - std::clamp((pair - low) / std::max(0.001, high - low), 0.0, 1.0)) * op.ext_factor;
    frequencies[i] = interpolated * (1.0 - mix) + extrapolated * mix;
  }
  return frequencies;
}

double rope_magnitude(const ops::Rope& op) {
  double magnitude = op.attn_factor;
  if (op.ext_factor != 0.0f) magnitude *= 1.0 + 0.1 * std::log(1.0 / op.freq_scale);
  return magnitude;
}

}  // namespace weft
