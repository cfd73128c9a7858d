#include "engine/sampling/log_sum_exp.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>

#include "base/to_size.h"
#include "engine/sampling/candidates.h"

namespace weft::engine {
namespace {

constexpr float kNegligible = -87.0f;  // Below, e^x is less than 1e-37.

// e^x of -87 <= x <= 0, to a few units in the last place. Without calls and
// branches, so that a loop of it becomes vector instructions.
float exponential(float x) {
  // x = k ln 2 + r, |r| <= ln 2 / 2. Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits.
  // The constant ln 2 is in two parts; k times the first is exact.
  constexpr float kRound = 12582912.0f;
  const float rounded = x * std::numbers::log2e_v<float> + kRound;
  const float k = rounded - kRound;
  const float r = (x - k * 0.693359375f) + k * 2.12194440e-4f;
  // Taylor's series.
  float y = 1.0f / 720.0f;
  y = y * r + 1.0f / 120.0f;
  y = y * r + 1.0f / 24.0f;
  y = y * r + 1.0f / 6.0f;
  y = y * r + 0.5f;
  y = y * r + 1.0f;
  y = y * r + 1.0f;
  return y * std::bit_cast<float>((std::bit_cast<std::uint32_t>(rounded) + 127) << 23);
}

}  // namespace

double sum_of_exponentials(std::span<const float> logits, float max) {
  constexpr std::size_t kBlock = 128, kLanes = 16;
  double sum = 0.0;
  std::array<float, kBlock> below;
  for (std::size_t begin = 0; begin < logits.size(); begin += kBlock) {
    const std::size_t n = std::min(kBlock, logits.size() - begin);
    if (n < kBlock) below.fill(kNegligible);
    for (std::size_t i = 0; i < n; ++i) {
      const float x = std::min(logits[begin + i], max) - max;
      below[i] = x > kNegligible ? x : kNegligible;
    }
    std::array<float, kLanes> lanes{};
    for (std::size_t i = 0; i < kBlock; i += kLanes)
      for (std::size_t j = 0; j < kLanes; ++j) lanes[j] += exponential(below[i + j]);
    for (const float lane : lanes) sum += static_cast<double>(lane);
  }
  return sum;
}

LogSumExp log_sum_exp(std::span<const float> logits, Token token) {
  LogSumExp result = {.sum = kLowest, .token = token};
  if (const float max = clean_logit(logits[argmax(logits)]); max > kLowest)
    result.sum = static_cast<float>(static_cast<double>(max) + std::log(sum_of_exponentials(logits, max)));
  if (token == kNoToken) return result;
  const float logit = logits[to_size(token)];
  result.logit = std::isnan(logit) ? kLowest : logit;
  return result;
}

}  // namespace weft::engine
