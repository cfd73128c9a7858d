#include "kv/window_pages.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <utility>

#include "base/check.h"
#include "base/to_size.h"
#include "kv/lanes.h"

namespace weft::kv {

WindowPages::WindowPages(const Sequences& sequences, int window, int rewind)
    : sequences_(sequences),
      window_(window),
      rewind_(rewind),
      window_pages_(to_size(sequences.n_pages()), -1),
      kept_(window_pages_.size(), 0),
      reached_(window_pages_.size(), 0) {
  WEFT_CHECK(window > 0 && rewind >= 0);
  in_use_.reserve(window_pages_.size());
  free_.reserve(window_pages_.size());
}

std::int32_t WindowPages::cell(std::int32_t cell) const {
  const std::int32_t page = cell / kPageCells, lane = cell % kPageCells;
  return (kept(page) & bit(lane)) == 0 ? -1 : this->page(page) * kPageCells + lane;
}

// --- What is written

void WindowPages::store(std::int32_t cell) {
  const std::int32_t page = cell / kPageCells;
  std::int32_t& at = window_pages_[to_size(page)];
  if (at < 0) {
    if (free_.empty()) {
      at = n_touched_++;
    } else {
      std::pop_heap(free_.begin(), free_.end(), std::greater<>());
      at = free_.back();
      free_.pop_back();
    }
    in_use_.push_back(page);
    ++n_taken_;
  }
  kept(page) |= bit(cell % kPageCells);
}

void WindowPages::leave_out(std::int32_t cell) { kept(cell / kPageCells) &= ~bit(cell % kPageCells); }

void WindowPages::follow(MoveLog& moves) {
  moves.follow([&](const CellMove& move) -> CellMove {
    const std::int32_t from = cell(move.from);
    if (from < 0) {
      leave_out(move.to);
      return {};
    }
    store(move.to);
    return {from, cell(move.to), move.delta};
  });
}

// --- Whether sequences can continue

bool WindowPages::goes_on(std::span<const Piece> pieces) const {
  bool found_end = false;
  std::int64_t low = 0;  // The first position that the next token sees.
  for (const Piece& piece : pieces) {
    const std::span<const Extent> extents = sequences_.extents(piece.seq);
    for (auto e = extents.rbegin(); e != extents.rend(); ++e) {
      if (e->first() >= piece.end) continue;
      if (e->last() < piece.begin) break;
      std::uint64_t mask = e->mask & lanes(e->lane_of(piece.begin), e->lane_of(piece.end));
      if (mask == 0) continue;
      if (!found_end) {
        const Pos last = e->position(kPageCells - 1 - std::countl_zero(mask));
        low = window_of_next((last + piece.delta) / piece.divisor + 1);
        found_end = true;
      }
      mask &= lanes(e->lane_of(low * piece.divisor - piece.delta), kPageCells);
      if (mask == 0) return true;
      if ((mask & ~kept(e->page)) != 0) return false;
    }
  }
  return true;
}

bool WindowPages::can_remove(SeqId seq, Pos begin, Pos end) const {
  if (begin >= end || end < sequences_.next_pos(seq)) return true;
  const Piece rest[] = {{.seq = seq, .end = begin}};
  return goes_on(rest);
}

bool WindowPages::can_copy(SeqId from, SeqId to, Pos begin, Pos end) const {
  if (from == to || begin >= end) return true;
  const Piece result[] = {
      {.seq = to, .begin = end}, {.seq = from, .begin = begin, .end = end}, {.seq = to, .end = begin}};
  return goes_on(result);
}

bool WindowPages::can_shift(SeqId seq, Pos begin, Pos end, Pos delta) const {
  const Piece result[] = {{.seq = seq, .begin = end},
                          {.seq = seq, .begin = begin, .end = end, .delta = delta},
                          {.seq = seq, .end = begin}};
  return goes_on(result);
}

bool WindowPages::can_divide(SeqId seq, Pos begin, Pos end, int divisor) const {
  const Piece result[] = {{.seq = seq, .begin = end},
                          {.seq = seq, .begin = begin, .end = end, .divisor = divisor},
                          {.seq = seq, .end = begin}};
  return goes_on(result);
}

bool WindowPages::can_take(SeqId seq, Pos pos) const {
  if (pos >= sequences_.next_pos(seq)) return true;  // Windows only move on.
  for (const Extent& e : sequences_.extents(seq)) {
    const std::uint64_t seen = e.mask & lanes(e.lane_of(window_of_next(pos)), e.lane_of(pos));
    if ((seen & ~kept(e.page)) != 0) return false;
  }
  return true;
}

bool WindowPages::is_whole(std::span<const Extent> extents, std::span<const std::uint64_t> kept) const {
  if (extents.empty()) return true;
  const Pos low = window_of_next(extents.back().last() + 1);
  return std::all_of(extents.begin(), extents.end(), [&](const Extent& e) {
    const std::uint64_t seen = e.mask & lanes(e.lane_of(low), kPageCells);
    return (seen & ~kept[to_size(e.page)]) == 0;
  });
}

// --- Fading

void WindowPages::begin_batch(SeqId seq, Pos first) {
  const Pos next = sequences_.next_pos(seq);
  // Rows that fill a gap are kept until the batch is done, with all rows after them.
  anchors_.push_back(
      {seq, window_of_next(std::min(first, next)) - rewind_, first < next ? kEndOfPositions : first});
}

void WindowPages::end_batch() { anchors_.clear(); }

void WindowPages::reach(SeqId seq, Pos begin, Pos end) {
  const std::span<const Extent> extents = sequences_.extents(seq);
  for (auto e = extents.rbegin(); e != extents.rend() && e->last() >= begin; ++e)
    if (e->first() < end) reached_[to_size(e->page)] = n_evictions_;
}

void WindowPages::evict() {
  ++n_evictions_;
  n_taken_ = 0;
  for (SeqId seq = 0; seq < sequences_.n_sequences(); ++seq)
    reach(seq, window_of_next(sequences_.next_pos(seq)) - rewind_, kEndOfPositions);
  for (const Anchor& anchor : anchors_) reach(anchor.seq, anchor.begin, anchor.end);
  std::erase_if(in_use_, [&](std::int32_t page) {
    if (reached_[to_size(page)] == n_evictions_) return false;
    free_.push_back(std::exchange(window_pages_[to_size(page)], -1));
    std::push_heap(free_.begin(), free_.end(), std::greater<>());
    kept(page) = 0;
    return true;
  });
}

std::int64_t WindowPages::max_rows_each() const {
  // The first and the last page may be partly used.
  const std::int64_t n_pages = (std::int64_t{window_} + rewind_) / kPageCells + 2;
  return std::min<std::int64_t>(n_pages, sequences_.n_pages()) * kPageCells;
}

void WindowPages::evict_now_and_then() {
  constexpr int kShare = 8;
  if (n_taken_ > n_in_use() / kShare) evict();
}

int WindowPages::fill_row(SeqId seq, Pos pos, std::span<Extent> row) const {
  const std::span<const Extent> extents = sequences_.extents(seq);
  std::size_t begin = extents.size();
  while (begin > 0 && extents[begin - 1].last() >= window_of_next(pos)) --begin;
  std::size_t n = 0;
  for (; begin < extents.size(); ++begin) {
    row[n] = extents[begin];
    // An evicted page is before the window and is not read.
    row[n].page = std::max(page(row[n].page), 0);
    ++n;
  }
  return static_cast<int>(n);
}

bool WindowPages::consistent() const {
  std::vector<bool> taken(to_size(n_touched_), false);
  const auto take = [&](std::int32_t at) {
    if (at < 0 || at >= n_touched_ || taken[to_size(at)]) return false;
    taken[to_size(at)] = true;
    return true;
  };
  for (const std::int32_t p : in_use_)
    if (!take(page(p))) return false;
  for (const std::int32_t at : free_)
    if (!take(at)) return false;
  if (std::find(taken.begin(), taken.end(), false) != taken.end()) return false;
  std::size_t n_mapped = 0;
  for (std::size_t p = 0; p < window_pages_.size(); ++p) {
    n_mapped += window_pages_[p] >= 0 ? 1u : 0u;
    if (window_pages_[p] < 0 && kept_[p] != 0) return false;
  }
  if (n_mapped != in_use_.size() || n_touched_ > sequences_.n_pages()) return false;
  for (SeqId seq = 0; seq < sequences_.n_sequences(); ++seq) {
    const Piece all[] = {{.seq = seq}};
    if (!goes_on(all)) return false;
  }
  return true;
}

}  // namespace weft::kv
