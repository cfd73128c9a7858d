// Blocks of memory: where they begin, where their pages are, and that they can take another's place.
#include "base/memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/cores.h"
#include "weft/error.h"

namespace weft::base {
namespace {

TEST(Memory, IsZeroedAndLargeBlocksBeginAtALargePage) {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{5000}, kLargePage, 3 * kLargePage + 77}) {
    const Memory memory(bytes);
    ASSERT_EQ(memory.size(), bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.data()) % (bytes < kLargePage ? 4096 : kLargePage), 0u);
    EXPECT_TRUE(std::all_of(memory.bytes().begin(), memory.bytes().end(),
                            [](std::byte b) { return b == std::byte{0}; }));
  }
  EXPECT_EQ(Memory(0).data(), nullptr);
}

TEST(Memory, MoreThanThereIsIsAnError) { EXPECT_THROW(Memory(std::size_t{1} << 62), Error); }

TEST(Memory, TakesTheFirstPagesOfAnother) {
  Memory target(2 * kLargePage), other(kLargePage);
  std::fill(target.bytes().begin(), target.bytes().end(), std::byte{1});
  std::fill(other.bytes().begin(), other.bytes().end(), std::byte{2});
  ASSERT_TRUE(other.move_to(target.data()));
  EXPECT_EQ(other.size(), 0u);
  EXPECT_EQ(target.data()[0], std::byte{2});
  EXPECT_EQ(target.data()[kLargePage - 1], std::byte{2});
  EXPECT_EQ(target.data()[kLargePage], std::byte{1});
}

TEST(Memory, IsSpreadOverTheNodesThatThereAre) {
  const Memory memory(kLargePage);
  EXPECT_TRUE(spread_over_nodes(memory.bytes(), read_cores().nodes()));
  EXPECT_TRUE(spread_over_nodes({}, std::vector<int>{0, 1}));
  // Nodes that no machine has: refused, and the memory is as good as before.
  EXPECT_FALSE(spread_over_nodes(memory.bytes(), std::vector<int>{700, 900}));
  memory.data()[0] = std::byte{3};
  EXPECT_EQ(memory.data()[0], std::byte{3});
}

}  // namespace
}  // namespace weft::base
