#include "engine/states/states.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "base/counted.h"
#include "base/to_size.h"
#include "engine/model_impl.h"
#include "engine/refuse.h"
#include "kv/lanes.h"
#include "model/shard.h"
#include "weft/error.h"

namespace weft::engine {
namespace {

/// A hash of how a cache's keys are rotated. States fit if it is equal.
std::uint64_t hash_of_turning(const Graph& graph, const Node& moves) {
  const auto& [role, rope, hadamard] = *get_op<ops::MoveCells>(moves);
  base::Hasher hash;
  if (hadamard != 0) hash.add_value(hadamard);
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

/// The block of the Hadamard rotation that the rows of sources have; 0: none.
std::uint64_t rotation_of(const Graph& graph, ValueId rows) {
  const NodeId maker = graph.value(rows).producer;
  const auto* const hadamard = maker == kNoNode ? nullptr : get_op<ops::Hadamard>(graph.node(maker));
  return hadamard == nullptr ? 0 : static_cast<std::uint64_t>(hadamard->block);
}

}  // namespace

States::States(const Model& model, const model::ModelGraph& graph, const BoundGraph& bound,
               KvCache::Impl& cache)
    : model_(model), known_adapters_(model.impl().description.additions.adapters), cache_(cache) {
  const model::HParams& h = model.impl().description.hparams;
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
    add_cache(bound, in.cache,
              {.name = value.name,
               .dtype = value.dtype,
               .role = moves->role,
               .windowed = cache.memories().of_cache(node) != nullptr,
               .n_heads = static_cast<std::int32_t>(value.shape[1].constant()),
               .head_dim = static_cast<std::int32_t>(value.shape[2].constant()),
               .turning = hash_of_turning(graph.graph, node)},
              cache.memories().of_cache(node));
  }
  for (const ValueId state : graph.running_states) {
    const ValueInfo& value = graph.graph.value(state);
    add_cache(bound, state,
              {.name = value.name,
               .dtype = value.dtype,
               .role = CacheRole::kSlots,
               .n_heads = static_cast<std::int32_t>(value.shape[1].constant()),
               .head_dim = static_cast<std::int32_t>(value.shape[2].constant())},
              cache.memories().of_running_states());
  }
  owner_.reads_sources = h.source.has_value();
  for (const Node& node : graph.graph.nodes()) {
    const auto* const stores = get_op<ops::StoreCache>(node);
    if (stores == nullptr) continue;
    const ValueId state = node.inputs[0];
    if (std::ranges::find(graph.source_states, state) == graph.source_states.end()) continue;
    const ValueInfo& value = graph.graph.value(state);
    add_cache(bound, state,
              {.name = value.name,
               .dtype = value.dtype,
               .role = stores->role,
               .of_sources = true,
               .n_heads = static_cast<std::int32_t>(value.shape[1].constant()),
               .head_dim = static_cast<std::int32_t>(value.shape[2].constant()),
               .turning = rotation_of(graph.graph, node.inputs[1])},
              nullptr);
  }
}

/// A state stores a cache as a whole, even if several devices have its heads.
void States::add_cache(const BoundGraph& bound, ValueId state, StateOwner::Cache cache,
                       kv::SequenceMemory* memory) {
  const Piece piece{bound.home()[to_size(state)], &bound.device_of(state), cache.row_bytes()};
  cache.name = model::whole_name(cache.name);
  if (!owner_.caches.empty() && owner_.caches.back().name == cache.name) {
    owner_.caches.back().n_heads += cache.n_heads;
    caches_.back().pieces.push_back(piece);
    return;
  }
  owner_.caches.push_back(std::move(cache));
  caches_.push_back({{piece}, memory});
}

void States::read_rows(std::size_t i, std::span<const std::int32_t> cells, std::span<std::byte> rows) const {
  const CacheRole role = owner_.caches[i].role;
  const std::vector<Piece>& pieces = caches_[i].pieces;
  if (pieces.size() == 1) return pieces[0].device->read_cells(*pieces[0].tensor, role, cells, rows);
  std::vector<std::byte> own;
  std::size_t begin = 0;
  for (const Piece& piece : pieces) {
    own.resize(cells.size() * piece.row_bytes);
    piece.device->read_cells(*piece.tensor, role, cells, own);
    for (std::size_t cell = 0; cell < cells.size(); ++cell)
      std::copy_n(own.data() + cell * piece.row_bytes, piece.row_bytes,
                  rows.data() + cell * owner_.caches[i].row_bytes() + begin);
    begin += piece.row_bytes;
  }
}

void States::write_rows(std::size_t i, std::span<const std::int32_t> cells, std::span<const std::byte> rows) {
  const CacheRole role = owner_.caches[i].role;
  const std::vector<Piece>& pieces = caches_[i].pieces;
  if (pieces.size() == 1) return pieces[0].device->write_cells(*pieces[0].tensor, role, cells, rows);
  std::vector<std::byte> own;
  std::size_t begin = 0;
  for (const Piece& piece : pieces) {
    own.resize(cells.size() * piece.row_bytes);
    for (std::size_t cell = 0; cell < cells.size(); ++cell)
      std::copy_n(rows.data() + cell * owner_.caches[i].row_bytes() + begin, piece.row_bytes,
                  own.data() + cell * piece.row_bytes);
    piece.device->write_cells(*piece.tensor, role, cells, own);
    begin += piece.row_bytes;
  }
}

std::uint64_t States::max_bytes() const {
  const auto n_cells = static_cast<std::uint64_t>(cache_.sequences().cells_total());
  const auto n_sequences = static_cast<std::uint64_t>(cache_.sequences().n_sequences());
  // An extent has at least one cell, and a sequence has a cell only once.
  return max_state_bytes(owner_, n_cells, n_sequences, n_cells * n_sequences,
                         n_sequences * static_cast<std::uint64_t>(cache_.sources().max_size()));
}

void States::save(std::optional<SeqId> seq, const std::function<void(std::span<const std::byte>)>& sink,
                  Pos begin, Pos end) const {
  std::vector<SeqId> seqs;
  if (seq) {
    seqs.push_back(*seq);
  } else {
    for (SeqId s = 0; s < cache_.sequences().n_sequences(); ++s)
      if (!cache_.sequences().extents(s).empty() || cache_.sources().size(s) > 0) seqs.push_back(s);
  }
  std::vector<std::int32_t> cells;
  kv::Snapshot snapshot = cache_.sequences().snapshot(seqs, cells, begin, end);
  State state{.whole = !seq, .snapshot = std::move(snapshot)};
  state.kept = state.snapshot.pages;
  for (const SeqId s : seqs) {
    auto& marks = state.adapters.emplace_back();
    for (const AdapterUse& use : cache_.adapters().of(s))
      marks.push_back({known_adapters_->hash(use.adapter), use.scale});
  }
  std::vector<std::int32_t> source_cells;
  if (owner_.reads_sources) state.sources = mark_sources(seqs, source_cells);
  std::map<const kv::SequenceMemory*, std::vector<std::int32_t>> places = {{nullptr, cells}};
  for (const auto& memory : cache_.memories())
    places[memory.get()] = memory->rows_of(state.snapshot, cells, state.kept);
  std::vector<std::byte> rows;
  const auto rows_of = [&](std::size_t i) {
    const std::vector<std::int32_t>& at =
        owner_.caches[i].of_sources ? source_cells : places[caches_[i].memory];
    rows.resize(at.size() * owner_.caches[i].row_bytes());
    read_rows(i, at, rows);
    return std::span<const std::byte>(rows);
  };
  write_state(owner_, state, rows_of, sink);
}

std::vector<TextSource> States::mark_sources(const std::vector<SeqId>& seqs,
                                             std::vector<std::int32_t>& cells) const {
  std::map<int, std::uint32_t> numbers;  // By slot.
  std::vector<TextSource> marks;
  for (const SeqId s : seqs) {
    const int size = cache_.sources().size(s), slot = cache_.sources().slot(s);
    if (size == 0) {
      marks.push_back({});
      continue;
    }
    const auto [known, is_new] = numbers.emplace(slot, static_cast<std::uint32_t>(numbers.size()));
    marks.push_back({known->second, static_cast<std::uint32_t>(size)});
    for (int i = 0; is_new && i < size; ++i) cells.push_back(cache_.sources().cell(slot, i));
  }
  return marks;
}

std::vector<std::int32_t> States::reserve_sources(const State& state) {
  std::vector<std::int32_t> cells;
  std::vector<SeqId> firsts;  // By number: the sequence that named it first.
  for (const kv::Snapshot::Text& text : state.snapshot.texts) cache_.sources().remove(text.seq);
  for (std::size_t i = 0; i < state.sources.size(); ++i) {
    const SeqId seq = state.snapshot.texts[i].seq;
    const auto [number, size] = state.sources[i];
    if (size == 0) continue;
    if (number < firsts.size()) {
      cache_.sources().copy(firsts[number], seq);
      continue;
    }
    firsts.push_back(seq);
    cache_.sources().reserve(seq, static_cast<int>(size));
    for (int cell = 0; cell < static_cast<int>(size); ++cell)
      cells.push_back(cache_.sources().cell(cache_.sources().slot(seq), cell));
  }
  return cells;
}

std::int64_t States::cache_bytes() const {
  std::int64_t n = 0;
  for (std::size_t i = 0; i < caches_.size(); ++i) {
    const kv::SequenceMemory* const memory = caches_[i].memory;
    const int n_pages = memory != nullptr ? memory->pages_touched() : cache_.sequences().pages_touched();
    const std::int64_t n_cells =
        owner_.caches[i].of_sources ? cache_.sources().cells_touched() : std::int64_t{n_pages} * kPageCells;
    n += static_cast<std::int64_t>(owner_.caches[i].row_bytes()) * n_cells;
  }
  return n;
}

std::int64_t States::snapshot_bytes() const {
  std::int64_t n = 0;
  for (std::size_t i = 0; i < caches_.size(); ++i)
    if (const kv::SequenceMemory* const memory = caches_[i].memory; memory != nullptr)
      n += static_cast<std::int64_t>(owner_.caches[i].row_bytes()) * memory->max_rows_each();
  return n;
}

std::int64_t States::sequence_bytes(std::int64_t n_tokens) const {
  constexpr std::int64_t kHead = 4096;
  std::int64_t n = kHead + n_tokens;
  for (std::size_t i = 0; i < caches_.size(); ++i) {
    const kv::SequenceMemory* const memory = caches_[i].memory;
    if (owner_.caches[i].of_sources) continue;
    n += static_cast<std::int64_t>(owner_.caches[i].row_bytes()) *
         (memory == nullptr ? n_tokens : std::min(memory->max_rows_each(), n_tokens));
  }
  return n;
}

/// Reads a state and assigns its sequences.
State States::read(std::span<const std::byte> bytes, std::optional<SeqId> seq) const {
  State state = read_state(owner_, bytes);
  std::vector<kv::Snapshot::Text>& texts = state.snapshot.texts;
  for (const kv::Snapshot::Text& text : texts)
    if (!text.extents.empty() && text.extents.back().last() >= cache_.max_pos())
      throw Error(ErrorCode::kInvalidFile, "the state is damaged: a position is beyond the model's " +
                                               std::to_string(cache_.max_pos()) + "; nothing was restored");
  for (const kv::Snapshot::Text& text : texts)
    for (const auto& memory : cache_.memories())
      if (!memory->is_whole(text, state.kept))
        throw Error(ErrorCode::kInvalidFile,
                    "the state is damaged: the window of a sequence is missing; nothing was restored");
  if (state.snapshot.n_cells() > cache_.sequences().cells_total())
    refuse("the state holds " + base::counted(state.snapshot.n_cells(), "cell") + ", this context has " +
           std::to_string(cache_.sequences().cells_total()) + "; create it with a larger n_ctx");
  for (const std::uint32_t size : state.source_sizes())
    if (size > static_cast<std::uint32_t>(cache_.sources().max_size()))
      refuse("the state has an encoder input of " + std::to_string(size) +
             " tokens, but the limit of this context is " + std::to_string(cache_.sources().max_size()) +
             "; create it with a larger n_source");
  if (seq) {
    if (texts.size() != 1)
      refuse("the state holds " + base::counted(texts.size(), "sequence") +
             "; restore it without a sequence id, or save a single sequence");
    texts[0].seq = *seq;
    return state;
  }
  if (!state.whole)
    refuse("the state holds one sequence, not a whole context; give the sequence id to restore it to");
  if (!texts.empty() && texts.back().seq >= cache_.sequences().n_sequences())
    refuse("the state holds sequence " + std::to_string(texts.back().seq) + ", this context has " +
           base::counted(cache_.sequences().n_sequences(), "sequence") + "; create it with more");
  // The others end up empty.
  std::vector<kv::Snapshot::Text> all(to_size(cache_.sequences().n_sequences()));
  for (std::size_t s = 0; s < all.size(); ++s) all[s].seq = static_cast<SeqId>(s);
  std::vector<std::vector<TextAdapter>> all_adapters(all.size());
  std::vector<TextSource> all_sources(owner_.reads_sources ? all.size() : 0);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const auto to = to_size(texts[i].seq);
    all[to] = std::move(texts[i]);
    all_adapters[to] = std::move(state.adapters[i]);
    if (owner_.reads_sources) all_sources[to] = state.sources[i];
  }
  texts = std::move(all);
  state.adapters = std::move(all_adapters);
  state.sources = std::move(all_sources);
  return state;
}

/// The model's adapters with which a sequence was computed.
std::vector<AdapterUse> States::uses_of(const std::vector<TextAdapter>& marks) const {
  std::vector<AdapterUse> uses;
  const int n = known_adapters_ != nullptr ? known_adapters_->size() : 0;
  for (const TextAdapter& mark : marks) {
    // If several adapters are equal, each is used once.
    const auto is_taken = [&](int one) {
      return std::any_of(uses.begin(), uses.end(), [&](const AdapterUse& use) { return use.adapter == one; });
    };
    int adapter = 0;
    while (adapter < n && (!(known_adapters_->hash(adapter) == mark.adapter) || is_taken(adapter))) ++adapter;
    if (adapter == n)
      refuse(
          "the state was computed with an adapter that this model was loaded without; load the model with "
          "that adapter");
    uses.push_back({adapter, mark.scale});
  }
  return checked_adapters(model_, uses);
}

bool States::restore(std::span<const std::byte> bytes, std::optional<SeqId> seq,
                     const std::function<void()>& carry_out_moves) {
  const State state = read(bytes, seq);
  std::vector<std::vector<AdapterUse>> uses;
  for (const auto& marks : state.adapters) uses.push_back(uses_of(marks));
  std::vector<std::int32_t> cells;
  if (!cache_.sequences().restore(state.snapshot, cells)) return false;
  std::map<const kv::SequenceMemory*, std::vector<std::int32_t>> places;
  try {
    places[nullptr] = cells;
    for (const auto& memory : cache_.memories()) {
      memory->follow(cache_.sequences().moves());
      places[memory.get()] = memory->restored(state.snapshot, cells, state.kept);
    }
  } catch (...) {
    // A memory without an entry for a sequence would keep its former contents.
    for (const kv::Snapshot::Text& text : state.snapshot.texts) {
      cache_.sequences().remove(text.seq, 0, kv::kEndOfPositions);
      for (const auto& memory : cache_.memories()) memory->removed(text.seq, 0);
      cache_.adapters().reset(text.seq);
      cache_.sources().remove(text.seq);
    }
    throw;
  }
  try {
    const std::vector<std::int32_t> source_cells = reserve_sources(state);
    carry_out_moves();
    for (std::size_t i = 0; i < caches_.size(); ++i)
      write_rows(i, owner_.caches[i].of_sources ? source_cells : places[caches_[i].memory], state.rows[i]);
  } catch (...) {
    for (const kv::Snapshot::Text& text : state.snapshot.texts) cache_.sources().remove(text.seq);
    throw;
  }
  for (std::size_t i = 0; i < uses.size(); ++i) {
    const kv::Snapshot::Text& text = state.snapshot.texts[i];
    cache_.sequences().set_intact(text.seq);
    const bool is_empty = text.extents.empty() && cache_.sources().size(text.seq) == 0;
    cache_.adapters().set(text.seq, is_empty ? cache_.adapters().usual() : std::move(uses[i]));
  }
  return true;
}

}  // namespace weft::engine
