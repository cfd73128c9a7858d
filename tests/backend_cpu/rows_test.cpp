// The row kernels of every instruction set against the same formulas in double.
#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <numbers>

#include "backend/conformance/truth.h"
#include "backend_cpu/float_testing.h"

namespace weft::cpu {
namespace {

/// NMSE of a result whose elements are each within about an ulp.
constexpr double kTiny = 1e-14;

std::vector<std::int64_t> sizes() {
  std::vector<std::int64_t> n;
  for (std::int64_t i = 1; i <= 70; ++i) n.push_back(i);
  for (std::int64_t i : {576, 640, 2048, 4099}) n.push_back(i);
  return n;
}

class Rows : public testing::TestWithParam<Isa> {
 protected:
  const Kernels& k_ = kernels(GetParam());

  /// Runs a kernel on rows of every size, at an odd address and with a guard behind, and compares with
  /// want(i).
  void check(const std::function<void(std::int64_t n, float* out)>& run,
             const std::function<std::vector<double>(std::int64_t n)>& want, double limit = kTiny) {
    for (const std::int64_t n : sizes()) {
      std::vector<float> out(static_cast<std::size_t>(n) + 3, 12345.0f);
      run(n, out.data() + 1);
      EXPECT_EQ(out.front(), 12345.0f) << n;
      EXPECT_EQ(out[static_cast<std::size_t>(n) + 1], 12345.0f) << n;
      EXPECT_LE(nmse(std::span(out).subspan(1, static_cast<std::size_t>(n)), want(n)), limit) << n;
    }
  }

  const std::vector<float> a_ = random_floats(5000, 1);
  const std::vector<float> b_ = random_floats(5000, 2);
};

std::vector<double> each(std::int64_t n, const std::function<double(std::size_t)>& f) {
  std::vector<double> r(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < r.size(); ++i) r[i] = f(i);
  return r;
}

std::vector<double> norm_reference(NormKind kind, std::span<const float> x, double eps, const float* weight,
                                   const float* bias) {
  const double n = static_cast<double>(x.size());
  double mean = 0.0;
  if (kind == NormKind::kLayer) {
    for (float v : x) mean += v / n;
  }
  double variance = 0.0;
  for (float v : x) variance += (v - mean) * (v - mean) / n;
  return each(static_cast<std::int64_t>(x.size()), [&](std::size_t i) {
    double y = (x[i] - mean) / std::sqrt(variance + eps);
    if (weight != nullptr) y *= weight[i];
    if (bias != nullptr) y += bias[i];
    return y;
  });
}

TEST_P(Rows, Norm) {
  for (const NormKind kind : {NormKind::kRms, NormKind::kLayer}) {
    for (int form = 0; form < 4; ++form) {
      const float* weight = (form & 1) != 0 ? a_.data() + 1 : nullptr;
      const float* bias = (form & 2) != 0 ? a_.data() + 3 : nullptr;
      check([&](std::int64_t n, float* out) { k_.norm_row(kind, b_.data(), n, 1e-5f, weight, bias, out); },
            [&](std::int64_t n) {
              return norm_reference(kind, std::span(b_).first(static_cast<std::size_t>(n)), 1e-5f, weight,
                                    bias);
            },
            1e-13);
    }
  }
}

TEST_P(Rows, LayerNormOfARowFarFromZero) {
  // The variance must not come out of a difference of large squares.
  std::vector<float> x = random_floats(2048, 3);
  for (float& v : x) v += 1000.0f;
  std::vector<float> out(x.size());
  k_.norm_row(NormKind::kLayer, x.data(), 2048, 1e-5f, nullptr, nullptr, out.data());
  EXPECT_LE(nmse(out, norm_reference(NormKind::kLayer, x, 1e-5, nullptr, nullptr)), 1e-13);
}

TEST_P(Rows, NormInPlaceAndAnywhereIsTheSame) {
  for (const std::int64_t n : {1, 7, 63, 64, 65, 576, 2051}) {
    std::vector<float> want(static_cast<std::size_t>(n));
    k_.norm_row(NormKind::kRms, a_.data(), n, 1e-6f, b_.data(), nullptr, want.data());
    for (std::size_t shift = 0; shift < 4; ++shift) {
      std::vector<float> moved(static_cast<std::size_t>(n) + shift);
      std::copy_n(a_.begin(), n, moved.begin() + static_cast<std::ptrdiff_t>(shift));
      k_.norm_row(NormKind::kRms, moved.data() + shift, n, 1e-6f, b_.data(), nullptr, moved.data() + shift);
      EXPECT_EQ(std::memcmp(want.data(), moved.data() + shift, want.size() * sizeof(float)), 0)
          << n << " " << shift;
    }
  }
}

TEST_P(Rows, Arithmetic) {
  check(
      [&](std::int64_t n, float* out) { k_.add_row(a_.data(), b_.data(), n, out); },
      [&](std::int64_t n) { return each(n, [&](std::size_t i) { return double{a_[i]} + double{b_[i]}; }); });
  check(
      [&](std::int64_t n, float* out) { k_.mul_row(a_.data(), b_.data(), n, out); },
      [&](std::int64_t n) { return each(n, [&](std::size_t i) { return double{a_[i]} * double{b_[i]}; }); });
  check([&](std::int64_t n, float* out) { k_.scale_row(a_.data(), 0.3f, n, out); },
        [&](std::int64_t n) { return each(n, [&](std::size_t i) { return double{a_[i]} * double{0.3f}; }); });
  check(
      [&](std::int64_t n, float* out) {
        std::copy_n(b_.begin(), n, out);
        k_.axpy_row(a_.data(), 0.3f, n, out);
      },
      [&](std::int64_t n) {
        return each(n, [&](std::size_t i) { return double{b_[i]} + double{a_[i]} * double{0.3f}; });
      });
}

TEST_P(Rows, Softcap) {
  for (const float cap : {0.5f, 30.0f}) {
    check([&](std::int64_t n, float* out) { k_.softcap_row(a_.data(), cap, n, out); },
          [&](std::int64_t n) {
            return each(n,
                        [&](std::size_t i) { return double{cap} * std::tanh(double{a_[i]} / double{cap}); });
          },
          1e-13);
  }
}

constexpr Activation kActivations[] = {Activation::kNone,        Activation::kSilu,      Activation::kGelu,
                                       Activation::kGeluErf,     Activation::kGeluQuick, Activation::kRelu,
                                       Activation::kReluSquared, Activation::kSoftplus};

TEST_P(Rows, Activations) {
  const std::vector<float> x = random_floats(5000, 4, 3.0f);
  for (const Activation kind : kActivations) {
    SCOPED_TRACE(static_cast<int>(kind));
    check([&](std::int64_t n, float* out) { k_.activation_row(kind, x.data(), n, out); },
          [&](std::int64_t n) {
            return each(n, [&](std::size_t i) { return conformance::activate(kind, x[i]); });
          },
          1e-13);
    check([&](std::int64_t n, float* out) { k_.glu_row(kind, x.data(), b_.data(), n, out); },
          [&](std::int64_t n) {
            return each(n, [&](std::size_t i) { return conformance::activate(kind, x[i]) * double{b_[i]}; });
          },
          1e-13);
  }
}

TEST_P(Rows, ActivationsElementByElement) {
  // Absolute error over a dense range, and the same bits alone (a partial vector) as in a row.
  std::vector<float> x;
  for (int i = -12000; i <= 12000; ++i) x.push_back(static_cast<float>(i) * 1e-3f);
  std::vector<float> out(x.size());
  for (const Activation kind : kActivations) {
    SCOPED_TRACE(static_cast<int>(kind));
    k_.activation_row(kind, x.data(), static_cast<std::int64_t>(x.size()), out.data());
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double want = conformance::activate(kind, x[i]);
      ASSERT_NEAR(out[i], want, 3e-7 * std::max(1.0, std::abs(want))) << x[i];
      float alone;
      k_.activation_row(kind, &x[i], 1, &alone);
      ASSERT_EQ(alone, out[i]) << x[i];
    }
  }
}

TEST_P(Rows, ActivationsOfExtremes) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float x[] = {infinity, 1e30f, 1000.0f, -1000.0f, -1e15f, 0.0f, -0.0f, std::nanf("")};
  float out[8];
  for (const Activation kind : kActivations) {
    if (kind == Activation::kNone) continue;
    SCOPED_TRACE(static_cast<int>(kind));
    k_.activation_row(kind, x, 8, out);
    const bool squared = kind == Activation::kReluSquared;
    EXPECT_EQ(out[0], infinity);
    EXPECT_EQ(out[1], squared ? infinity : 1e30f);
    EXPECT_EQ(out[2], squared ? 1e6f : 1000.0f);
    const float at_zero = kind == Activation::kSoftplus ? std::numbers::ln2_v<float> : 0.0f;
    for (int i = 3; i < 7; ++i) EXPECT_FLOAT_EQ(out[i], i < 5 ? 0.0f : at_zero) << i;
    EXPECT_TRUE(std::isnan(out[7]));
  }
}

TEST_P(Rows, Softmax) {
  const std::vector<float> x = random_floats(5000, 5, 5.0f);
  check([&](std::int64_t n, float* out) { k_.softmax_row(x.data(), n, out); },
        [&](std::int64_t n) {
          const double top = *std::max_element(x.begin(), x.begin() + n);
          double sum = 0.0;
          for (std::int64_t i = 0; i < n; ++i) sum += std::exp(x[static_cast<std::size_t>(i)] - top);
          return each(n, [&](std::size_t i) { return std::exp(x[i] - top) / sum; });
        },
        1e-13);
}

TEST_P(Rows, SoftmaxOfALongRow) {
  const std::vector<float> x = random_floats(262144, 6, 2.0f);
  std::vector<float> out(x.size());
  k_.softmax_row(x.data(), static_cast<std::int64_t>(x.size()), out.data());
  double sum = 0.0;
  for (float v : x) sum += std::exp(double{v});
  EXPECT_LE(nmse(out, each(262144, [&](std::size_t i) { return std::exp(double{x[i]}) / sum; })), 1e-13);
}

TEST_P(Rows, SoftmaxOfInfinities) {
  const float low = -std::numeric_limits<float>::infinity();
  const float x[] = {low, 1.0f, low, 1.0f, low};
  float out[5];
  k_.softmax_row(x, 5, out);
  const float want[] = {0.0f, 0.5f, 0.0f, 0.5f, 0.0f};
  for (int i = 0; i < 5; ++i) EXPECT_EQ(out[i], want[i]);
  const float nothing[] = {low, low, low};
  k_.softmax_row(nothing, 3, out);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(out[i], 0.0f);
}

TEST_P(Rows, Rope) {
  for (const bool neox : {false, true}) {
    for (const int n_rot : {2, 6, 10, 16, 20, 32, 64, 80, 96, 128, 256}) {
      for (const int head_dim : {n_rot, n_rot + 2, n_rot + 16}) {
        std::vector<float> cos(static_cast<std::size_t>(n_rot / 2));
        std::vector<float> sin(cos.size());
        for (std::size_t i = 0; i < cos.size(); ++i) {
          const double angle = 37.0 * std::pow(10000.0, -2.0 * static_cast<double>(i) / n_rot);
          cos[i] = static_cast<float>(std::cos(angle));
          sin[i] = static_cast<float>(std::sin(angle));
        }
        std::vector<double> want(a_.begin(), a_.begin() + head_dim);
        for (int i = 0; i < n_rot / 2; ++i) {
          const auto first = static_cast<std::size_t>(neox ? i : 2 * i);
          const auto second = static_cast<std::size_t>(neox ? i + n_rot / 2 : 2 * i + 1);
          const double c = cos[static_cast<std::size_t>(i)];
          const double s = sin[static_cast<std::size_t>(i)];
          const double x0 = a_[first];
          const double x1 = a_[second];
          want[first] = x0 * c - x1 * s;
          want[second] = x1 * c + x0 * s;
        }
        const RopeTable table{cos.data(), sin.data(), n_rot, neox};
        std::vector<float> out(static_cast<std::size_t>(head_dim));
        k_.rope_head(table, a_.data(), head_dim, out.data());
        EXPECT_LE(nmse(out, want), kTiny) << neox << " " << n_rot << " " << head_dim;
        std::vector<float> in_place(a_.begin(), a_.begin() + head_dim);
        k_.rope_head(table, in_place.data(), head_dim, in_place.data());
        EXPECT_EQ(in_place, out) << neox << " " << n_rot << " " << head_dim;
      }
    }
  }
}

TEST_P(Rows, HadamardHasTheSameBitsInEachInstructionSetAndUndoesItself) {
  const Kernels& plain = kernels(Isa::kGeneric);
  for (int block = 2; block <= ops::Hadamard::kMaxBlock; block *= 2) {
    for (const std::int64_t n : {block, 3 * block}) {
      const std::vector<float> x(a_.begin(), a_.begin() + n);
      const std::vector<double> want =
          conformance::hadamard({block}, std::vector<double>(x.begin(), x.end()));
      std::vector<float> y(x.size()), in_place = x, generic(x.size());
      k_.hadamard_row(x.data(), n, block, y.data());
      EXPECT_LE(nmse(y, want), 1e-13) << block;
      k_.hadamard_row(in_place.data(), n, block, in_place.data());
      EXPECT_EQ(in_place, y) << block;
      plain.hadamard_row(x.data(), n, block, generic.data());
      EXPECT_EQ(generic, y) << block;
      k_.hadamard_row(y.data(), n, block, y.data());
      EXPECT_LE(nmse(y, std::vector<double>(x.begin(), x.end())), 1e-13) << block;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, Rows, testing::ValuesIn(supported_isas()), isa_name);

}  // namespace
}  // namespace weft::cpu
