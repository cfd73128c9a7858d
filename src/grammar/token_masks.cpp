#include "grammar/token_masks.h"

#include <algorithm>
#include <bit>
#include <string>

#include "base/to_size.h"

namespace weft::grammar {
namespace {

constexpr std::size_t kMaxBehind = 65536;  // Ends of tokens that a mask keeps.
constexpr int kWideState = 48;             // Bytes that a state allows which takes long.

void set_bit(std::span<std::uint32_t> bits, Token token) {
  bits[to_size(token) / 32] |= 1u << (static_cast<std::uint32_t>(token) % 32);
}

void set_all(std::span<std::uint32_t> bits, std::span<const Token> tokens) {
  for (const Token token : tokens) set_bit(bits, token);
}

/// Gathers ends of tokens and makes a tree of them.
class Ends {
 public:
  bool is_full() const { return entries_.size() >= kMaxBehind; }
  void add(std::string_view end, Token token) {
    entries_.push_back({bytes_.size(), end.size(), token});
    bytes_ += end;
  }
  TokenTrie tree() const {
    std::vector<TokenTrie::Entry> entries;
    entries.reserve(entries_.size());
    for (const Entry& entry : entries_)
      entries.push_back({std::string_view(bytes_).substr(entry.begin, entry.size), entry.token});
    return TokenTrie(std::move(entries));
  }

 private:
  struct Entry {
    std::size_t begin, size;
    Token token;
  };
  std::string bytes_;
  std::vector<Entry> entries_;
};

}  // namespace

TokenMasks::TokenMasks(const Automaton& automaton, const TokenTrie& trie, int n_vocab, std::size_t kept_bytes)
    : automaton_(automaton),
      trie_(trie),
      n_vocab_(n_vocab),
      kept_bytes_(kept_bytes),
      classes_(find_mask_classes(automaton, trie.max_depth())),
      masks_(classes_.empty() ? 0 : *std::max_element(classes_.begin(), classes_.end()) + std::size_t{1}) {}

TokenMask TokenMasks::make(StateId state) const {
  TokenMask mask;
  mask.bits.assign((to_size(n_vocab_) + 31) / 32, 0);
  Stacks stacks;
  Walker walker(automaton_, stacks);
  Configuration start;
  start.items.push_back({state, kBottom});

  Ends ends;
  std::size_t n_tokens = 0;
  std::vector<std::size_t> exits;  // Depths at which the rule may have ended, on the way to this node.
  std::string path(trie_.max_depth(), '\0');
  const auto reached = [&](std::size_t n, Walker::PlaceId place) {
    const TokenTrie::Node& node = trie_[n];
    while (!exits.empty() && exits.back() >= node.depth) exits.pop_back();
    path[node.depth - 1u] = static_cast<char>(node.byte);
    if (Walker::ends(place)) exits.push_back(node.depth);
    const auto tokens = trie_.tokens_at(n);
    set_all(mask.bits, tokens);
    n_tokens += tokens.size();
  };
  const auto dead = [&](std::size_t first) {
    while (!exits.empty() && exits.back() >= trie_[first].depth) exits.pop_back();
    if (exits.empty() || ends.is_full()) return;
    for (std::size_t n = first; n < trie_[first].behind; ++n) {
      path[trie_[n].depth - 1u] = static_cast<char>(trie_[n].byte);
      for (const Token token : trie_.tokens_at(n))
        for (const std::size_t depth : exits)
          ends.add(std::string_view(path).substr(depth, trie_[n].depth - depth), token);
    }
  };
  walker.walk(trie_, start, reached, dead);
  mask.is_partial = ends.is_full();
  if (!mask.is_partial) mask.behind = ends.tree();
  if (n_tokens < mask.bits.size() / 2) {
    mask.tokens.reserve(n_tokens);
    for (std::size_t word = 0; word < mask.bits.size(); ++word)
      for (std::uint32_t rest = mask.bits[word]; rest != 0; rest &= rest - 1)
        mask.tokens.push_back(static_cast<Token>(word * 32 + to_size(std::countr_zero(rest))));
    mask.bits = std::vector<std::uint32_t>();  // An assignment of {} would keep the memory.
  }
  return mask;
}

std::shared_ptr<const TokenMask> TokenMasks::of(StateId state) const {
  const std::uint32_t mask_class = classes_[state];
  {
    const std::lock_guard lock(mutex_);
    if (masks_[mask_class]) return masks_[mask_class];
  }
  auto mask = std::make_shared<const TokenMask>(make(state));
  const std::lock_guard lock(mutex_);
  if (masks_[mask_class]) return masks_[mask_class];
  bytes_ += mask->size();
  if (bytes_ > kept_bytes_) {
    for (auto& other : masks_) other = nullptr;
    bytes_ = mask->size();
  }
  masks_[mask_class] = mask;
  return mask;
}

void TokenMasks::fill(const Configuration& from, Walker& walker, Stepper& stepper,
                      std::span<std::uint32_t> allowed) const {
  Configuration start;
  for (const Item& item : from.items) {
    for (const TokenEdge& edge : automaton_.tokens_of(item.state)) set_bit(allowed, edge.token);
    if (automaton_.bytes_of(item.state).empty()) continue;
    const std::shared_ptr<const TokenMask> mask = of(item.state);
    for (std::size_t i = 0; i < std::min(allowed.size(), mask->bits.size()); ++i) allowed[i] |= mask->bits[i];
    set_all(allowed, mask->tokens);
    const auto none = [](std::size_t) {};
    if (mask->is_partial) {
      start.items.assign(1, item);
      start.ended = false;
      walker.walk(
          trie_, start, [&](std::size_t n, Walker::PlaceId) { set_all(allowed, trie_.tokens_at(n)); }, none);
    } else if (item.stack != kBottom && mask->behind.n_tokens() > 0) {
      stepper.leave(item.stack, start);
      walker.walk(
          mask->behind, start,
          [&](std::size_t n, Walker::PlaceId) { set_all(allowed, mask->behind.tokens_at(n)); }, none);
    }
  }
}

void TokenMasks::prepare(int most) const {
  int n_made = 0;
  for (StateId s = 0; s < automaton_.n_states() && n_made < most; ++s) {
    int n_bytes = 0;
    for (const ByteEdge& edge : automaton_.bytes_of(s)) n_bytes += edge.high - edge.low + 1;
    if (n_bytes < kWideState || masks_[classes_[s]]) continue;
    (void)of(s);
    ++n_made;
  }
}

std::size_t TokenMasks::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_ + classes_.size() * sizeof(classes_[0]) + masks_.size() * sizeof(masks_[0]);
}

}  // namespace weft::grammar
