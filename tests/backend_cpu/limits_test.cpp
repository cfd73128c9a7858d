// The measuring kernels do all of the work that they are timed for, and a profile's kinds represent all
// layers.
#include "backend/cpu/limits.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "backend/cpu/recorder.h"
#include "weft/error.h"

namespace weft::cpu {
namespace {

/// The result of peak.inl, with the columns of activations of one tile.
std::uint64_t expected_dot_peak(std::int64_t n_rounds, int n_columns) {
  std::vector<std::int8_t> q(static_cast<std::size_t>(8 * 16 * n_columns));
  const std::size_t half = q.size() / 2;
  for (std::size_t i = 0; i < half; ++i) {
    q[i] = static_cast<std::int8_t>(static_cast<int>(i % 255) - 127);
    q[half + i] = static_cast<std::int8_t>(-q[i]);
  }
  std::uint64_t sum = 0;
  for (int row = 0; row < 16; ++row) {
    for (int c = 0; c < n_columns; ++c) {
      std::uint32_t lane = 0;
      for (std::int64_t round = 0; round < n_rounds; ++round) {
        for (int k = 0; k < 16; ++k) {
          const int code = (k / 4 * 64 + row * 4 + k % 4) & 15;
          const auto at = static_cast<std::size_t>(((round & 7) * n_columns + c) * 16 + k);
          lane += static_cast<std::uint32_t>(code * q[at]);
        }
      }
      sum += lane;
    }
  }
  return sum;
}

TEST(Limits, AllProductsAreMade) {
  for (const Isa isa : kIsas) {
    if (!supported(isa)) continue;
    const Kernels& k = kernels(isa);
    ASSERT_EQ(k.dot_peak_multiply_adds % 256, 0);
    for (const std::int64_t n_rounds : {1, 2, 9, 1003})
      EXPECT_EQ(k.dot_peak(n_rounds), expected_dot_peak(n_rounds, k.dot_peak_multiply_adds / 256)) << k.name;
  }
}

TEST(Limits, AllFloatsAreMultiplied) {
  for (const Isa isa : kIsas) {
    if (!supported(isa)) continue;
    const Kernels& k = kernels(isa);
    ASSERT_GE(k.fma_peak_multiply_adds, 4);
    // The sums begin with 0 to 11, 5.5 on average; each round halves their distance to 2.
    for (const int n_rounds : {1, 2, 9})
      EXPECT_EQ(k.fma_peak(n_rounds), (2.0 + std::ldexp(3.5, -n_rounds)) * k.fma_peak_multiply_adds)
          << k.name;
  }
}

TEST(Limits, AllPairsAreMultiplied) {
  for (const Isa isa : kIsas) {
    if (!supported(isa)) continue;
    const Kernels& k = kernels(isa);
    ASSERT_GE(k.pair_peak_multiply_adds, 8);
    // They begin with 0 to 11, 5.5 on average; a sum is of two products in each lane.
    for (const int n_rounds : {1, 2, 9})
      EXPECT_EQ(k.pair_peak(n_rounds), (5.5 + 0.75 * n_rounds) * k.pair_peak_multiply_adds / 2) << k.name;
  }
}

TEST(Limits, AllBytesAreRead) {
  constexpr int kUnits = 20;
  std::vector<std::uint64_t> words(kReadUnit * kUnits / sizeof(std::uint64_t));
  std::uint64_t sums[8] = {};
  for (std::size_t i = 0; i < words.size(); ++i) {
    words[i] = (i + 1) * 0x9e3779b97f4a7c15u;
    std::uint64_t& sum = sums[i % 8];
    sum = (sum ^ words[i]) * 3;
  }
  std::uint64_t expected = 0;
  for (const std::uint64_t sum : sums) expected ^= sum;
  ASSERT_NE(expected, 0u);
  for (const Isa isa : kIsas) {
    if (!supported(isa)) continue;
    const auto* bytes = reinterpret_cast<const std::byte*>(words.data());
    EXPECT_EQ(kernels(isa).read_memory(bytes, std::int64_t{kReadUnit} * kUnits), expected)
        << kernels(isa).name;
  }
}

TEST(Limits, AreMeasured) {
  const MachineLimits limits = measure_limits(Isa::kGeneric, 1);
  EXPECT_EQ(limits.n_threads, 1);
  EXPECT_EQ(limits.kernels, "generic");
  EXPECT_GT(limits.read_bytes_per_second, 0.0);
  EXPECT_GT(limits.multiply_adds_per_second.int8, 0.0);
  EXPECT_GT(limits.multiply_adds_per_second.f32, 0.0);
  EXPECT_GT(limits.multiply_adds_per_second.bf16, 0.0);
}

TEST(Limits, ProductsAreMeasuredOfWhatHasKernels) {
  for (const DType type : {DType::kQ4_0, DType::kQ6_K, DType::kBF16})
    EXPECT_GT(measure_products(best_isa(), type, 1), 0.0);
  EXPECT_THROW(measure_products(best_isa(), DType::kI32, 1), Error);
}

TEST(Recorder, KindsStandForAllLayers) {
  EXPECT_EQ(kind_of("matmul blk.12.ffn_down.weight + blk.11.after_ffn -> blk.12.after_ffn", 12),
            "matmul ffn_down + residual");
  EXPECT_EQ(kind_of("matmul blk.0.ffn_up.weight gated by blk.0.ffn_gate.weight + activation -> x", 0),
            "matmul ffn_up gated by ffn_gate + activation");
  EXPECT_EQ(kind_of("matmul output.weight + bias -> logits", NodeTag::kNone), "matmul output + bias");
  EXPECT_EQ(kind_of("rows norm:blk.3.a* quantise:blk.3.a", 3), "rows norm quantise");
  EXPECT_EQ(kind_of("matmul h.4.mlp.weight -> x", 4), "matmul mlp");
  EXPECT_EQ(kind_of("matmul h.4.mlp.weight -> x", 5), "matmul h.4.mlp");
}

}  // namespace
}  // namespace weft::cpu
