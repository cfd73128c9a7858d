#pragma once
// What the tests of the float kernels share: random floats, a measure of error, the instruction sets to test.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "backend/cpu/kernels/kernels.h"

namespace weft::cpu {

inline std::vector<Isa> supported_isas() {
  std::vector<Isa> isas;
  for (const Isa isa : kIsas) {
    if (supported(isa)) isas.push_back(isa);
  }
  return isas;
}

inline std::string isa_name(const testing::TestParamInfo<Isa>& info) { return kernels(info.param).name; }

/// Normally distributed floats; the same for the same seed.
inline std::vector<float> random_floats(std::size_t n, std::uint64_t seed, float deviation = 1.0f) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0.0f, deviation);
  std::vector<float> values(n);
  for (float& v : values) v = normal(random);
  return values;
}

/// Sum of squared errors over the sum of squared expected values.
inline double nmse(std::span<const float> got, std::span<const double> want) {
  double error = 0.0;
  double power = 0.0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    const double d = static_cast<double>(got[i]) - want[i];
    error += d * d;
    power += want[i] * want[i];
  }
  return power == 0.0 ? error : error / power;
}

}  // namespace weft::cpu
