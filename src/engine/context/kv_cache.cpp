#include "engine/context/kv_cache.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/to_size.h"
#include "engine/boundary.h"
#include "engine/graph_sizes.h"
#include "engine/model_impl.h"
#include "engine/refuse.h"
#include "engine/states/states.h"

namespace weft {
namespace {

using engine::Memories;
using engine::refuse;
using engine::throwing_errors;

/// The end of a range that may be given as "to the end".
Pos end_of(Pos end) { return end < 0 ? kv::kEndOfPositions : end; }

/// Throws Error kUnsupported if one of the memories cannot follow: `why_not(memory)` gives the reason.
template <typename F>
void check_memories(const Memories& memories, SeqId seq, const char* what, F why_not) {
  for (const auto& memory : memories)
    if (const kv::Refusal why = why_not(*memory))
      throw Error(ErrorCode::kUnsupported,
                  "sequence " + std::to_string(seq) + " cannot be " + what + ": " + why);
}

std::string range(Pos begin, Pos end, SeqId seq) {
  return "positions " + std::to_string(begin) + " to " + std::to_string(end) + " of sequence " +
         std::to_string(seq);
}

}  // namespace

KvCache::Impl::Impl(const Model& model, const model::ModelGraph& graph, const Bindings& bindings,
                    const ContextParams& params)
    : model_(model),
      learned_positions_(model.impl().description.hparams.embedding.learned_positions),
      max_pos_(learned_positions_ ? model.info().n_ctx_train : kv::kEndOfPositions),
      sequences_(params.n_ctx, params.n_sequences,
                 {engine::host_values<Extent>(bindings, graph.full.extents),
                  engine::host_values<std::int32_t>(bindings, graph.full.extent_counts),
                  engine::extents_of(kv::Sequences::n_pages_for(params.n_ctx, params.n_sequences))}),
      memories_(graph, bindings, sequences_, engine::extents_of(sequences_.n_pages()), params),
      adapters_(model, params.adapters, params.n_sequences),
      sources_(graph, bindings, params.n_sequences, params.n_source),
      on_axes_(to_size(params.n_sequences), false) {}

void KvCache::Impl::check_sequence(SeqId seq) const {
  if (seq < 0 || seq >= sequences_.n_sequences())
    refuse("sequence " + std::to_string(seq) + " is outside 0 to " +
           std::to_string(sequences_.n_sequences() - 1));
}

void KvCache::Impl::check_intact(SeqId seq) const {
  if (!sequences_.intact(seq))
    refuse("sequence " + std::to_string(seq) +
           " is damaged, because a device or an allocation failed while its cells were moved; remove it, and "
           "decode its tokens again");
}

bool KvCache::Impl::intact() const {
  for (SeqId seq = 0; seq < sequences_.n_sequences(); ++seq)
    if (!sequences_.intact(seq)) return false;
  return true;
}

void KvCache::Impl::emptied(SeqId seq) {
  adapters_.reset(seq);
  on_axes(seq) = false;
  sources_.remove(seq);
}

void KvCache::Impl::remove(SeqId seq, Pos begin, Pos end) {
  check_sequence(seq);
  begin = std::max(begin, 0), end = end_of(end);
  check_memories(memories_, seq, "cut off there",
                 [&](const auto& memory) { return memory.why_not_remove(seq, begin, end); });
  sequences_.remove(seq, begin, end);
  for (const auto& memory : memories_) memory->removed(seq, begin);
  if (sequences_.next_pos(seq) == 0) emptied(seq);
}

void KvCache::Impl::check_same_origin(SeqId from, SeqId to) const {
  const auto check = [&](bool same, const char* what) {
    if (!same)
      refuse("sequence " + std::to_string(to) + " was computed with " + what + " than sequence " +
             std::to_string(from) + ", so it cannot take a part of that; remove it first");
  };
  check(adapters_.same(from, to), "other adapters");
  check(sources_.same(from, to), "another encoder input");
}

bool KvCache::Impl::copy(SeqId from, SeqId to, Pos begin, Pos end) {
  check_sequence(from);
  check_sequence(to);
  check_intact(from);
  check_intact(to);
  begin = std::max(begin, 0), end = end_of(end);
  check_memories(memories_, from, "copied like this",
                 [&](const auto& memory) { return memory.why_not_copy(from, to, begin, end); });
  const bool was_empty = sequences_.min_pos(to) < 0;
  const bool replaces = was_empty || (begin <= sequences_.min_pos(to) && end >= sequences_.next_pos(to));
  const bool has_tokens = sequences_.min_pos(from) >= 0;
  if (has_tokens && !replaces) check_same_origin(from, to);
  if (!sequences_.copy(from, to, begin, end)) return false;
  const bool is_empty = sequences_.min_pos(to) < 0;
  const bool becomes_empty = is_empty && !was_empty;
  if (becomes_empty) adapters_.reset(to);
  // The rows of an encoder input were computed with the adapters.
  if ((has_tokens && !becomes_empty) || (is_empty && sources_.size(from) > 0))
    adapters_.set(to, adapters_.of(from));
  if (has_tokens || is_empty) sources_.copy(from, to);
  on_axes(to) = !is_empty && (on_axes(from) || (!replaces && on_axes(to)));
  for (const auto& memory : memories_) memory->copied(from, to, begin, end);
  return true;
}

void KvCache::Impl::keep(SeqId seq) {
  check_sequence(seq);
  sequences_.keep(seq);
  for (SeqId other = 0; other < sequences_.n_sequences(); ++other) {
    if (other == seq) continue;
    for (const auto& memory : memories_) memory->removed(other, 0);
    emptied(other);
  }
}

bool KvCache::Impl::shift(SeqId seq, Pos begin, Pos end, Pos delta) {
  check_sequence(seq);
  check_intact(seq);
  if (learned_positions_)
    throw Error(ErrorCode::kUnsupported,
                "this model has learned positions, so its sequences cannot be shifted");
  const Pos first = std::max(begin, 0), last = end_of(end);
  if (can_shift() && !sequences_.can_shift(seq, first, last, delta))
    refuse(range(begin, end, seq) + " shifted by " + std::to_string(delta) +
           " would collide with others or leave the range of positions");
  check_memories(memories_, seq, "shifted like this",
                 [&](const auto& memory) { return memory.why_not_shift(seq, first, last, delta); });
  const bool shifted = throwing_errors([&] { return sequences_.shift(seq, first, last, delta); });
  follow_moves();
  return shifted;
}

std::string_view KvCache::Impl::why_not_forget() const {
  if (!learned_positions_) return {};
  return "this model has learned positions, so later tokens cannot move up";
}

bool KvCache::Impl::forget(SeqId seq, Pos begin, Pos n, const std::function<bool()>& make_room) {
  check_sequence(seq);
  check_intact(seq);
  if (const std::string_view why = why_not_forget(); !why.empty())
    throw Error(ErrorCode::kUnsupported, std::string(why));
  if (begin < 0 || n < 1 || n >= sequences_.next_pos(seq) - begin)
    refuse("sequence " + std::to_string(seq) + " cannot forget " + std::to_string(n) +
           " positions from position " + std::to_string(begin) + ": it has " +
           std::to_string(sequences_.next_pos(seq)) + ", and the last one must remain");
  // A running state covers the whole sequence and has no part to forget.
  const auto can_follow = [&](auto why_not) {
    return std::ranges::all_of(memories_, [&](const auto& memory) {
      return memory.get() == memories_.of_running_states() || why_not(*memory) == nullptr;
    });
  };
  const Pos end = begin + n;
  if (!can_follow([&](const auto& memory) { return memory.why_not_remove(seq, begin, end); })) return false;
  sequences_.remove(seq, begin, end);
  for (const auto& memory : memories_) memory->removed(seq, begin);
  if (!can_follow([&](const auto& memory) { return memory.why_not_shift(seq, end, end_of(-1), -n); }))
    return false;
  while (!throwing_errors([&] { return sequences_.shift(seq, end, end_of(-1), -n); }))
    if (!make_room || !make_room()) return false;
  follow_moves();
  return true;
}

bool KvCache::Impl::divide(SeqId seq, Pos begin, Pos end, int divisor) {
  check_sequence(seq);
  check_intact(seq);
  if (learned_positions_)
    throw Error(ErrorCode::kUnsupported, "this model has learned positions, which cannot be divided");
  // Dividing positions would change lines and columns by other steps than time, and the caches know only a
  // cell's position in the sequence. Rows of an image would keep their distances while the tokens around them
  // came closer.
  if (on_axes(seq))
    throw Error(ErrorCode::kUnsupported,
                "sequence " + std::to_string(seq) +
                    " holds an image, or was restored and may hold one; 2D positions cannot be divided. "
                    "Shift the sequence, or divide one without images");
  const Pos first = std::max(begin, 0), last = end_of(end);
  if (divisor < 1 || (can_shift() && !sequences_.can_divide(seq, first, last, divisor)))
    refuse(range(begin, end, seq) + " cannot be divided by " + std::to_string(divisor) +
           ": they would pass earlier positions");
  check_memories(memories_, seq, "divided like this",
                 [&](const auto& memory) { return memory.why_not_divide(seq, first, last, divisor); });
  const bool divided = throwing_errors([&] { return sequences_.divide(seq, first, last, divisor); });
  follow_moves();
  return divided;
}

void KvCache::Impl::defragment(int max_cells) {
  throwing_errors([&] { sequences_.defragment(max_cells); });
  follow_moves();
}

void KvCache::Impl::set_adapters(SeqId seq, std::span<const AdapterUse> adapters) {
  check_sequence(seq);
  if (sequences_.min_pos(seq) >= 0)
    refuse("sequence " + std::to_string(seq) +
           " may hold tokens that were computed with other adapters; remove it first");
  std::vector<AdapterUse> uses = engine::checked_adapters(model_, adapters);
  if (sources_.size(seq) > 0 && uses != adapters_.of(seq))
    refuse("sequence " + std::to_string(seq) +
           " has an encoder input that was computed with other adapters; remove it, and set adapters before "
           "the encoder input");
  adapters_.set(seq, std::move(uses));
}

bool KvCache::Impl::can_cut(SeqId seq, Pos pos) const {
  check_sequence(seq);
  return std::none_of(memories_.begin(), memories_.end(), [&](const auto& memory) {
    return memory->why_not_remove(seq, std::max(pos, 0), kv::kEndOfPositions) != nullptr;
  });
}

bool KvCache::Impl::cuts_back() const {
  return std::all_of(memories_.begin(), memories_.end(),
                     [](const auto& memory) { return memory->cuts_back(); });
}

bool KvCache::Impl::can_shift() const {
  return !learned_positions_ &&
         std::all_of(memories_.begin(), memories_.end(), [](const auto& memory) { return memory->shifts(); });
}

void KvCache::Impl::follow_moves() {
  for (const auto& memory : memories_) memory->follow(sequences_.moves());
}

bool KvCache::Impl::consistent() const {
  return sequences_.consistent() && sources_.consistent() &&
         std::all_of(memories_.begin(), memories_.end(),
                     [](const auto& memory) { return memory->consistent(); });
}

// --- The public class

void KvCache::remove(SeqId seq, Pos begin, Pos end) { impl_.remove(seq, begin, end); }
bool KvCache::copy(SeqId from, SeqId to, Pos begin, Pos end) { return impl_.copy(from, to, begin, end); }
void KvCache::keep(SeqId seq) { impl_.keep(seq); }
bool KvCache::shift(SeqId seq, Pos begin, Pos end, Pos delta) { return impl_.shift(seq, begin, end, delta); }
bool KvCache::divide(SeqId seq, Pos begin, Pos end, int divisor) {
  return impl_.divide(seq, begin, end, divisor);
}
bool KvCache::forget(SeqId seq, Pos begin, Pos n, const std::function<bool()>& make_room) {
  return impl_.forget(seq, begin, n, make_room);
}
void KvCache::clear() {
  for (SeqId seq = 0; seq < impl_.sequences().n_sequences(); ++seq) remove(seq);
}
void KvCache::defragment(int max_cells) { impl_.defragment(max_cells); }

bool KvCache::can_cut(SeqId seq, Pos pos) const { return impl_.can_cut(seq, pos); }
bool KvCache::cuts_anywhere() const { return impl_.cuts_anywhere(); }
bool KvCache::cuts_back() const { return impl_.cuts_back(); }
bool KvCache::can_shift() const { return impl_.can_shift(); }
std::string_view KvCache::why_not_forget() const { return impl_.why_not_forget(); }
Pos KvCache::max_positions() const { return impl_.max_pos(); }

Pos KvCache::next_pos(SeqId seq) const {
  impl_.check_sequence(seq);
  return impl_.sequences().next_pos(seq);
}
Pos KvCache::min_pos(SeqId seq) const {
  impl_.check_sequence(seq);
  return impl_.sequences().min_pos(seq);
}
bool KvCache::intact(SeqId seq) const {
  impl_.check_sequence(seq);
  return impl_.sequences().intact(seq);
}
bool KvCache::intact() const { return impl_.intact(); }

int KvCache::cells_used() const { return impl_.sequences().cells_used(); }
int KvCache::cells_total() const { return impl_.sequences().cells_total(); }
std::string KvCache::why_full(int n_wanted) const {
  const auto count = [](int n, const char* what) { return std::to_string(n) + " " + what; };
  std::string text =
      "the cache is full: " + count(cells_used(), "of ") + count(cells_total(), "cells are in use");
  if (n_wanted > 0) text += ", and the batch has " + count(n_wanted, "tokens");
  if (n_wanted > 0 && n_wanted <= cells_total() - cells_used())
    text += "; pages of " + std::to_string(kCellsOfPage) +
            " cells that sequences share are copied when one of them continues";
  return text + "; remove or shorten sequences, or create the context with a larger n_ctx";
}
std::vector<CellRun> KvCache::cell_runs() const { return engine::cell_runs(impl_.sequences()); }
int KvCache::n_pages() const { return impl_.sequences().n_pages(); }
std::int64_t KvCache::bytes() const { return states_.cache_bytes(); }
std::int64_t KvCache::snapshot_bytes() const { return states_.snapshot_bytes(); }
bool KvCache::consistent() const { return impl_.consistent(); }

}  // namespace weft
