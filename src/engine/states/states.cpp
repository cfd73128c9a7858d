#include "engine/states/states.h"

#include <algorithm>
#include <string>
#include <utility>

#include "engine/model_impl.h"
#include "kv/lanes.h"
#include "weft/error.h"

namespace weft::engine {
namespace {

[[noreturn]] void refuse(const std::string& reason) { throw Error(ErrorCode::kInvalidArgument, reason); }

/// Keys that are turned in the same way can take each other's place.
std::uint64_t hash_of_turning(const Graph& graph, const Node& moves) {
  const ops::Rope& rope = get_op<ops::MoveCells>(moves)->rope;
  base::Hasher hash;
  for (const int value : {rope.head_dim, rope.n_rot, rope.neox ? 1 : 0, rope.n_ctx_orig})
    hash.add_value(value);
  for (const float value :
       {rope.freq_base, rope.freq_scale, rope.ext_factor, rope.attn_factor, rope.beta_fast, rope.beta_slow})
    hash.add_value(value);
  // The factors' values are in the model's fingerprint; which of them are used may depend on the context.
  if (const ValueId factors = named_inputs<ops::MoveCells>(moves).factors; factors != kNoValue)
    hash.add(std::as_bytes(std::span(graph.value(factors).name)));
  return hash.result().low;
}

}  // namespace

States::States(const Model& model, const model::ModelGraph& graph, const BoundGraph& bound,
               kv::Sequences& sequences, kv::WindowPages* windows, kv::StateSlots& slots)
    : sequences_(sequences), windows_(windows), slots_(slots) {
  const auto cache_of = [&](ValueId state) {
    return Cache{bound.home()[static_cast<std::size_t>(state)], &bound.device_of(state)};
  };
  const model::HParams& h = model.impl().description.hparams;
  end_of_positions_ = h.learned_positions ? h.n_ctx_train : kv::kEndOfPositions;
  owner_.model = model.impl().fingerprint;
  owner_.n_layers = h.n_layers;
  owner_.n_embd = h.n_embd;
  owner_.n_vocab = h.n_vocab;
  for (const Node& node : graph.graph.nodes()) {
    const auto* const moves = get_op<ops::MoveCells>(node);
    if (moves == nullptr) continue;
    const auto in = named_inputs<ops::MoveCells>(node);
    const ValueInfo& value = graph.graph.value(in.cache);
    if (value.kind != ValueKind::kState) continue;
    owner_.caches.push_back({.name = value.name,
                             .dtype = value.dtype,
                             .role = moves->role,
                             .windowed = windows_ != nullptr && in.from == graph.windowed.move_from,
                             .n_heads = static_cast<std::int32_t>(value.shape[1].factor),
                             .head_dim = static_cast<std::int32_t>(value.shape[2].factor),
                             .turning = hash_of_turning(graph.graph, node)});
    caches_.push_back(cache_of(in.cache));
  }
  for (const ValueId state : graph.running_states) {
    const ValueInfo& value = graph.graph.value(state);
    owner_.caches.push_back({.name = value.name,
                             .dtype = value.dtype,
                             .role = CacheRole::kSlots,
                             .n_heads = static_cast<std::int32_t>(value.shape[1].factor),
                             .head_dim = static_cast<std::int32_t>(value.shape[2].factor)});
    caches_.push_back(cache_of(state));
  }
}

std::uint64_t States::max_bytes() const {
  const auto n_cells = static_cast<std::uint64_t>(sequences_.cells_total());
  const auto n_sequences = static_cast<std::uint64_t>(sequences_.n_sequences());
  // An extent has a cell, and a sequence has a cell once.
  return max_state_bytes(owner_, n_cells, n_sequences, n_cells * n_sequences);
}

void States::save(std::optional<SeqId> seq,
                  const std::function<void(std::span<const std::byte>)>& sink) const {
  std::vector<SeqId> seqs;
  if (seq) {
    seqs.push_back(*seq);
  } else {
    for (SeqId s = 0; s < sequences_.n_sequences(); ++s)
      if (!sequences_.extents(s).empty()) seqs.push_back(s);
  }
  std::vector<std::int32_t> cells;
  kv::Snapshot snapshot = sequences_.snapshot(seqs, cells);
  std::vector<std::int32_t> slots;
  for (const kv::Snapshot::Text& text : snapshot.texts)
    if (!text.extents.empty()) slots.push_back(slots_.slot(text.seq));
  State state{.whole = !seq, .snapshot = std::move(snapshot)};
  const std::vector<std::int32_t> window_cells = keep_windows(state, cells);
  std::vector<std::byte> rows;
  const auto rows_of = [&](std::size_t i) {
    const StateOwner::Cache& cache = owner_.caches[i];
    const std::span<const std::int32_t> places = cache.role == CacheRole::kSlots ? slots
                                                 : cache.windowed                ? window_cells
                                                                                 : cells;
    rows.resize(places.size() * cache.row_bytes());
    caches_[i].device->read_cells(*caches_[i].tensor, cache.role, places, rows);
    return std::span<const std::byte>(rows);
  };
  write_state(owner_, state, rows_of, sink);
}

/// Notes which of the snapshot's cells, that lie in `cells`, windowed caches keep. Returns where they do.
std::vector<std::int32_t> States::keep_windows(State& state, std::span<const std::int32_t> cells) const {
  state.kept = state.snapshot.pages;
  std::vector<std::int32_t> window_cells;
  auto cell = cells.begin();
  for (std::size_t p = 0; windows_ != nullptr && p < state.kept.size(); ++p) {
    kv::for_each_lane(state.snapshot.pages[p], [&](int lane) {
      const std::int32_t at = windows_->cell(*cell++);
      if (at < 0)
        state.kept[p] &= ~kv::bit(lane);
      else
        window_cells.push_back(at);
    });
  }
  return window_cells;
}

std::int64_t States::cache_bytes(int n_pages, int n_window_pages) const {
  std::int64_t n = 0;
  for (const StateOwner::Cache& cache : owner_.caches) {
    if (cache.role == CacheRole::kSlots) continue;
    n += static_cast<std::int64_t>(cache.row_bytes()) * kPageCells *
         (cache.windowed ? n_window_pages : n_pages);
  }
  return n;
}

/// Reads a state and lays out which sequences it gets.
State States::read(std::span<const std::byte> bytes, std::optional<SeqId> seq) const {
  State state = read_state(owner_, bytes);
  std::vector<kv::Snapshot::Text>& texts = state.snapshot.texts;
  for (const kv::Snapshot::Text& text : texts)
    if (!text.extents.empty() && text.extents.back().last() >= end_of_positions_)
      throw Error(ErrorCode::kInvalidFile, "the state is damaged: a position is beyond the model's " +
                                               std::to_string(end_of_positions_) + "; nothing was restored");
  for (const kv::Snapshot::Text& text : texts)
    if (windows_ != nullptr && !windows_->is_whole(text.extents, state.kept))
      throw Error(ErrorCode::kInvalidFile,
                  "the state is damaged: a text's window is not there; nothing was restored");
  if (state.snapshot.n_cells() > sequences_.cells_total())
    refuse("the state holds " + std::to_string(state.snapshot.n_cells()) + " cells, this context has " +
           std::to_string(sequences_.cells_total()) + "; make it longer");
  if (seq) {
    if (texts.size() != 1)
      refuse("the state holds " + std::to_string(texts.size()) +
             " sequences: restore it without naming one, or save a single one");
    texts[0].seq = *seq;
    return state;
  }
  if (!state.whole)
    refuse("the state holds one sequence, not a whole context: name the one that it shall be");
  if (!texts.empty() && texts.back().seq >= sequences_.n_sequences())
    refuse("the state holds sequence " + std::to_string(texts.back().seq) + ", this context has " +
           std::to_string(sequences_.n_sequences()) + " sequences; make it with more");
  // The others end up empty.
  std::vector<kv::Snapshot::Text> all(static_cast<std::size_t>(sequences_.n_sequences()));
  for (std::size_t s = 0; s < all.size(); ++s) all[s].seq = static_cast<SeqId>(s);
  for (kv::Snapshot::Text& text : texts) all[static_cast<std::size_t>(text.seq)] = std::move(text);
  texts = std::move(all);
  return state;
}

/// Windows learn which of the state's cells, that lie in `cells` now, are there. Returns where their rows go.
std::vector<std::int32_t> States::restore_windows(const State& state, std::span<const std::int32_t> cells) {
  windows_->follow(sequences_.moves());
  std::vector<std::int32_t> window_cells;
  auto cell = cells.begin();
  for (std::size_t p = 0; p < state.kept.size(); ++p) {
    kv::for_each_lane(state.snapshot.pages[p], [&](int lane) {
      if ((state.kept[p] & kv::bit(lane)) == 0) return windows_->leave_out(*cell++);
      windows_->store(*cell);
      window_cells.push_back(windows_->cell(*cell++));
    });
  }
  return window_cells;
}

bool States::restore(std::span<const std::byte> bytes, std::optional<SeqId> seq,
                     const std::function<void()>& carry_out_moves) {
  const State state = read(bytes, seq);
  std::vector<std::int32_t> cells;
  if (!sequences_.restore(state.snapshot, cells)) return false;
  std::vector<std::int32_t> window_cells;
  if (windows_ != nullptr) window_cells = restore_windows(state, cells);
  carry_out_moves();
  std::vector<std::int32_t> slots;
  const bool recurrent =
      std::any_of(owner_.caches.begin(), owner_.caches.end(),
                  [](const StateOwner::Cache& cache) { return cache.role == CacheRole::kSlots; });
  for (std::size_t t = 0; recurrent && t < state.snapshot.texts.size(); ++t) {
    const kv::Snapshot::Text& text = state.snapshot.texts[t];
    slots_.remove(text.seq);
    if (!text.extents.empty()) slots.push_back(slots_.renew(text.seq));
  }
  for (std::size_t i = 0; i < caches_.size(); ++i) {
    const CacheRole role = owner_.caches[i].role;
    caches_[i].device->write_cells(*caches_[i].tensor, role,
                                   role == CacheRole::kSlots   ? slots
                                   : owner_.caches[i].windowed ? window_cells
                                                               : cells,
                                   state.rows[i]);
  }
  for (const kv::Snapshot::Text& text : state.snapshot.texts) sequences_.set_intact(text.seq);
  return true;
}

}  // namespace weft::engine
