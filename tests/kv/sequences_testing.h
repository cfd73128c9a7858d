#pragma once
// What tests of the cache's bookkeeping share.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "kv/lanes.h"
#include "kv/sequences.h"
#include "kv/window_pages.h"

namespace weft::kv {

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

  /// The inputs of a run, as a device has them.
  struct Inputs {
    static constexpr std::size_t kMoves = 100;
    MoveInputs spans() { return {from, to, deltas, fork_from, fork_to}; }
    void move(std::int64_t n, std::vector<Cell>& caches) const {
      for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
        Cell cell = caches[static_cast<std::size_t>(from[i])];
        cell.turned_to += deltas[i];
        caches[static_cast<std::size_t>(to[i])] = cell;
      }
    }
    std::vector<std::int32_t> from = std::vector<std::int32_t>(kMoves), to = from, deltas = from,
                              fork_from = from, fork_to = from;
  };
  void carry_out_moves() {
    Inputs full, windowed;
    if (windows) windows->follow(sequences.moves());
    while (!sequences.moves().empty()) {
      const MoveLog::Part part =
          sequences.moves().begin(full.spans(), windows ? windowed.spans() : MoveInputs{});
      full.move(part.n_moves, cells);
      if (windows) windowed.move(part.n_moves, window_cells);
      sequences.moves().commit();
    }
  }
  void store(std::int32_t cell, const Cell& content) {
    cells[static_cast<std::size_t>(cell)] = content;
    if (!windows) return;
    windows->store(cell);
    window_cells[static_cast<std::size_t>(windows->cell(cell))] = content;
  }

  bool take(SeqId seq, Pos pos, int token) {
    const SeqPos place{seq, pos};
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
  /// The saved sequence under another id.
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
  /// Number of pages that the window of a sequence, or a rewind of it, reaches. These keep window pages.
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

inline std::vector<Extent> without_pages(std::span<const Extent> extents) {
  std::vector<Extent> result(extents.begin(), extents.end());
  for (Extent& e : result) e.page = 0;
  return result;
}
inline bool same(const std::vector<Extent>& a, const std::vector<Extent>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Extent& x, const Extent& y) {
    return x.mask == y.mask && x.page == y.page && x.base == y.base && x.divisor == y.divisor &&
           x.offset == y.offset;
  });
}

}  // namespace weft::kv
