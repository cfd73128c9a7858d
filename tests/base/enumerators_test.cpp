#include "base/enumerators.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>

#include "weft/graph/kinds.h"

namespace weft::base {
namespace {

enum class Three : std::uint8_t { kA, kB, kC };
enum class Gap : std::uint8_t { kA, kB, kD = 3 };

TEST(Enumerators, AreAllValuesFromZero) {
  EXPECT_EQ(enumerators<Three>(), (std::array{Three::kA, Three::kB, Three::kC}));
  EXPECT_EQ(enumerators<Gap>().size(), 2U);
  EXPECT_EQ(enumerators<Activation>().back(), Activation::kSoftplus);
  static_assert(enumerators<UnaryKind>().front() == UnaryKind::kNeg);
}

}  // namespace
}  // namespace weft::base
