#include "grammar/constraint.h"

#include <algorithm>
#include <map>

#include "base/to_size.h"
#include "grammar/budget.h"

namespace weft::grammar {
namespace {

constexpr std::size_t kMaxForced = 256;                    // Bytes that are looked ahead.
constexpr std::size_t kManyStacks = std::size_t{1} << 16;  // Then unused ones are dropped.

void merge(const Configuration& from, Configuration& to) {
  for (const Item& item : from.items)
    if (std::find(to.items.begin(), to.items.end(), item) == to.items.end()) to.items.push_back(item);
  to.ended = to.ended || from.ended;
}

}  // namespace

bool allows_text(const Program& program, std::string_view text) {
  Stacks stacks;
  Stepper stepper(program.automaton, stacks);
  // Special tokens lead further than the next byte.
  std::map<std::size_t, Configuration> open;
  stepper.start(open[0]);
  Configuration next;
  for (std::size_t i = 0; i < text.size() && !open.empty(); ++i) {
    const auto at = open.find(i);
    if (at == open.end()) continue;
    const Configuration here = std::move(at->second);
    open.erase(at);
    stepper.step(here, static_cast<std::uint8_t>(text[i]), next);
    if (!next.empty()) merge(next, open[i + 1]);
    for (const Item& item : here.items) {
      for (const TokenEdge& edge : program.automaton.tokens_of(item.state)) {
        const std::string_view written = program.table->tokenizer().text(edge.token);
        if (!text.substr(i).starts_with(written)) continue;
        stepper.step(here, edge.token, next);
        merge(next, open[i + written.size()]);
      }
    }
  }
  const auto end = open.find(text.size());
  return end != open.end() && end->second.ended;
}

Constraint::Constraint(std::shared_ptr<const void> owner, const Program& program)
    : owner_(std::move(owner)),
      program_(program),
      stepper_(program.automaton, stacks_),
      walker_(program.automaton, stacks_),
      places_(1) {
  stepper_.start(places_[0].configuration);
}

bool Constraint::advance(const Place& from, Token token, Place& to) {
  const TokenTable& table = *program_.table;
  to.is_over = false;
  if (from.is_over) {
    to.is_over = table.tokenizer().is_end(token);
    to.configuration = {};
    return to.is_over;
  }
  const std::string_view bytes = table.bytes_of(token);
  if (bytes.empty()) {
    stepper_.step(from.configuration, token, to.configuration);
    if (!to.configuration.empty()) return true;
    to.is_over = from.configuration.ended && table.tokenizer().is_end(token);
    return to.is_over;
  }
  const Configuration* at = &from.configuration;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    stepper_.step(*at, static_cast<std::uint8_t>(bytes[i]), to.configuration);
    if (to.configuration.empty()) return false;
    if (i + 1 == bytes.size()) break;
    std::swap(scratch_, to.configuration);
    at = &scratch_;
  }
  return true;
}

/// Places of the draft that were found before are kept, as far as the drafts agree.
bool Constraint::try_behind(std::span<const Token> draft) {
  std::size_t same = 0;
  while (same < draft.size() && same + 1 < n_places_ && draft[same] == draft_[same]) ++same;
  if (same + 1 == n_places_ && same == draft.size()) return true;
  if (places_.size() < draft.size() + 1) places_.resize(draft.size() + 1);
  draft_.resize(std::max(draft_.size(), draft.size()));
  if (same < draft.size()) n_places_ = same + 1;
  for (; same < draft.size(); ++same) {
    if (!advance(places_[same], draft[same], places_[same + 1])) return false;
    draft_[same] = draft[same];
    n_places_ = same + 2;
  }
  return true;
}

const Constraint::Place& Constraint::behind(std::span<const Token> draft) {
  if (!try_behind(draft)) refuse("a draft holds a token that its grammar does not allow");
  return places_[draft.size()];
}

void Constraint::accept(Token token) {
  if (n_places_ > 1 && draft_[0] == token) {
    // The draft was right: its places move up.
    std::rotate(places_.begin(), places_.begin() + 1, places_.end());
    std::rotate(draft_.begin(), draft_.begin() + 1, draft_.end());
    --n_places_;
  } else {
    n_places_ = 1;
    if (places_.size() < 2) places_.resize(2);
    if (!advance(places_[0], token, places_[1]))
      refuse("the token " + std::to_string(token) + " does not match the grammar of the request");
    std::swap(places_[0], places_[1]);
  }
  if (stacks_.size() > kManyStacks && stacks_.size() > 2 * stacks_kept_) drop_unused_stacks();
}

void Constraint::fill(std::span<const Token> draft, std::span<std::uint32_t> allowed) {
  const Place& place = behind(draft);
  if (!place.is_over) {
    program_.short_masks.fill(place.configuration, walker_, stepper_, allowed);
    program_.long_masks.fill(place.configuration, walker_, stepper_, allowed);
  }
  if (place.is_over || place.configuration.ended)
    for (const Token token : program_.table->tokenizer().end_tokens()) {
      const auto i = to_size(token);
      if (i / 32 < allowed.size()) allowed[i / 32] |= 1u << (i % 32);
    }
  if (std::all_of(allowed.begin(), allowed.end(), [](std::uint32_t word) { return word == 0; }))
    refuse("no token of the vocabulary matches the grammar here");
}

bool Constraint::allows(std::span<const Token> draft, Token next) {
  Place to;
  return try_behind(draft) && advance(places_[draft.size()], next, to);
}

Constraint::Only Constraint::only_way(const Configuration& from) const {
  Only only;
  if (from.ended) return {};
  for (const Item& item : from.items) {
    for (const ByteEdge& edge : program_.automaton.bytes_of(item.state)) {
      if (edge.low != edge.high) return {};
      if (only.kind != Only::Kind::kNone && !(only.kind == Only::Kind::kByte && only.byte == edge.low))
        return {};
      only = {Only::Kind::kByte, edge.low, kNoToken};
    }
    for (const TokenEdge& edge : program_.automaton.tokens_of(item.state)) {
      if (only.kind != Only::Kind::kNone && only.token != edge.token) return {};
      only = {Only::Kind::kToken, 0, edge.token};
    }
  }
  return only;
}

void Constraint::forced(std::span<const Token> draft, std::vector<Token>& tokens) {
  if (!try_behind(draft) || places_[draft.size()].is_over) return;
  Configuration here = places_[draft.size()].configuration, next;
  std::string text;
  Only only = only_way(here);
  for (std::size_t n = 0; n < kMaxForced && only.kind != Only::Kind::kNone; ++n) {
    if (only.kind == Only::Kind::kByte) {
      text += static_cast<char>(only.byte);
      stepper_.step(here, only.byte, next);
    } else {
      // Nothing merges with a special token.
      for (const Token token : program_.table->encode(text)) tokens.push_back(token);
      tokens.push_back(only.token);
      text.clear();
      stepper_.step(here, only.token, next);
    }
    std::swap(here, next);
    only = only_way(here);
  }
  append_forced(text, here, tokens);
}

/// Stops before the first token that could be part of a longer token together with allowed bytes after it.
void Constraint::append_forced(std::string_view text, const Configuration& end, std::vector<Token>& tokens) {
  const TokenTrie& trie = program_.table->short_tokens();
  std::size_t begin = 0;
  for (const Token token : program_.table->encode(text)) {
    std::size_t node = 0;
    for (std::size_t i = begin; i < text.size(); ++i) {
      node = trie.child(node, static_cast<std::uint8_t>(text[i]));
      if (node == 0) break;
    }
    if (node != 0) {
      for (std::size_t c = node + 1; c < trie[node].behind; c = trie[c].behind) {
        stepper_.step(end, trie[c].byte, scratch_);
        if (!scratch_.empty()) return;
      }
    }
    tokens.push_back(token);
    begin += program_.table->bytes_of(token).size();
  }
}

void Constraint::drop_unused_stacks() {
  Stacks kept;
  std::vector<StateId> chain;
  for (Item& item : places_[0].configuration.items) {
    chain.clear();
    for (StackId s = item.stack; s != kBottom; s = stacks_.below(s)) chain.push_back(stacks_.return_of(s));
    item.stack = kBottom;
    for (auto at = chain.rbegin(); at != chain.rend(); ++at) item.stack = kept.push(item.stack, *at);
  }
  stacks_ = std::move(kept);
  stacks_kept_ = stacks_.size();
  walker_.forget();
  n_places_ = 1;
}

}  // namespace weft::grammar
