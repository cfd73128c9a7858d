#include "engine/sources.h"

#include <algorithm>
#include <string>

#include "base/to_size.h"
#include "engine/memories.h"
#include "engine/refuse.h"

namespace weft::engine {

void check_source_size(std::size_t n_tokens, int n_source) {
  if (n_tokens > to_size(n_source))
    refuse("the encoder input has " + std::to_string(n_tokens) + " tokens, but the limit is " +
           std::to_string(n_source) +
           "; use a larger n_source (--source-size of the program), or shorten the input");
}

Sources::Sources(const model::ModelGraph& graph, const Bindings& bindings, int n_sequences, int n_source)
    : n_source_(n_source),
      n_pages_((n_source + kPageCells - 1) / kPageCells),
      slot_of_(to_size(n_sequences), kNone),
      n_holders_(to_size(n_sequences), 0),
      size_of_(to_size(n_sequences), 0),
      tokens_(host_values<std::int32_t>(bindings, graph.source.tokens)),
      positions_(host_values<std::int32_t>(bindings, graph.source.positions)),
      cells_(host_values<std::int32_t>(bindings, graph.source.cells)),
      extent_counts_(host_values<std::int32_t>(bindings, graph.source.extent_counts)),
      extents_(host_values<Extent>(bindings, graph.source.extents)) {
  std::ranges::fill(host_values<std::int32_t>(bindings, graph.source.hidden_first), -1);
  std::ranges::fill(host_values<HiddenCells>(bindings, graph.source.hidden), HiddenCells{});
  std::ranges::fill(extent_counts_, 0);
}

int Sources::size(SeqId seq) const { return slot_of(seq) == kNone ? 0 : size_of_[to_size(slot_of(seq))]; }

void Sources::hold(SeqId seq, int slot) {
  int& held = slot_of_[to_size(seq)];
  if (held == slot) return;
  if (held != kNone) --n_holders_[to_size(held)];
  held = slot;
  if (slot != kNone) ++n_holders_[to_size(slot)];
  if (extent_counts_.empty()) return;
  const std::int32_t n_used = (size(seq) + kPageCells - 1) / kPageCells;
  extent_counts_[to_size(seq)] = n_used;
  for (std::int32_t i = 0; i < n_used; ++i)
    extents_[to_size(seq * n_pages_ + i)] = {
        .mask = ~std::uint64_t{0}, .page = slot * n_pages_ + i, .base = i * kPageCells};
}

void Sources::remove(SeqId seq) { hold(seq, kNone); }

void Sources::copy(SeqId from, SeqId to) { hold(to, slot_of(from)); }

void Sources::reserve(SeqId seq, int n_tokens) {
  remove(seq);
  const auto free = std::ranges::find(n_holders_, 0);
  const auto slot = static_cast<int>(free - n_holders_.begin());
  n_touched_ = std::max(n_touched_, slot + 1);
  size_of_[to_size(slot)] = n_tokens;
  hold(seq, slot);
}

void Sources::set(SeqId seq, std::span<const Token> tokens) {
  reserve(seq, static_cast<int>(tokens.size()));
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    tokens_[i] = tokens[i];
    positions_[i] = static_cast<std::int32_t>(i);
    cells_[i] = cell(slot_of(seq), static_cast<int>(i));
  }
}

std::int64_t Sources::cells_touched() const { return std::int64_t{n_touched_} * n_pages_ * kPageCells; }

bool Sources::consistent() const {
  std::vector<int> counts(n_holders_.size(), 0);
  for (const int slot : slot_of_)
    if (slot != kNone) ++counts[to_size(slot)];
  return counts == n_holders_;
}

}  // namespace weft::engine
