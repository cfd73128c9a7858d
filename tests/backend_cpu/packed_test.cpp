// Packed panels hold exactly the values of the canonical rows.
#include "backend/cpu/layout/packed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "backend_cpu/matrix_testing.h"
#include "weft/error.h"

namespace weft::cpu {
namespace {

void expect_packed_values(const CanonicalMatrix& canonical) {
  expect_same_values(Packed(canonical).matrix, canonical, /*any_nan=*/true);
}

class PackedTypes : public testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(All, PackedTypes, testing::ValuesIn(packed_types()),
                         [](const auto& param) { return test_name(param.param); });

TEST_P(PackedTypes, HoldTheCanonicalValuesBitByBit) {
  for (const std::int64_t rows : {1, 16, 37}) {
    expect_packed_values(CanonicalMatrix(GetParam(), rows, 512, 3));
    if (info(GetParam()).block_elements == 64)
      expect_packed_values(CanonicalMatrix(GetParam(), rows, 320, 4));
    if (info(GetParam()).block_elements <= 32) expect_packed_values(CanonicalMatrix(GetParam(), rows, 96, 4));
    if (info(GetParam()).block_elements == 1) expect_packed_values(CanonicalMatrix(GetParam(), rows, 75, 5));
  }
}

// Every pattern of bits is a valid block: all codes, scales and mins occur, infinite and NaN factors too.
TEST_P(PackedTypes, HoldAnyBits) {
  CanonicalMatrix canonical(GetParam(), 32, 1024, 1);
  Random random(11);
  for (std::byte& b : canonical.bytes) b = static_cast<std::byte>(random.bits() & 0xff);
  expect_packed_values(canonical);
}

/// Random bits, too: all codes and any scale.
TEST(TallMatrices, HoldTheCanonicalValuesBitByBit) {
  CanonicalMatrix canonical(DType::kQ8_0, 6150, 96, 3);
  ASSERT_TRUE(is_tall(canonical.dtype, canonical.rows, canonical.columns));
  expect_packed_values(canonical);
  Random random(12);
  for (std::byte& b : canonical.bytes) b = static_cast<std::byte>(random.bits() & 0xff);
  expect_packed_values(canonical);
}

TEST(TallMatrices, TakeNoMoreBytesThanOthersAndArePackedInAnyOrder) {
  const CanonicalMatrix canonical(DType::kQ8_0, 2070, 32, 3);
  const Packed whole(canonical);
  EXPECT_GT(whole.matrix.low_bytes, 0u);
  EXPECT_EQ(whole.bytes(), 130 * packed_bytes(DType::kQ8_0, 16, 32));
  std::vector<std::byte> parts(whole.bytes(), std::byte{0xa5});  // As Packed's.
  for (std::int64_t p = whole.matrix.n_panels() - 2; p >= 0; p -= 2)
    pack_panels(DType::kQ8_0, 2070, 32, canonical.panel(p), p, p + 2, parts.data());
  EXPECT_EQ(std::memcmp(parts.data(), whole.matrix.data, parts.size()), 0);
}

TEST_P(PackedTypes, PanelsAreIndependentAndStayInTheirBytes) {
  const CanonicalMatrix canonical(GetParam(), 50, 512, 6);
  const Packed whole(canonical);
  const std::size_t panel = whole.matrix.panel_bytes;
  EXPECT_EQ(panel % 64, 0u);
  EXPECT_EQ(whole.bytes(), 4 * panel);
  for (std::int64_t p = 0; p < 4; ++p) {
    std::vector<std::byte> alone(whole.bytes(), std::byte{0x77});
    pack_panels(GetParam(), 50, 512, canonical.panel(p), p, p + 1, alone.data());
    for (std::size_t i = 0; i < alone.size(); ++i) {
      const bool inside = i / panel == static_cast<std::size_t>(p);
      ASSERT_EQ(alone[i], inside ? whole.matrix.data[i] : std::byte{0x77}) << "panel " << p << " byte " << i;
    }
  }
}

TEST(Packed, TakesNoMoreBytesThanTheLayoutSays) {
  const auto bits = [](DType dtype) {
    return static_cast<double>(packed_bytes(dtype, 16, 4096)) * 8 / (16 * 4096);
  };
  EXPECT_DOUBLE_EQ(bits(DType::kF32), 32.0);
  EXPECT_DOUBLE_EQ(bits(DType::kF16), 16.0);
  EXPECT_DOUBLE_EQ(bits(DType::kQ4_0), 4.5);
  EXPECT_DOUBLE_EQ(bits(DType::kQ4_1), 5.0);
  EXPECT_DOUBLE_EQ(bits(DType::kQ5_1), 6.0);
  EXPECT_DOUBLE_EQ(bits(DType::kQ8_0), 8.5);
  EXPECT_DOUBLE_EQ(bits(DType::kQ2_K), 2.625);
  EXPECT_DOUBLE_EQ(bits(DType::kQ3_K), 3.5625);
  EXPECT_DOUBLE_EQ(bits(DType::kQ4_K), 4.5);
  EXPECT_DOUBLE_EQ(bits(DType::kQ5_K), 5.5);
  EXPECT_DOUBLE_EQ(bits(DType::kQ6_K), 6.5625);
  EXPECT_DOUBLE_EQ(bits(DType::kMXFP4), 4.25);
  EXPECT_DOUBLE_EQ(bits(DType::kNVFP4), 4.5);
  EXPECT_DOUBLE_EQ(bits(DType::kQ1_0), 1.125);
  EXPECT_DOUBLE_EQ(bits(DType::kTQ2_0), 2.0625);
}

TEST(Packed, RefusesTypesThatAreNoWeights) {
  EXPECT_THROW(packed_bytes(DType::kI32, 16, 32), Error);
  EXPECT_THROW(activation_form(DType::kF64), Error);
}

TEST(Packed, ActivationRowsAreWholeCacheLines) {
  EXPECT_EQ(activation_row_bytes(Form::kPlain, 100), 448u);
  EXPECT_EQ(activation_row_bytes(Form::kQ8, 32), 64u);
  EXPECT_EQ(activation_row_bytes(Form::kQ8, 576), 832u);
  EXPECT_EQ(activation_row_bytes(Form::kQ8Wide, 512), 768u);
  EXPECT_EQ(activation_form(DType::kBF16), Form::kPlain);
  EXPECT_EQ(activation_form(DType::kMXFP4), Form::kQ8);
  EXPECT_EQ(activation_form(DType::kIQ4_XS), Form::kQ8Wide);
}

}  // namespace
}  // namespace weft::cpu
