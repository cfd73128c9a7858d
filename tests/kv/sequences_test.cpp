#include "kv/sequences.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <vector>

#include "kv/lanes.h"
#include "kv/window_pages.h"

namespace weft::kv {
namespace {

/// Sequences with their tables, and a device that knows what each cell holds; also of window caches, once
/// `windows` is there.
struct Fixture {
  Fixture(int n_cells, int n_sequences, int width)
      : extents(static_cast<std::size_t>(n_sequences * width)),
        counts(static_cast<std::size_t>(n_sequences)),
        sequences(n_cells, n_sequences, {extents, counts, width}),
        cells(static_cast<std::size_t>(Sequences::n_pages_for(n_cells, n_sequences) * kPageCells)) {}

  struct Cell {
    int token = -1;
    Pos turned_to = 0;  // The position that K is rotated for.
  };

  void keep_windows(int window, int rewind) {
    windows.emplace(sequences, window, rewind);
    window_cells.resize(cells.size());
  }

  static void carry_out(std::span<const CellMove> moves, std::vector<Cell>& caches) {
    for (const CellMove& move : moves) {
      Cell cell = caches[static_cast<std::size_t>(move.from)];
      cell.turned_to += move.delta;
      caches[static_cast<std::size_t>(move.to)] = cell;
    }
  }
  void carry_out_moves() {
    carry_out(sequences.moves(), cells);
    if (windows) {
      windows->follow_moves();
      carry_out(windows->moves(), window_cells);
      windows->clear_moves();
    }
    sequences.clear_moves();
  }
  void store(std::int32_t cell, const Cell& content) {
    cells[static_cast<std::size_t>(cell)] = content;
    if (!windows) return;
    windows->store(cell);
    window_cells[static_cast<std::size_t>(windows->cell(cell))] = content;
  }

  bool take(SeqId seq, Pos pos, int token) {
    const Place place{seq, pos};
    std::int32_t cell = -1;
    const bool taken = sequences.take({&place, 1}, {&cell, 1});
    carry_out_moves();
    if (taken) store(cell, {token, pos});
    return taken;
  }
  bool take_all(SeqId seq, int n) {
    for (int i = 0; i < n; ++i)
      if (!take(seq, sequences.next_pos(seq), i)) return false;
    return true;
  }

  struct Saved {
    Snapshot snapshot;
    std::vector<Cell> cells;
    std::vector<bool> kept = {};  // By cell: its row in window caches.
  };
  Saved save(std::span<const SeqId> seqs) const {
    Saved saved;
    std::vector<std::int32_t> places;
    saved.snapshot = sequences.snapshot(seqs, places);
    EXPECT_EQ(static_cast<std::int64_t>(places.size()), saved.snapshot.n_cells());
    EXPECT_TRUE(saved.snapshot.well_formed());
    for (const std::int32_t place : places) {
      saved.cells.push_back(cells[static_cast<std::size_t>(place)]);
      saved.kept.push_back(windows && windows->cell(place) >= 0);
    }
    return saved;
  }
  bool restore(const Saved& saved) {
    std::vector<std::int32_t> places;
    const bool restored = sequences.restore(saved.snapshot, places);
    carry_out_moves();
    if (!restored) return false;
    EXPECT_EQ(places.size(), saved.cells.size());
    for (std::size_t i = 0; i < places.size(); ++i) {
      if (!windows || saved.kept[i]) {
        store(places[i], saved.cells[i]);
      } else {
        cells[static_cast<std::size_t>(places[i])] = saved.cells[i];
        windows->leave_out(places[i]);
      }
    }
    return true;
  }
  /// The saved text for another sequence.
  static Saved as(Saved saved, SeqId seq) {
    saved.snapshot.texts.at(0).seq = seq;
    return saved;
  }

  /// (position, token) of a sequence, as the device would see it.
  std::vector<std::pair<Pos, int>> contents(SeqId seq) const {
    std::vector<std::pair<Pos, int>> result;
    for (const Extent& e : sequences.extents(seq))
      for (int lane = 0; lane < kPageCells; ++lane) {
        if ((e.mask >> lane & 1) == 0) continue;
        const Cell& cell = cells[static_cast<std::size_t>(e.page * kPageCells + lane)];
        EXPECT_EQ(cell.turned_to, e.position(lane));
        result.emplace_back(e.position(lane), cell.token);
      }
    return result;
  }

  /// Every window and what a rewind may need of it is there, with the right rows, and nothing else is kept
  /// once it had to fade.
  void check_windows(int window) {
    ASSERT_TRUE(windows->consistent());
    std::vector<Extent> in_windows(static_cast<std::size_t>(sequences.n_pages()) + 2);
    for (SeqId seq = 0; seq < sequences.n_sequences(); ++seq) {
      const Pos next = sequences.next_pos(seq);
      const int n = windows->fill_row(seq, next, in_windows);
      const std::span<const Extent> all = sequences.extents(seq);
      const std::size_t first = all.size() - static_cast<std::size_t>(n);
      ASSERT_TRUE(first == 0 || all[first - 1].last() <= next - window);
      for (std::size_t i = first; i < all.size(); ++i)
        for_each_lane(all[i].mask, [&](int lane) {
          if (all[i].position(lane) <= next - window) return;
          const Cell& full = cells[static_cast<std::size_t>(all[i].page * kPageCells + lane)];
          const Extent& e = in_windows[i - first];
          const Cell& there = window_cells[static_cast<std::size_t>(e.page * kPageCells + lane)];
          EXPECT_EQ(there.token, full.token);
          EXPECT_EQ(there.turned_to, full.turned_to);
        });
    }
  }
  /// Pages that the window of a sequence, or a rewind of it, reaches: those that hold on to window pages.
  int n_reached(int window, int rewind) const {
    std::vector<bool> reached(static_cast<std::size_t>(sequences.n_pages()), false);
    for (SeqId seq = 0; seq < sequences.n_sequences(); ++seq)
      for (const Extent& e : sequences.extents(seq))
        if (e.last() > sequences.next_pos(seq) - window - rewind && windows->page(e.page) >= 0)
          reached[static_cast<std::size_t>(e.page)] = true;
    return static_cast<int>(std::count(reached.begin(), reached.end(), true));
  }

  std::vector<Extent> extents;
  std::vector<std::int32_t> counts;
  Sequences sequences;
  std::vector<Cell> cells;
  std::optional<WindowPages> windows;
  std::vector<Cell> window_cells;
};

TEST(WindowPages, TextThatMovesOnKeepsItsWindowOnly) {
  Fixture f(10000, 2, 200);
  f.keep_windows(100, 30);
  for (int i = 0; i < 150; ++i) {
    ASSERT_TRUE(f.take_all(0, 64));
    f.windows->fade_now_and_then();
    ASSERT_LE(f.windows->n_in_use(), 5);
  }
  EXPECT_LE(f.windows->n_touched(), 5);
  const Pos next = f.sequences.next_pos(0);
  for (Pos n = 0; n <= 30; ++n) EXPECT_TRUE(f.windows->can_remove(0, next - n, kEndOfPositions)) << n;
  EXPECT_FALSE(f.windows->can_remove(0, next - 500, kEndOfPositions));
  EXPECT_FALSE(f.windows->can_copy(0, 1, 0, next - 500));
  EXPECT_TRUE(f.windows->can_copy(0, 1, 0, next));
  EXPECT_TRUE(f.windows->can_remove(0, 0, kEndOfPositions));
  // A copy that stays behind keeps the pages that its own window reaches.
  ASSERT_TRUE(f.sequences.copy(0, 1, 0, next));
  ASSERT_TRUE(f.take_all(0, 300));
  f.windows->fade();
  EXPECT_TRUE(f.windows->can_copy(0, 1, 0, next));
  f.check_windows(100);
  f.sequences.keep(0);
  f.windows->fade();
  EXPECT_FALSE(f.windows->can_copy(0, 1, 0, next));
  // What fills a gap keeps what it sees until the batch is done.
  f.sequences.remove(0, 0, kEndOfPositions);
  f.windows->fade();
  EXPECT_EQ(f.windows->n_in_use(), 0);
  // A batch that is given up leaves the text as it was, however long it was.
  ASSERT_TRUE(f.take_all(0, 500));
  f.windows->begin_batch(0, 500);
  ASSERT_TRUE(f.take_all(0, 1000));
  f.windows->fade();
  EXPECT_TRUE(f.windows->can_remove(0, 500, kEndOfPositions));
  EXPECT_FALSE(f.windows->can_remove(0, 900, kEndOfPositions));
  f.windows->end_batch();
  f.windows->fade();
  EXPECT_FALSE(f.windows->can_remove(0, 500, kEndOfPositions));
}

TEST(Sequences, CellsOfAPageLieTogether) {
  Fixture f(256, 2, 8);
  std::vector<Place> places;
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
  const Place places[] = {{1, 0}, {1, 1}, {1, 2}};
  std::int32_t cells[3];
  EXPECT_FALSE(f.sequences.take(places, cells));
  EXPECT_EQ(f.sequences.cells_used(), 8);
  EXPECT_EQ(f.sequences.next_pos(1), 0);
  EXPECT_TRUE(f.sequences.consistent());
}

TEST(Sequences, CopiesShareCellsUntilOneGoesOn) {
  Fixture f(1000, 3, 16);
  ASSERT_TRUE(f.take_all(0, 100));
  ASSERT_TRUE(f.sequences.copy(0, 1, 0, 100));
  ASSERT_TRUE(f.sequences.copy(0, 2, 0, 70));
  EXPECT_EQ(f.sequences.cells_used(), 100);
  EXPECT_TRUE(f.sequences.moves().empty());
  // The first to go on writes into the shared page, the next one gets its own copy of what is in use.
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
  ASSERT_TRUE(f.sequences.can_add(0, 60, 200, -50));
  ASSERT_TRUE(f.sequences.add(0, 60, 200, -50));
  EXPECT_EQ(f.sequences.moves().size(), 140u);
  f.carry_out_moves();
  const auto contents = f.contents(0);
  ASSERT_EQ(contents.size(), 150u);
  for (int i = 0; i < 150; ++i)
    EXPECT_EQ(contents[static_cast<std::size_t>(i)], std::make_pair(i, i < 10 ? i : i + 50));
  EXPECT_EQ(f.sequences.next_pos(0), 150);
  EXPECT_TRUE(f.take_all(0, 20));
  EXPECT_FALSE(f.sequences.can_add(0, 20, 30, 3));
  EXPECT_FALSE(f.sequences.can_add(0, 0, 30, -1));
}

TEST(Sequences, AGapOpensInTheMiddleAndIsFilled) {
  Fixture f(256, 1, 16);
  ASSERT_TRUE(f.take_all(0, 100));
  ASSERT_TRUE(f.sequences.add(0, 50, 100, 7));
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
      ASSERT_TRUE(f.sequences.add(0, 5 + 101, end, -101));
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

std::vector<Extent> without_pages(std::span<const Extent> extents) {
  std::vector<Extent> result(extents.begin(), extents.end());
  for (Extent& e : result) e.page = 0;
  return result;
}
bool same(const std::vector<Extent>& a, const std::vector<Extent>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Extent& x, const Extent& y) {
    return x.mask == y.mask && x.page == y.page && x.base == y.base && x.divisor == y.divisor &&
           x.offset == y.offset;
  });
}

TEST(Sequences, ARestoredTextIsCutAsItWas) {
  Fixture f(1000, 2, 16);
  ASSERT_TRUE(f.take_all(0, 200));
  f.sequences.remove(0, 10, 60);
  ASSERT_TRUE(f.sequences.add(0, 60, 200, -50));
  f.carry_out_moves();
  ASSERT_TRUE(f.sequences.divide(0, 0, 150, 3));
  f.carry_out_moves();
  ASSERT_TRUE(f.take_all(0, 5));
  const SeqId zero[] = {0};
  const Fixture::Saved saved = f.save(zero);
  Fixture other(300, 3, 16);
  ASSERT_TRUE(other.take_all(1, 40));
  ASSERT_TRUE(other.take_all(2, 33));
  ASSERT_TRUE(other.restore(Fixture::as(saved, 2)));
  EXPECT_EQ(other.contents(2), f.contents(0));
  EXPECT_TRUE(same(without_pages(other.sequences.extents(2)), without_pages(f.sequences.extents(0))));
  EXPECT_EQ(other.sequences.cells_used(), 40 + static_cast<int>(saved.cells.size()));
  EXPECT_TRUE(other.sequences.consistent());
}

TEST(Sequences, ARestoreThatFindsNoRoomChangesNothing) {
  Fixture f(200, 2, 16);
  ASSERT_TRUE(f.take_all(0, 150));
  const SeqId zero[] = {0};
  const Fixture::Saved saved = f.save(zero);
  f.sequences.remove(0, 0, 90);
  ASSERT_TRUE(f.take_all(1, 130));
  const auto before = f.contents(0), other = f.contents(1);
  EXPECT_FALSE(f.restore(Fixture::as(saved, 0)));
  EXPECT_FALSE(f.restore(Fixture::as(saved, 1)));
  EXPECT_EQ(f.contents(0), before);
  EXPECT_EQ(f.contents(1), other);
  EXPECT_TRUE(f.sequences.consistent());
  f.sequences.remove(0, 90, 100);
  // What the text itself takes the place of counts as free.
  EXPECT_FALSE(f.restore(Fixture::as(saved, 0)));
  EXPECT_TRUE(f.restore(Fixture::as(saved, 1)));
  EXPECT_EQ(f.sequences.cells_used(), 200);
  EXPECT_EQ(f.contents(1).size(), 150u);
  const auto kept = f.contents(0), restored = f.contents(1);
  EXPECT_TRUE(std::equal(kept.begin(), kept.end(), restored.begin() + 100, restored.end()));
  EXPECT_TRUE(f.sequences.consistent());
}

TEST(Sequences, ARestoreFindsRoomBetweenOthersLanes) {
  Fixture f(64 * 8, 8, 8);
  const SeqId zero[] = {0};
  ASSERT_TRUE(f.take_all(0, 64));
  f.sequences.remove(0, 8, 64);
  const Fixture::Saved saved = f.save(zero);
  // No page is free, and the saved lanes are free in some.
  f.sequences.remove(0, 0, 64);
  for (SeqId s = 0; s < 8; ++s) {
    for (Pos p : {0, 64})
      for (Pos i = 30; i < 40; ++i) ASSERT_TRUE(f.take(s, p + i, i));
  }
  ASSERT_EQ(f.sequences.pages_free(), 0);
  f.sequences.remove(7, 0, 64);
  ASSERT_TRUE(f.take(6, 200, 1));
  ASSERT_EQ(f.sequences.pages_free(), 0);
  const auto before = f.contents(1);
  ASSERT_TRUE(f.restore(Fixture::as(saved, 7)));
  EXPECT_EQ(f.contents(7).size(), 8u);
  EXPECT_EQ(f.contents(1), before);
  EXPECT_TRUE(f.sequences.consistent());
}

TEST(Sequences, SharedCellsAreSavedOnceAndSharedAgain) {
  Fixture f(1000, 3, 16);
  ASSERT_TRUE(f.take_all(0, 100));
  ASSERT_TRUE(f.sequences.copy(0, 1, 0, 100));
  ASSERT_TRUE(f.sequences.copy(0, 2, 0, 70));
  ASSERT_TRUE(f.take_all(2, 10));
  const SeqId all[] = {0, 1, 2};
  const Fixture::Saved saved = f.save(all);
  const int used = f.sequences.cells_used();
  Fixture other(300, 4, 16);
  ASSERT_TRUE(other.restore(saved));
  EXPECT_EQ(other.sequences.cells_used(), used);
  for (SeqId s = 0; s < 3; ++s) EXPECT_EQ(other.contents(s), f.contents(s));
  EXPECT_TRUE(other.sequences.consistent());
}

TEST(Sequences, SnapshotsThatNoCacheCouldGiveAreNotWellFormed) {
  Fixture f(1000, 1, 16);
  ASSERT_TRUE(f.take_all(0, 100));
  const SeqId zero[] = {0};
  const Snapshot good = f.save(zero).snapshot;
  const auto refused = [&](auto change) {
    Snapshot bad = good;
    change(bad, bad.texts[0].extents);
    return !bad.well_formed();
  };
  using Extents = std::vector<Extent>;
  EXPECT_TRUE(refused([](Snapshot&, Extents& e) { e[0].mask = 0; }));
  EXPECT_TRUE(refused([](Snapshot&, Extents& e) { e[0].mask >>= 1; }));
  EXPECT_TRUE(refused([](Snapshot&, Extents& e) { e[0].page = 2; }));
  EXPECT_TRUE(refused([](Snapshot&, Extents& e) { e[0].page = -1; }));
  EXPECT_TRUE(refused([](Snapshot&, Extents& e) { e[1].page = 0; }));
  EXPECT_TRUE(refused([](Snapshot&, Extents& e) { e[0].divisor = 0; }));
  EXPECT_TRUE(refused([](Snapshot&, Extents& e) { e[0].divisor = 1 << 21; }));
  EXPECT_TRUE(refused([](Snapshot&, Extents& e) { e[0].offset = 1; }));
  EXPECT_TRUE(refused([](Snapshot&, Extents& e) { e[0].offset = -1; }));
  EXPECT_TRUE(refused([](Snapshot&, Extents& e) { e[0].base = -1; }));
  EXPECT_TRUE(refused([](Snapshot&, Extents& e) { e[1].base = kEndOfPositions - 1; }));
  EXPECT_TRUE(refused([](Snapshot&, Extents& e) { e[1].base = 0x7fffffff; }));
  EXPECT_TRUE(refused([](Snapshot&, Extents& e) { std::swap(e[0], e[1]); }));
  EXPECT_TRUE(refused([](Snapshot&, Extents& e) { e.push_back(e[1]); }));
  EXPECT_TRUE(refused([](Snapshot&, Extents& e) { e.pop_back(); }));
  EXPECT_TRUE(refused([](Snapshot& s, Extents&) { s.pages.push_back(0); }));
  EXPECT_TRUE(refused([](Snapshot& s, Extents&) { s.pages[0] &= s.pages[0] - 1; }));
}

// Against a plain model of the cache: for each sequence the list of (position, token).
class RandomSequences : public testing::TestWithParam<unsigned> {};

TEST_P(RandomSequences, AgreeWithAPlainModel) {
  using Text = std::vector<std::pair<Pos, int>>;
  std::mt19937 random(GetParam());
  const int n_sequences = 6, n_cells = 700;
  Fixture f(n_cells, n_sequences, 40);
  // Some keep windows beside it all: what they cannot do is left out.
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
      // A token of several texts: others that have no such position get it too.
      for (SeqId to = 0; what < 20 && to < n_sequences; ++to) {
        if (f.sequences.holds(to, pos) || pick(2) == 0) continue;
        if (refused([&](const WindowPages& w) { return w.can_take(to, pos); })) continue;
        if (!f.sequences.follow(seq, to, pos)) continue;
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
      if (refused([&](const WindowPages& w) { return w.can_add(seq, begin, end, delta); })) continue;
      if (!f.sequences.can_add(seq, begin, end, delta) || !f.sequences.add(seq, begin, end, delta)) continue;
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
      if (pick(4) == 0) f.windows->fade();
      if (step % 50 == 0) {
        f.windows->fade();
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
