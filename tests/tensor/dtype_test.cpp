#include "weft/dtype.h"

#include <gtest/gtest.h>

#include <set>

namespace weft {
namespace {

TEST(DType, TheTableIsConsistent) {
  std::set<std::string_view> names;
  for (const DTypeInfo& row : all_dtypes()) {
    EXPECT_EQ(info(row.type).name, row.name);
    EXPECT_EQ(dtype_from_id(static_cast<std::uint32_t>(row.type)), row.type);
    EXPECT_EQ(dtype_from_name(row.name), row.type);
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_EQ(row.block_elements > 1, row.kind == DTypeKind::kQuantised) << row.name;
    EXPECT_EQ(row_bytes(row.type, 3 * row.block_elements), static_cast<std::size_t>(3 * row.block_bytes));
    EXPECT_EQ(row_bytes(row.type, 0), 0u);
  }
  EXPECT_EQ(names.size(), 32u);
}

TEST(DType, UnknownIdsAndNamesGiveNothing) {
  for (const std::uint32_t id : {4u, 5u, 9u, 15u, 31u, 33u, 36u, 38u, 42u, 255u, 1u << 20, ~0u})
    EXPECT_FALSE(dtype_from_id(id).has_value()) << id;
  for (const char* name : {"", "q4", "q4_kk", "f8", "Q4_K_M"})
    EXPECT_FALSE(dtype_from_name(name).has_value()) << name;
}

TEST(DType, NamesAreKnownInAnyCase) {
  EXPECT_EQ(dtype_from_name("Q4_K"), DType::kQ4_K);
  EXPECT_EQ(dtype_from_name("q4_k"), DType::kQ4_K);
  EXPECT_EQ(dtype_from_name("BF16"), DType::kBF16);
  EXPECT_EQ(dtype_from_name("IQ4_nl"), DType::kIQ4_NL);
}

TEST(DTypeDeathTest, RowsOfPartialBlocksAreOurBug) {
  EXPECT_DEATH(row_bytes(DType::kQ4_K, 255), "block_elements");
  EXPECT_DEATH(info(static_cast<DType>(4)), "kNone");
}

}  // namespace
}  // namespace weft
