#include "weft/context.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <optional>
#include <utility>

#include "base/atomic_file.h"
#include "base/check.h"
#include "base/pool.h"
#include "base/read_file.h"
#include "engine/model_impl.h"
#include "engine/states.h"
#include "exec/plan.h"
#include "kv/sequences.h"
#include "kv/state_slots.h"
#include "weft/error.h"

namespace weft {
namespace {

constexpr int kDefaultContext = 8192;
constexpr int kMaxContext = 1 << 26;
constexpr int kMaxSequences = 1 << 12;
constexpr Pos kMaxPosition = 1 << 29;
constexpr int kMovesPerStep = 4096;
constexpr int kMaxHidden = 1 << 14;
constexpr int kMaxBatchStep = 1 << 16;
constexpr int kDefaultOutputs = 64;

[[noreturn]] void refuse(const std::string& reason) { throw Error(ErrorCode::kInvalidArgument, reason); }

int checked(const char* what, int value, int max) {
  if (value < 1 || value > max)
    refuse(std::string(what) + " is " + std::to_string(value) + ", expected 1 to " + std::to_string(max));
  return value;
}

ContextParams fill_in(ContextParams p, const ModelInfo& info) {
  if (p.n_ctx == 0) p.n_ctx = std::min(info.n_ctx_train, kDefaultContext);
  checked("the context length", p.n_ctx, kMaxContext);
  checked("the number of sequences", p.n_sequences, kMaxSequences);
  checked("the ubatch size", p.n_ubatch, kMaxBatchStep);
  // No step can compute more tokens than there are cells.
  p.n_ubatch = std::min(p.n_ubatch, p.n_ctx);
  if (p.n_outputs == 0) p.n_outputs = std::max(kDefaultOutputs, p.n_sequences);
  p.n_outputs = std::min(checked("the number of outputs", p.n_outputs, kMaxBatchStep), p.n_ubatch);
  if (p.n_threads < 0 || p.n_threads > 4096) refuse("the number of threads must be 0 to 4096");
  if (p.n_threads == 0) p.n_threads = base::default_threads();
  return p;
}

DType dtype_of(CacheType type) {
  switch (type) {
    case CacheType::kF32:
      return DType::kF32;
    case CacheType::kF16:
      return DType::kF16;
    case CacheType::kBF16:
      return DType::kBF16;
    case CacheType::kQ8_0:
      return DType::kQ8_0;
    case CacheType::kQ4_0:
      return DType::kQ4_0;
  }
  refuse("there is no cache type " + std::to_string(static_cast<int>(type)));
}

/// The type of a cache whose heads have `head_dim` elements.
DType cache_dtype(const char* what, CacheType type, int head_dim) {
  const DTypeInfo& dtype = info(dtype_of(type));
  if (head_dim % dtype.block_elements != 0)
    refuse("heads of " + std::to_string(head_dim) + " elements cannot be kept as " + std::string(dtype.name) +
           " in the " + what + " cache, which takes multiples of " + std::to_string(dtype.block_elements) +
           "; use f16");
  return dtype.type;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

void Batch::clear() {
  items_.clear();
  shared_.clear();
  embeddings_.clear();
  hidden_.clear();
}

void Batch::add(std::span<const float> embedding, SeqId seq, bool logits, Pos pos) {
  items_.push_back({.token = -1,
                    .pos = pos,
                    .seq = seq,
                    .logits = logits,
                    .embedding = static_cast<std::int32_t>(embeddings_.size()),
                    .n_embedding = static_cast<std::int32_t>(embedding.size())});
  embeddings_.insert(embeddings_.end(), embedding.begin(), embedding.end());
}

void Batch::see_to(int item, Pos end) {
  if (item < 0 || item >= size()) refuse("the batch has no item " + std::to_string(item));
  items_[static_cast<std::size_t>(item)].sees_to = end;
}

void Batch::hide(int item, int other) {
  if (item < 0 || item >= size() || other < 0 || other >= size() || item == other)
    refuse("items " + std::to_string(item) + " and " + std::to_string(other) +
           " are not two items of the batch");
  hidden_.emplace_back(item, other);
}

void Batch::add(Token token, SeqId seq, bool logits, Pos pos) {
  items_.push_back({.token = token, .pos = pos, .seq = seq, .logits = logits});
}

void Batch::add(Token token, std::span<const SeqId> seqs, bool logits, Pos pos) {
  if (seqs.empty()) refuse("a token needs at least one sequence");
  items_.push_back({.token = token,
                    .pos = pos,
                    .seq = seqs[0],
                    .logits = logits,
                    .n_shared = static_cast<std::int32_t>(seqs.size()) - 1,
                    .first_shared = static_cast<std::int32_t>(shared_.size())});
  shared_.insert(shared_.end(), seqs.begin() + 1, seqs.end());
}

void Batch::add(std::span<const Token> tokens, SeqId seq, bool logits_at_end) {
  for (std::size_t i = 0; i < tokens.size(); ++i)
    add(tokens[i], seq, logits_at_end && i + 1 == tokens.size());
}

/// The walk of a batch: admit (check it, resolve positions), place (take cells), bind (write the inputs), run
/// the plan, read (find the logits).
struct Context::Impl {
  Impl(std::shared_ptr<const Model> model_in, const ContextParams& params_in)
      : model(std::move(model_in)),
        params(fill_in(params_in, model->info())),
        device(*model->impl().device),
        n_pages(kv::Sequences::n_pages_for(params.n_ctx, params.n_sequences)),
        graph(model::build_graph(model->impl().file, model->impl().description, sizes())),
        bindings(bind_all()),
        sequences(params.n_ctx, params.n_sequences,
                  {values<Extent>(graph.extents), values<std::int32_t>(graph.extent_counts), n_extents()}),
        slots(params.n_sequences),
        states(*model, graph, bindings, sequences, slots),
        plan(device, graph.graph, bindings,
             {.allowed = {.shapes = true, .tensors = true}, .n_threads = params.n_threads}),
        filled_by(static_cast<std::size_t>(n_pages) * kPageCells),
        last_pos(static_cast<std::size_t>(params.n_sequences), -1) {
    max_pos = hparams().learned_positions ? model->info().n_ctx_train : kMaxPosition;
  }

  const model::HParams& hparams() const { return model->impl().description.hparams; }

  /// A sequence may hold a part of every page, and be cut for a moment where it is worked on.
  int n_extents() const { return n_pages + 2; }

  model::GraphSizes sizes() const {
    return {.n_ubatch = params.n_ubatch,
            .n_outputs = params.n_outputs,
            .n_cells = std::int64_t{n_pages} * kPageCells,
            .n_sequences = params.n_sequences,
            .n_moves = kMovesPerStep,
            .n_extents = n_extents(),
            .n_hidden = kMaxHidden + 1,
            .n_slots = kv::StateSlots::n_slots_for(params.n_sequences),
            .max_positions = params.n_ctx,
            .k_type = cache_dtype("K", params.k_type, hparams().k_head_dim),
            .v_type = cache_dtype("V", params.v_type, hparams().v_head_dim)};
  }

  Bindings bind_all() {
    const std::vector<std::int64_t> bounds = graph.graph.bounds();
    Bindings result(graph.graph.values().size(), nullptr);
    const auto own = [&](std::unique_ptr<DeviceTensor> tensor) {
      tensors.push_back(std::move(tensor));
      return tensors.back().get();
    };
    for (std::size_t v = 0; v < result.size(); ++v) {
      const ValueInfo& value = graph.graph.values()[v];
      std::vector<std::int64_t> shape;
      for (int i = 0; i < value.shape.rank(); ++i) shape.push_back(value.shape[i].value(bounds));
      const bool is_logits = static_cast<ValueId>(v) == graph.logits;
      switch (value.kind) {
        case ValueKind::kWeight:
          result[v] = model->impl().weights.at(value.name).get();
          break;
        case ValueKind::kState:
          result[v] = own(device.create_state(value.dtype, shape));
          break;
        case ValueKind::kInput:
          result[v] = own(device.create_host_tensor(value.dtype, shape));
          break;
        case ValueKind::kResult:
          if (is_logits) result[v] = own(device.create_host_tensor(value.dtype, shape));
          break;
      }
    }
    return result;
  }

  template <typename T>
  std::span<T> values(ValueId id) const {
    if (id == kNoValue) return {};
    const std::span<std::byte> bytes = bindings[static_cast<std::size_t>(id)]->host();
    return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
  }

  void check_sequence(SeqId seq) const {
    if (seq < 0 || seq >= params.n_sequences)
      refuse("sequence " + std::to_string(seq) + " is outside 0 to " +
             std::to_string(params.n_sequences - 1));
  }

  // --- Admit
  // ---------------------------------------------------------------------------------------------------

  /// Checks the batch and resolves its positions into `places`.
  void admit(const Batch& batch) {
    if (batch.size() == 0) refuse("the batch is empty");
    places.clear();
    for (int i = 0; i < batch.size(); ++i) {
      check_sequence(batch[i].seq);
      for (const SeqId other : batch.shared_with(i)) check_sequence(other);
    }
    const auto last_of = [&](SeqId seq) -> Pos& { return last_pos[static_cast<std::size_t>(seq)]; };
    for (int i = 0; i < batch.size(); ++i) {
      last_of(batch[i].seq) = -1;
      for (const SeqId other : batch.shared_with(i)) last_of(other) = -1;
    }
    for (int i = 0; i < batch.size(); ++i) {
      const Batch::Item& item = batch[i];
      const auto where = [&] { return " (item " + std::to_string(i) + " of the batch)"; };
      if (item.embedding >= 0) {
        if (item.n_embedding != model->info().n_embd)
          refuse("the embedding has " + std::to_string(item.n_embedding) +
                 " numbers, those of this model have " + std::to_string(model->info().n_embd) + where());
      } else if (item.token < 0 || item.token >= model->info().n_vocab) {
        refuse("token " + std::to_string(item.token) + " is outside the vocabulary of " +
               std::to_string(model->info().n_vocab) + where());
      }
      const Pos last = last_of(item.seq);
      const Pos pos = item.pos != Batch::kNextPos
                          ? item.pos
                          : std::max(last + 1, last < 0 ? sequences.next_pos(item.seq) : 0);
      if (pos < 0 || pos >= max_pos)
        refuse("position " + std::to_string(pos) + " is outside 0 to " + std::to_string(max_pos - 1) +
               where());
      const auto claim = [&](SeqId seq) {
        if (pos <= last_of(seq))
          refuse("position " + std::to_string(pos) + " does not follow the last one of sequence " +
                 std::to_string(seq) + where());
        if (recurrent && pos < sequences.next_pos(seq))
          refuse("position " + std::to_string(pos) + " is before the end of sequence " + std::to_string(seq) +
                 where() + "; this model has recurrent layers, which read text in order");
        if (sequences.holds(seq, pos))
          refuse("position " + std::to_string(pos) + " of sequence " + std::to_string(seq) + " is taken" +
                 where());
        last_of(seq) = pos;
      };
      claim(item.seq);
      for (const SeqId other : batch.shared_with(i)) claim(other);
      if (item.sees_to > max_pos)
        refuse("position " + std::to_string(item.sees_to) + " is beyond " + std::to_string(max_pos) +
               where());
      places.push_back({item.seq, pos});
    }
    hidden_pairs.assign(batch.hidden().begin(), batch.hidden().end());
    if (hidden_pairs.size() > kMaxHidden)
      refuse("at most " + std::to_string(kMaxHidden) + " pairs of items can be hidden, the batch has " +
             std::to_string(hidden_pairs.size()));
    for (const auto& [item, other] : hidden_pairs)
      if (!shares_sequence(batch, item, other))
        refuse("items " + std::to_string(item) + " and " + std::to_string(other) +
               " of the batch have no sequence in common: they do not see each other anyway");
    std::sort(hidden_pairs.begin(), hidden_pairs.end());
  }

  /// Finds the running states' slots before and after each item. The slots' batch ends with commit or
  /// abandon.
  void step_states(const Batch& batch) {
    slots.begin();
    state_steps.clear();
    for (int i = 0; i < batch.size(); ++i) {
      for (const SeqId other : batch.shared_with(i)) {
        if (slots.same_text(batch[i].seq, other)) continue;
        slots.abandon();
        throw Error(
            ErrorCode::kUnsupported,
            "item " + std::to_string(i) + " of the batch is shared by sequences " +
                std::to_string(batch[i].seq) + " and " + std::to_string(other) +
                " whose texts before it are not shared; this model has recurrent layers: add it to each");
      }
      state_steps.push_back(slots.step(batch[i].seq, batch.shared_with(i)));
    }
  }

  // --- Place
  // ---------------------------------------------------------------------------------------------------

  /// A part of the batch that is one run of the plan.
  struct StepRange {
    int begin = 0, end = 0;  // Items
    int n_outputs = 0;
    int n_forks = 0;
  };

  /// Takes the cells of the batch's next step. Step by step, because what attention reads is how sequences
  /// stand when the step runs. False where the cache is full: then the step has taken nothing.
  ///
  /// Taking a cell may owe moves (a shared page gets a copy, sparse ones are packed). They come before the
  /// tokens of their step are stored, except for those that have to do with a cell which the step itself
  /// fills: such forks come behind. An item whose cell the step has filled already cannot be part of it.
  bool place_step(const Batch& batch, int begin) {
    for (int limit = batch.size();;) {
      ++step_number;
      step = {.begin = begin, .end = begin};
      forks.assign(sequences.moves().size(), false);
      bool conflict = false;
      for (int i = begin; i < limit && i - begin < params.n_ubatch && !conflict; ++i) {
        if (batch[i].logits && step.n_outputs == params.n_outputs) break;
        const std::size_t n_before = sequences.moves().size();
        if (!take(batch, i)) {
          give_back(batch, begin, i + 1);
          return false;
        }
        conflict = !joins_step(n_before, cells[static_cast<std::size_t>(i)]);
        step.end = i + 1;
        step.n_outputs += batch[i].logits ? 1 : 0;
      }
      if (!conflict) return true;
      limit = step.end - 1;
      give_back(batch, begin, step.end);
    }
  }

  /// A cell for an item, shared with all its sequences.
  bool take(const Batch& batch, int i) {
    const auto item = static_cast<std::size_t>(i);
    const kv::Place& own = places[item];
    bool taken = sequences.take({&own, 1}, {&cells[item], 1});
    first_follow = sequences.moves().size();
    for (const SeqId other : batch.shared_with(i)) taken = taken && sequences.follow(own.seq, other, own.pos);
    return taken;
  }

  /// Whether an item that takes this cell, and owes the moves from `first_move` on, can be part of the last
  /// step; notes which of the moves are forks.
  bool joins_step(std::size_t first_move, std::int32_t cell) {
    const auto filled = [&](std::int32_t c) -> std::uint64_t& {
      return filled_by[static_cast<std::size_t>(c)];
    };
    const auto moves = sequences.moves();
    forks.resize(moves.size(), false);
    int n_forks = 0;
    for (std::size_t m = first_move; m < moves.size(); ++m) {
      forks[m] = filled(moves[m].from) == step_number || filled(moves[m].to) == step_number ||
                 (m >= first_follow && moves[m].from == cell);
      n_forks += forks[m] ? 1 : 0;
      if (forks[m]) filled(moves[m].to) = step_number;
    }
    if (filled(cell) == step_number || step.n_forks + n_forks > kMovesPerStep) return false;
    filled(cell) = step_number;
    step.n_forks += n_forks;
    return true;
  }

  /// Gives back the cells that items [begin, end) took.
  void give_back(const Batch& batch, int begin, int end) {
    forks.clear();  // What is still owed comes before all tokens to come.
    waiting_forks = false;
    for (int i = begin; i < end; ++i) {
      const kv::Place& own = places[static_cast<std::size_t>(i)];
      sequences.remove(own.seq, own.pos, own.pos + 1);
      for (const SeqId other : batch.shared_with(i)) sequences.remove(other, own.pos, own.pos + 1);
    }
  }

  /// Items that look ahead must find what they see stored by their step.
  void check_what_is_seen(const Batch& batch) const {
    for (int i = step.begin; i < step.end; ++i) {
      if (batch[i].sees_to <= places[static_cast<std::size_t>(i)].pos + 1) continue;
      for (int later = step.end; later < batch.size(); ++later)
        if (places[static_cast<std::size_t>(later)].pos < batch[i].sees_to &&
            shares_sequence(batch, i, later))
          refuse("item " + std::to_string(i) + " of the batch sees item " + std::to_string(later) +
                 ", which is of a later step; use a larger ubatch (" + std::to_string(params.n_ubatch) +
                 " tokens now)");
    }
  }

  /// Whether item i's own sequence holds item j.
  bool shares_sequence(const Batch& batch, int i, int j) const {
    const auto others = batch.shared_with(j);
    return batch[j].seq == places[static_cast<std::size_t>(i)].seq ||
           std::find(others.begin(), others.end(), places[static_cast<std::size_t>(i)].seq) != others.end();
  }

  // --- Bind
  // ----------------------------------------------------------------------------------------------------

  /// Writes the inputs of a step's items.
  void bind_step(const Batch& batch) {
    const auto tokens = values<std::int32_t>(graph.tokens);
    const auto use_embeddings = values<std::int32_t>(graph.use_embeddings);
    const auto embeddings = values<float>(graph.embeddings);
    const auto ends = values<std::int32_t>(graph.ends);
    const auto hidden_first = values<std::int32_t>(graph.hidden_first);
    const auto positions = values<std::int32_t>(graph.positions);
    const auto sequence_of = values<std::int32_t>(graph.sequences);
    const auto cell_of = values<std::int32_t>(graph.cells);
    const auto output_rows = values<std::int32_t>(graph.output_rows);
    const auto state_from = values<std::int32_t>(graph.state_from);
    const auto state_to = values<std::int32_t>(graph.state_to);
    std::size_t n_outputs = 0;
    for (int i = step.begin; i < step.end; ++i) {
      const auto item = static_cast<std::size_t>(i);
      const auto row = static_cast<std::size_t>(i - step.begin);
      tokens[row] = std::max(batch[i].token, 0);
      use_embeddings[row] = batch[i].embedding >= 0 ? 1 : 0;
      if (batch[i].embedding >= 0) {
        const auto embedding = batch.embedding(i);
        std::copy(embedding.begin(), embedding.end(),
                  embeddings.begin() + static_cast<std::ptrdiff_t>(row * embedding.size()));
      }
      ends[row] = std::max(batch[i].sees_to, places[item].pos + 1);
      hidden_first[row] = -1;
      positions[row] = places[item].pos;
      sequence_of[row] = places[item].seq;
      cell_of[row] = cells[item];
      if (recurrent) {
        state_from[row] = state_steps[item].from;
        state_to[row] = state_steps[item].to;
      }
      if (batch[i].logits) output_rows[n_outputs++] = static_cast<std::int32_t>(row);
    }
    // The pairs stand in the order of their items.
    const auto hidden = values<HiddenCells>(graph.hidden);
    std::size_t n_hidden = 0;
    for (const auto& [item, other] : hidden_pairs) {
      if (item < step.begin || item >= step.end) continue;
      const auto row = item - step.begin;
      const auto& seen_from = places[static_cast<std::size_t>(item)];
      const std::int32_t cell = sequences.cell_of(seen_from.seq, places[static_cast<std::size_t>(other)].pos);
      if (cell < 0) continue;  // Of a later step: not there to be seen.
      auto& first = hidden_first[static_cast<std::size_t>(row)];
      if (first < 0) first = static_cast<std::int32_t>(n_hidden);
      hidden[n_hidden++] = {row, cell / kPageCells, std::uint64_t{1} << cell % kPageCells};
    }
    hidden[n_hidden] = {};
  }

  /// Writes the next of the first `n_owed` moves, and counts those that are done with them.
  struct BoundMoves {
    std::int64_t n_moves = 0, n_forks = 0;
  };
  BoundMoves bind_moves(std::size_t n_owed) {
    const auto from = values<std::int32_t>(graph.move_from);
    const auto to = values<std::int32_t>(graph.move_to);
    const auto deltas = values<std::int32_t>(graph.move_deltas);
    const auto fork_from = values<std::int32_t>(graph.fork_from);
    const auto fork_to = values<std::int32_t>(graph.fork_to);
    const std::span<const kv::CellMove> moves = sequences.moves();
    // Moves that do not fit go in a step of their own. Then the forks among them wait: they are behind all
    // moves.
    std::size_t end = n_moves_done;
    BoundMoves n;
    for (; end < n_owed; ++end) {
      const bool is_fork = end < forks.size() && forks[end];
      if (is_fork) continue;
      if (n.n_moves == kMovesPerStep) break;
      const auto at = static_cast<std::size_t>(n.n_moves++);
      from[at] = moves[end].from;
      to[at] = moves[end].to;
      deltas[at] = moves[end].delta;
    }
    if (end < n_owed) {
      waiting_forks = true;
    } else {
      for (std::size_t m = waiting_forks ? 0 : n_moves_done; m < n_owed && m < forks.size(); ++m) {
        if (!forks[m]) continue;
        const auto at = static_cast<std::size_t>(n.n_forks++);
        fork_from[at] = moves[m].from;
        fork_to[at] = moves[m].to;
        forks[m] = false;
      }
      waiting_forks = false;
    }
    n_moves_done = end;
    return n;
  }

  // --- Run and read
  // ----------------------------------------------------------------------------------------------

  /// One step, with the last of the moves that are owed before it; what does not fit goes in steps of their
  /// own.
  void run_step(std::int64_t n_tokens, std::int64_t n_outputs, std::size_t n_owed) {
    for (bool all = false; !all;) {
      const BoundMoves n = bind_moves(n_owed);
      all = n_moves_done == n_owed;
      const std::int64_t symbols[] = {all ? n_tokens : 0, all ? n_outputs : 0, n.n_moves, n.n_forks};
      exec::Step run;
      run.symbols = symbols;
      run.actual.shapes = !std::equal(std::begin(symbols), std::end(symbols), last_symbols);
      plan.run(run);
      std::copy(std::begin(symbols), std::end(symbols), last_symbols);
    }
    if (n_moves_done == sequences.moves().size()) {
      sequences.clear_moves();
      forks.clear();
      n_moves_done = 0;
    }
  }

  /// For those who look at cells outside of steps.
  void carry_out_moves() {
    if (!sequences.moves().empty()) run_step(0, 0, sequences.moves().size());
  }

  static std::size_t count_logits(const Batch& batch) {
    std::size_t n = 0;
    for (int i = 0; i < batch.size(); ++i) n += batch[i].logits ? 1u : 0u;
    return n;
  }

  /// Notes where the logits of the step's items are. All but the last step's are moved out of the plan's
  /// way.
  void read_step(const Batch& batch) {
    const auto n_vocab = static_cast<std::size_t>(model->info().n_vocab);
    const float* source = values<float>(graph.logits).data();
    const auto n_outputs = static_cast<std::size_t>(step.n_outputs);
    if (step.end < batch.size()) {
      if (step.begin == 0) kept_logits.resize(count_logits(batch) * n_vocab);
      float* kept = kept_logits.data() + n_kept * n_vocab;
      std::memcpy(kept, source, n_outputs * n_vocab * sizeof(float));
      source = kept;
      n_kept += n_outputs;
    }
    for (int i = step.begin; i < step.end; ++i) {
      if (!batch[i].logits) continue;
      logits_of[static_cast<std::size_t>(i)] = source;
      source += n_vocab;
    }
  }

  DecodeStatus decode(const Batch& batch) {
    const auto start = std::chrono::steady_clock::now();
    const double kernels_before = plan.compiled().kernel_seconds();
    cancelled.store(false, std::memory_order_relaxed);
    admit(batch);
    if (sequences.cells_used() + batch.size() > sequences.cells_total()) return DecodeStatus::kCacheFull;
    if (recurrent) step_states(batch);
    cells.resize(places.size());
    logits_of.assign(static_cast<std::size_t>(batch.size()), nullptr);
    n_kept = 0;
    DecodeStatus status = DecodeStatus::kOk;
    const auto undo = [&](int n) {
      slots.abandon();
      give_back(batch, 0, n);
      logits_of.clear();
    };
    int end = 0;
    try {
      while (end < batch.size() && status == DecodeStatus::kOk) {
        if (!place_step(batch, end)) {
          status = DecodeStatus::kCacheFull;
          break;
        }
        end = step.end;
        check_what_is_seen(batch);
        bind_step(batch);
        run_step(step.end - step.begin, step.n_outputs, sequences.moves().size());
        if (cancelled.load(std::memory_order_relaxed)) status = DecodeStatus::kCancelled;
        if (status == DecodeStatus::kOk) read_step(batch);
      }
    } catch (...) {
      undo(end);
      throw;
    }
    if (status != DecodeStatus::kOk) {
      undo(end);
      return status;
    }
    slots.commit();
    host_seconds += seconds_since(start) - (plan.compiled().kernel_seconds() - kernels_before);
    return DecodeStatus::kOk;
  }

  bool consistent() const {
    for (SeqId seq = 0; seq < params.n_sequences && recurrent; ++seq)
      if ((slots.slot(seq) == kv::StateSlots::kNone) != (sequences.next_pos(seq) == 0)) return false;
    return sequences.consistent() && slots.consistent();
  }

  std::vector<std::byte> save(std::optional<SeqId> seq);
  void save_file(const std::filesystem::path& path, std::optional<SeqId> seq);
  bool restore(std::span<const std::byte> bytes, std::optional<SeqId> seq);

  const std::shared_ptr<const Model> model;
  const ContextParams params;
  Device& device;
  const int n_pages;
  const model::ModelGraph graph;
  std::vector<std::unique_ptr<DeviceTensor>> tensors;
  const Bindings bindings;
  const bool recurrent = model->impl().description.hparams.recurrent();
  kv::Sequences sequences;
  kv::StateSlots slots;
  engine::States states;
  exec::Plan plan;
  Pos max_pos = 0;

  std::vector<std::pair<int, int>> hidden_pairs;  // Of the batch, in the order of the first ones.
  std::vector<kv::Place> places;                  // Of the batch's items ...
  std::vector<std::int32_t> cells;                // ... and their cells.
  std::vector<kv::StateSlots::Step> state_steps;  // By item, in recurrent models.
  StepRange step;                                 // The last one.
  std::vector<bool> forks;               // By move of sequences.moves(): comes behind the tokens of its step.
  std::vector<std::uint64_t> filled_by;  // By cell: the last step that filled it.
  std::uint64_t step_number = 0;
  std::size_t first_follow = 0;  // Of the moves that the last item owes, those to the others that have it.
  std::size_t n_moves_done = 0;  // Of sequences.moves().
  bool waiting_forks = false;    // Some before n_moves_done are not done yet.
  std::vector<Pos> last_pos;     // By sequence: the last position in the batch so far.
  std::vector<const float*> logits_of;  // By item of the last batch.
  std::vector<float> kept_logits;
  std::size_t n_kept = 0;
  std::int64_t last_symbols[4] = {-1, -1, -1, -1};
  std::atomic<bool> cancelled{false};
  double host_seconds = 0.0;
};

Context::Context(std::shared_ptr<const Model> model, const ContextParams& params)
    : impl_(std::make_unique<Impl>(std::move(model), params)) {}
Context::~Context() = default;
Context::Context(Context&&) noexcept = default;

const Model& Context::model() const { return *impl_->model; }
const ContextParams& Context::params() const { return impl_->params; }

DecodeStatus Context::decode(const Batch& batch) { return impl_->decode(batch); }

void Context::cancel() noexcept {
  impl_->cancelled.store(true, std::memory_order_relaxed);
  impl_->plan.cancel();
}

std::span<const float> Context::logits(int i) const {
  if (i < 0 || i >= static_cast<int>(impl_->logits_of.size()) ||
      impl_->logits_of[static_cast<std::size_t>(i)] == nullptr)
    refuse("item " + std::to_string(i) + " of the last batch has no logits; ask for them when adding it");
  return {impl_->logits_of[static_cast<std::size_t>(i)],
          static_cast<std::size_t>(impl_->model->info().n_vocab)};
}

namespace {

/// The end of a range that may be given as "to the end".
Pos end_of(Pos end) { return end < 0 ? kMaxPosition : end; }

enum class Covered : std::uint8_t { kNothing, kPart, kAll };

/// How much of a sequence lies in a range; nothing of an empty one.
Covered covered(const kv::Sequences& sequences, SeqId seq, Pos begin, Pos end) {
  const Pos first = sequences.min_pos(seq), next = sequences.next_pos(seq);
  if (next == 0 || end <= first || begin >= next || begin >= end) return Covered::kNothing;
  return begin <= first && end >= next ? Covered::kAll : Covered::kPart;
}

[[noreturn]] void refuse_part(const char* what) {
  throw Error(ErrorCode::kUnsupported,
              std::string("this model has recurrent layers, whose state stands for the whole text: ") + what);
}

}  // namespace

void Context::remove(SeqId seq, Pos begin, Pos end) {
  impl_->check_sequence(seq);
  if (impl_->recurrent) {
    const Covered part = covered(impl_->sequences, seq, begin, end_of(end));
    if (part == Covered::kPart)
      refuse_part("a part of it cannot be removed; remove all of it, or go back to a copy made before");
    if (part == Covered::kAll) impl_->slots.remove(seq);
  }
  impl_->sequences.remove(seq, std::max(begin, 0), end_of(end));
}

bool Context::copy(SeqId from, SeqId to, Pos begin, Pos end) {
  impl_->check_sequence(from);
  impl_->check_sequence(to);
  if (impl_->recurrent) {
    const Covered of_from = covered(impl_->sequences, from, begin, end_of(end));
    const Covered of_to = covered(impl_->sequences, to, begin, end_of(end));
    const auto is_empty = [&](SeqId seq) { return impl_->sequences.next_pos(seq) == 0; };
    if (of_from == Covered::kNothing && of_to == Covered::kNothing) return true;
    if ((of_from != Covered::kAll && !is_empty(from)) || (of_to != Covered::kAll && !is_empty(to)))
      refuse_part("a part of it can neither be copied nor replaced; copy all of it");
    if (!impl_->sequences.copy(from, to, std::max(begin, 0), end_of(end))) return false;
    impl_->slots.copy(from, to);
    return true;
  }
  return impl_->sequences.copy(from, to, std::max(begin, 0), end_of(end));
}

void Context::keep(SeqId seq) {
  impl_->check_sequence(seq);
  impl_->sequences.keep(seq);
  for (SeqId other = 0; other < impl_->params.n_sequences; ++other)
    if (other != seq) impl_->slots.remove(other);
}

bool Context::shift(SeqId seq, Pos begin, Pos end, Pos delta) {
  impl_->check_sequence(seq);
  if (impl_->recurrent) refuse_part("it cannot be shifted; remove it and decode it at its new positions");
  if (!can_shift())
    throw Error(ErrorCode::kUnsupported, "this model has learned positions: its text cannot be shifted");
  if (!impl_->sequences.can_add(seq, std::max(begin, 0), end_of(end), delta))
    refuse("positions " + std::to_string(begin) + " to " + std::to_string(end) + " of sequence " +
           std::to_string(seq) + " shifted by " + std::to_string(delta) +
           " would meet others or leave the range of positions");
  return impl_->sequences.add(seq, std::max(begin, 0), end_of(end), delta);
}

bool Context::divide(SeqId seq, Pos begin, Pos end, int divisor) {
  impl_->check_sequence(seq);
  if (impl_->recurrent) refuse_part("its positions cannot be divided");
  if (!can_shift())
    throw Error(ErrorCode::kUnsupported, "this model has learned positions: they cannot be divided");
  if (divisor < 1 || !impl_->sequences.can_divide(seq, std::max(begin, 0), end_of(end), divisor))
    refuse("positions " + std::to_string(begin) + " to " + std::to_string(end) + " of sequence " +
           std::to_string(seq) + " cannot be divided by " + std::to_string(divisor) +
           ": they would pass those before them");
  return impl_->sequences.divide(seq, std::max(begin, 0), end_of(end), divisor);
}

void Context::clear() {
  for (SeqId seq = 0; seq < impl_->params.n_sequences; ++seq) remove(seq);
}

Pos Context::next_pos(SeqId seq) const {
  impl_->check_sequence(seq);
  return impl_->sequences.next_pos(seq);
}

Pos Context::min_pos(SeqId seq) const {
  impl_->check_sequence(seq);
  return impl_->sequences.min_pos(seq);
}

void Context::defragment(int max_cells) { impl_->sequences.defragment(max_cells); }
bool Context::consistent() const { return impl_->consistent(); }
bool Context::can_shift() const { return !impl_->hparams().learned_positions && !impl_->recurrent; }
Pos Context::max_positions() const { return impl_->max_pos; }
int Context::cells_used() const { return impl_->sequences.cells_used(); }
int Context::cells_total() const { return impl_->sequences.cells_total(); }

// --- States
// ---------------------------------------------------------------------------------------------------

std::vector<std::byte> Context::Impl::save(std::optional<SeqId> seq) {
  if (seq) check_sequence(*seq);
  carry_out_moves();
  std::vector<std::byte> bytes;
  states.save(seq,
              [&](std::span<const std::byte> part) { bytes.insert(bytes.end(), part.begin(), part.end()); });
  return bytes;
}

void Context::Impl::save_file(const std::filesystem::path& path, std::optional<SeqId> seq) {
  if (seq) check_sequence(*seq);
  carry_out_moves();
  base::AtomicFile file(path);
  states.save(seq, [&](std::span<const std::byte> part) { file.write(part); });
  file.commit();
}

bool Context::Impl::restore(std::span<const std::byte> bytes, std::optional<SeqId> seq) {
  if (seq) check_sequence(*seq);
  return states.restore(bytes, seq, [&] { carry_out_moves(); });
}

std::vector<std::byte> Context::save(SeqId seq) const { return impl_->save(seq); }
std::vector<std::byte> Context::save() const { return impl_->save({}); }
void Context::save_file(const std::filesystem::path& path, SeqId seq) const { impl_->save_file(path, seq); }
void Context::save_file(const std::filesystem::path& path) const { impl_->save_file(path, {}); }
bool Context::restore(std::span<const std::byte> state, SeqId seq) { return impl_->restore(state, seq); }
bool Context::restore(std::span<const std::byte> state) { return impl_->restore(state, {}); }
bool Context::restore_file(const std::filesystem::path& path, SeqId seq) {
  return impl_->restore(base::read_file(path, impl_->states.max_bytes()), seq);
}
bool Context::restore_file(const std::filesystem::path& path) {
  return impl_->restore(base::read_file(path, impl_->states.max_bytes()), {});
}

PlanStats Context::plan_stats() const {
  const exec::PlanCounters& counters = impl_->plan.counters();
  PlanStats stats;
  stats.compiled = counters.compiled;
  stats.steps = counters.steps;
  stats.steps_unchanged = counters.unchanged;
  stats.steps_shapes = counters.shapes;
  stats.steps_tensors = counters.tensors;
  if (counters.steps > 0)
    stats.host_us_per_step = impl_->host_seconds * 1e6 / static_cast<double>(counters.steps);
  return stats;
}

}  // namespace weft
