#include "backend/arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace weft {
namespace {

TEST(Arena, ReusesMemoryOfDeadTensors) {
  const Lifetime lifetimes[] = {{0, 1, 1000}, {2, 3, 1000}, {1, 2, 64}};
  const ArenaLayout layout = lay_out(lifetimes);
  EXPECT_EQ(layout.offsets[0], layout.offsets[1]);
  EXPECT_EQ(layout.bytes, 1024u + 64u);
}

TEST(Arena, NeverOverlapsLiveTensors) {
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

/// Each at the lowest offset that is free, tried one after another.
TEST(Arena, TakesTheLowestOffsetThatIsFree) {
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    std::vector<Lifetime> lifetimes;
    for (std::size_t n = random() % 30; n > 0; --n) {
      const int first = static_cast<int>(random() % 17);
      lifetimes.push_back({first, first + static_cast<int>(random() % 9), random() % 700});
    }
    std::stable_sort(lifetimes.begin(), lifetimes.end(),
                     [](const Lifetime& a, const Lifetime& b) { return a.bytes > b.bytes; });
    const ArenaLayout layout = lay_out(lifetimes);
    for (std::size_t i = 0; i < lifetimes.size(); ++i) {
      const Lifetime& a = lifetimes[i];
      const auto is_free = [&](std::size_t offset) {
        for (std::size_t j = 0; j < i; ++j) {
          const Lifetime& b = lifetimes[j];
          const std::size_t end = layout.offsets[j] + (b.bytes + 63) / 64 * 64;
          if (a.first <= b.last && b.first <= a.last && offset < end &&
              layout.offsets[j] < offset + (a.bytes + 63) / 64 * 64)
            return false;
        }
        return true;
      };
      std::size_t lowest = 0;
      while (!is_free(lowest)) lowest += 64;
      EXPECT_EQ(layout.offsets[i], lowest) << i;
    }
  }
}

/// Where everything is alive at the same time, as in chains that one thread goes through.
TEST(Arena, StacksAllTensors) {
  constexpr int kMany = 50000;
  std::vector<Lifetime> lifetimes;
  for (int i = 0; i < kMany; ++i) lifetimes.push_back({0, i + 1, 64});
  const ArenaLayout layout = lay_out(lifetimes);
  EXPECT_EQ(layout.bytes, std::size_t{64} * kMany);
  EXPECT_EQ(layout.offsets[7], std::size_t{64} * 7);
}

}  // namespace
}  // namespace weft
