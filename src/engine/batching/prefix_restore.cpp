// The tiers below the cache: which sequences are stored, and how stored blocks become cached sequences.
#include <algorithm>
#include <utility>

#include "base/to_size.h"
#include "engine/batching/prefix_cache.h"

namespace weft::engine {
namespace {

/// The cells of a restored block, in whole pages.
std::int64_t n_cells(const BlockStore::Taken& taken) {
  return (std::ssize(taken.symbols) + kPageCells - 1) / kPageCells * kPageCells;
}

}  // namespace

bool PrefixCache::restores_more(Stream& stream, Match& match, std::span<const StreamPtr> running,
                                std::optional<int>& n_cached) {
  if (tiers_ == nullptr || !shares(stream) || !stream.reuses_prefix()) return false;
  CacheState& cached = stream.cached;
  if (cached.restored()) return false;
  RestorePlan& plan = cached.plan();
  const std::span<const Token> text = stream.all_but_last();
  const auto is_worth = [&](std::ptrdiff_t n) { return n > match.n + kWorthRestoring; };
  if (is_worth(std::ssize(text)) && !tiers_->make(plan, text, stream.origin(), match.n)) return true;
  while (is_worth(PrefixTiers::reach(plan))) {
    if (!tiers_->may_copy()) return true;
    const auto piece = std::ranges::find_if(
        plan.pieces, [&](const StoredPiece& one) { return one.begin + one.n_common > match.n; });
    if (piece->begin > match.n) break;
    const BlockStore::Taken taken = tiers_->take(plan, *piece);
    if (taken.where == BlockStore::Taken::State::kComing) return true;
    if (taken.where == BlockStore::Taken::State::kGone) {
      plan.pieces.erase(piece, plan.pieces.end());
      continue;
    }
    const bool restored = make_room(n_cells(taken), match, running, n_cached) &&
                          restore_piece(*piece, taken, text, stream.origin(), match);
    n_cached.reset();
    match = look_up(stream);  // Eviction may have shortened it.
    if (!restored) break;
  }
  cached.set_restored();
  return false;
}

bool PrefixCache::restore_piece(const StoredPiece& piece, const BlockStore::Taken& taken,
                                std::span<const Token> text, const TextOrigin& origin, const Match& match) {
  if (free_.empty() && !evict(match.holder)) return false;
  broken_ = true;
  const SeqId block = take_free();
  bool fits = false;
  try {
    fits = context_.restore(*taken.state, block);
  } catch (const Error& error) {
    give_back(block);
    broken_ = false;
    if (error.code() == ErrorCode::kDevice) throw;
    tiers_->drop(piece, error.what(), error.code() == ErrorCode::kInvalidFile);
    return false;
  }
  const int end = piece.begin + piece.n_common;
  SeqId to = block;  // Becomes the cached prefix.
  if (piece.begin > 0) {
    // The blocks before this one are in a sequence of their own already, or in part of another one.
    const bool is_own = is_idle(match.holder) && index_.size(match.holder) == piece.begin;
    if (fits) to = is_own ? match.holder : copy_prefix({match.holder, piece.begin});
    fits = fits && to >= 0 && context_.cache().copy(block, to, piece.begin, end);
    give_back(block);
    if (!fits && !is_own && to >= 0 && to != block) give_back(to);
  } else {
    if (context_.cache().next_pos(block) > end && context_.cache().can_cut(block, end))
      context_.cache().remove(block, end);
    fits = fits && context_.cache().next_pos(block) == end;
    if (!fits) give_back(block);
  }
  if (fits) {
    is_snapshot(to) = false;
    n_stored_[to_size(to)] = 0;
    const int n_before = index_.size(to);
    index_.append(to, text.subspan(to_size(n_before), to_size(end - n_before)), origin);
    std::erase(idle_, to);
    idle_.push_back(to);
    tiers_->count_restored(taken, piece.n_common);
  }
  broken_ = false;
  return fits;
}

void PrefixCache::store(SeqId seq) noexcept {
  if (tiers_ == nullptr || is_stored(seq)) return;
  int& n_stored = n_stored_[to_size(seq)];
  const int n = index_.size(seq);
  try {
    n_stored = tiers_->store(seq, index_.text(seq, n), index_.origin(seq), n_stored);
  } catch (...) {  // The tiers are optional. A lost device shows in the next step.
    n_stored = n;
  }
}

void PrefixCache::store_last(SeqId seq) noexcept {
  n_stored_[to_size(seq)] = 0;
  store(seq);
}

bool PrefixCache::wants_store() const {
  if (tiers_ == nullptr) return false;
  const bool is_short_of_room = context_.cache().cells_used() * 2 > context_.cache().cells_total();
  return (tiers_->has_files() || is_short_of_room) &&
         std::ranges::any_of(idle_, [&](SeqId seq) { return !is_stored(seq); });
}

void PrefixCache::store_idle() {
  for (const SeqId seq : idle_) {
    store(seq);
    if (!is_stored(seq)) return;
  }
}

void PrefixCache::store_all() {
  for (const SeqId seq : idle_) n_stored_[to_size(seq)] = 0;  // What could not be written may fit now.
  while (wants_store()) {
    tiers_->begin_step();
    store_idle();
    if (wants_store()) tiers_->wait();
  }
}

}  // namespace weft::engine
