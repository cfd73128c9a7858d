#include "kv/state_slots.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

namespace weft::kv {
namespace {

TEST(StateSlots, DroppedBatchesChangeNothing) {
  StateSlots slots(2);
  slots.begin();
  EXPECT_EQ(slots.step(0, {}).from, StateSlots::kNone);
  slots.commit();
  const std::int32_t held = slots.slot(0);

  slots.begin();
  const StateSlots::Step first = slots.step(0, {});
  EXPECT_EQ(first.from, held);
  EXPECT_NE(first.to, held);
  // The rest of the batch continues in place.
  const StateSlots::Step second = slots.step(0, {});
  EXPECT_EQ(second.from, first.to);
  EXPECT_EQ(second.to, first.to);
  slots.abandon();
  EXPECT_EQ(slots.slot(0), held);
  EXPECT_TRUE(slots.consistent());
}

/// Many random operations, with the tokens of each slot. Sequences always have the tokens that their own
/// operations led to, and one slot is always free.
TEST(StateSlots, SlotsHoldTheTextsOfTheirSequences) {
  constexpr int kSequences = 5;
  StateSlots slots(kSequences);
  std::map<std::int32_t, std::string> memory;
  std::vector<std::string> texts(kSequences);
  std::mt19937 random(3);
  const auto any = [&] { return static_cast<SeqId>(random() % kSequences); };
  for (int round = 0; round < 5000; ++round) {
    switch (random() % 6) {
      case 0: {
        const SeqId seq = any();
        slots.remove(seq);
        texts[static_cast<std::size_t>(seq)].clear();
        break;
      }
      case 1: {
        const SeqId from = any(), to = any();
        slots.copy(from, to);
        texts[static_cast<std::size_t>(to)] = texts[static_cast<std::size_t>(from)];
        break;
      }
      case 2: {
        const SeqId seq = any();
        texts[static_cast<std::size_t>(seq)] = "restored";
        memory[slots.renew(seq)] = "restored";
        break;
      }
      default: {
        const std::vector<std::string> before = texts;
        slots.begin();
        for (std::size_t n = random() % 12; n > 0; --n) {
          const SeqId seq = any();
          std::vector<SeqId> shared;
          for (SeqId other = 0; other < kSequences; ++other)
            if (other != seq && slots.same_text(seq, other) && random() % 2 == 0) shared.push_back(other);
          const char token = static_cast<char>('a' + random() % 26);
          const StateSlots::Step step = slots.step(seq, shared);
          memory[step.to] = (step.from == StateSlots::kNone ? "" : memory[step.from]) + token;
          texts[static_cast<std::size_t>(seq)] += token;
          for (const SeqId other : shared) texts[static_cast<std::size_t>(other)] += token;
          ASSERT_TRUE(slots.consistent());
        }
        if (random() % 3 == 0) {
          slots.abandon();
          texts = before;
        } else {
          slots.commit();
        }
      }
    }
    ASSERT_TRUE(slots.consistent());
    for (SeqId seq = 0; seq < kSequences; ++seq) {
      const std::int32_t slot = slots.slot(seq);
      ASSERT_EQ(slot == StateSlots::kNone ? "" : memory[slot], texts[static_cast<std::size_t>(seq)]);
    }
  }
}

}  // namespace
}  // namespace weft::kv
