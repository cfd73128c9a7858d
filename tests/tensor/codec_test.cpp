#include "tensor/codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace weft {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// What scripts/make_codec_vectors.py wrote: bytes and values that belong together.
struct Vectors {
  std::vector<std::byte> packed;
  std::vector<float> values;
};

std::filesystem::path vectors_path(const DTypeInfo& type, const char* extension) {
  std::string name(type.name);
  for (char& c : name) c = static_cast<char>(std::tolower(c));
  return std::filesystem::path(WEFT_TEST_DATA) / "codec" / (name + extension);
}

Vectors read_vectors(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  std::array<std::uint32_t, 2> sizes{};
  file.read(reinterpret_cast<char*>(sizes.data()), sizeof(sizes));
  Vectors vectors{std::vector<std::byte>(sizes[1]), std::vector<float>(sizes[0])};
  file.read(reinterpret_cast<char*>(vectors.packed.data()), sizes[1]);
  file.read(reinterpret_cast<char*>(vectors.values.data()), static_cast<std::streamsize>(sizes[0]) * 4);
  EXPECT_TRUE(file) << path;
  return vectors;
}

std::vector<std::byte> pack(DType type, std::span<const float> values) {
  std::vector<std::byte> row(row_bytes(type, static_cast<std::int64_t>(values.size())), std::byte{0xa5});
  pack_row(type, values, row.data());
  return row;
}

std::vector<float> there_and_back(DType type, std::span<const float> values) {
  std::vector<float> result(values.size());
  unpack_row(type, pack(type, values).data(), result);
  return result;
}

std::vector<float> gaussian(std::size_t n, float sigma, unsigned seed = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, sigma);
  std::vector<float> values(n);
  for (float& value : values) value = normal(random);
  return values;
}

double relative_rms_error(std::span<const float> values, std::span<const float> approximate) {
  double error = 0.0;
  double total = 0.0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    error += std::pow(static_cast<double>(values[i]) - approximate[i], 2);
    total += std::pow(static_cast<double>(values[i]), 2);
  }
  return std::sqrt(error / total);
}

std::vector<DTypeInfo> types_of(auto condition) {
  std::vector<DTypeInfo> types;
  std::copy_if(all_dtypes().begin(), all_dtypes().end(), std::back_inserter(types), condition);
  return types;
}
bool is_quantised(const DTypeInfo& type) { return type.kind == DTypeKind::kQuantised; }

class OfType : public testing::TestWithParam<DTypeInfo> {
 protected:
  DType type() const { return GetParam().type; }
  bool quantised() const { return is_quantised(GetParam()); }
};
const auto kTypeName = [](const auto& test) { return std::string(test.param.name); };

class EveryType : public OfType {};
INSTANTIATE_TEST_SUITE_P(Codec, EveryType, testing::ValuesIn(all_dtypes().begin(), all_dtypes().end()),
                         kTypeName);

class EveryFraction : public OfType {};
INSTANTIATE_TEST_SUITE_P(Codec, EveryFraction, testing::ValuesIn(types_of([](const DTypeInfo& type) {
                           return type.kind != DTypeKind::kInteger;
                         })),
                         kTypeName);

class EveryQuantisedType : public OfType {};
INSTANTIATE_TEST_SUITE_P(Codec, EveryQuantisedType, testing::ValuesIn(types_of(is_quantised)), kTypeName);

// gguf's Python package does not pack the others.
class EveryReferenceType : public OfType {};
INSTANTIATE_TEST_SUITE_P(Codec, EveryReferenceType, testing::ValuesIn(types_of([](const DTypeInfo& type) {
                           constexpr DType kTypes[] = {
                               DType::kF16,  DType::kBF16, DType::kQ4_0,  DType::kQ4_1,  DType::kQ5_0,
                               DType::kQ5_1, DType::kQ8_0, DType::kMXFP4, DType::kTQ1_0, DType::kTQ2_0};
                           return std::find(std::begin(kTypes), std::end(kTypes), type.type) !=
                                  std::end(kTypes);
                         })),
                         kTypeName);

TEST_P(EveryType, UnpacksTheBitsThatGgufDefines) {
  const Vectors vectors = read_vectors(vectors_path(GetParam(), ".unpack"));
  ASSERT_EQ(vectors.packed.size(), row_bytes(type(), static_cast<std::int64_t>(vectors.values.size())));
  // One byte off, so that nothing can depend on alignment.
  std::vector<std::byte> moved(vectors.packed.size() + 1);
  std::copy(vectors.packed.begin(), vectors.packed.end(), moved.begin() + 1);
  std::vector<float> unpacked(vectors.values.size());
  unpack_row(type(), moved.data() + 1, unpacked);
  for (std::size_t i = 0; i < unpacked.size(); ++i)
    ASSERT_EQ(std::bit_cast<std::uint32_t>(unpacked[i]), std::bit_cast<std::uint32_t>(vectors.values[i]))
        << "element " << i << ": " << unpacked[i] << ", expected " << vectors.values[i];
}

TEST_P(EveryReferenceType, PacksTheBytesThatGgufPacks) {
  const Vectors vectors = read_vectors(vectors_path(GetParam(), ".pack"));
  const std::vector<std::byte> packed = pack(type(), vectors.values);
  ASSERT_EQ(packed.size(), vectors.packed.size());
  for (std::size_t i = 0; i < packed.size(); ++i)
    ASSERT_EQ(packed[i], vectors.packed[i])
        << "byte " << i << ", block " << i / static_cast<std::size_t>(GetParam().block_bytes);
}

// The relative RMS errors of normal values: those measured when this was written, and a tenth on top.
const std::map<DType, double> kErrorOfNormalValues = {
    {DType::kF32, 0},        {DType::kF64, 0},       {DType::kF16, 0.00025},   {DType::kBF16, 0.002},
    {DType::kQ4_0, 0.096},   {DType::kQ4_1, 0.0864}, {DType::kQ5_0, 0.0474},   {DType::kQ5_1, 0.0419},
    {DType::kQ8_0, 0.0059},  {DType::kQ2_K, 0.3},    {DType::kQ3_K, 0.168},    {DType::kQ4_K, 0.079},
    {DType::kQ5_K, 0.0396},  {DType::kQ6_K, 0.0197}, {DType::kIQ4_NL, 0.0847}, {DType::kIQ4_XS, 0.0851},
    {DType::kMXFP4, 0.129},  {DType::kIQ1_S, 0.475}, {DType::kIQ1_M, 0.445},   {DType::kIQ2_XXS, 0.355},
    {DType::kIQ2_XS, 0.307}, {DType::kIQ2_S, 0.258}, {DType::kIQ3_XXS, 0.189}, {DType::kIQ3_S, 0.138},
    {DType::kTQ1_0, 0.85},   {DType::kTQ2_0, 0.85},  {DType::kNVFP4, 0.102},   {DType::kQ1_0, 0.64},
};

TEST_P(EveryFraction, NormalValuesComeBackNearly) {
  for (const float sigma : {0.02f, 1.0f, 300.0f}) {
    const std::vector<float> values = gaussian(8192, sigma);
    const double error = relative_rms_error(values, there_and_back(type(), values));
    EXPECT_LE(error, kErrorOfNormalValues.at(type())) << "sigma " << sigma;
    if (quantised()) {
      EXPECT_GE(error, kErrorOfNormalValues.at(type()) * 0.85) << "the bound is too wide";
    }
  }
}

// The data and the bounds with which llama.cpp tests its own packing: root of the sum of squares, by n.
TEST_P(EveryQuantisedType, IsAsGoodAsLlamaCppDemands) {
  constexpr std::size_t kN = 32 * 128;
  std::vector<float> values(kN);
  for (std::size_t i = 0; i < kN; ++i) values[i] = 0.1f + 2.0f * std::cos(static_cast<float>(i));
  const std::vector<float> result = there_and_back(type(), values);
  double sum = 0.0;
  for (std::size_t i = 0; i < kN; ++i) sum += std::pow(static_cast<double>(values[i]) - result[i], 2);
  // Types of less than two bits have none there but for ternary ones, which others must not exceed.
  static const std::map<DType, double> kBounds = {
      {DType::kQ1_0, 0.01},   {DType::kTQ1_0, 0.01},     {DType::kTQ2_0, 0.01},    {DType::kIQ1_S, 0.01},
      {DType::kIQ1_M, 0.01},  {DType::kIQ2_XXS, 0.0075}, {DType::kIQ2_XS, 0.0075}, {DType::kIQ2_S, 0.0075},
      {DType::kQ2_K, 0.0075}, {DType::kIQ3_XXS, 0.005},  {DType::kIQ3_S, 0.004},   {DType::kQ3_K, 0.004},
      {DType::kNVFP4, 0.003},
  };
  const auto found = kBounds.find(type());
  const double bound = found != kBounds.end() ? found->second : 0.002;
  EXPECT_LE(std::sqrt(sum) / kN, bound);
}

TEST_P(EveryType, ZerosStayZeros) {
  const std::vector<float> zeros(512, 0.0f);
  EXPECT_EQ(there_and_back(type(), zeros), zeros);
}

TEST_P(EveryType, ConstantRowsStayNearlyConstant) {
  // Quantised types hold the one value that they need through a scale, which is rounded to f16 or to a few
  // bits.
  const double tolerance = type() == DType::kMXFP4 ? 0.2 : quantised() ? 0.04 : 0.004;
  for (const float constant : {1.0f, -1.0f, 25.0f, -100.0f}) {
    const std::vector<float> values(512, constant);
    const std::vector<float> result = there_and_back(type(), values);
    for (std::size_t i = 0; i < values.size(); ++i)
      ASSERT_NEAR(result[i], constant, std::fabs(constant) * tolerance) << "element " << i;
  }
}

TEST_P(EveryQuantisedType, OneFarValueIsKept) {
  for (const float far : {100.0f, -100.0f}) {
    std::vector<float> values = gaussian(512, 0.01f);
    values[300] = far;
    const std::vector<float> result = there_and_back(type(), values);
    // One bit is the same magnitude for all of a block; a grid has few vectors with one far value.
    if (type() != DType::kQ1_0) {
      EXPECT_NEAR(result[300], far,
                  8 * GetParam().block_bytes < 2.6 * GetParam().block_elements ? 55.0f : 20.0f);
    }
    const double alone =
        relative_rms_error(gaussian(512, 0.01f), there_and_back(type(), gaussian(512, 0.01f)));
    EXPECT_LE(relative_rms_error(std::span(values).first(256), std::span(result).first(256)),
              std::max(0.4, 1.05 * alone))
        << "a block far from it is not touched";
  }
}

TEST_P(EveryType, ValuesWithoutEndsGiveSomethingFinite) {
  const std::vector<float> awkward[] = {
      std::vector<float>(512, kNaN),       std::vector<float>(512, kInfinity),
      std::vector<float>(512, -kInfinity), std::vector<float>(512, FLT_MAX),
      std::vector<float>(512, -FLT_MAX),   std::vector<float>(512, FLT_MIN),
      std::vector<float>(512, 1e-44f),     std::vector<float>(512, -1e-44f),
      std::vector<float>(512, 1e-38f),
  };
  for (const std::vector<float>& values : awkward) there_and_back(type(), values);

  std::mt19937 random(7);
  for (int i = 0; i < 20; ++i) {
    std::vector<float> values(512);
    for (float& value : values) value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    const std::vector<float> result = there_and_back(type(), values);
    if (!quantised() && GetParam().kind != DTypeKind::kInteger) continue;
    for (const float value : result) ASSERT_TRUE(std::isfinite(value));
  }

  // One value without an end must not spoil the others' block beyond what its size does.
  std::vector<float> values = gaussian(512, 1.0f);
  values[100] = kNaN;
  const std::vector<float> result = there_and_back(type(), values);
  values[100] = 0.0f;
  if (quantised()) {
    EXPECT_EQ(result, there_and_back(type(), values)) << "NaN counts as 0";
  }
}

TEST(Codec, IntegersRoundAndStayInRange) {
  const std::vector<float> values = {0.5f, 1.5f, -2.5f, 126.7f, 1e30f, -1e30f, kNaN, kInfinity};
  EXPECT_THAT(there_and_back(DType::kI8, values), testing::ElementsAre(0, 2, -2, 127, 127, -128, 0, 127));
  EXPECT_THAT(there_and_back(DType::kI16, values),
              testing::ElementsAre(0, 2, -2, 127, 32767, -32768, 0, 32767));
  EXPECT_THAT(there_and_back(DType::kI32, values),
              testing::ElementsAre(0, 2, -2, 127, 2147483648.0f, -2147483648.0f, 0, 2147483648.0f));
}

TEST(Codec, DoublesBeyondFloatBecomeInfinite) {
  const std::array<double, 4> doubles = {1e300, -1e300, 3.4028235677973366e38, 3.4028235677973362e38};
  std::vector<float> values(4);
  unpack_row(DType::kF64, reinterpret_cast<const std::byte*>(doubles.data()), values);
  EXPECT_THAT(values, testing::ElementsAre(kInfinity, -kInfinity, kInfinity, FLT_MAX));
}

TEST(Codec, EveryF16IsItsValueAndComesBack) {
  for (std::uint32_t half = 0; half < 65536; ++half) {
    const auto bits = static_cast<std::uint16_t>(half);
    const float value = f16_to_f32(bits);
    const int exponent = static_cast<int>(half >> 10 & 31);
    const int mantissa = static_cast<int>(half & 1023);
    const bool negative = half >= 0x8000;
    ASSERT_EQ(std::signbit(value), negative) << half;
    if (exponent == 31 && mantissa != 0) {
      ASSERT_TRUE(std::isnan(value)) << half;
      ASSERT_TRUE(std::isnan(f16_to_f32(f32_to_f16(value)))) << half;
      continue;
    }
    const double expected = exponent == 31  ? static_cast<double>(kInfinity)
                            : exponent == 0 ? std::ldexp(mantissa, -24)
                                            : std::ldexp(1024 + mantissa, exponent - 25);
    ASSERT_EQ(std::fabs(value), expected) << half;
    ASSERT_EQ(f32_to_f16(value), bits);
  }
}

TEST(Codec, RowsOfF16AreTheirValuesOneByOne) {
  std::vector<std::uint16_t> halves(65536 + 5);  // And some after the last sixteen.
  for (std::size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<std::uint16_t>(i * 3);
  std::vector<float> values(halves.size());
  unpack_row(DType::kF16, reinterpret_cast<const std::byte*>(halves.data()), values);
  for (std::size_t i = 0; i < halves.size(); ++i)
    ASSERT_EQ(std::bit_cast<std::uint32_t>(values[i]), std::bit_cast<std::uint32_t>(f16_to_f32(halves[i])))
        << halves[i];
}

// Between two neighbours the nearer one, in the middle the even one.
TEST(Codec, F16RoundsToNearestEven) {
  for (std::uint32_t half = 0; half < 0x7bff; ++half) {
    const float low = f16_to_f32(static_cast<std::uint16_t>(half));
    const float high = f16_to_f32(static_cast<std::uint16_t>(half + 1));
    const float middle = 0.5f * (low + high);
    ASSERT_EQ(f32_to_f16(middle), half + (half & 1)) << half;
    ASSERT_EQ(f32_to_f16(-middle), 0x8000 + half + (half & 1)) << half;
    ASSERT_EQ(f32_to_f16(std::nextafter(middle, 0.0f)), half) << half;
    ASSERT_EQ(f32_to_f16(std::nextafter(middle, kInfinity)), half + 1) << half;
  }
  EXPECT_EQ(f32_to_f16(65519.996f), 0x7bff);
  EXPECT_EQ(f32_to_f16(65520.0f), 0x7c00);
  EXPECT_EQ(f32_to_f16(FLT_MAX), 0x7c00);
  EXPECT_EQ(f32_to_f16(1e-44f), 0);
}

TEST(Codec, Bf16RoundsToNearestEven) {
  EXPECT_EQ(f32_to_bf16(1.0f), 0x3f80);
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3f808000u)), 0x3f80);
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3f818000u)), 0x3f82);
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3f808001u)), 0x3f81);
  EXPECT_EQ(f32_to_bf16(FLT_MAX), 0x7f80);
  EXPECT_EQ(bf16_to_f32(f32_to_bf16(-kInfinity)), -kInfinity);
  EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(std::bit_cast<float>(0x7f800001u)))));
}

}  // namespace
}  // namespace weft
