// Keys in quantised caches, as they are and rotated by a Hadamard matrix: the error of keys with outliers,
// and of keys that a shift turns.
#include "backend/cpu/layout/cache_layout.h"
#include "backend_cpu/float_testing.h"

namespace weft::cpu {
namespace {

constexpr int kKeyDim = 64, kRotated = 64, kNumKeys = 64, kFirstPosition = 500, kShiftedBy = -137;

class RotatedKeys : public testing::TestWithParam<Isa> {
 protected:
  void turn(std::vector<float>& key, int position) const {
    std::vector<float> cos, sin;
    for (int i = 0; i < kKeyDim / 2; ++i) {
      const double angle = position * std::pow(10000.0, -2.0 * i / kKeyDim);
      cos.push_back(static_cast<float>(std::cos(angle)));
      sin.push_back(static_cast<float>(std::sin(angle)));
    }
    k_.rope_head({cos.data(), sin.data(), kKeyDim, true}, key.data(), kKeyDim, key.data());
  }
  std::vector<float> at(std::vector<float> key, int position) const {
    turn(key, position);
    return key;
  }

  struct Errors {
    double stored, shifted;  ///< NMSE.
  };
  /// The keys have two channels of outliers. They are stored, then moved to other positions.
  Errors errors(DType type, bool rotated) const {
    const CacheLayout layout = {type, type, 1, kKeyDim, kKeyDim};
    std::vector<std::byte> cache(2 * k_page_bytes(layout));
    const auto rotate = [&](std::vector<float>& key) {
      if (rotated) k_.hadamard_row(key.data(), kKeyDim, kRotated, key.data());
    };
    std::vector<float> stored, shifted;
    std::vector<double> stored_truth, shifted_truth;
    const auto append = [](auto& to, const std::vector<float>& key) {
      to.insert(to.end(), key.begin(), key.end());
    };
    for (int i = 0; i < kNumKeys; ++i) {
      std::vector<float> raw = random_floats(kKeyDim, static_cast<std::uint64_t>(i));
      raw[5] *= 12.0f;
      raw[40] *= 12.0f;
      std::vector<float> key = at(raw, kFirstPosition + i);
      append(stored_truth, key);
      append(shifted_truth, at(raw, kFirstPosition + i + kShiftedBy));
      rotate(key);
      k_.store_k(layout, key.data(), i, cache.data());
      k_.load_k(layout, cache.data(), i, key.data());
      rotate(key);
      append(stored, key);
      turn(key, kShiftedBy);
      rotate(key);
      k_.store_k(layout, key.data(), kNumKeys + i, cache.data());
      k_.load_k(layout, cache.data(), kNumKeys + i, key.data());
      rotate(key);
      append(shifted, key);
    }
    return {nmse(stored, stored_truth), nmse(shifted, shifted_truth)};
  }

  const Kernels& k_ = kernels(GetParam());
};

TEST_P(RotatedKeys, WithOutliersHaveLessErrorAlsoAfterAShift) {
  for (const DType type :
       {DType::kQ8_0, DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ5_1, DType::kIQ4_NL}) {
    const Errors plain = errors(type, false), rotated = errors(type, true);
    EXPECT_LT(rotated.stored, 0.5 * plain.stored) << info(type).name;
    EXPECT_LT(rotated.shifted, 0.5 * plain.shifted) << info(type).name;
    // A shift quantises once more.
    EXPECT_LT(rotated.shifted, 2.5 * rotated.stored) << info(type).name;
    EXPECT_LT(plain.shifted, 2.5 * plain.stored) << info(type).name;
  }
}

TEST_P(RotatedKeys, InFloatsAreTheSameUpToRounding) {
  const Errors rotated = errors(DType::kF32, true);
  EXPECT_LT(rotated.stored, 1e-12);
  EXPECT_LT(rotated.shifted, 1e-12);
}

INSTANTIATE_TEST_SUITE_P(Isas, RotatedKeys, testing::ValuesIn(supported_isas()), isa_name);

}  // namespace
}  // namespace weft::cpu
