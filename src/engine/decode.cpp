// The walk of a batch: admit (check it, resolve positions), place (take cells), bind (write the inputs), run
// the plan, read (find the logits).
#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>

#include "engine/context_impl.h"
#include "engine/refuse.h"
#include "engine/sampling/best.h"

namespace weft {
namespace {

using engine::refuse;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Items from `begin` on that want all their logits.
std::size_t count_logits(const Batch& batch, int begin, int end) {
  std::size_t n = 0;
  for (int i = begin; i < end; ++i) n += batch[i].logits && batch[i].n_best == 0 ? 1u : 0u;
  return n;
}

/// How many of a step's outputs are rows of logits: all or none, as the head's weights are read once for
/// either.
std::int64_t n_logits_of(const Batch& batch, const engine::Placing::Step& step) {
  return count_logits(batch, step.begin, step.end) > 0 ? step.n_outputs : 0;
}

}  // namespace

void Context::Impl::check_sequence(SeqId seq) const {
  if (seq < 0 || seq >= params.n_sequences)
    refuse("sequence " + std::to_string(seq) + " is outside 0 to " + std::to_string(params.n_sequences - 1));
}

void Context::Impl::admit(const Batch& batch) {
  if (batch.size() == 0) refuse("the batch is empty");
  places.clear();
  if (windows) windows->end_batch();
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
    if (item.n_best > params.n_best)
      refuse("the " + std::to_string(item.n_best) + " best tokens are asked for, the context gives " +
             std::to_string(params.n_best) + where() + "; make it with a larger n_best");
    const Pos last = last_of(item.seq);
    const Pos pos = item.pos != Batch::kNextPos
                        ? item.pos
                        : std::max(last + 1, last < 0 ? sequences.next_pos(item.seq) : 0);
    if (pos < 0 || pos >= max_pos)
      refuse("position " + std::to_string(pos) + " is outside 0 to " + std::to_string(max_pos - 1) + where());
    const auto claim = [&](SeqId seq) {
      if (pos <= last_of(seq))
        refuse("position " + std::to_string(pos) + " does not follow the last one of sequence " +
               std::to_string(seq) + where());
      if (recurrent && pos < sequences.next_pos(seq))
        refuse("position " + std::to_string(pos) + " is before the end of sequence " + std::to_string(seq) +
               where() + "; this model has recurrent layers, which read text in order");
      if (windows && !windows->can_take(seq, pos))
        throw Error(ErrorCode::kUnsupported, "position " + std::to_string(pos) + " of sequence " +
                                                 std::to_string(seq) +
                                                 " sees text that sliding-window layers have forgotten" +
                                                 where() + engine::kKeepWindows);
      if (sequences.holds(seq, pos))
        refuse("position " + std::to_string(pos) + " of sequence " + std::to_string(seq) + " is taken" +
               where());
      if (windows && last_of(seq) < 0) windows->begin_batch(seq, pos);
      last_of(seq) = pos;
    };
    claim(item.seq);
    for (const SeqId other : batch.shared_with(i)) claim(other);
    if (item.sees_to > max_pos)
      refuse("position " + std::to_string(item.sees_to) + " is beyond " + std::to_string(max_pos) + where());
    places.push_back({item.seq, pos});
  }
  placing.begin(places);
  hidden_pairs.assign(batch.hidden().begin(), batch.hidden().end());
  if (hidden_pairs.size() > engine::kMaxHidden)
    refuse("at most " + std::to_string(engine::kMaxHidden) + " pairs of items can be hidden, the batch has " +
           std::to_string(hidden_pairs.size()));
  for (const auto& [item, other] : hidden_pairs)
    if (!placing.shares_sequence(batch, item, other))
      refuse("items " + std::to_string(item) + " and " + std::to_string(other) +
             " of the batch have no sequence in common: they do not see each other anyway");
  std::sort(hidden_pairs.begin(), hidden_pairs.end());
}

void Context::Impl::step_states(const Batch& batch) {
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

std::int64_t Context::Impl::bind_step(const Batch& batch) {
  const engine::Placing::Step& step = placing.step();
  const auto tokens = values<std::int32_t>(graph.tokens);
  const auto use_embeddings = values<std::int32_t>(graph.use_embeddings);
  const auto embeddings = values<float>(graph.embeddings);
  const auto ends = values<std::int32_t>(graph.ends);
  const auto hidden_first = values<std::int32_t>(graph.hidden_first);
  const auto positions = values<std::int32_t>(graph.positions);
  const auto sequence_of = values<std::int32_t>(graph.sequences);
  const auto cell_of = values<std::int32_t>(graph.full.cells);
  const auto output_rows = values<std::int32_t>(graph.output_rows);
  const auto logit_rows = values<std::int32_t>(graph.logit_rows);
  const auto best_rows = values<std::int32_t>(graph.best_rows);
  const auto best_counts = values<std::int32_t>(graph.best_counts);
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
    ends[row] = std::max(batch[i].sees_to, placing.place(i).pos + 1);
    hidden_first[row] = -1;
    positions[row] = placing.place(i).pos;
    sequence_of[row] = placing.place(i).seq;
    cell_of[row] = placing.cell(i);
    if (recurrent) {
      state_from[row] = state_steps[item].from;
      state_to[row] = state_steps[item].to;
    }
    if (!batch[i].logits) continue;
    if (params.n_best > 0) {
      logit_rows[n_outputs] = best_rows[n_outputs] = static_cast<std::int32_t>(n_outputs);
      best_counts[n_outputs] = batch[i].n_best;
    }
    output_rows[n_outputs++] = static_cast<std::int32_t>(row);
  }
  // The pairs stand in the order of their items.
  const auto hidden = values<HiddenCells>(graph.full.hidden);
  std::size_t n_hidden = 0;
  for (const auto& [item, other] : hidden_pairs) {
    if (item < step.begin || item >= step.end) continue;
    const auto row = item - step.begin;
    const auto& seen_from = placing.place(item);
    const std::int32_t cell = sequences.cell_of(seen_from.seq, placing.place(other).pos);
    if (cell < 0) continue;  // Of a later step: not there to be seen.
    auto& first = hidden_first[static_cast<std::size_t>(row)];
    if (first < 0) first = static_cast<std::int32_t>(n_hidden);
    hidden[n_hidden++] = {row, cell / kPageCells, std::uint64_t{1} << cell % kPageCells};
  }
  if (n_hidden == 0) return 0;
  hidden[n_hidden++] = {};
  return static_cast<std::int64_t>(n_hidden);
}

void Context::Impl::bind_windows(const Batch& batch, std::int64_t n_hidden) {
  const engine::Placing::Step& step = placing.step();
  const auto cells = values<std::int32_t>(graph.windowed.cells);
  const auto extents = values<Extent>(graph.windowed.extents);
  const auto counts = values<std::int32_t>(graph.windowed.extent_counts);
  const auto width = static_cast<std::size_t>(n_extents());
  for (int i = step.begin; i < step.end; ++i) {
    cells[static_cast<std::size_t>(i - step.begin)] = windows->cell(placing.cell(i));
    counts[static_cast<std::size_t>(batch[i].seq)] = -1;
  }
  // A sequence's positions ascend: what its first item sees is all that the others see.
  for (int i = step.begin; i < step.end; ++i) {
    const auto seq = static_cast<std::size_t>(batch[i].seq);
    if (counts[seq] >= 0) continue;
    counts[seq] = windows->fill_row(batch[i].seq, placing.place(i).pos, extents.subspan(seq * width, width));
  }
  const auto hidden = values<HiddenCells>(graph.full.hidden);
  const auto hidden_there = values<HiddenCells>(graph.windowed.hidden);
  for (std::size_t n = 0; n < static_cast<std::size_t>(n_hidden); ++n) {
    hidden_there[n] = hidden[n];
    if (hidden[n].row >= 0) hidden_there[n].page = windows->page(hidden[n].page);
  }
}

engine::MoveInputs Context::Impl::move_inputs(const model::CellInputs& inputs) const {
  return {values<std::int32_t>(inputs.move_from), values<std::int32_t>(inputs.move_to),
          values<std::int32_t>(inputs.move_deltas), values<std::int32_t>(inputs.fork_from),
          values<std::int32_t>(inputs.fork_to)};
}

void Context::Impl::run_step(std::int64_t n_tokens, std::int64_t n_outputs, std::int64_t n_logits,
                             std::int64_t n_hidden, bool start) {
  const engine::MoveInputs full = move_inputs(graph.full), windowed = move_inputs(graph.windowed);
  for (bool all = false; !all;) {
    const engine::Placing::BoundMoves n = placing.bind_moves(full, windowed);
    all = placing.all_moves_bound();
    const std::int64_t all_symbols[] = {
        all ? n_tokens : 0, all ? n_outputs : 0,           n.n_moves, n.n_forks, all ? n_hidden : 0,
        all ? n_logits : 0, all ? n_outputs - n_logits : 0};
    const auto symbols = std::span(all_symbols).first(graph.graph.symbols().size());
    exec::Step run;
    run.symbols = symbols;
    run.actual.shapes = !std::equal(symbols.begin(), symbols.end(), last_symbols.begin(), last_symbols.end());
    if (start) {
      plan.start(run);
    } else {
      plan.run(run);
    }
    last_symbols.assign(symbols.begin(), symbols.end());
  }
  placing.clear_moves();
}

void Context::Impl::carry_out_moves() {
  if (!sequences.moves().empty()) run_step(0, 0, 0, 0);
}

void Context::Impl::read_step(const Batch& batch, const engine::Placing::Step& step) {
  if (n_logits_of(batch, step) > 0) {
    read_logits(batch, step);
  } else if (step.n_outputs > 0) {
    read_best(batch, step);
  }
}

void Context::Impl::read_logits(const Batch& batch, const engine::Placing::Step& step) {
  const auto n_vocab = static_cast<std::size_t>(model->info().n_vocab);
  const auto* row = reinterpret_cast<const float*>(plan.output(graph.logits).host().data());
  const bool keep = step.end < batch.size();
  if (keep && n_kept == 0) kept_logits.resize(count_logits(batch, 0, batch.size()) * n_vocab);
  for (int i = step.begin; i < step.end; ++i) {
    if (!batch[i].logits) continue;
    if (batch[i].n_best > 0) {
      engine::find_best({row, n_vocab}, add_best(batch, i));
    } else {
      float* const kept = kept_logits.data() + n_kept * n_vocab;
      if (keep) std::copy_n(row, n_vocab, kept);
      if (keep) ++n_kept;
      logits_of[static_cast<std::size_t>(i)] = keep ? kept : row;
    }
    row += n_vocab;
  }
}

void Context::Impl::read_best(const Batch& batch, const engine::Placing::Step& step) {
  const auto* row = reinterpret_cast<const float*>(plan.output(graph.best).host().data());
  for (int i = step.begin; i < step.end; ++i) {
    if (!batch[i].logits) continue;
    const float* ids = row + params.n_best;
    for (Best& one : add_best(batch, i)) one = {static_cast<Token>(*ids++), *row++};
    row = ids + (params.n_best - batch[i].n_best);
  }
}

std::span<Best> Context::Impl::add_best(const Batch& batch, int item) {
  const BestOf of = {best.size(), static_cast<std::size_t>(batch[item].n_best)};
  best_of[static_cast<std::size_t>(item)] = of;
  best.resize(of.begin + of.n);
  return std::span(best).subspan(of.begin, of.n);
}

DecodeStatus Context::Impl::decode(const Batch& batch) {
  const auto start = std::chrono::steady_clock::now();
  const double kernels_before = plan.kernel_seconds();
  cancelled.store(false, std::memory_order_relaxed);
  admit(batch);
  if (sequences.cells_used() + batch.size() > sequences.cells_total()) return DecodeStatus::kCacheFull;
  if (recurrent) step_states(batch);
  logits_of.assign(static_cast<std::size_t>(batch.size()), nullptr);
  best_of.assign(static_cast<std::size_t>(batch.size()), {});
  best.clear();
  n_kept = 0;
  DecodeStatus status = DecodeStatus::kOk;
  const auto undo = [&](int n) {
    slots.abandon();
    placing.give_back(batch, 0, n);
    logits_of.clear();
    best_of.clear();
  };
  int end = 0;
  std::optional<engine::Placing::Step> started;  // Its logits are still to be read.
  const auto finish_started = [&] {
    if (!started) return;
    plan.finish();
    if (cancelled.load(std::memory_order_relaxed)) {
      status = DecodeStatus::kCancelled;
    } else {
      read_step(batch, *started);
    }
    started.reset();
  };
  try {
    while (end < batch.size() && status == DecodeStatus::kOk) {
      if (!placing.place_step(batch, end)) {
        status = DecodeStatus::kCacheFull;
        break;
      }
      const engine::Placing::Step& step = placing.step();
      end = step.end;
      placing.check_what_is_seen(batch);
      const std::int64_t n_hidden = bind_step(batch);
      if (windows) bind_windows(batch, n_hidden);
      // Moves that are owed are known to be done only when their step is: it does not overlap.
      const bool ahead =
          plan.pipelined() && step.end - step.begin < batch.size() && sequences.moves().empty();
      if (!ahead) finish_started();
      if (status != DecodeStatus::kOk) break;
      run_step(step.end - step.begin, step.n_outputs, n_logits_of(batch, step), n_hidden, ahead);
      if (cancelled.load(std::memory_order_relaxed)) status = DecodeStatus::kCancelled;
      if (status != DecodeStatus::kOk) break;
      if (!ahead) {
        read_step(batch, step);
      } else {
        if (started) read_step(batch, *started);
        started = step;
      }
    }
    finish_started();
    plan.finish();  // One that was cancelled.
  } catch (...) {
    try {
      plan.finish();
    } catch (...) {  // The first error is the one to tell.
    }
    undo(end);
    throw;
  }
  if (status != DecodeStatus::kOk) {
    undo(end);
    return status;
  }
  if (windows) windows->end_batch();
  slots.commit();
  // Kernels of several devices may overlap.
  host_seconds += std::max(seconds_since(start) - (plan.kernel_seconds() - kernels_before), 0.0);
  return DecodeStatus::kOk;
}

}  // namespace weft
