#include "engine/tiers/prefix_tiers.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/to_size.h"
#include "engine/context/context_impl.h"
#include "engine/model_impl.h"
#include "engine/refuse.h"
#include "engine/states/format.h"
#include "weft/version.h"

namespace weft::engine {
namespace {

/// Bytes that a step copies; the last block may exceed it.
constexpr std::int64_t kStepBytes = std::int64_t{64} << 20;
/// Larger states of whole sequences are not stored: they would stall a step.
constexpr std::int64_t kMaxWholeBytes = std::int64_t{256} << 20;
/// The result of BlockStore::ask_for_listing for the first listing.
constexpr std::uint64_t kFirstListing = 1;
/// Raised when blocks change their meaning.
constexpr std::uint32_t kBlocksVersion = 2;

CacheTiers checked(const CacheTiers& tiers) {
  if (tiers.ram_bytes < CacheTiers::kAutomatic || tiers.disk_bytes < 0)
    refuse("the limits of the cache tiers must not be negative");
  return tiers;
}

void add_text(base::Hasher& hash, std::string_view text) {
  hash.add_value(text.size());
  hash.add(std::as_bytes(std::span(text)));
}

/// A hash of all that the bits of states depend on: weft's version, the model's file, the caches, the devices
/// and their instruction sets.
base::Hash128 owner_of(const Context& context) {
  const ModelImpl& model = context.model().impl();
  const StateOwner& owner = context.impl().states.owner();
  base::Hasher hash;
  add_text(hash, WEFT_VERSION);
  hash.add_value(kBlocksVersion);
  hash.add_value(kStateVersion);
  hash.add_value(std::uint32_t{kBlockTokens});
  hash.add_value(owner.model);
  // The fingerprint has samples of the weights. Copies of a file have other identities, but equal bytes.
  hash.add_value(model.file.identity());
  for (const auto& device : model.devices.devices) {
    const DeviceInfo info = device->info();
    add_text(hash, info.backend);
    if (info.n_threads == 0) add_text(hash, info.description);
    for (const std::string& feature : info.features) add_text(hash, feature);
  }
  add_text(hash, model.isa);
  for (const StateOwner::Cache& cache : owner.caches) {
    add_text(hash, cache.name);
    hash.add_value(static_cast<std::uint32_t>(cache.dtype));
    hash.add_value(cache.windowed ? 1 : 0);
    hash.add_value(cache.turning);
  }
  return hash.result();
}

int max_cut_of(const Context& context) {
  if (context.cache().cuts_anywhere()) return -1;
  return context.model().info().recurrent ? 0 : std::max(context.params().window_rewind, 0);
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

int PrefixTiers::store(SeqId seq, std::span<const Token> tokens, const TextOrigin& origin, int n_done) {
  const auto all = static_cast<int>(tokens.size());
  const std::vector<Symbol> symbols = symbols_of(tokens);
  if (std::ssize(symbols) <= kWorthRestoring || !context_.cache().intact(seq)) return all;
  if (!cuts_anywhere_ && symbols.size() < tokens.size()) return all;
  const States& states = context_.impl().states;
  const auto size = static_cast<int>(symbols.size());
  const int n_each = cuts_anywhere_ ? kBlockTokens : size;
  Block block{root_of(origin), {}};
  store_.begin_visit();
  for (int begin = 0; begin < size; begin += n_each) {
    const int end = std::min(begin + n_each, size), depth = begin / n_each;
    block.symbols.assign(symbols.begin() + begin, symbols.begin() + end);
    const base::Hash128 own = block_hash(block.parent, block.symbols);
    if (!store_.covers(block.parent, block.symbols, !cuts_anywhere_, depth) && end > n_done) {
      if (budget_ <= 0) return begin;
      const std::int64_t expected = states.sequence_bytes(end - begin);
      if (!cuts_anywhere_ && expected > kMaxWholeBytes) return all;
      BlockStore::Added added = store_.make_room(static_cast<std::uint64_t>(expected));
      if (added == BlockStore::Added::kYes) {
        std::vector<std::byte> state =
            cuts_anywhere_ ? context_.impl().save(seq, begin, end) : context_.impl().save(seq);
        budget_ -= std::ssize(state);
        added = store_.add(block, own, std::move(state), !cuts_anywhere_, depth);
      }
      if (added != BlockStore::Added::kYes) return added == BlockStore::Added::kLater ? begin : all;
      counts_.n_stored_tokens += end - begin;
    }
    block.parent = own;
  }
  return all;
}

bool PrefixTiers::make(RestorePlan& plan, std::span<const Token> text, const TextOrigin& origin,
                       int n_cached) {
  if (plan.is_made) return true;
  if (plan.listing == 0) plan.listing = store_.ask_for_listing();
  const bool is_long = std::ssize(text) - n_cached >= kBlockTokens;
  if (!store_.listed(is_long ? plan.listing : kFirstListing)) return false;
  plan.text = symbols_of(text);
  plan.pieces = store_.find(root_of(origin), plan.text, max_cut_);
  plan.is_made = true;
  store_.begin_visit();
  return true;
}

int PrefixTiers::reach(const RestorePlan& plan) {
  return plan.pieces.empty() ? 0 : plan.pieces.back().begin + plan.pieces.back().n_common;
}

BlockStore::Taken PrefixTiers::take(const RestorePlan& plan, const StoredPiece& piece) {
  BlockStore::Taken taken = store_.take(piece);
  if (taken.where != BlockStore::Taken::State::kReady) return taken;
  const auto text = std::span(plan.text).subspan(to_size(piece.begin), to_size(piece.n_common));
  if (taken.symbols.size() < text.size() || !std::equal(text.begin(), text.end(), taken.symbols.begin()))
    return {};
  return taken;
}

void PrefixTiers::count_restored(const BlockStore::Taken& taken, int n_tokens) {
  budget_ -= std::ssize(*taken.state);
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
