// Snapshots: what sequences hold, out of one cache and into another.
#include <algorithm>
#include <map>

#include "base/check.h"
#include "base/to_size.h"
#include "kv/lanes.h"
#include "kv/sequences.h"

namespace weft::kv {

std::int64_t Snapshot::n_cells() const {
  std::int64_t n = 0;
  for (const std::uint64_t mask : pages) n += std::popcount(mask);
  return n;
}

bool Snapshot::well_formed() const {
  std::vector<std::uint64_t> used(pages.size(), 0);
  // The cells of one sequence in each page: a cell twice in a sequence would count as two holders.
  std::vector<std::uint64_t> own(pages.size(), 0);
  for (const Text& text : texts) {
    Pos before = 0;
    for (const Extent& e : text.extents) {
      if (e.mask == 0 || e.page < 0 || e.page >= static_cast<std::int32_t>(pages.size())) return false;
      if (e.divisor < 1 || e.divisor > kMaxDivisor || e.offset < 0 || e.offset >= e.divisor) return false;
      if (e.base < -kPageCells || e.base >= kEndOfPositions) return false;
      if (e.first() < before || e.last() >= kEndOfPositions) return false;
      before = e.last();
      std::uint64_t& held = own[to_size(e.page)];
      if ((held & e.mask) != 0) return false;
      held |= e.mask;
      used[to_size(e.page)] |= e.mask;
    }
    for (const Extent& e : text.extents) own[to_size(e.page)] = 0;
  }
  return used == pages && std::find(pages.begin(), pages.end(), 0u) == pages.end();
}

Snapshot Sequences::snapshot(std::span<const SeqId> seqs, std::vector<std::int32_t>& cells, Pos begin,
                             Pos end) const {
  Snapshot result;
  std::vector<std::int32_t> pages;             // The cache's page, by page of the snapshot ...
  std::map<std::int32_t, std::int32_t> known;  // ... and the other way round.
  for (const SeqId seq : seqs) {
    Snapshot::Text& text = result.texts.emplace_back(Snapshot::Text{seq, {}});
    for (Extent e : extents(seq)) {
      for_each_lane(e.mask, [&](int lane) {
        if (e.position(lane) < begin || e.position(lane) >= end) e.mask &= ~bit(lane);
      });
      if (e.mask == 0) continue;
      const auto [entry, is_new] = known.emplace(e.page, static_cast<std::int32_t>(pages.size()));
      if (is_new) {
        pages.push_back(e.page);
        result.pages.push_back(0);
      }
      e.page = entry->second;
      result.pages[to_size(e.page)] |= e.mask;
      text.extents.push_back(e);
    }
  }
  cells.clear();
  for (std::size_t p = 0; p < pages.size(); ++p)
    for_each_lane(result.pages[p], [&](int lane) { cells.push_back(pages[p] * kPageCells + lane); });
  return result;
}

std::int32_t Sequences::find_page(std::uint64_t mask) {
  std::int32_t at = -1;
  if (!free_pages_.empty()) {
    at = free_pages_.back();
    free_pages_.pop_back();
  } else {
    // Lanes that are free in a page of others will do.
    const auto free_there = [&](const Page& p) {
      bool free = true;
      for_each_lane(mask, [&](int lane) { free &= p.holders[lane] == 0; });
      return free;
    };
    const auto found = std::find_if(pages_.begin(), pages_.end(), free_there);
    if (found == pages_.end()) return -1;
    at = static_cast<std::int32_t>(found - pages_.begin());
  }
  hold(at, mask);
  return at;
}

bool Sequences::restore(const Snapshot& snapshot, std::vector<std::int32_t>& cells) {
  if (std::any_of(snapshot.texts.begin(), snapshot.texts.end(),
                  [&](const Snapshot::Text& text) { return text.extents.size() > to_size(tables_.width); }))
    return false;
  for (;;) {
    const Room room = restore_if_room(snapshot, cells);
    if (room == Room::kEnough) return true;
    // Cells without a page: what removals have left half empty may hold them.
    if (room == Room::kNoCells || defragment(kMovesToMakeRoom) == 0) return false;
  }
}

Sequences::Room Sequences::restore_if_room(const Snapshot& snapshot, std::vector<std::int32_t>& cells) {
  using Text = Snapshot::Text;
  cells.reserve(to_size(snapshot.n_cells()));
  std::vector<std::int32_t> at;
  at.reserve(snapshot.pages.size());
  // The cells of the sequences count as free, but their tables stay until everything has a place.
  const std::vector<std::int32_t> free_pages = free_pages_;
  // From here on nothing throws.
  for (const Text& text : snapshot.texts)
    for (const Extent& e : extents(text.seq)) release(e.page, e.mask);
  const bool enough_cells = cells_used_ + snapshot.n_cells() <= n_cells_;
  while (enough_cells && at.size() < snapshot.pages.size()) {
    const std::int32_t p = find_page(snapshot.pages[at.size()]);
    if (p < 0) break;
    at.push_back(p);
  }
  if (at.size() < snapshot.pages.size()) {
    for (std::size_t p = 0; p < at.size(); ++p) release(at[p], snapshot.pages[p]);
    for (const Text& text : snapshot.texts)
      for (const Extent& e : extents(text.seq)) hold(e.page, e.mask);
    free_pages_ = free_pages;
    return enough_cells ? Room::kNoPages : Room::kNoCells;
  }

  for (const Text& text : snapshot.texts) {
    Extent* to = row(text.seq);
    for (Extent e : text.extents) {
      e.page = at[to_size(e.page)];
      hold(e.page, e.mask);
      *to++ = e;
    }
    count(text.seq) = static_cast<std::int32_t>(text.extents.size());
    intact_[to_size(text.seq)] = text.extents.empty();
  }
  cells.clear();
  for (std::size_t p = 0; p < at.size(); ++p) {
    for_each_lane(snapshot.pages[p], [&](int lane) { cells.push_back(at[p] * kPageCells + lane); });
    release(at[p], snapshot.pages[p]);
  }
  return Room::kEnough;
}

}  // namespace weft::kv
