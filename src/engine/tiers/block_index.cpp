#include "engine/tiers/block_index.h"

#include <algorithm>
#include <tuple>

namespace weft::engine {
namespace {

/// Blocks of whole sequences that a look-up compares with a prompt.
constexpr int kMaxCompared = 64;

int n_in_common(std::span<const Symbol> a, std::span<const Symbol> b) {
  return static_cast<int>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
}

}  // namespace

bool BlockIndex::Less::less(const View& a, const View& b) {
  const auto order = std::tie(a.parent.high, a.parent.low) <=> std::tie(b.parent.high, b.parent.low);
  if (order != 0) return order < 0;
  return std::ranges::lexicographical_compare(a.symbols, b.symbols);
}

std::optional<BlockIndex::Found> BlockIndex::find(const base::Hash128& parent,
                                                  std::span<const Symbol> text) const {
  std::optional<Found> best;
  const auto look = [&](Blocks::const_iterator at) {
    if (at->first.parent != parent) return;
    const int n = n_in_common(at->first.symbols, text);
    if (n > 0 && (!best || n > best->n_common))
      best = Found{at->second.own, n, static_cast<int>(at->first.symbols.size())};
  };
  const auto after = blocks_.lower_bound(View{parent, text});
  if (after != blocks_.end()) look(after);
  if (after != blocks_.begin()) look(std::prev(after));
  return best;
}

std::optional<BlockIndex::Found> BlockIndex::find_whole(const base::Hash128& parent,
                                                        std::span<const Symbol> text, int max_cut) const {
  std::optional<Found> best;
  int n_compared = 0;
  // Returns the symbols in common; -1: it belongs to another parent.
  const auto look = [&](Blocks::const_iterator at) {
    if (at->first.parent != parent) return -1;
    ++n_compared;
    const int size = static_cast<int>(at->first.symbols.size());
    const int n = n_in_common(at->first.symbols, text);
    if (n > 0 && size - n <= max_cut && (!best || n > best->n_common)) best = Found{at->second.own, n, size};
    return n;
  };
  // Upwards: blocks that continue the whole text in other ways.
  for (auto at = blocks_.lower_bound(View{parent, text});
       at != blocks_.end() && n_compared < kMaxCompared / 2; ++at)
    if (look(at) <= (best ? best->n_common : 0)) break;
  // Downwards: each block that is not a prefix of the prompt limits the length of later ones.
  std::span<const Symbol> rest = text;
  while (!rest.empty() && n_compared < kMaxCompared) {
    const auto after = blocks_.upper_bound(View{parent, rest});
    if (after == blocks_.begin()) break;
    const auto before = std::prev(after);
    const int n = look(before);
    if (n <= (best ? best->n_common : 0)) break;
    rest = rest.first(static_cast<std::size_t>(std::min<std::ptrdiff_t>(n, std::ssize(rest) - 1)));
  }
  return best;
}

BlockEntry* BlockIndex::entry(const base::Hash128& own) {
  const auto found = by_hash_.find(own);
  return found == by_hash_.end() ? nullptr : &found->second->second;
}

BlockEntry& BlockIndex::add(const Block& block, const base::Hash128& own) {
  const auto [at, is_new] = blocks_.try_emplace(block);
  if (is_new) {
    at->second.own = own;
    try {
      by_hash_.emplace(own, at);
    } catch (...) {
      blocks_.erase(at);
      throw;
    }
  }
  return at->second;
}

void BlockIndex::erase(const base::Hash128& own) {
  const auto found = by_hash_.find(own);
  if (found == by_hash_.end()) return;
  blocks_.erase(found->second);
  by_hash_.erase(found);
}

std::vector<base::Hash128> BlockIndex::prefixes(const base::Hash128& parent,
                                                std::span<const Symbol> text) const {
  std::vector<base::Hash128> found;
  for (std::span<const Symbol> rest = text; !rest.empty();) {
    const auto at = blocks_.lower_bound(View{parent, rest});
    if (at == blocks_.begin()) break;
    const auto before = std::prev(at);
    if (before->first.parent != parent) break;
    const auto n = static_cast<std::size_t>(n_in_common(before->first.symbols, rest));
    if (n == before->first.symbols.size()) found.push_back(before->second.own);
    rest = rest.first(n);
  }
  return found;
}

const Block* BlockIndex::block(const base::Hash128& own) const {
  const auto found = by_hash_.find(own);
  return found == by_hash_.end() ? nullptr : &found->second->first;
}

}  // namespace weft::engine
