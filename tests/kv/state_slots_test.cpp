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

TEST(StateSlots, KeptStatesThatMadeRoomForADroppedBatchAreLost) {
  constexpr int kKept = 2;
  StateSlots slots(1, kKept);
  const auto batch_at = [&](Pos begin, int n_tokens) {
    slots.begin();
    for (Pos pos = begin; pos < begin + n_tokens; ++pos) slots.step(0, {}, pos);
  };
  for (Pos pos = 0; pos < 3; ++pos) {
    batch_at(pos, 1);
    slots.commit();
  }
  const std::int32_t held = slots.slot(0);
  ASSERT_TRUE(slots.keeps(0, 1) && slots.keeps(0, 2));
  batch_at(3, 1);
  slots.abandon();
  EXPECT_EQ(slots.slot(0), held);
  EXPECT_FALSE(slots.keeps(0, 1));
  EXPECT_TRUE(slots.keeps(0, 2));
  EXPECT_FALSE(slots.keeps(0, 3));
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

TEST(StateSlots, SequencesGoBackToKeptStates) {
  StateSlots slots(1, 3);
  slots.begin();
  slots.step(0, {});
  slots.commit();
  slots.begin();
  const StateSlots::Step drafts[] = {slots.step(0, {}, 1), slots.step(0, {}, 2), slots.step(0, {}, 3)};
  for (int i = 1; i < 3; ++i) {
    EXPECT_EQ(drafts[i].from, drafts[i - 1].to);
    EXPECT_NE(drafts[i].from, drafts[i].to);
  }
  // The room is used up: no earlier token of the batch loses its way back.
  slots.step(0, {}, 4);
  EXPECT_FALSE(slots.keeps(0, 4));
  slots.commit();
  slots.copy_kept(0, 0, 2);
  EXPECT_EQ(slots.slot(0), drafts[0].to);
  EXPECT_TRUE(slots.keeps(0, 1));
  EXPECT_FALSE(slots.keeps(0, 2));
  EXPECT_EQ(slots.first_kept(0, 1), 1);
  EXPECT_EQ(slots.first_kept(0, 2), -1);
  EXPECT_TRUE(slots.consistent());
}

/// Kept states are those before their tokens, whatever happened since. The last sequence only looks at them.
TEST(StateSlots, KeptStatesHoldTheTextsBeforeTheirTokens) {
  constexpr int kSequences = 4, kKept = 5;
  constexpr SeqId kLooking = kSequences;
  StateSlots slots(kSequences + 1, kKept);
  std::map<std::int32_t, std::string> memory;
  std::vector<std::string> texts(kSequences);
  std::mt19937 random(8);
  int n_checked = 0;
  const auto any = [&] { return static_cast<SeqId>(random() % kSequences); };
  const auto text_of = [&](SeqId seq) -> std::string& { return texts[static_cast<std::size_t>(seq)]; };
  for (int round = 0; round < 5000; ++round) {
    const SeqId seq = any(), to = any();
    const Pos back = slots.first_kept(seq, static_cast<Pos>(random() % 8));
    switch (random() % 8) {
      case 0:
        slots.remove(seq);
        text_of(seq).clear();
        break;
      case 1:
        slots.copy(seq, to);
        text_of(to) = text_of(seq);
        break;
      case 2:
      case 3:
        if (back < 0) break;
        slots.copy_kept(seq, to, back);
        text_of(to) = text_of(seq).substr(0, static_cast<std::size_t>(back));
        break;
      case 4:
        slots.drop_kept(seq, static_cast<Pos>(random() % 8));
        break;
      default: {
        const std::vector<std::string> before = texts;
        slots.begin();
        for (std::size_t n = random() % 9; n > 0; --n) {
          const SeqId own = any();
          std::vector<SeqId> shared;
          for (SeqId other = 0; other < kSequences; ++other)
            if (other != own && slots.same_text(own, other) && random() % 2 == 0) shared.push_back(other);
          const Pos pos = random() % 2 == 0 ? static_cast<Pos>(text_of(own).size()) : -1;
          const char token = static_cast<char>('a' + random() % 26);
          const StateSlots::Step step = slots.step(own, shared, pos);
          memory[step.to] = (step.from == StateSlots::kNone ? "" : memory[step.from]) + token;
          text_of(own) += token;
          for (const SeqId other : shared) text_of(other) += token;
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
    for (SeqId one = 0; one < kSequences; ++one) {
      const std::int32_t slot = slots.slot(one);
      ASSERT_EQ(slot == StateSlots::kNone ? "" : memory[slot], text_of(one));
      for (Pos pos = slots.first_kept(one, 0); pos >= 0; pos = slots.first_kept(one, pos + 1)) {
        slots.copy_kept(one, kLooking, pos);
        ASSERT_EQ(memory[slots.slot(kLooking)], text_of(one).substr(0, static_cast<std::size_t>(pos)));
        ++n_checked;
      }
    }
    slots.remove(kLooking);
  }
  EXPECT_GT(n_checked, 1000);
}

}  // namespace
}  // namespace weft::kv
