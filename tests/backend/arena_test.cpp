#include "backend/arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace weft {
namespace {

TEST(Arena, ReusesMemoryOfWhatIsDead) {
  const Lifetime lifetimes[] = {{0, 1, 1000}, {2, 3, 1000}, {1, 2, 64}};
  const ArenaLayout layout = lay_out(lifetimes);
  EXPECT_EQ(layout.offsets[0], layout.offsets[1]);
  EXPECT_EQ(layout.bytes, 1024u + 64u);
}

TEST(Arena, NeverOverlapsWhatIsAliveTogether) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    std::vector<Lifetime> lifetimes;
    for (int i = 0; i < 40; ++i) {
      const int first = static_cast<int>(random() % 20);
      lifetimes.push_back({first, first + static_cast<int>(random() % 6), random() % 5000});
    }
    const ArenaLayout layout = lay_out(lifetimes);
    std::size_t sum = 0;
    for (std::size_t i = 0; i < lifetimes.size(); ++i) {
      const Lifetime& a = lifetimes[i];
      sum += (a.bytes + 63) / 64 * 64;
      EXPECT_EQ(layout.offsets[i] % 64, 0u);
      EXPECT_LE(layout.offsets[i] + a.bytes, layout.bytes);
      for (std::size_t j = 0; j < i; ++j) {
        const Lifetime& b = lifetimes[j];
        if (a.last < b.first || b.last < a.first) continue;
        EXPECT_TRUE(layout.offsets[i] + a.bytes <= layout.offsets[j] ||
                    layout.offsets[j] + b.bytes <= layout.offsets[i]);
      }
    }
    EXPECT_LE(layout.bytes, sum);
  }
}

}  // namespace
}  // namespace weft
