#include "grammar/walker.h"

#include <algorithm>

#include "grammar/budget.h"

namespace weft::grammar {
namespace {

std::uint64_t hash_of(const Configuration& configuration) {
  std::uint64_t hash = configuration.ended ? 1 : 0;
  for (const Item& item : configuration.items) {
    hash = (hash ^ (std::uint64_t{item.state} << 32 | item.stack)) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 29;
  }
  return hash;
}

}  // namespace

Walker::Walker(const Automaton& automaton, Stacks& stacks) : stepper_(automaton, stacks) { forget(); }

void Walker::forget() {
  places_.assign(1, Configuration());
  if (rows_.empty()) rows_.push_back(std::make_unique<Row>());
  rows_[0]->fill(kDead);
  index_.clear();
  n_items_ = 0;
}

Walker::PlaceId Walker::place_of(const Configuration& configuration) {
  if (configuration.empty()) return kDead;
  Configuration sorted = configuration;
  std::sort(sorted.items.begin(), sorted.items.end(), [](const Item& a, const Item& b) {
    return a.state != b.state ? a.state < b.state : a.stack < b.stack;
  });
  const std::uint64_t hash = hash_of(sorted);
  const auto [first, last] = index_.equal_range(hash);
  for (auto at = first; at != last; ++at) {
    const Configuration& other = places_[at->second & ~kEnds];
    if (other.ended == sorted.ended && other.items == sorted.items) return at->second;
  }
  const PlaceId id = static_cast<PlaceId>(places_.size()) | (sorted.ended ? kEnds : 0);
  if (rows_.size() == places_.size()) rows_.push_back(std::make_unique<Row>());
  rows_[places_.size()]->fill(sorted.items.empty() ? kDead : kUnknown);
  n_items_ += sorted.items.size();
  places_.push_back(std::move(sorted));
  index_.emplace(hash, id);
  return id;
}

Walker::PlaceId Walker::find_next(PlaceId place, std::uint8_t byte) {
  const Configuration& from = places_[place & ~kEnds];
  work_ += from.items.size() + 1;
  if (work_ > kMaxWork)
    refuse("the grammar is too ambiguous: finding the tokens that may follow takes too long");
  stepper_.step(from, byte, scratch_);
  const PlaceId next = place_of(scratch_);
  (*row_of(place))[byte] = next;
  return next;
}

void Walker::keep_only(std::span<PlaceId> places) {
  std::vector<Configuration> kept;
  for (const PlaceId place : places) kept.push_back(places_[place & ~kEnds]);
  forget();
  for (std::size_t i = 0; i < places.size(); ++i) {
    places[i] = place_of(kept[i]);
    rows_on_path_[i] = row_of(places[i]);
  }
}

}  // namespace weft::grammar
