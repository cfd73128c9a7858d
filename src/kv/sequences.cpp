#include "kv/sequences.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/check.h"
#include "base/to_size.h"
#include "kv/lanes.h"

namespace weft::kv {
namespace {

/// Whether an extent and the next one can be merged.
bool goes_on(const Extent& before, const Extent& after) {
  return before.page == after.page && before.base == after.base && before.divisor == after.divisor &&
         before.offset == after.offset && (before.mask & after.mask) == 0;
}

}  // namespace

int Sequences::n_pages_for(int n_cells, int n_sequences) {
  return (n_cells + kPageCells - 1) / kPageCells + n_sequences;
}

Sequences::Sequences(int n_cells, int n_sequences, Tables tables)
    : n_cells_(n_cells),
      tables_(tables),
      pages_(to_size(n_pages_for(n_cells, n_sequences))),
      moves_(n_pages() * kPageCells),
      intact_(to_size(n_sequences), true),
      unsure_(pages_.size(), 0) {
  WEFT_CHECK(tables.counts.size() == to_size(n_sequences));
  WEFT_CHECK(tables.extents.size() == tables.counts.size() * to_size(tables.width));
  std::fill(tables.counts.begin(), tables.counts.end(), 0);
  // Taken from the back: low pages first, so memory is touched from the front.
  for (auto p = static_cast<std::int32_t>(pages_.size()); p-- > 0;) free_pages_.push_back(p);
}

std::span<const Extent> Sequences::extents(SeqId seq) const { return {row(seq), to_size(count(seq))}; }

// --- Looking

Pos Sequences::next_pos(SeqId seq) const { return count(seq) == 0 ? 0 : row(seq)[count(seq) - 1].last() + 1; }
Pos Sequences::min_pos(SeqId seq) const { return count(seq) == 0 ? -1 : row(seq)[0].first(); }

int Sequences::upper_bound(SeqId seq, Pos pos) const {
  const Extent* begin = row(seq);
  return static_cast<int>(
      std::upper_bound(begin, begin + count(seq), pos, [](Pos p, const Extent& e) { return p < e.first(); }) -
      begin);
}

std::int32_t Sequences::cell_of(SeqId seq, Pos pos) const {
  // Divided positions may be in several extents; any of them is valid.
  const int i = upper_bound(seq, pos) - 1;
  if (i < 0) return -1;
  const Extent& e = row(seq)[i];
  const std::uint64_t here = e.mask & lanes(e.lane_of(pos), e.lane_of(pos + 1));
  return here == 0 ? -1 : e.page * kPageCells + std::countr_zero(here);
}

// --- The table

void Sequences::insert(SeqId seq, int index, const Extent& extent) {
  WEFT_CHECK(count(seq) < tables_.width);
  Extent* r = row(seq);
  std::copy_backward(r + index, r + count(seq), r + count(seq) + 1);
  r[index] = extent;
  ++count(seq);
}

void Sequences::erase(SeqId seq, int begin, int end) {
  Extent* r = row(seq);
  std::copy(r + end, r + count(seq), r + begin);
  count(seq) -= end - begin;
}

bool Sequences::split_at(SeqId seq, Pos pos) {
  const int i = upper_bound(seq, pos - 1) - 1;
  if (i < 0) return true;
  Extent& e = row(seq)[i];
  const std::uint64_t right = e.mask & lanes(e.lane_of(pos), kPageCells);
  if (right == 0) return true;
  if (count(seq) == tables_.width) return false;
  Extent tail = e;
  tail.mask = right;
  e.mask &= ~right;
  insert(seq, i + 1, tail);
  return true;
}

std::pair<int, int> Sequences::isolate(SeqId seq, Pos begin, Pos end) {
  if (!split_at(seq, begin) || !split_at(seq, end)) return {-1, -1};
  return {upper_bound(seq, begin - 1), upper_bound(seq, end - 1)};
}

// --- Pages

void Sequences::hold(std::int32_t p, std::uint64_t mask) {
  Page& held = page(p);
  pages_touched_ = std::max(pages_touched_, p + 1);
  for_each_lane(mask, [&](int lane) {
    if (held.holders[lane]++ == 0) ++cells_used_;
    ++held.n_held;
  });
}

void Sequences::release(std::int32_t p, std::uint64_t mask) {
  Page& held = page(p);
  for_each_lane(mask, [&](int lane) {
    WEFT_CHECK(held.holders[lane] > 0);
    if (--held.holders[lane] == 0) --cells_used_;
    --held.n_held;
  });
  if (mask != 0 && held.n_held == 0) free_pages_.push_back(p);
}

int Sequences::n_shared(const Extent& extent) const {
  const Page& held = pages_[to_size(extent.page)];
  int n = 0;
  for_each_lane(extent.mask, [&](int lane) { n += held.holders[lane] > 1 ? 1 : 0; });
  return n;
}

bool Sequences::make_own(Extent& extent) {
  if (free_pages_.empty() || cells_used_ + n_shared(extent) > n_cells_) return false;
  moves_.reserve(kPageCells);
  const std::int32_t old = extent.page;
  extent.page = free_pages_.back();
  free_pages_.pop_back();
  for_each_lane(extent.mask,
                [&](int lane) { moves_.add({old * kPageCells + lane, extent.page * kPageCells + lane, 0}); });
  hold(extent.page, extent.mask);
  release(old, extent.mask);
  return true;
}

// --- Taking cells

Sequences::Spot Sequences::spot_for(SeqId seq, Pos pos) const {
  const int next = upper_bound(seq, pos);
  const Extent* const r = row(seq);
  // The extent before the position, or the one after it, may have a lane for it.
  for (const int i : {next - 1, next}) {
    if (i < 0 || i >= count(seq) || r[i].divisor != 1) continue;
    // A divided extent that reaches around the position stands between it and the next one.
    if (i == next && next > 0 && r[next - 1].last() > pos) continue;
    if (pos >= r[i].base && pos - r[i].base < kPageCells) return {i, r[i].base};
  }
  // A continued sequence fills a page from its first cell; tokens elsewhere are aligned to their positions.
  const bool goes_on = next > 0 && r[next - 1].divisor == 1 && pos == r[next - 1].base + kPageCells;
  return {-1, goes_on ? pos : pos / kPageCells * kPageCells};
}

std::int32_t Sequences::take_one(SeqId seq, Pos pos) {
  if (cells_used_ >= n_cells_) return -1;
  const Spot spot = spot_for(seq, pos);
  const int lane = pos - spot.base;
  if (spot.extent >= 0) {
    Extent& e = row(seq)[spot.extent];
    // Another sequence went on in the page that both share.
    if (page(e.page).holders[lane] > 0 && !make_own(e)) return -1;
    if (cells_used_ >= n_cells_) return -1;
    e.mask |= bit(lane);
    hold(e.page, bit(lane));
    return e.page * kPageCells + lane;
  }
  // A divided extent may reach around the position; with it the table takes two more.
  if (free_pages_.empty() || count(seq) + 2 > tables_.width || !split_at(seq, pos)) return -1;
  Extent fresh;
  fresh.page = free_pages_.back();
  fresh.base = spot.base;
  fresh.mask = bit(lane);
  free_pages_.pop_back();
  hold(fresh.page, fresh.mask);
  insert(seq, upper_bound(seq, pos), fresh);
  return fresh.page * kPageCells + lane;
}

bool Sequences::take(std::span<const SeqPos> tokens, std::span<std::int32_t> cells) {
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    cells[i] = take_one(tokens[i].seq, tokens[i].pos);
    // Cells without a page: what removals have left half empty may hold them.
    if (cells[i] < 0 && cells_used_ < n_cells_ && free_pages_.empty() && defragment(kMovesToMakeRoom) > 0)
      cells[i] = take_one(tokens[i].seq, tokens[i].pos);
    if (cells[i] >= 0) continue;
    while (i-- > 0) give_back(tokens[i].seq, tokens[i].pos);
    return false;
  }
  return true;
}

void Sequences::give_back(SeqId seq, Pos pos) {
  remove(seq, pos, pos + 1);
  const int i = upper_bound(seq, pos);
  if (i == 0 || i == count(seq)) return;
  // Taking cuts divided extents only.
  Extent& before = row(seq)[i - 1];
  const Extent& after = row(seq)[i];
  if (before.divisor == 1 || !goes_on(before, after)) return;
  before.mask |= after.mask;
  erase(seq, i, i + 1);
}

// --- Operations on ranges

void Sequences::remove(SeqId seq, Pos begin, Pos end) {
  if (begin >= end) return;
  Extent* const r = row(seq);
  int i = std::max(upper_bound(seq, begin) - 1, 0);
  // Divided positions may begin in the extent before.
  while (i > 0 && r[i - 1].last() >= begin) --i;
  int first_empty = -1, last_empty = -1;
  for (; i < count(seq) && r[i].first() < end; ++i) {
    Extent& e = r[i];
    const std::uint64_t gone = e.mask & lanes(e.lane_of(begin), e.lane_of(end));
    if (gone == 0) continue;
    release(e.page, gone);
    e.mask &= ~gone;
    if (e.mask == 0) {
      if (first_empty < 0) first_empty = i;
      last_empty = i;
    }
  }
  if (first_empty >= 0) erase(seq, first_empty, last_empty + 1);
  if (count(seq) == 0) intact_[to_size(seq)] = true;
}

bool Sequences::copy(SeqId from, SeqId to, Pos begin, Pos end) {
  if (from == to || begin >= end) return true;
  // Room in the table for all extents that will be added, and for a cut where others are left around them.
  const int n_from = upper_bound(from, end - 1);
  int n_added = 0;
  for (int i = 0; i < n_from; ++i) n_added += row(from)[i].last() >= begin ? 1 : 0;
  if (count(to) + n_added + 1 > tables_.width) return false;
  remove(to, begin, end);
  if (!split_at(to, begin)) return false;
  int at = upper_bound(to, begin - 1);
  for (int i = 0; i < n_from; ++i) {
    Extent e = row(from)[i];
    e.mask &= lanes(e.lane_of(begin), e.lane_of(end));
    if (e.mask == 0) continue;
    hold(e.page, e.mask);
    // Token after token of one page is one extent, as it is in `from`.
    if (at > 0 && goes_on(row(to)[at - 1], e)) {
      row(to)[at - 1].mask |= e.mask;
    } else {
      insert(to, at++, e);
    }
  }
  return true;
}

bool Sequences::share(SeqId from, SeqId to, Pos pos) {
  const Extent e = row(from)[upper_bound(from, pos) - 1];
  const Spot spot = spot_for(to, pos);
  if (e.divisor == 1 && e.base == spot.base) {
    if (spot.extent < 0) return copy(from, to, pos, pos + 1);
    Extent& own = row(to)[spot.extent];
    if (own.page == e.page) {
      own.mask |= bit(pos - e.base);
      hold(e.page, bit(pos - e.base));
      return true;
    }
  }
  moves_.reserve(kPageCells + 1);
  const std::int32_t source = cell_of(from, pos);
  const std::int32_t cell = take_one(to, pos);
  if (cell < 0) return false;
  moves_.add({source, cell, 0});
  return true;
}

void Sequences::keep(SeqId seq) {
  for (SeqId other = 0; other < n_sequences(); ++other)
    if (other != seq && count(other) > 0) remove(other, 0, next_pos(other));
}

int Sequences::defragment(int max_moves) {
  // Extents that are alone in a page which is less than half full, the emptiest first.
  struct Sparse {
    Extent* extent;
    int n;
    std::uint64_t used;  // Lanes of the page.
    bool is_target = false;
  };
  std::vector<Sparse> sparse;
  for (SeqId seq = 0; seq < n_sequences(); ++seq) {
    for (int i = 0; i < count(seq); ++i) {
      Extent& e = row(seq)[i];
      const int n = std::popcount(e.mask);
      if (n <= kPageCells / 2 && page(e.page).n_held == n) sparse.push_back({&e, n, e.mask});
    }
  }
  std::stable_sort(sparse.begin(), sparse.end(), [](const Sparse& a, const Sparse& b) { return a.n < b.n; });
  // Lanes for which no page was free: none that come later are then, as targets only become fewer and fuller.
  std::vector<std::uint64_t> hopeless;
  const auto is_hopeless = [&](std::uint64_t mask) {
    return std::any_of(hopeless.begin(), hopeless.end(),
                       [&](std::uint64_t lanes) { return (mask & lanes) == lanes; });
  };
  int n_freed = 0;
  for (std::size_t i = 0; i < sparse.size(); ++i) {
    Extent& e = *sparse[i].extent;
    if (sparse[i].n > max_moves) break;
    if (sparse[i].is_target || is_hopeless(e.mask)) continue;
    // Into the fullest of the others whose lanes are free: a token must keep its lane.
    std::size_t j = sparse.size();
    while (--j > i && (sparse[j].used & e.mask) != 0) {
    }
    if (j == i) {
      hopeless.push_back(e.mask);
      continue;
    }
    moves_.reserve(kPageCells);
    const std::int32_t old = e.page, target = sparse[j].extent->page;
    for_each_lane(e.mask,
                  [&](int lane) { moves_.add({old * kPageCells + lane, target * kPageCells + lane, 0}); });
    hold(target, e.mask);
    release(old, e.mask);
    e.page = target;
    sparse[j].used |= e.mask;
    sparse[j].is_target = true;
    max_moves -= sparse[i].n;
    ++n_freed;
  }
  return n_freed;
}

void Sequences::abandon_moves() noexcept {
  if (!moves_.abandon(unsure_)) return;
  for (SeqId seq = 0; seq < n_sequences(); ++seq)
    for (const Extent& e : extents(seq))
      if ((e.mask & unsure_[to_size(e.page)]) != 0) intact_[to_size(seq)] = false;
  std::fill(unsure_.begin(), unsure_.end(), 0);
}

bool Sequences::consistent() const {
  std::vector<Page> expected(pages_.size());
  for (SeqId seq = 0; seq < n_sequences(); ++seq) {
    Pos before = -1;
    for (const Extent& e : extents(seq)) {
      if (e.mask == 0 || e.page < 0 || e.page >= static_cast<std::int32_t>(pages_.size()) ||
          e.first() < before)
        return false;
      before = e.last();
      Page& p = expected[to_size(e.page)];
      for_each_lane(e.mask, [&](int lane) {
        ++p.holders[lane];
        ++p.n_held;
      });
    }
  }
  int used = 0, free = 0;
  for (std::size_t p = 0; p < pages_.size(); ++p) {
    if (!std::equal(std::begin(pages_[p].holders), std::end(pages_[p].holders),
                    std::begin(expected[p].holders)) ||
        pages_[p].n_held != expected[p].n_held)
      return false;
    free += expected[p].n_held == 0 ? 1 : 0;
    for (const std::uint16_t n : expected[p].holders) used += n > 0 ? 1 : 0;
  }
  return used == cells_used_ && free == pages_free();
}

}  // namespace weft::kv
