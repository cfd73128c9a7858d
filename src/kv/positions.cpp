// Operations that change positions: shift and divide.
#include <algorithm>
#include <bit>

#include "base/check.h"
#include "base/to_size.h"
#include "kv/lanes.h"
#include "kv/sequences.h"

namespace weft::kv {

bool Sequences::can_shift(SeqId seq, Pos begin, Pos end, Pos delta) const {
  const int first = upper_bound(seq, begin - 1);
  // What is in the range: from the lowest to the highest position there.
  Pos low = -1, high = -1, before = -1, after = -1;
  for (int i = std::max(first - 1, 0); i < count(seq); ++i) {
    const Extent& e = row(seq)[i];
    for_each_lane(e.mask, [&](int lane) {
      const Pos pos = e.position(lane);
      if (pos < begin)
        before = std::max(before, pos);
      else if (pos >= end)
        after = after < 0 ? pos : after;
      else if (low < 0)
        low = high = pos;
      else
        high = pos;
    });
    if (after >= 0) break;
  }
  if (low < 0) return true;
  const std::int64_t new_low = std::int64_t{low} + delta, new_high = std::int64_t{high} + delta;
  return new_low > before && new_low >= 0 && new_high < kEndOfPositions && (after < 0 || new_high < after);
}

bool Sequences::room_for_copies(SeqId seq, int begin, int end) const {
  int n_pages = 0, n_cells = 0;
  for (int i = begin; i < end; ++i) {
    const int n = n_shared(row(seq)[i]);
    n_pages += n > 0 ? 1 : 0;
    n_cells += n;
  }
  return n_pages <= pages_free() && cells_used_ + n_cells <= n_cells_;
}

template <typename F>
bool Sequences::change_or_put_back(SeqId seq, F change) {
  const std::vector<Extent> before(row(seq), row(seq) + count(seq));
  const auto put_back = [&] {
    std::copy(before.begin(), before.end(), row(seq));
    count(seq) = static_cast<std::int32_t>(before.size());
  };
  try {
    if (change()) return true;
  } catch (...) {
    put_back();
    throw;
  }
  put_back();
  return false;
}

bool Sequences::shift(SeqId seq, Pos begin, Pos end, Pos delta) {
  if (delta == 0) return true;
  WEFT_CHECK(can_shift(seq, begin, end, delta));
  return change_or_put_back(seq, [&] {
    const auto [first, last] = isolate(seq, begin, end);
    return first >= 0 && shift_extents(seq, first, last, delta);
  });
}

bool Sequences::shift_extents(SeqId seq, int first, int last, Pos delta) {
  // Each extent may be copied to a page of its own, and each token moved.
  moves_.reserve(to_size(last - first + 3) * 2 * kPageCells);
  const Extent* const r = row(seq);
  const bool divided = std::any_of(r + first, r + last, [](const Extent& e) { return e.divisor != 1; });
  if (divided || delta % kPageCells == 0) return shift_in_place(seq, first, last, delta);
  // Either there is room for the worst case (all copied, and the extents around the range made their own), or
  // there must be a way back.
  int n_cells = 2 * kPageCells;
  for (int i = first; i < last; ++i) n_cells += n_shared(r[i]);
  if (pages_free() >= last - first + 3 && cells_used_ + n_cells <= n_cells_)
    return shift_to_other_lanes(seq, first, last, delta);
  const std::vector<Page> pages = pages_;
  const std::vector<std::int32_t> free_pages = free_pages_;
  const int used = cells_used_;
  const std::size_t n_moves = moves_.size();
  if (shift_to_other_lanes(seq, first, last, delta)) return true;
  pages_ = pages;
  free_pages_ = free_pages;
  cells_used_ = used;
  moves_.take_back(n_moves);
  return false;
}

bool Sequences::shift_in_place(SeqId seq, int first, int last, Pos delta) {
  if (!room_for_copies(seq, first, last)) return false;
  for (int i = first; i < last; ++i) {
    Extent& e = row(seq)[i];
    if (n_shared(e) > 0) WEFT_CHECK(make_own(e));
    e.base += delta;
    for_each_lane(e.mask, [&](int lane) {
      const std::int32_t cell = e.page * kPageCells + lane;
      moves_.add({cell, cell, delta});
    });
  }
  return true;
}

bool Sequences::shift_to_other_lanes(SeqId seq, int first, int last, Pos delta) {
  const std::vector<Extent> old(row(seq) + first, row(seq) + last);
  erase(seq, first, last);
  // In the order in which a token's new place is free before it is taken.
  const auto move_one = [&](const Extent& e, int lane) {
    const Pos pos = e.position(lane) + delta;
    const std::size_t before_copies = moves_.size();
    release(e.page, bit(lane));
    const std::int32_t to = take_one(seq, pos);
    if (to < 0) return false;
    // Taking may copy a shared page into the one that was just given back: the token must leave first.
    moves_.insert(before_copies, {e.page * kPageCells + lane, to, delta});
    return true;
  };
  if (delta < 0) {
    for (const Extent& e : old)
      for (std::uint64_t m = e.mask; m != 0; m &= m - 1)
        if (!move_one(e, std::countr_zero(m))) return false;
  } else {
    for (auto e = old.rbegin(); e != old.rend(); ++e)
      for (int lane = kPageCells; lane-- > 0;)
        if ((e->mask & bit(lane)) != 0 && !move_one(*e, lane)) return false;
  }
  return true;
}

bool Sequences::can_divide(SeqId seq, Pos begin, Pos end, int divisor) const {
  Pos before = -1;
  for (const Extent& e : extents(seq)) {
    if (e.first() >= end) break;
    if (std::int64_t{e.divisor} * divisor > kMaxDivisor) return false;
    const int cut = e.lane_of(begin);
    const std::uint64_t outside = e.mask & lanes(0, cut), inside = e.mask & lanes(cut, kPageCells);
    if (outside != 0) before = e.position(kPageCells - 1 - std::countl_zero(outside));
    // Only the first one in the range can touch an earlier one.
    if (inside != 0) return e.position(std::countr_zero(inside)) / divisor >= before;
  }
  return true;
}

bool Sequences::divide(SeqId seq, Pos begin, Pos end, int divisor) {
  if (divisor == 1) return true;
  WEFT_CHECK(divisor > 0 && can_divide(seq, begin, end, divisor));
  return change_or_put_back(seq, [&] {
    const auto [first, last] = isolate(seq, begin, end);
    return first >= 0 && divide_extents(seq, first, last, divisor);
  });
}

bool Sequences::divide_extents(SeqId seq, int first, int last, int divisor) {
  if (!room_for_copies(seq, first, last)) return false;
  moves_.reserve(to_size(last - first) * 2 * kPageCells);
  for (int i = first; i < last; ++i) {
    Extent& e = row(seq)[i];
    if (n_shared(e) > 0) WEFT_CHECK(make_own(e));
    const Extent old = e;
    // ((j + o) / d + b) / n = (j + o + b d) / (d n), rounding down throughout.
    const std::int64_t shifted = old.offset + std::int64_t{old.base} * old.divisor;
    const std::int64_t product = std::int64_t{old.divisor} * divisor;
    e.divisor = static_cast<std::int32_t>(product);
    e.base = static_cast<Pos>(shifted >= 0 ? shifted / product : -((-shifted + product - 1) / product));
    e.offset = static_cast<std::int32_t>(shifted - std::int64_t{e.base} * product);
    for_each_lane(e.mask, [&](int lane) {
      const std::int32_t cell = e.page * kPageCells + lane;
      const Pos delta = e.position(lane) - old.position(lane);
      if (delta != 0) moves_.add({cell, cell, delta});
    });
  }
  return true;
}

}  // namespace weft::kv
