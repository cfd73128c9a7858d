// Screening never rules out a row that it should not, whatever bits weights and activations have, and rules
// out most of the others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "backend/cpu/kernels/kernels.h"
#include "backend_cpu/float_testing.h"
#include "backend_cpu/matrix_testing.h"
#include "base/memory.h"

namespace weft::cpu {
namespace {

constexpr std::int64_t kColumns = 96, kRows = 6150;

/// A tall matrix, kScreenColumns columns, and the product of both.
struct Product {
  const Kernels& table;
  Packed weight;
  std::size_t row_bytes = activation_row_bytes(Form::kQ8, kColumns);
  std::vector<std::byte> x = std::vector<std::byte>(kScreenColumns * row_bytes);
  std::vector<float> exact = std::vector<float>(kScreenColumns * kRows);
  std::int64_t stride = weight.matrix.n_panels() * kPanelRows;
  std::vector<float> sums = std::vector<float>(static_cast<std::size_t>(kScreenColumns * stride));
  std::vector<float> bounds = sums;
  std::vector<std::byte> scratch = std::vector<std::byte>(screen_scratch_bytes(kColumns));

  Product(const Kernels& kernels, const CanonicalMatrix& canonical, float scale)
      : table(kernels), weight(canonical) {
    Random random(21);
    for (std::size_t c = 0; c < kScreenColumns; ++c) {
      std::vector<float> values(kColumns);
      for (float& v : values) v = scale * random.uniform() * random.uniform() * random.uniform();
      table.quantise_row(Form::kQ8, values.data(), kColumns, x.data() + c * row_bytes);
    }
    const MatmulArgs args = {.weight = &weight.matrix,
                             .x = x.data(),
                             .x_row_bytes = row_bytes,
                             .out = exact.data(),
                             .out_stride = kRows};
    table.matmul(args, {0, weight.matrix.n_panels()}, {0, kScreenColumns});
  }

  ScreenArgs args(bool deep) {
    return {.weight = &weight.matrix,
            .x = x.data(),
            .x_row_bytes = row_bytes,
            .sums = sums.data(),
            .bounds = bounds.data(),
            .stride = stride,
            .deep = deep};
  }
  void screen(bool deep, Range columns) {
    std::vector<BestEntry> lists(kScreenColumns, kNoBest);
    table.screen(args(deep), {0, weight.matrix.n_panels()}, columns, {.lists = lists.data(), .n = 1},
                 scratch.data());
  }
  std::span<const float> column(std::int64_t c) const {
    return std::span(exact).subspan(static_cast<std::size_t>(c * kRows), kRows);
  }

  /// The remaining panels of a column, first by the screened bits, then by all but the lowest bits.
  std::vector<std::int32_t> candidates(bool deep, std::int64_t c, float least) {
    std::vector<std::int32_t> found(static_cast<std::size_t>(weight.matrix.n_panels()));
    int n = table.find_candidates(args(deep), {0, weight.matrix.n_panels()}, c, least, found.data());
    if (!deep) n = table.sift_candidates(args(deep), c, least, found.data(), n, scratch.data());
    found.resize(static_cast<std::size_t>(n));
    return found;
  }
  void expect_none_is_lost(bool deep, std::int64_t c, float least) {
    const std::vector<std::int32_t> found = candidates(deep, c, least);
    for (std::int64_t r = 0; r < kRows; ++r) {
      if (column(c)[static_cast<std::size_t>(r)] >= least) {
        ASSERT_TRUE(std::binary_search(found.begin(), found.end(), static_cast<std::int32_t>(r / kPanelRows)))
            << "row " << r << " of column " << c << ", at least " << least;
      }
    }
  }
};

class Screen : public testing::TestWithParam<Isa> {};
INSTANTIATE_TEST_SUITE_P(Isas, Screen, testing::ValuesIn(supported_isas()), isa_name);

TEST_P(Screen, BoundsHoldForEachRowAndAreTight) {
  Product p(kernels(GetParam()), CanonicalMatrix(DType::kQ8_0, kRows, kColumns, 4), 3.0f);
  for (const bool deep : {false, true}) {
    for (const Range columns : {Range{0, 1}, Range{1, 2}, Range{0, 2}}) {
      std::fill(p.bounds.begin(), p.bounds.end(), -1.0f);
      p.screen(deep, columns);
      for (std::int64_t c = columns.begin; c < columns.end; ++c) {
        double error = 0.0, bound = 0.0, size = 0.0;
        for (std::int64_t r = 0; r < kRows; ++r) {
          const auto at = static_cast<std::size_t>(c * p.stride + r);
          const float exact = p.column(c)[static_cast<std::size_t>(r)];
          ASSERT_LE(std::abs(exact - p.sums[at]), p.bounds[at]) << "row " << r << " of column " << c;
          error += std::abs(exact - p.sums[at]);
          bound += p.bounds[at];
          size += std::abs(exact);
        }
        EXPECT_LT(error, (deep ? 0.03 : 0.12) * size);
        EXPECT_LT(bound, (deep ? 0.35 : 1.6) * size);
      }
    }
  }
}

TEST_P(Screen, LosesNoRowAndRulesOutMost) {
  Product p(kernels(GetParam()), CanonicalMatrix(DType::kQ8_0, kRows, kColumns, 4), 3.0f);
  for (const bool deep : {false, true}) {
    p.screen(deep, {0, kScreenColumns});
    for (std::int64_t c = 0; c < kScreenColumns; ++c) {
      std::vector<float> sorted(p.column(c).begin(), p.column(c).end());
      std::sort(sorted.rbegin(), sorted.rend());
      for (const std::size_t place : {0, 1, 10, 100, 3000, 6149})
        p.expect_none_is_lost(deep, c, sorted[place]);
      EXPECT_LT(p.candidates(deep, c, sorted[0]).size(), 10u);
      EXPECT_EQ(p.candidates(deep, c, -INFINITY).size(),
                static_cast<std::size_t>(p.weight.matrix.n_panels()));
    }
  }
}

// Scales that are negative, infinite or no numbers, and activations so large that sums are infinite.
TEST_P(Screen, LosesNoRowOfAnyBits) {
  CanonicalMatrix canonical(DType::kQ8_0, kRows, kColumns, 1);
  Random random(11);
  for (std::byte& b : canonical.bytes) b = static_cast<std::byte>(random.bits() & 0xff);
  for (const float scale : {1.0f, 1e-38f, 1e30f}) {
    Product p(kernels(GetParam()), canonical, scale);
    for (const bool deep : {false, true}) {
      p.screen(deep, {0, kScreenColumns});
      for (std::int64_t c = 0; c < kScreenColumns; ++c) {
        std::vector<float> sorted;
        for (const float v : p.column(c))
          if (!std::isnan(v)) sorted.push_back(v);
        std::sort(sorted.rbegin(), sorted.rend());
        for (const std::size_t place : {0, 1, 10, 100, 1000}) p.expect_none_is_lost(deep, c, sorted[place]);
      }
    }
  }
}

// What is made of a tall matrix is what would be made of its rows in another.
TEST_P(Screen, ProductsOfTallMatricesAreTheSameBits) {
  const CanonicalMatrix canonical(DType::kQ8_0, kRows, kColumns, 4);
  const Product p(kernels(GetParam()), canonical, 3.0f);
  CanonicalMatrix some(DType::kQ8_0, 70, kColumns, 4);
  std::memcpy(some.bytes.data(), canonical.bytes.data(), some.bytes.size());
  const Packed packed(some);
  ASSERT_EQ(packed.matrix.low_bytes, 0u);
  std::vector<float> out(kScreenColumns * 70);
  const MatmulArgs args = {.weight = &packed.matrix,
                           .x = p.x.data(),
                           .x_row_bytes = p.row_bytes,
                           .out = out.data(),
                           .out_stride = 70};
  for (std::int64_t n = 1; n <= kScreenColumns; ++n) {
    p.table.matmul(args, {0, packed.matrix.n_panels()}, {0, n});
    for (std::int64_t c = 0; c < n; ++c)
      EXPECT_EQ(std::memcmp(out.data() + c * 70, p.column(c).data(), 70 * sizeof(float)), 0)
          << n << " columns";
  }
}

TEST_P(Screen, AColumnOfATallMatrixHasTheSameBitsAmongMany) {
  const Kernels& k = kernels(GetParam());
  constexpr std::int64_t kLong = 672, kTallRows = 12 * kLong + 5,
                         kMost = 150;  // More than are unpacked at once.
  const Packed tall(CanonicalMatrix(DType::kQ8_0, kTallRows, kLong, 6));
  ASSERT_GT(tall.matrix.low_bytes, 0u);
  const std::size_t x_row_bytes = activation_row_bytes(Form::kQ8, kLong);
  base::Memory x(kMost * x_row_bytes);
  Random random(7);
  for (std::int64_t c = 0; c < kMost; ++c) {
    std::vector<float> row(kLong);
    for (float& number : row) number = random.uniform();
    k.quantise_row(Form::kQ8, row.data(), kLong, x.data() + static_cast<std::size_t>(c) * x_row_bytes);
  }
  const auto products = [&](Range panels, std::int64_t n) {
    std::vector<float> out(static_cast<std::size_t>(n * kTallRows), -1.0f);
    const MatmulArgs args = {.weight = &tall.matrix,
                             .x = x.data(),
                             .x_row_bytes = x_row_bytes,
                             .out = out.data(),
                             .out_stride = kTallRows};
    k.matmul(args, panels, {0, n});
    return out;
  };
  // Panels at both ends, of which the last is a part of one.
  for (const Range panels : {Range{0, 3}, Range{tall.matrix.n_panels() - 2, tall.matrix.n_panels()}}) {
    const std::int64_t first = panels.begin * kPanelRows, end = std::min(panels.end * kPanelRows, kTallRows);
    const std::vector<float> few = products(panels, 1);
    std::vector<float> all = products(panels, kMost);
    for (const std::int64_t n : {2, 3, 4, 7, 8, 9, 12, 15, 16, 17, 31, 128, 131}) {
      const std::vector<float> some = products(panels, n);
      for (std::int64_t c = 0; c < n; ++c)
        ASSERT_EQ(std::memcmp(some.data() + c * kTallRows + first, all.data() + c * kTallRows + first,
                              static_cast<std::size_t>(end - first) * sizeof(float)),
                  0)
            << n << " columns, " << c;
    }
    EXPECT_EQ(std::memcmp(few.data() + first, all.data() + first,
                          static_cast<std::size_t>(end - first) * sizeof(float)),
              0);
  }
}

}  // namespace
}  // namespace weft::cpu
