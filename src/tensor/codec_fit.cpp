#include "tensor/codec_fit.h"

#include <algorithm>
#include <cfloat>
#include <cmath>

#include "tensor/codec_blocks.h"
#include "tensor/codec_bytes.h"
#include "tensor/lanes.h"

namespace weft::codec {
namespace {

constexpr std::array<float, 256> kOnes = [] {
  std::array<float, 256> ones{};
  ones.fill(1.0f);
  return ones;
}();

// Each search is written once for two layouts. Together: each lane has a block of its own, or two lanes share
// one. Alone: one block's values fill all lanes. The layouts differ in how values are loaded and how the
// lanes of a block are reduced. After a reduction, every lane has its block's result.
struct Alone {
  const float* values;
  const float* weights;
  std::size_t n_steps;

  explicit Alone(Weighed x) : values(x.values), weights(x.weights), n_steps(x.n / kLanes) {}
  WEFT_INLINE void add(Lanes& x) const { x = Lanes{} + sum(x); }
  WEFT_INLINE void join_greatest(Lanes& x) const {
    float greatest = x[0];
    for (std::size_t i = 1; i < kLanes; ++i) greatest = std::max(greatest, x[i]);
    x = Lanes{} + greatest;
  }
};

template <bool kPairs>
struct Together {
  const float* values;
  const float* weights;
  static constexpr std::size_t n_steps = 16;

  explicit Together(const SubBlocks& x) : values(x.values), weights(x.weights) {}
  WEFT_INLINE void add(Lanes& x) const {
    if constexpr (kPairs) {
      Lanes other;
      swap(x, other);
      x += other;
    }
  }
  WEFT_INLINE void join_greatest(Lanes& x) const {
    if constexpr (kPairs) {
      Lanes other;
      swap(x, other);
      x = x > other ? x : other;
    }
  }
  WEFT_INLINE static void swap(const Lanes& x, Lanes& neighbours) {
    neighbours = __builtin_shufflevector(x, x, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14);
  }
};

template <class Block>
WEFT_INLINE void take(const Block& block, std::size_t step, Lanes& value, Lanes& weight) {
  load(value, block.values + step * kLanes);
  load(weight, block.weights + step * kLanes);
}

// The values of the codes: integers, or the tables of iq4 or fp4.
struct Integers {
  float low, high;
  WEFT_INLINE void operator()(Lanes& x) const { round_to(x, low, high); }
};
struct Iq4 {
  WEFT_INLINE void operator()(Lanes& x) const {
    Lanes level = Lanes{} + static_cast<float>(kIQ4Values[0]);
    for (int i = 0; i + 1 < 16; ++i) {
      const float low = kIQ4Values[i], high = kIQ4Values[i + 1];
      level = x > 0.5f * (low + high) ? Lanes{} + high : level;
    }
    x = level;
  }
};
struct Fp4 {
  WEFT_INLINE void operator()(Lanes& x) const {
    const Lanes magnitude = x < 0.0f ? -x : x;
    Lanes level{};
    for (int i = 0; i < 7; ++i) {
      const float low = kFP4Values[i], high = kFP4Values[i + 1];
      level = magnitude > 0.5f * (low + high) ? Lanes{} + high : level;
    }
    x = x < 0.0f ? -level : level;
  }
};

/// The least and the greatest value of each block.
template <class Block>
WEFT_INLINE void extremes(const Block& block, Lanes& least, Lanes& greatest) {
  Lanes negated, weight;
  take(block, 0, greatest, weight);
  negated = -greatest;
  for (std::size_t i = 1; i < block.n_steps; ++i) {
    Lanes value;
    take(block, i, value, weight);
    greatest = value > greatest ? value : greatest;
    negated = -value > negated ? -value : negated;
  }
  block.join_greatest(greatest);
  block.join_greatest(negated);
  least = -negated;
}

/// 1 / x; 0 where that would be infinite.
WEFT_INLINE void invert(Lanes& x) {
  const Lanes magnitude = x < 0.0f ? -x : x;
  x = magnitude < FLT_MIN ? Lanes{} : 1.0f / x;
}

// Tries scales that map the farthest value to `extreme` and to levels around it, `step` apart.
template <class Block, class Levels>
WEFT_INLINE void search_scale(const Block& block, float extreme, float step, Levels levels,
                              Lanes& best_scale) {
  constexpr int kSteps = 9;
  Lanes least, greatest;
  extremes(block, least, greatest);
  Lanes to_one = greatest > -least ? greatest : least;
  invert(to_one);
  // The best scale of given levels l is sum(w x l) / sum(w l^2). It reduces the error by sum(w x l)^2 / sum(w
  // l^2).
  Lanes best_gain = Lanes{} - 1.0f;
  best_scale = Lanes{};
  for (int i_step = -kSteps; i_step <= kSteps; ++i_step) {
    const Lanes to_level = (extreme + step * static_cast<float>(i_step)) * to_one;
    Lanes xl{}, ll{};
    for (std::size_t i = 0; i < block.n_steps; ++i) {
      Lanes value, weight;
      take(block, i, value, weight);
      Lanes level = value * to_level;
      levels(level);
      const Lanes weighed = weight * level;
      xl += weighed * value;
      ll += weighed * level;
    }
    block.add(xl);
    block.add(ll);
    Lanes scale = ll;
    invert(scale);
    scale *= xl;
    const Lanes gain = scale * xl;
    best_scale = gain > best_gain ? scale : best_scale;
    best_gain = gain > best_gain ? gain : best_gain;
  }
}

template <class Block, class Levels>
WEFT_INLINE void remaining(const Block& block, const Lanes& scale, const Lanes& min, Levels levels,
                           Lanes& error) {
  Lanes to_level = scale;
  invert(to_level);
  error = Lanes{};
  for (std::size_t i = 0; i < block.n_steps; ++i) {
    Lanes value, weight;
    take(block, i, value, weight);
    Lanes level = (value + min) * to_level;
    levels(level);
    const Lanes difference = level * scale - min - value;
    error += weight * difference * difference;
  }
  block.add(error);
}

// Tries scales that map the values' range to a few tenths of a code more or less than the range of codes.
template <class Block>
WEFT_INLINE void search_scale_min(const Block& block, int top, bool any_min, Lanes& best_scale,
                                  Lanes& best_min) {
  constexpr int kSteps = 10;
  Lanes least, greatest;
  extremes(block, least, greatest);
  const Lanes min = any_min ? -least : least < 0.0f ? -least : Lanes{};
  const Lanes range = greatest + min;
  Lanes to_one = range;
  invert(to_one);

  Lanes sum_w{}, sum_x{}, sum_xx{};
  for (std::size_t i = 0; i < block.n_steps; ++i) {
    Lanes value, weight;
    take(block, i, value, weight);
    sum_w += weight;
    sum_x += weight * value;
    sum_xx += weight * value * value;
  }
  block.add(sum_w);
  block.add(sum_x);
  block.add(sum_xx);

  const float n_codes = static_cast<float>(top);
  const Integers levels{0.0f, n_codes};
  best_scale = range / n_codes;
  best_min = min;
  Lanes best_error;
  remaining(block, best_scale, best_min, levels, best_error);
  for (int step = -kSteps; step <= kSteps; ++step) {
    const Lanes to_code = (n_codes + 0.1f * static_cast<float>(step)) * to_one;
    Lanes q{}, qq{}, xq{};
    for (std::size_t i = 0; i < block.n_steps; ++i) {
      Lanes value, weight;
      take(block, i, value, weight);
      Lanes code = (value + min) * to_code;
      levels(code);
      const Lanes weighed = weight * code;
      q += weighed;
      qq += weighed * code;
      xq += weighed * value;
    }
    block.add(q);
    block.add(qq);
    block.add(xq);
    // The least squares fit of x = scale * q - min. Skipped if all codes are equal.
    Lanes to_fit = sum_w * qq - q * q;
    const IntLanes usable = to_fit > 0.0f;
    invert(to_fit);
    Lanes fit_scale = (sum_w * xq - sum_x * q) * to_fit;
    Lanes fit_min = (q * xq - qq * sum_x) * to_fit;
    if (!any_min) {  // The type has no negative min, so fit without one.
      Lanes alone = qq;
      invert(alone);
      fit_scale = fit_min < 0.0f ? xq * alone : fit_scale;
      fit_min = fit_min < 0.0f ? Lanes{} : fit_min;
    }
    const Lanes error = fit_scale * fit_scale * qq - 2.0f * fit_scale * (fit_min * q + xq) +
                        fit_min * fit_min * sum_w + 2.0f * fit_min * sum_x + sum_xx;
    const IntLanes better = usable & (fit_scale >= 0.0f) & (error < best_error);
    best_scale = better ? fit_scale : best_scale;
    best_min = better ? fit_min : best_min;
    best_error = better ? error : best_error;
  }
}

WEFT_INLINE void keep(const Lanes& x, PerSub& to) { std::memcpy(to.data(), &x, sizeof x); }

}  // namespace

const float* equal_weights() { return kOnes.data(); }

SubBlocks::SubBlocks(const float* from, const float* from_weights, int n_subs) : pairs(n_subs == 8) {
  if (from_weights == nullptr) from_weights = equal_weights();
  for (std::size_t lane = 0; lane < kLanes; ++lane)
    for (std::size_t i = 0; i < kLanes; ++i) {
      values[i * kLanes + lane] = from[lane * kLanes + i];
      weights[i * kLanes + lane] = from_weights[lane * kLanes + i];
    }
}

WEFT_CLONES float fit_scale(Weighed x, int low, int high) {
  const Integers levels{static_cast<float>(low), static_cast<float>(high)};
  Lanes scale;
  search_scale(Alone(x), levels.low, 0.1f, levels, scale);
  return scale[0];
}
WEFT_CLONES PerSub fit_scales(const SubBlocks& x, int low, int high) {
  const Integers levels{static_cast<float>(low), static_cast<float>(high)};
  Lanes scale;
  search_scale(Together<false>(x), levels.low, 0.1f, levels, scale);
  PerSub scales;
  keep(scale, scales);
  return scales;
}

constexpr float kIq4Step = 1.8f;

WEFT_CLONES float fit_iq4_scale(Weighed x) {
  Lanes scale;
  search_scale(Alone(x), kIQ4Values[0], kIq4Step, Iq4{}, scale);
  return scale[0];
}
WEFT_CLONES PerSub fit_iq4_scales(const SubBlocks& x) {
  Lanes scale;
  search_scale(Together<true>(x), kIQ4Values[0], kIq4Step, Iq4{}, scale);
  PerSub scales;
  keep(scale, scales);
  return scales;
}

WEFT_CLONES ScaleMin fit_scale_min(Weighed x, int top) {
  Lanes scale, min;
  search_scale_min(Alone(x), top, true, scale, min);
  return {scale[0], min[0]};
}
WEFT_CLONES ScaleMins fit_scale_mins(const SubBlocks& x, int top) {
  Lanes scale, min;
  if (x.pairs)
    search_scale_min(Together<true>(x), top, false, scale, min);
  else
    search_scale_min(Together<false>(x), top, false, scale, min);
  ScaleMins fits;
  keep(scale, fits.scales);
  keep(min, fits.mins);
  return fits;
}

WEFT_CLONES float error_of_fp4(Weighed x, float scale) {
  Lanes error;
  remaining(Alone(x), Lanes{} + scale, Lanes{}, Fp4{}, error);
  return error[0];
}
WEFT_CLONES PerSub errors_of_scales(const SubBlocks& x, const PerSub& scales, int low, int high) {
  Lanes scale, error;
  load(scale, scales.data());
  remaining(Together<false>(x), scale, Lanes{}, Integers{static_cast<float>(low), static_cast<float>(high)},
            error);
  PerSub errors;
  keep(error, errors);
  return errors;
}
WEFT_CLONES PerSub errors_of_iq4(const SubBlocks& x, const PerSub& scales) {
  Lanes scale, error;
  load(scale, scales.data());
  remaining(Together<true>(x), scale, Lanes{}, Iq4{}, error);
  PerSub errors;
  keep(error, errors);
  return errors;
}
WEFT_CLONES PerSub errors_of_scale_mins(const SubBlocks& x, const ScaleMins& fits, int top) {
  Lanes scale, min, error;
  load(scale, fits.scales.data());
  load(min, fits.mins.data());
  const Integers levels{0.0f, static_cast<float>(top)};
  if (x.pairs)
    remaining(Together<true>(x), scale, min, levels, error);
  else
    remaining(Together<false>(x), scale, min, levels, error);
  PerSub errors;
  keep(error, errors);
  return errors;
}

int nearest_iq4(float value) {
  int code = 0;
  for (int i = 0; i < 15; ++i) code += value > 0.5f * static_cast<float>(kIQ4Values[i] + kIQ4Values[i + 1]);
  return code;
}

WEFT_CLONES void nearest_codes(std::span<const float> values, ScaleMin fit, int low, int high,
                               std::uint8_t* codes) {
  const float to_code = inverse(fit.scale);
  for (std::size_t i = 0; i < values.size(); i += kLanes) {
    Lanes code;
    load(code, values.data() + i);
    code = (code + fit.min) * to_code;
    round_to(code, static_cast<float>(low), static_cast<float>(high));
    store_bytes(codes + i, code - static_cast<float>(low));
  }
}

}  // namespace weft::codec
