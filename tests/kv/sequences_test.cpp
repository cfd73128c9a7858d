#include "kv/sequences.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <vector>

#include "kv/sequences_testing.h"

namespace weft::kv {
namespace {

TEST(Sequences, CellsOfAPageLieTogether) {
  Fixture f(256, 2, 8);
  std::vector<SeqPos> places;
  for (Pos p = 0; p < 64; ++p) places.push_back({0, p});
  places.push_back({1, 0});
  std::vector<std::int32_t> cells(places.size());
  ASSERT_TRUE(f.sequences.take(places, cells));
  for (int p = 0; p < 64; ++p) EXPECT_EQ(cells[static_cast<std::size_t>(p)], cells[0] + p);
  EXPECT_NE(cells[64] / kPageCells, cells[0] / kPageCells);
  EXPECT_EQ(f.sequences.next_pos(0), 64);
  EXPECT_EQ(f.sequences.next_pos(1), 1);
  EXPECT_EQ(f.sequences.min_pos(1), 0);
}

TEST(Sequences, TheLimitCountsCellsAndPartlyFilledPagesFit) {
  Fixture f(64, 64, 4);
  // 64 sequences of one token each fit 64 cells, though each takes a page.
  for (SeqId s = 0; s < 64; ++s) ASSERT_TRUE(f.take(s, 0, s)) << s;
  EXPECT_FALSE(f.take(0, 1, 99));
  f.sequences.remove(5, 0, 64);
  EXPECT_TRUE(f.take(0, 1, 99));
}

TEST(Sequences, AFullCacheTakesNothing) {
  Fixture f(10, 2, 4);
  ASSERT_TRUE(f.take_all(0, 8));
  const SeqPos places[] = {{1, 0}, {1, 1}, {1, 2}};
  std::int32_t cells[3];
  EXPECT_FALSE(f.sequences.take(places, cells));
  EXPECT_EQ(f.sequences.cells_used(), 8);
  EXPECT_EQ(f.sequences.next_pos(1), 0);
  EXPECT_TRUE(f.sequences.consistent());
}

std::vector<Extent> extents_of(const Fixture& f, SeqId seq) {
  const std::span<const Extent> extents = f.sequences.extents(seq);
  return {extents.begin(), extents.end()};
}

// Cuts count as changes: sums over other extents have other bits.
TEST(Sequences, FailedAllocationsLeaveNoCuts) {
  const auto same = [](const Extent& a, const Extent& b) {
    return a.page == b.page && a.base == b.base && a.mask == b.mask && a.divisor == b.divisor &&
           a.offset == b.offset;
  };
  Fixture f(64, 2, 16);
  ASSERT_TRUE(f.take_all(0, 64));
  ASSERT_TRUE(f.sequences.copy(0, 1, 0, 64));
  const std::vector<Extent> whole = extents_of(f, 0);
  ASSERT_EQ(whole.size(), 1u);
  EXPECT_FALSE(f.sequences.shift(0, 10, 64, 64)) << "by pages";
  EXPECT_TRUE(std::ranges::equal(extents_of(f, 0), whole, same));
  EXPECT_FALSE(f.sequences.shift(0, 10, 64, 7)) << "to other lanes";
  EXPECT_TRUE(std::ranges::equal(extents_of(f, 0), whole, same));
  EXPECT_FALSE(f.sequences.divide(0, 0, 30, 2));
  EXPECT_TRUE(std::ranges::equal(extents_of(f, 0), whole, same));
  // A table that is full after one of two cuts.
  Fixture narrow(64, 1, 2);
  for (const Pos pos : {0, 40, 41, 60}) ASSERT_TRUE(narrow.take(0, pos, pos));
  EXPECT_FALSE(narrow.sequences.divide(0, 30, 50, 2));
  EXPECT_EQ(narrow.sequences.extents(0).size(), 1u);
  EXPECT_TRUE(f.sequences.consistent());
}

// A divided extent reaches around positions that others may take, and is cut for them.
TEST(Sequences, TokensThatAreGivenBackLeaveNoCuts) {
  Fixture f(22, 1, 16);
  for (const Pos pos : {0, 2, 4, 6, 8, 30, 32, 34, 36, 38}) ASSERT_TRUE(f.take(0, pos, pos));
  ASSERT_TRUE(f.sequences.divide(0, 0, 64, 2));
  f.carry_out_moves();
  ASSERT_EQ(f.sequences.extents(0).size(), 1u);
  std::vector<SeqPos> tokens;
  for (Pos pos = 5; pos < 15; ++pos) tokens.push_back({0, pos});
  std::vector<std::int32_t> cells(20);
  ASSERT_TRUE(f.sequences.take(tokens, cells));
  EXPECT_EQ(f.sequences.extents(0).size(), 3u);
  for (const SeqPos& token : tokens) f.sequences.give_back(token.seq, token.pos);
  EXPECT_EQ(f.sequences.extents(0).size(), 1u);
  for (Pos pos = 100; pos < 110; ++pos) tokens.push_back({0, pos});
  EXPECT_FALSE(f.sequences.take(tokens, cells));
  EXPECT_EQ(f.sequences.extents(0).size(), 1u);
  EXPECT_TRUE(f.sequences.consistent());
}

TEST(Sequences, CopiesShareCellsUntilOneGoesOn) {
  Fixture f(1000, 3, 16);
  ASSERT_TRUE(f.take_all(0, 100));
  ASSERT_TRUE(f.sequences.copy(0, 1, 0, 100));
  ASSERT_TRUE(f.sequences.copy(0, 2, 0, 70));
  EXPECT_EQ(f.sequences.cells_used(), 100);
  EXPECT_TRUE(f.sequences.moves().empty());
  // The first to continue writes into the shared page, the next one gets its own copy of the used cells.
  ASSERT_TRUE(f.take(0, 100, 1000));
  EXPECT_EQ(f.sequences.cells_used(), 101);
  ASSERT_TRUE(f.take(1, 100, 2000));
  EXPECT_EQ(f.sequences.cells_used(), 102 + 36);
  ASSERT_TRUE(f.take(2, 70, 3000));
  const auto zero = f.contents(0), one = f.contents(1), two = f.contents(2);
  EXPECT_TRUE(std::equal(zero.begin(), zero.begin() + 100, one.begin()));
  EXPECT_TRUE(std::equal(zero.begin(), zero.begin() + 70, two.begin()));
  EXPECT_EQ(zero[100], std::make_pair(100, 1000));
  EXPECT_EQ(one[100], std::make_pair(100, 2000));
  EXPECT_EQ(two[70], std::make_pair(70, 3000));
  f.sequences.keep(1);
  EXPECT_EQ(f.contents(1), one);
  EXPECT_EQ(f.sequences.cells_used(), 101);
  EXPECT_TRUE(f.sequences.consistent());
}

TEST(Sequences, TheCutIntoExtentsDoesNotDependOnSharing) {
  Fixture f(1000, 2, 16);
  ASSERT_TRUE(f.take_all(0, 100));
  ASSERT_TRUE(f.sequences.copy(0, 1, 0, 90));
  ASSERT_TRUE(f.take_all(0, 3));
  ASSERT_TRUE(f.take_all(1, 60));
  Fixture alone(1000, 1, 16);
  ASSERT_TRUE(alone.take_all(0, 150));
  const auto shared = f.sequences.extents(1), own = alone.sequences.extents(0);
  ASSERT_EQ(shared.size(), own.size());
  for (std::size_t i = 0; i < own.size(); ++i) {
    EXPECT_EQ(shared[i].mask, own[i].mask);
    EXPECT_EQ(shared[i].base, own[i].base);
  }
}

TEST(Sequences, ShiftingTurnsOnlyWhatMoves) {
  Fixture f(256, 2, 16);
  ASSERT_TRUE(f.take_all(0, 200));
  f.sequences.remove(0, 10, 60);
  ASSERT_TRUE(f.sequences.can_shift(0, 60, 200, -50));
  ASSERT_TRUE(f.sequences.shift(0, 60, 200, -50));
  EXPECT_EQ(f.sequences.moves().size(), 140u);
  f.carry_out_moves();
  const auto contents = f.contents(0);
  ASSERT_EQ(contents.size(), 150u);
  for (int i = 0; i < 150; ++i)
    EXPECT_EQ(contents[static_cast<std::size_t>(i)], std::make_pair(i, i < 10 ? i : i + 50));
  EXPECT_EQ(f.sequences.next_pos(0), 150);
  EXPECT_TRUE(f.take_all(0, 20));
  EXPECT_FALSE(f.sequences.can_shift(0, 20, 30, 3));
  EXPECT_FALSE(f.sequences.can_shift(0, 0, 30, -1));
}

TEST(Sequences, AGapOpensInTheMiddleAndIsFilled) {
  Fixture f(256, 1, 16);
  ASSERT_TRUE(f.take_all(0, 100));
  ASSERT_TRUE(f.sequences.shift(0, 50, 100, 7));
  f.carry_out_moves();
  for (int i = 0; i < 7; ++i) ASSERT_TRUE(f.take(0, 50 + i, 1000 + i));
  const auto contents = f.contents(0);
  ASSERT_EQ(contents.size(), 107u);
  for (int i = 0; i < 107; ++i) {
    EXPECT_EQ(contents[static_cast<std::size_t>(i)], std::make_pair(i, i < 50   ? i
                                                                       : i < 57 ? 1000 + i - 50
                                                                                : i - 7));
  }
}

TEST(Sequences, EndlessTextNeedsNoMoreThanItsCells) {
  Fixture f(256, 1, 12);
  int token = 0;
  for (int round = 0; round < 2000; ++round) {
    if (f.sequences.cells_used() == 256) {
      const Pos end = f.sequences.next_pos(0);
      f.sequences.remove(0, 5, 5 + 101);
      ASSERT_TRUE(f.sequences.shift(0, 5 + 101, end, -101));
      f.carry_out_moves();
    }
    ASSERT_TRUE(f.take(0, f.sequences.next_pos(0), token++)) << round;
  }
  EXPECT_EQ(f.contents(0).back().second, token - 1);
  EXPECT_TRUE(f.sequences.consistent());
}

TEST(Sequences, DefragmentationFreesPagesAndKeepsLanes) {
  Fixture f(64 * 8, 8, 8);
  for (SeqId s = 0; s < 8; ++s) {
    ASSERT_TRUE(f.take_all(s, 64));
    f.sequences.remove(s, 0, 8 * s);
    f.sequences.remove(s, 8 * s + 8, 64);
  }
  const int free = f.sequences.pages_free();
  std::vector<std::vector<std::pair<Pos, int>>> before;
  for (SeqId s = 0; s < 8; ++s) before.push_back(f.contents(s));
  EXPECT_EQ(f.sequences.defragment(1000), 7);
  f.carry_out_moves();
  EXPECT_EQ(f.sequences.pages_free(), free + 7);
  for (SeqId s = 0; s < 8; ++s) EXPECT_EQ(f.contents(s), before[static_cast<std::size_t>(s)]);
  EXPECT_TRUE(f.sequences.consistent());
}

// Whatever becomes a target stays where it is: cells move once, and pages that are counted are free.
TEST(Sequences, DefragmentationMovesEachCellOnceAndCountsFreePages) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    Fixture f(64 * 20, 20, 8);
    for (SeqId s = 0; s < 20; ++s) {
      ASSERT_TRUE(f.take_all(s, 64));
      const Pos begin = static_cast<Pos>(random() % 60), n = 1 + static_cast<Pos>(random() % 20);
      f.sequences.remove(s, 0, begin);
      f.sequences.remove(s, begin + n, 64);
    }
    const int free = f.sequences.pages_free(), used = f.sequences.cells_used();
    const int n_freed = f.sequences.defragment(10000);
    EXPECT_EQ(f.sequences.pages_free(), free + n_freed);
    EXPECT_LE(f.sequences.moves().size(), static_cast<std::size_t>(used));
    Fixture::Inputs inputs;
    std::vector<int> moved(f.cells.size(), 0);
    while (!f.sequences.moves().empty()) {
      const auto n = static_cast<std::size_t>(f.sequences.moves().begin(inputs.spans(), {}).n_moves);
      for (std::size_t i = 0; i < n; ++i) {
        EXPECT_EQ(moved[static_cast<std::size_t>(inputs.from[i])], 0);
        moved[static_cast<std::size_t>(inputs.to[i])] = 1;
      }
      f.sequences.moves().commit();
    }
    ASSERT_FALSE(HasFailure()) << round;
  }
}

TEST(Sequences, PositionsEndWhereOperationsReach) {
  Fixture f(128, 1, 8);
  ASSERT_TRUE(f.take_all(0, 10));
  EXPECT_FALSE(f.sequences.can_shift(0, 0, kEndOfPositions, kEndOfPositions - 9));
  ASSERT_TRUE(f.sequences.shift(0, 0, kEndOfPositions, kEndOfPositions - 10));
  f.sequences.remove(0, 0, kEndOfPositions);
  EXPECT_EQ(f.sequences.cells_used(), 0);
}

// Against a plain model of the cache: for each sequence the list of (position, token).
class RandomSequences : public testing::TestWithParam<unsigned> {};

TEST_P(RandomSequences, AgreeWithAPlainModel) {
  using Text = std::vector<std::pair<Pos, int>>;
  std::mt19937 random(GetParam());
  const int n_sequences = 6, n_cells = 700;
  Fixture f(n_cells, n_sequences, 40);
  // Some also keep windows, without the operations that windows do not allow.
  constexpr int kWindow = 40, kRewind = 15;
  const bool windowed = GetParam() > 30;
  if (windowed) f.keep_windows(kWindow, kRewind);
  int n_refused = 0;
  const auto refused = [&](auto can) {
    if (!windowed || can(*f.windows)) return false;
    ++n_refused;
    return true;
  };
  std::vector<Text> plain(n_sequences);
  const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  const auto in = [](const std::pair<Pos, int>& t, Pos begin, Pos end) {
    return t.first >= begin && t.first < end;
  };
  const auto add = [](Text& text, Pos pos, int token) {
    text.insert(std::upper_bound(text.begin(), text.end(), std::make_pair(pos, 0),
                                 [](const auto& a, const auto& b) { return a.first < b.first; }),
                {pos, token});
  };
  long n_done[10] = {};
  const SeqId all[] = {0, 1, 2, 3, 4, 5};
  Fixture::Saved saved_one, saved_all;
  Text text_of_one;
  std::vector<Text> texts_of_all;
  int token = 0;
  for (int step = 0; step < 100000; ++step) {
    const SeqId seq = pick(n_sequences);
    Text& text = plain[static_cast<std::size_t>(seq)];
    const Pos begin = pick(300), end = begin + pick(200);
    const int what = pick(100);
    if (what < 70) {
      // Mostly on at the end, sometimes anywhere.
      const Pos pos = pick(10) != 0 ? f.sequences.next_pos(seq) : pick(400);
      if (f.sequences.holds(seq, pos)) continue;
      if (refused([&](const WindowPages& w) { return w.can_take(seq, pos); })) continue;
      if (!f.take(seq, pos, token)) continue;
      add(text, pos, token);
      ++n_done[0];
      // A token of several sequences: others without such a position get it, too.
      for (SeqId to = 0; what < 20 && to < n_sequences; ++to) {
        if (f.sequences.holds(to, pos) || pick(2) == 0) continue;
        if (refused([&](const WindowPages& w) { return w.can_take(to, pos); })) continue;
        if (!f.sequences.share(seq, to, pos)) continue;
        f.carry_out_moves();
        add(plain[static_cast<std::size_t>(to)], pos, token);
        ++n_done[9];
        if (windowed || pick(4) != 0) continue;
        // In the place that it would have taken for itself.
        const std::vector<Extent> followed = without_pages(f.sequences.extents(to));
        f.sequences.remove(to, pos, pos + 1);
        if (!f.take(to, pos, token)) {  // Its own needs more room than a share.
          std::erase_if(plain[static_cast<std::size_t>(to)], [&](const auto& t) { return t.first == pos; });
          continue;
        }
        ASSERT_TRUE(same(followed, without_pages(f.sequences.extents(to)))) << step;
      }
      ++token;
    } else if (what < 78) {
      if (refused([&](const WindowPages& w) { return w.can_remove(seq, begin, end); })) continue;
      f.sequences.remove(seq, begin, end);
      std::erase_if(text, [&](const auto& t) { return in(t, begin, end); });
      ++n_done[1];
    } else if (what < 86) {
      const SeqId to = pick(n_sequences);
      if (refused([&](const WindowPages& w) { return w.can_copy(seq, to, begin, end); })) continue;
      if (to == seq || !f.sequences.copy(seq, to, begin, end)) continue;
      Text& other = plain[static_cast<std::size_t>(to)];
      std::erase_if(other, [&](const auto& t) { return in(t, begin, end); });
      auto at = std::find_if(other.begin(), other.end(), [&](const auto& t) { return t.first >= begin; });
      Text copied;
      for (const auto& t : text)
        if (in(t, begin, end)) copied.push_back(t);
      other.insert(at, copied.begin(), copied.end());
      ++n_done[2];
    } else if (what < 96) {
      const Pos delta = pick(3) == 0 ? 64 * (pick(5) - 2) : pick(120) - 60;
      if (refused([&](const WindowPages& w) { return w.can_shift(seq, begin, end, delta); })) continue;
      if (!f.sequences.can_shift(seq, begin, end, delta) || !f.sequences.shift(seq, begin, end, delta))
        continue;
      for (auto& t : text)
        if (in(t, begin, end)) t.first += delta;
      ++n_done[3];
    } else if (what < 97) {
      const int divisor = 1 + pick(3);
      if (refused([&](const WindowPages& w) { return w.can_divide(seq, begin, end, divisor); })) continue;
      if (!f.sequences.can_divide(seq, begin, end, divisor) || !f.sequences.divide(seq, begin, end, divisor))
        continue;
      for (auto& t : text)
        if (in(t, begin, end)) t.first /= divisor;
      ++n_done[4];
    } else if (what < 98) {
      f.sequences.defragment(200);
      ++n_done[5];
    } else if (pick(20) == 0) {
      f.sequences.keep(seq);
      for (SeqId s = 0; s < n_sequences; ++s)
        if (s != seq) plain[static_cast<std::size_t>(s)].clear();
      ++n_done[6];
    } else if (pick(2) == 0) {
      // What was saved long ago comes back, as another sequence.
      if (!saved_one.snapshot.texts.empty() && f.restore(Fixture::as(saved_one, seq))) {
        text = text_of_one;
        ++n_done[7];
      }
      f.carry_out_moves();
      const SeqId one = pick(n_sequences);
      saved_one = f.save({&one, 1});
      text_of_one = plain[static_cast<std::size_t>(one)];
    } else if (pick(10) == 0) {
      if (!saved_all.snapshot.texts.empty()) {
        ASSERT_TRUE(f.restore(saved_all));
        plain = texts_of_all;
        ++n_done[8];
      }
      saved_all = f.save(all);
      texts_of_all = plain;
    }
    f.carry_out_moves();
    if (windowed) {
      f.check_windows(kWindow);
      ASSERT_FALSE(HasFailure()) << step;
      if (pick(4) == 0) f.windows->evict();
      if (step % 50 == 0) {
        f.windows->evict();
        ASSERT_EQ(f.windows->n_in_use(), f.n_reached(kWindow, kRewind)) << "a window page was lost";
        f.check_windows(kWindow);
      }
    }
    if (step % 50 == 0) {
      ASSERT_TRUE(f.sequences.consistent()) << step;
      for (SeqId s = 0; s < n_sequences; ++s) {
        ASSERT_EQ(f.contents(s), plain[static_cast<std::size_t>(s)]) << "step " << step << " sequence " << s;
        const Text& t = plain[static_cast<std::size_t>(s)];
        ASSERT_EQ(f.sequences.next_pos(s), t.empty() ? 0 : t.back().first + 1);
        ASSERT_EQ(f.sequences.min_pos(s), t.empty() ? -1 : t.front().first);
      }
    }
  }
  for (int i = 0; i < 10; ++i) EXPECT_GT(n_done[i], 20) << i;
  EXPECT_EQ(n_refused > 100, windowed);
}
INSTANTIATE_TEST_SUITE_P(Seeds, RandomSequences, testing::Range(1u, 41u));

}  // namespace
}  // namespace weft::kv
