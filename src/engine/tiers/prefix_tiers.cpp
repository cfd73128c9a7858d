#include "engine/tiers/prefix_tiers.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/to_size.h"
#include "engine/context/context_impl.h"
#include "engine/model_impl.h"
#include "engine/refuse.h"

namespace weft::engine {
namespace {

/// Bytes that a step copies; the last block may exceed it.
constexpr std::int64_t kStepBytes = std::int64_t{64} << 20;
/// Larger states of whole sequences are not stored: they would stall a step.
constexpr double kMaxWholeBytes = 256.0 * (1 << 20);
/// Raised when blocks change their meaning.
constexpr std::uint32_t kBlocksVersion = 1;

CacheTiers checked(const CacheTiers& tiers) {
  if (tiers.ram_bytes < CacheTiers::kAutomatic || tiers.disk_bytes < 0)
    refuse("the limits of the cache tiers must not be negative");
  return tiers;
}

base::Hash128 owner_of(const Context& context) {
  const StateOwner& owner = context.impl().states.owner();
  base::Hasher hash;
  hash.add_value(kBlocksVersion);
  hash.add_value(std::uint32_t{kBlockTokens});
  hash.add_value(owner.model);
  for (const StateOwner::Cache& cache : owner.caches) {
    hash.add_value(cache.name.size());
    hash.add(std::as_bytes(std::span(cache.name)));
    hash.add_value(static_cast<std::uint32_t>(cache.dtype));
    hash.add_value(cache.windowed ? 1 : 0);
    hash.add_value(cache.turning);
  }
  return hash.result();
}

int max_cut_of(const Context& context) {
  if (context.cache().cuts_anywhere()) return -1;
  return context.cache().cuts_back() ? std::max(context.params().window_rewind, 0) : 0;
}

/// Ids of images and audio are valid in this process only, so what is stored ends before them.
std::vector<Symbol> symbols_of(std::span<const Token> tokens) {
  return {tokens.begin(), std::ranges::find_if(tokens, [](Token token) { return token < 0; })};
}

}  // namespace

PrefixTiers::PrefixTiers(Context& context, const CacheTiers& tiers)
    : context_(context),
      cuts_anywhere_(context.cache().cuts_anywhere()),
      max_cut_(max_cut_of(context)),
      store_(checked(tiers), owner_of(context), context.impl().states.max_bytes()) {}

void PrefixTiers::begin_step() { budget_ = kStepBytes; }

base::Hash128 PrefixTiers::root_of(const TextOrigin& origin) const {
  const auto& adapters = context_.model().impl().description.additions.adapters;
  base::Hasher hash;
  for (const AdapterUse& use : origin.adapters) {
    hash.add_value(adapters->hash(use.adapter));
    hash.add_value(use.scale);
  }
  return hash.result();
}

PrefixTiers::Stored PrefixTiers::store(SeqId seq, std::span<const Token> tokens, const TextOrigin& origin) {
  const std::vector<Symbol> symbols = symbols_of(tokens);
  if (std::ssize(symbols) <= kWorthRestoring || !context_.cache().intact(seq)) return Stored::kAll;
  if (!cuts_anywhere_ && symbols.size() < tokens.size()) return Stored::kAll;
  Block block{root_of(origin), {}};
  const std::size_t n_each = cuts_anywhere_ ? to_size(kBlockTokens) : symbols.size();
  for (std::size_t begin = 0; begin < symbols.size(); begin += n_each) {
    const std::size_t n = std::min(n_each, symbols.size() - begin);
    const auto first = symbols.begin() + static_cast<std::ptrdiff_t>(begin);
    block.symbols.assign(first, first + static_cast<std::ptrdiff_t>(n));
    const base::Hash128 own = block_hash(block.parent, block.symbols);
    if (!store_.covers(block.parent, block.symbols, !cuts_anywhere_)) {
      if (budget_ <= 0) return Stored::kLater;
      const double expected = bytes_per_token_ * static_cast<double>(n);
      if (!cuts_anywhere_ && expected > kMaxWholeBytes) return Stored::kAll;
      const auto room = store_.make_room(static_cast<std::uint64_t>(expected));
      if (room != BlockStore::Added::kYes)
        return room == BlockStore::Added::kLater ? Stored::kLater : Stored::kAll;
      try {
        std::vector<std::byte> state =
            cuts_anywhere_ ? context_.impl().save(seq, static_cast<Pos>(begin), static_cast<Pos>(begin + n))
                           : context_.save(seq);
        copied(state.size());
        bytes_per_token_ = static_cast<double>(state.size()) / static_cast<double>(n);
        switch (store_.add(block, own, std::move(state), cuts_anywhere_)) {
          case BlockStore::Added::kYes:
            counts_.n_stored_tokens += static_cast<std::int64_t>(n);
            break;
          case BlockStore::Added::kLater:
            return Stored::kLater;
          case BlockStore::Added::kNever:
            return Stored::kAll;
        }
      } catch (const std::bad_alloc&) {
        return Stored::kAll;  // The tiers are optional.
      }
    }
    block.parent = own;
  }
  return Stored::kAll;
}

bool PrefixTiers::make(RestorePlan& plan, std::span<const Token> text, const TextOrigin& origin) {
  if (plan.is_made) return true;
  if (plan.listing == 0) plan.listing = store_.ask_for_listing();
  if (!store_.listed(plan.listing)) return false;
  plan.text = symbols_of(text);
  plan.pieces = store_.find(root_of(origin), plan.text, max_cut_);
  plan.is_made = true;
  return true;
}

int PrefixTiers::reach(const RestorePlan& plan) {
  return plan.pieces.empty() ? 0 : plan.pieces.back().begin + plan.pieces.back().n_common;
}

BlockStore::Taken PrefixTiers::take(const RestorePlan& plan, const StoredPiece& piece) {
  BlockStore::Taken taken = store_.take(piece.own);
  if (taken.where != BlockStore::Taken::State::kReady) return taken;
  const auto text = std::span(plan.text).subspan(to_size(piece.begin), to_size(piece.n_common));
  if (taken.symbols.size() < text.size() || !std::equal(text.begin(), text.end(), taken.symbols.begin()))
    return {};
  return taken;
}

void PrefixTiers::count_restored(const BlockStore::Taken& taken, int n_tokens) {
  copied(taken.state->size());
  (taken.from_disk ? counts_.n_disk_tokens : counts_.n_ram_tokens) += n_tokens;
}

CacheTierStats PrefixTiers::stats() const {
  CacheTierStats stats = store_.stats();
  stats.n_stored_tokens = counts_.n_stored_tokens;
  stats.n_ram_tokens = counts_.n_ram_tokens;
  stats.n_disk_tokens = counts_.n_disk_tokens;
  return stats;
}

}  // namespace weft::engine
