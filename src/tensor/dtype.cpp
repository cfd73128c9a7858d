#include "weft/dtype.h"

#include <algorithm>
#include <array>

#include "base/ascii.h"
#include "base/check.h"

namespace weft {
namespace {

using enum DTypeKind;

constexpr std::array kTypes = {
    DTypeInfo{DType::kF32, "f32", kFloat, 1, 4},
    DTypeInfo{DType::kF16, "f16", kFloat, 1, 2},
    DTypeInfo{DType::kQ4_0, "q4_0", kQuantised, 32, 18},
    DTypeInfo{DType::kQ4_1, "q4_1", kQuantised, 32, 20},
    DTypeInfo{DType::kQ5_0, "q5_0", kQuantised, 32, 22},
    DTypeInfo{DType::kQ5_1, "q5_1", kQuantised, 32, 24},
    DTypeInfo{DType::kQ8_0, "q8_0", kQuantised, 32, 34},
    DTypeInfo{DType::kQ2_K, "q2_K", kQuantised, 256, 84},
    DTypeInfo{DType::kQ3_K, "q3_K", kQuantised, 256, 110},
    DTypeInfo{DType::kQ4_K, "q4_K", kQuantised, 256, 144},
    DTypeInfo{DType::kQ5_K, "q5_K", kQuantised, 256, 176},
    DTypeInfo{DType::kQ6_K, "q6_K", kQuantised, 256, 210},
    DTypeInfo{DType::kIQ2_XXS, "iq2_xxs", kQuantised, 256, 66},
    DTypeInfo{DType::kIQ2_XS, "iq2_xs", kQuantised, 256, 74},
    DTypeInfo{DType::kIQ3_XXS, "iq3_xxs", kQuantised, 256, 98},
    DTypeInfo{DType::kIQ1_S, "iq1_s", kQuantised, 256, 50},
    DTypeInfo{DType::kIQ4_NL, "iq4_nl", kQuantised, 32, 18},
    DTypeInfo{DType::kIQ3_S, "iq3_s", kQuantised, 256, 110},
    DTypeInfo{DType::kIQ2_S, "iq2_s", kQuantised, 256, 82},
    DTypeInfo{DType::kIQ4_XS, "iq4_xs", kQuantised, 256, 136},
    DTypeInfo{DType::kI8, "i8", kInteger, 1, 1},
    DTypeInfo{DType::kI16, "i16", kInteger, 1, 2},
    DTypeInfo{DType::kI32, "i32", kInteger, 1, 4},
    DTypeInfo{DType::kI64, "i64", kInteger, 1, 8},
    DTypeInfo{DType::kF64, "f64", kFloat, 1, 8},
    DTypeInfo{DType::kIQ1_M, "iq1_m", kQuantised, 256, 56},
    DTypeInfo{DType::kBF16, "bf16", kFloat, 1, 2},
    DTypeInfo{DType::kTQ1_0, "tq1_0", kQuantised, 256, 54},
    DTypeInfo{DType::kTQ2_0, "tq2_0", kQuantised, 256, 66},
    DTypeInfo{DType::kMXFP4, "mxfp4", kQuantised, 32, 17},
    DTypeInfo{DType::kNVFP4, "nvfp4", kQuantised, 64, 36},
    DTypeInfo{DType::kQ1_0, "q1_0", kQuantised, 128, 18},
};
static_assert(std::is_sorted(kTypes.begin(), kTypes.end(),
                             [](const DTypeInfo& a, const DTypeInfo& b) { return a.type < b.type; }));

constexpr std::uint8_t kNone = 0xff;

// From a type id to its row of kTypes.
constexpr auto kRowOfId = [] {
  std::array<std::uint8_t, static_cast<std::size_t>(kTypes.back().type) + 1> rows{};
  rows.fill(kNone);
  for (std::size_t i = 0; i < kTypes.size(); ++i)
    rows[static_cast<std::size_t>(kTypes[i].type)] = static_cast<std::uint8_t>(i);
  return rows;
}();

bool equal_in_any_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return base::ascii_lower(x) == base::ascii_lower(y); });
}

}  // namespace

std::span<const DTypeInfo> all_dtypes() { return kTypes; }

const DTypeInfo& info(DType type) {
  const auto id = static_cast<std::size_t>(type);
  WEFT_CHECK(id < kRowOfId.size() && kRowOfId[id] != kNone);
  return kTypes[kRowOfId[id]];
}

std::optional<DType> dtype_from_id(std::uint32_t id) {
  if (id >= kRowOfId.size() || kRowOfId[id] == kNone) return std::nullopt;
  return static_cast<DType>(id);
}

std::optional<DType> dtype_from_name(std::string_view name) {
  for (const DTypeInfo& row : kTypes)
    if (equal_in_any_case(row.name, name)) return row.type;
  return std::nullopt;
}

std::size_t row_bytes(DType type, std::int64_t n) {
  const DTypeInfo& row = info(type);
  WEFT_CHECK(n >= 0 && n % row.block_elements == 0);
  return static_cast<std::size_t>(n / row.block_elements) * static_cast<std::size_t>(row.block_bytes);
}

}  // namespace weft
