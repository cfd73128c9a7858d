// Computes a batch: checks it and resolves its positions. Then, ubatch by ubatch, it is placed (takes cells)
// and bound (writes the inputs). The plan runs, and the logits are read.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <iterator>
#include <string>
#include <utility>

#include "base/check.h"
#include "engine/context_impl.h"
#include "engine/refuse.h"
#include "engine/sampling/log_sum_exp.h"

namespace weft {
namespace {

using engine::refuse;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

void Context::Impl::check_sequence(SeqId seq) const {
  if (seq < 0 || seq >= params.n_sequences)
    refuse("sequence " + std::to_string(seq) + " is outside 0 to " + std::to_string(params.n_sequences - 1));
}

void Context::Impl::check_intact(SeqId seq) const {
  if (!sequences.intact(seq))
    refuse("sequence " + std::to_string(seq) +
           " is damaged, because a device or an allocation failed while its cells were moved; remove it, and "
           "decode its tokens again");
}

void Context::Impl::check(const Batch& batch) {
  if (batch.size() == 0) refuse("the batch is empty");
  if (batch.size() > sequences.cells_total())
    refuse("the batch has " + std::to_string(batch.size()) + " items, the cache has " +
           std::to_string(sequences.cells_total()) +
           " cells; split the batch, or create the context with a larger n_ctx");
  positions.clear();
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
      if (item.n_embedding != model->info().n_embd_input)
        refuse("the embedding has " + std::to_string(item.n_embedding) +
               " numbers, but those of this model have " + std::to_string(model->info().n_embd_input) +
               where());
    } else if (item.token < 0 || item.token >= model->info().n_vocab) {
      refuse("token " + std::to_string(item.token) + " is outside the vocabulary of " +
             std::to_string(model->info().n_vocab) + where());
    }
    if (item.n_best > params.n_best)
      refuse("the " + std::to_string(item.n_best) +
             " best tokens were requested, but the context returns at most " + std::to_string(params.n_best) +
             where() + "; create it with a larger n_best");
    if (item.log_sum_exp && item.token_of_logit != kNoToken &&
        (item.token_of_logit < 0 || item.token_of_logit >= model->info().n_vocab))
      refuse("the logit of token " + std::to_string(item.token_of_logit) +
             " was requested, but the vocabulary has " + std::to_string(model->info().n_vocab) + where());
    const Pos last = last_of(item.seq);
    const Pos pos = item.pos != Batch::kNextPos
                        ? item.pos
                        : std::max(last + 1, last < 0 ? sequences.next_pos(item.seq) : 0);
    if (pos < 0 || pos >= max_pos)
      refuse("position " + std::to_string(pos) + " is outside 0 to " + std::to_string(max_pos - 1) + where());
    const auto claim = [&](SeqId seq) {
      check_intact(seq);
      if (model->info().reads_source && sources.size(seq) == 0)
        refuse("sequence " + std::to_string(seq) + " has no encoder input" + where() +
               "; this model generates from one (Context::set_source)");
      if (pos <= last_of(seq))
        refuse("position " + std::to_string(pos) + " does not follow the last one of sequence " +
               std::to_string(seq) + where());
      for (const auto& memory : memories)
        if (const kv::Refusal why = memory->why_not_take(seq, pos))
          throw Error(ErrorCode::kUnsupported, "position " + std::to_string(pos) + " of sequence " +
                                                   std::to_string(seq) + where() +
                                                   " cannot be computed: " + why);
      if (sequences.holds(seq, pos))
        refuse("position " + std::to_string(pos) + " of sequence " + std::to_string(seq) + " is taken" +
               where());
      last_of(seq) = pos;
    };
    claim(item.seq);
    for (const SeqId other : batch.shared_with(i)) {
      claim(other);
      if (!sources.same(item.seq, other))
        refuse("sequences " + std::to_string(item.seq) + " and " + std::to_string(other) +
               " have different encoder inputs and cannot share a token" + where());
      if (!adapters.same(item.seq, other))
        refuse("sequences " + std::to_string(item.seq) + " and " + std::to_string(other) +
               " have different adapters and cannot share a token" + where());
    }
    for (const Pos axis : item.axes)
      if (axis >= max_pos)
        refuse("position " + std::to_string(axis) + " of an axis is outside 0 to " +
               std::to_string(max_pos - 1) + where());
    if (item.sees_to > max_pos)
      refuse("position " + std::to_string(item.sees_to) + " is beyond " + std::to_string(max_pos) + where());
    positions.push_back({item.seq, pos});
  }
  placer.begin(batch, positions, ubatch_size(batch));
  hidden_pairs.assign(batch.hidden().begin(), batch.hidden().end());
  if (hidden_pairs.size() > engine::kMaxHidden)
    refuse("at most " + std::to_string(engine::kMaxHidden) +
           " pairs of items can be hidden, but the batch has " + std::to_string(hidden_pairs.size()));
  for (const auto& [item, other] : hidden_pairs)
    if (!engine::UbatchPlacer::shares_sequence(batch, item, other))
      refuse("items " + std::to_string(item) + " and " + std::to_string(other) +
             " of the batch have no common sequence, so they do not attend to each other anyway");
  std::sort(hidden_pairs.begin(), hidden_pairs.end());
  for (int i = 0; i < batch.size(); ++i) {
    const auto& axes = batch[i].axes;
    if (std::all_of(axes.begin(), axes.end(), [](Pos axis) { return axis < 0; })) continue;
    on_axes[static_cast<std::size_t>(batch[i].seq)] = true;
    for (const SeqId other : batch.shared_with(i)) on_axes[static_cast<std::size_t>(other)] = true;
  }
}

void Context::Impl::begin_memories(const Batch& batch) {
  for (const auto& memory : memories) {
    memory->begin_batch();
    for (int i = 0; i < batch.size(); ++i)
      if (const kv::Refusal why = memory->add(placer.at(i), batch.shared_with(i)))
        throw Error(ErrorCode::kUnsupported,
                    "item " + std::to_string(i) + " of the batch cannot be computed: " + why);
  }
}

Context::Impl::StepSizes Context::Impl::bind_ubatch(const Batch& batch) {
  const engine::Ubatch& ubatch = placer.ubatch();
  const auto tokens = values<std::int32_t>(graph.tokens);
  const auto use_embeddings = values<std::int32_t>(graph.use_embeddings);
  const auto embeddings = values<float>(graph.embeddings);
  const auto ends = values<std::int32_t>(graph.ends);
  const auto hidden_first = values<std::int32_t>(graph.hidden_first);
  const auto position_of = values<std::int32_t>(graph.positions);
  const std::array axes = {values<std::int32_t>(graph.axes[0]), values<std::int32_t>(graph.axes[1]),
                           values<std::int32_t>(graph.axes[2])};
  const auto sequence_of = values<std::int32_t>(graph.sequences);
  const auto cell_of = values<std::int32_t>(graph.full.cells);
  const auto wanted_rows = values<std::int32_t>(graph.wanted_rows);
  const auto output_rows = values<std::int32_t>(graph.output_rows);
  const auto embedding_rows = values<std::int32_t>(graph.embedding_rows);
  const auto logit_rows = values<std::int32_t>(graph.logit_rows);
  const auto best_counts = values<std::int32_t>(graph.best_counts);
  const auto log_sum_ids = values<std::int32_t>(graph.log_sum_ids);
  std::size_t n_wanted = 0, n_outputs = 0, n_logits = 0, n_embeddings = 0;
  const model::Adapters* const known = model->impl().description.additions.adapters.get();
  engine::AdapterRows of_tokens(graph.adapters_of_tokens, bindings, known);
  engine::AdapterRows of_wanted(graph.adapters_of_wanted, bindings, known);
  engine::AdapterRows of_outputs(graph.adapters_of_outputs, bindings, known);
  for (int i = ubatch.begin; i < ubatch.end; ++i) {
    const auto row = static_cast<std::size_t>(i - ubatch.begin);
    tokens[row] = std::max(batch[i].token, 0);
    use_embeddings[row] = batch[i].embedding >= 0 ? 1 : 0;
    if (batch[i].embedding >= 0) {
      const auto embedding = batch.embedding(i);
      std::copy(embedding.begin(), embedding.end(),
                embeddings.begin() + static_cast<std::ptrdiff_t>(row * embedding.size()));
    }
    ends[row] = std::max(batch[i].sees_to, placer.at(i).pos + 1);
    hidden_first[row] = -1;
    position_of[row] = placer.at(i).pos;
    for (std::size_t axis = 0; axis < axes.size(); ++axis)
      if (!axes[axis].empty())
        axes[axis][row] = batch[i].axes[axis] >= 0 ? batch[i].axes[axis] : placer.at(i).pos;
    sequence_of[row] = placer.at(i).seq;
    cell_of[row] = placer.cell(i);
    sources.bind(row, batch[i].seq);
    const std::vector<AdapterUse>& uses = adapters.of(batch[i].seq);
    of_tokens.add(uses);
    if (!batch[i].logits && !batch[i].wants_embedding) continue;
    of_wanted.add(uses);
    const auto wanted = static_cast<std::int32_t>(n_wanted);
    wanted_rows[n_wanted++] = static_cast<std::int32_t>(row);
    if (batch[i].wants_embedding) embedding_rows[n_embeddings++] = wanted;
    if (!batch[i].logits) continue;
    of_outputs.add(uses);
    if (params.n_best > 0) {
      if (batch[i].n_best == 0) logit_rows[n_logits++] = static_cast<std::int32_t>(n_outputs);
      best_counts[n_outputs] = batch[i].n_best;
      static_assert(ops::LogSumExp::kNoColumn == kNoToken);
      log_sum_ids[n_outputs] = batch[i].log_sum_exp ? batch[i].token_of_logit : ops::LogSumExp::kNoRow;
    }
    output_rows[n_outputs++] = wanted;
  }
  // The pairs are in the order of their items.
  const auto hidden = values<HiddenCells>(graph.full.hidden);
  std::size_t n_hidden = 0;
  auto pair = std::lower_bound(hidden_pairs.begin(), hidden_pairs.end(), std::pair(ubatch.begin, 0));
  for (; pair != hidden_pairs.end() && pair->first < ubatch.end; ++pair) {
    const auto& [item, other] = *pair;
    const auto row = item - ubatch.begin;
    const auto& seen_from = placer.at(item);
    const std::int32_t cell = sequences.cell_of(seen_from.seq, placer.at(other).pos);
    if (cell < 0) continue;  // In a later step, so not visible.
    auto& first = hidden_first[static_cast<std::size_t>(row)];
    if (first < 0) first = static_cast<std::int32_t>(n_hidden);
    hidden[n_hidden++] = {row, cell / kPageCells, std::uint64_t{1} << cell % kPageCells};
  }
  if (n_hidden > 0) hidden[n_hidden++] = {};
  kv::PlacedItems items = placer.items();
  items.hidden = hidden.first(n_hidden);
  for (const auto& memory : memories) memory->bind(items);
  return {.n_tokens = ubatch.end - ubatch.begin,
          .n_wanted = static_cast<std::int64_t>(n_wanted),
          .n_outputs = static_cast<std::int64_t>(n_outputs),
          .n_embeddings = static_cast<std::int64_t>(n_embeddings),
          .n_logits = static_cast<std::int64_t>(params.n_best > 0 ? n_logits : n_outputs),
          .n_hidden = static_cast<std::int64_t>(n_hidden),
          .n_token_uses = of_tokens.n_uses(),
          .n_wanted_uses = of_wanted.n_uses(),
          .n_output_uses = of_outputs.n_uses()};
}

kv::MoveInputs Context::Impl::move_inputs(const model::CellInputs& inputs) const {
  return {values<std::int32_t>(inputs.move_from), values<std::int32_t>(inputs.move_to),
          values<std::int32_t>(inputs.move_deltas), values<std::int32_t>(inputs.fork_from),
          values<std::int32_t>(inputs.fork_to)};
}

void Context::Impl::note_parts(const Batch* batch) {
  parts.clear();
  if (!plan.copies_inputs()) return;
  const engine::Ubatch ubatch = batch != nullptr ? placer.ubatch() : engine::Ubatch{};
  const auto add = [&](ValueId value, std::size_t begin, std::size_t bytes) {
    if (value != kNoValue) parts.push_back({value, begin, bytes});
  };
  // The tables of extents are as large as the cache, and embeddings are rare.
  for (const ValueId value : {graph.full.extents, graph.windowed.extents, graph.embeddings}) add(value, 0, 0);
  const auto row_bytes = static_cast<std::size_t>(n_extents()) * sizeof(Extent);
  ++n_noted;
  for (int i = ubatch.begin; i < ubatch.end; ++i) {
    const auto n = static_cast<std::size_t>((*batch)[i].n_embedding) * sizeof(float);
    if (n > 0) add(graph.embeddings, static_cast<std::size_t>(i - ubatch.begin) * n, n);
    const auto seq = static_cast<std::size_t>((*batch)[i].seq);
    if (std::exchange(noted[seq], n_noted) == n_noted) continue;
    for (const model::CellInputs* inputs : {&graph.full, &graph.windowed}) {
      const auto counts = values<std::int32_t>(inputs->extent_counts);
      if (!counts.empty())
        add(inputs->extents, seq * row_bytes, static_cast<std::size_t>(counts[seq]) * sizeof(Extent));
    }
  }
  std::sort(parts.begin(), parts.end(),
            [](const exec::InputPart& a, const exec::InputPart& b) { return a.value < b.value; });
}

bool Context::Impl::run_step(const StepSizes& sizes, bool start) {
  keep_logits();
  bool is_done = true;
  const kv::MoveInputs full = move_inputs(graph.full), windowed = move_inputs(graph.windowed);
  for (bool last = false; !last;) {
    const kv::MoveLog::Part moves = sequences.moves().begin(full, windowed);
    last = moves.last;
    const auto set = [&](SymbolId symbol, std::int64_t value) {
      if (symbol != kNoSymbol) symbols[static_cast<std::size_t>(symbol)] = value;
    };
    const StepSizes now = last ? sizes : StepSizes{};
    set(graph.n_tokens, now.n_tokens);
    set(graph.n_wanted, now.n_wanted);
    set(graph.n_outputs, now.n_outputs);
    set(graph.n_embeddings, now.n_embeddings);
    set(graph.n_logits, now.n_logits);
    set(graph.n_hidden, now.n_hidden);
    set(graph.source.n_rows, now.n_source);
    set(graph.adapters_of_tokens.n_uses, now.n_token_uses);
    set(graph.adapters_of_wanted.n_uses, now.n_wanted_uses);
    set(graph.adapters_of_outputs.n_uses, now.n_output_uses);
    set(graph.adapters_of_source.n_uses, now.n_source_uses);
    set(graph.n_moves, moves.n_moves);
    set(graph.n_forks, moves.n_forks);
    exec::Step run;
    run.symbols = symbols;
    run.parts = parts;
    run.actual.shapes = symbols != last_symbols;
    if (start) {
      is_done = plan.start(run);
    } else {
      plan.run(run);
    }
    sequences.moves().commit();
    last_symbols.assign(symbols.begin(), symbols.end());
  }
  return is_done;
}

void Context::Impl::carry_out_moves() {
  land();
  follow_moves();
  if (!sequences.moves().empty()) run_without_tokens({});
}

void Context::Impl::run_without_tokens(const StepSizes& sizes) {
  land();
  note_parts(nullptr);
  try {
    run_step(sizes);
  } catch (...) {
    sequences.abandon_moves();
    throw;
  }
}

DecodeStatus Context::Impl::set_source(SeqId seq, std::span<const Token> tokens) {
  check_sequence(seq);
  if (!model->info().reads_source)
    throw Error(ErrorCode::kUnsupported, "a model of the family " + model->info().architecture +
                                             " has no encoder; its prompt is the beginning of the sequence");
  if (sequences.min_pos(seq) >= 0)
    refuse("sequence " + std::to_string(seq) +
           " may hold tokens that were computed with another encoder input; remove it first");
  if (tokens.empty()) refuse("the encoder input is empty");
  engine::check_source_size(tokens.size(), params.n_source);
  for (const Token token : tokens)
    if (token < 0 || token >= model->info().n_vocab)
      refuse("token " + std::to_string(token) + " of the encoder input is outside the vocabulary of " +
             std::to_string(model->info().n_vocab));
  follow_moves();
  sources.set(seq, tokens);
  if (take_cancel()) {
    sources.remove(seq);
    return DecodeStatus::kCancelled;
  }
  engine::AdapterRows of_source(graph.adapters_of_source, bindings,
                                model->impl().description.additions.adapters.get());
  for (std::size_t i = 0; i < tokens.size(); ++i) of_source.add(adapters.of(seq));
  try {
    run_without_tokens(
        {.n_source = static_cast<std::int64_t>(tokens.size()), .n_source_uses = of_source.n_uses()});
    column_totals.add(plan, symbols);
  } catch (...) {
    sources.remove(seq);
    throw;
  }
  if (!take_cancel()) return DecodeStatus::kOk;
  sources.remove(seq);
  return DecodeStatus::kCancelled;
}

void Context::Impl::read_embeddings(Coming& of, const engine::Ubatch& step) const {
  const auto n_embd = static_cast<std::size_t>(model->info().n_embd);
  const auto* row = reinterpret_cast<const float*>(plan.output(graph.row_embeddings).host().data());
  for (int i = step.begin; i < step.end; ++i) {
    if (!(*of.batch)[i].wants_embedding) continue;
    std::vector<float>& kept = of.results.kept_embeddings;
    of.results.embedding_of[static_cast<std::size_t>(i)] = static_cast<int>(kept.size() / n_embd);
    kept.insert(kept.end(), row, row + n_embd);
    row += n_embd;
  }
}

void Context::Impl::read_logits(Coming& of, const engine::Ubatch& step) const {
  const auto n_vocab = static_cast<std::size_t>(model->info().n_vocab);
  const auto* row = reinterpret_cast<const float*>(plan.output(graph.logits).host().data());
  for (int i = step.begin; i < step.end; ++i) {
    const Batch::Item& item = (*of.batch)[i];
    if (!item.logits || item.n_best > 0) continue;
    of.results.logits_of[static_cast<std::size_t>(i)] = row;
    if (params.n_best == 0 && item.log_sum_exp)  // The graph does not compute it.
      of.results.log_sums[static_cast<std::size_t>(i)] =
          engine::log_sum_exp({row, n_vocab}, item.token_of_logit);
    row += n_vocab;
  }
}

void Context::Impl::read_log_sums(Coming& of, const engine::Ubatch& step) const {
  const auto* row = reinterpret_cast<const float*>(plan.output(graph.log_sums).host().data());
  for (int i = step.begin; i < step.end; ++i) {
    const Batch::Item& item = (*of.batch)[i];
    if (!item.logits) continue;
    const float* const pair = std::exchange(row, row + 2);
    if (item.log_sum_exp)
      of.results.log_sums[static_cast<std::size_t>(i)] = {pair[0], item.token_of_logit, pair[1]};
  }
}

void Context::Impl::read_best(Coming& of, const engine::Ubatch& step) const {
  const auto* row = reinterpret_cast<const float*>(plan.output(graph.best).host().data());
  for (int i = step.begin; i < step.end; ++i) {
    const Batch::Item& item = (*of.batch)[i];
    if (!item.logits) continue;
    const auto width = static_cast<std::size_t>(params.n_best);
    const float* value = std::exchange(row, row + 2 * width);
    if (item.n_best > 0)
      for (Best& one : of.results.add_best(i, item.n_best))
        one = {static_cast<Token>(value[width]), *value}, ++value;
  }
}

DecodeStatus Context::Impl::decode(const Batch& batch) {
  drop_begun();
  const DecodeStatus status = compute(batch, false);
  if (status == DecodeStatus::kOk) show();
  return status;
}

DecodeStatus Context::Impl::begin(const Batch& batch) { return compute(batch, true); }

DecodeStatus Context::Impl::finish() {
  while (!started.empty() && started.front().of == &coming.front()) land_oldest();
  if (take_cancel()) {
    drop_begun();
    return DecodeStatus::kCancelled;
  }
  if (!coming.empty()) show();
  return DecodeStatus::kOk;
}

void Context::Impl::read_oldest() {
  in_place = started.front();
  started.erase(started.begin());
  read_embeddings(*in_place.of, in_place.ubatch);
  read_logits(*in_place.of, in_place.ubatch);
  column_totals.add(plan, symbols);
  if (params.n_best == 0) return;
  read_best(*in_place.of, in_place.ubatch);
  read_log_sums(*in_place.of, in_place.ubatch);
}

void Context::Impl::land_oldest() {
  try {
    keep_logits();
    plan.finish_oldest();
    read_oldest();
  } catch (...) {
    drop_begun();
    throw;
  }
}

void Context::Impl::land() {
  while (!started.empty()) land_oldest();
}

void Context::Impl::keep_logits() {
  const auto [of, ubatch] = std::exchange(in_place, {});
  if (of == nullptr) return;
  for (int i = ubatch.begin; i < ubatch.end; ++i)
    of->results.keep_logits(i, static_cast<std::size_t>(model->info().n_vocab));
}

void Context::Impl::show() {
  std::swap(results, coming.front().results);
  retire(coming.begin());
}

void Context::Impl::retire(std::list<Coming>::iterator of) noexcept {
  if (in_place.of == &*of) in_place = {};
  spare.splice(spare.begin(), coming, of);
}

void Context::Impl::drop_begun() noexcept {
  try {
    plan.finish();
  } catch (...) {  // No caller waits for this failure.
  }
  started.clear();
  in_place = {};
  spare.splice(spare.begin(), coming);
}

Context::Impl::Coming& Context::Impl::add_coming(const Batch& batch, bool leave) {
  WEFT_CHECK(!spare.empty());
  Coming& of = spare.front();
  of.results.begin(batch.size());
  if (leave) of.begun = batch;
  of.batch = leave ? &of.begun : &batch;
  coming.splice(coming.end(), spare, spare.begin());
  return of;
}

DecodeStatus Context::Impl::compute(const Batch& batch, bool leave) {
  const auto start = std::chrono::steady_clock::now();
  const double kernels_before = plan.kernel_seconds();
  check(batch);
  results.clear();
  if (take_cancel()) {
    drop_begun();
    return DecodeStatus::kCancelled;
  }
  if (sequences.cells_used() + batch.size() > sequences.cells_total()) return DecodeStatus::kCacheFull;
  DecodeStatus status = DecodeStatus::kOk;
  try {
    begin_memories(batch);
    status = run_ubatches(add_coming(batch, leave), leave);
    if (take_cancel()) status = DecodeStatus::kCancelled;
    if (status == DecodeStatus::kCacheFull) land();
  } catch (...) {
    drop_begun();
    undo(batch);
    sequences.abandon_moves();
    throw;
  }
  if (status != DecodeStatus::kOk) {
    if (status == DecodeStatus::kCancelled) drop_begun();
    if (status == DecodeStatus::kCacheFull) retire(std::prev(coming.end()));
    undo(batch);
    if (status == DecodeStatus::kCacheFull && sequences.cells_used() == 0)
      refuse("the batch's " + std::to_string(batch.size()) + " items do not fit into the empty cache of " +
             std::to_string(sequences.cells_total()) + " cells in " + std::to_string(n_pages) +
             " pages: their positions are too far apart, or too many sequences diverge; split the batch, or "
             "create the context with a larger n_ctx");
    return status;
  }
  for (const auto& memory : memories) memory->end_batch(/*computed=*/true);
  // Kernels of several devices may overlap.
  host_seconds += std::max(seconds_since(start) - (plan.kernel_seconds() - kernels_before), 0.0);
  return DecodeStatus::kOk;
}

void Context::Impl::undo(const Batch& batch) {
  placer.give_back(batch);
  for (const auto& memory : memories) memory->end_batch(/*computed=*/false);
}

int Context::Impl::ubatch_size(const Batch& batch) const {
  // In a step of so few rows, one more row costs a CPU almost nothing ...
  constexpr int kMinRows = 64;
  // ... and with this number of steps, waiting for the first and the last is short.
  constexpr int kSteps = 8;
  const int n_steps = std::min(batch.size() / kMinRows, kSteps);
  if (n_steps < 2 || !plan.pipelined() || !engine::are_cpus(model->impl())) return params.n_ubatch;
  for (int i = 0; i < batch.size(); ++i)
    if (batch[i].sees_to >= 0) return params.n_ubatch;
  return std::min(params.n_ubatch, (batch.size() + n_steps - 1) / n_steps);
}

DecodeStatus Context::Impl::run_ubatches(Coming& of, bool leave) {
  const Batch& batch = *of.batch;
  for (int end = 0; end < batch.size();) {
    if (!placer.place(batch, end)) return DecodeStatus::kCacheFull;
    const engine::Ubatch ubatch = placer.ubatch();
    end = ubatch.end;
    const StepSizes sizes = bind_ubatch(batch);
    const bool is_whole = ubatch.end - ubatch.begin == batch.size();
    // A step with pending moves does not overlap: the moves are known to be done only when the step is.
    const bool ahead = n_at_once() > 1 && (leave || !is_whole) && sequences.moves().empty();
    if (!ahead) land();
    note_parts(&batch);
    started.push_back({&of, ubatch});
    const bool is_done = !cancelled.load() && run_step(sizes, ahead);
    if (cancelled.load()) return DecodeStatus::kCancelled;
    if (is_done) read_oldest();
  }
  if (!leave) land();
  return cancelled.load() ? DecodeStatus::kCancelled : DecodeStatus::kOk;
}

}  // namespace weft
