// Computes a batch: ubatch by ubatch it takes cells, and a step of the plan computes it.
#include <algorithm>
#include <chrono>
#include <string>

#include "engine/context/context_impl.h"
#include "engine/refuse.h"

namespace weft {
namespace {

using engine::refuse;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

DecodeStatus Context::Impl::decode(const Batch& batch) {
  pipeline.drop_all();
  const DecodeStatus status = compute(batch, false);
  if (status == DecodeStatus::kOk) pipeline.show_oldest();
  return status;
}

DecodeStatus Context::Impl::begin(const Batch& batch) {
  if (pipeline.is_full())
    refuse("the context has " + std::to_string(pipeline.n_at_once()) +
           " batches in flight, and it computes no more at once; call finish() first");
  try {
    return compute(batch, true);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInvalidArgument) pipeline.drop_all();
    throw;
  }
}

DecodeStatus Context::Impl::finish() {
  pipeline.finish_oldest_batch();
  if (take_cancel()) {
    pipeline.drop_all();
    return DecodeStatus::kCancelled;
  }
  if (!pipeline.empty()) pipeline.show_oldest();
  return DecodeStatus::kOk;
}

DecodeStatus Context::Impl::compute(const Batch& batch, bool leave) {
  const auto start = std::chrono::steady_clock::now();
  const double kernels_before = pipeline.plan().kernel_seconds();
  check(batch);
  pipeline.clear_results();
  if (take_cancel()) {
    pipeline.drop_all();
    return DecodeStatus::kCancelled;
  }
  kv::Sequences& sequences = cache.sequences();
  if (sequences.cells_used() + batch.size() > sequences.cells_total()) return DecodeStatus::kCacheFull;
  DecodeStatus status = DecodeStatus::kOk;
  try {
    begin_memories(batch);
    status = run_ubatches(pipeline.begin(batch, leave), leave);
    if (take_cancel()) status = DecodeStatus::kCancelled;
    if (status == DecodeStatus::kCacheFull) pipeline.drain();
  } catch (...) {
    pipeline.drop_all();
    undo(batch);
    sequences.abandon_moves();
    throw;
  }
  if (status != DecodeStatus::kOk) {
    if (status == DecodeStatus::kCancelled) pipeline.drop_all();
    if (status == DecodeStatus::kCacheFull) pipeline.drop_newest();
    undo(batch);
    if (status == DecodeStatus::kCacheFull && sequences.cells_used() == 0)
      refuse("the batch's " + std::to_string(batch.size()) + " items do not fit into the empty cache of " +
             std::to_string(sequences.cells_total()) + " cells in " + std::to_string(sequences.n_pages()) +
             " pages: their positions are too far apart, or too many sequences diverge; split the batch, or "
             "create the context with a larger n_ctx");
    return status;
  }
  for (const auto& memory : cache.memories()) memory->end_batch(/*computed=*/true);
  // Kernels of several devices may overlap.
  host_seconds += std::max(seconds_since(start) - (pipeline.plan().kernel_seconds() - kernels_before), 0.0);
  return DecodeStatus::kOk;
}

void Context::Impl::check(const Batch& batch) {
  checker.check(batch);
  placer.begin(batch, checker.positions(), ubatch_size(batch));
  for (int i = 0; i < batch.size(); ++i) {
    const auto& axes = batch[i].options.axes;
    if (std::all_of(axes.begin(), axes.end(), [](Pos axis) { return axis < 0; })) continue;
    cache.note_axes(batch[i].seq);
    for (const SeqId other : batch.shared_with(i)) cache.note_axes(other);
  }
}

int Context::Impl::ubatch_size(const Batch& batch) const {
  // In a step of so few rows, one more row costs a CPU almost nothing ...
  constexpr int kMinRows = 64;
  // ... and with this number of steps, waiting for the first and the last is short.
  constexpr int kSteps = 8;
  const int n_steps = std::min(batch.size() / kMinRows, kSteps);
  if (n_steps < 2 || !pipeline.plan().pipelined() || !engine::are_cpus(model->impl())) return params.n_ubatch;
  for (int i = 0; i < batch.size(); ++i)
    if (batch[i].options.attend_to >= 0) return params.n_ubatch;
  return std::min(params.n_ubatch, (batch.size() + n_steps - 1) / n_steps);
}

void Context::Impl::begin_memories(const Batch& batch) {
  for (const auto& memory : cache.memories()) {
    memory->begin_batch();
    for (int i = 0; i < batch.size(); ++i)
      if (const kv::Refusal why = memory->add(placer.at(i), batch.shared_with(i), batch[i].options.logits))
        throw Error(ErrorCode::kUnsupported,
                    "item " + std::to_string(i) + " of the batch cannot be computed: " + why);
  }
}

DecodeStatus Context::Impl::run_ubatches(const Batch& batch, bool leave) {
  for (int end = 0; end < batch.size();) {
    if (!placer.place(batch, end)) return DecodeStatus::kCacheFull;
    const engine::Ubatch ubatch = placer.ubatch();
    end = ubatch.end;
    const engine::StepSizes sizes = inputs.bind(batch, placer, checker.hidden());
    const bool is_whole = ubatch.end - ubatch.begin == batch.size();
    // A step with pending moves does not overlap: the moves are known to be done only when the step is.
    const bool overlaps =
        pipeline.n_at_once() > 1 && (leave || !is_whole) && cache.sequences().moves().empty();
    if (!overlaps) pipeline.drain();
    note_parts(&batch);
    pipeline.expect(ubatch);
    const bool is_done = !cancelled.load() && run_step(sizes, overlaps);
    if (cancelled.load()) return DecodeStatus::kCancelled;
    if (is_done) pipeline.read_oldest();
  }
  if (!leave) pipeline.drain();
  return cancelled.load() ? DecodeStatus::kCancelled : DecodeStatus::kOk;
}

void Context::Impl::note_parts(const Batch* batch) {
  if (pipeline.plan().copies_inputs()) inputs.parts().note(batch, placer.ubatch());
}

bool Context::Impl::run_step(const engine::StepSizes& sizes, bool overlaps) {
  bool is_done = true;
  for (bool last = false; !last;) {
    const kv::MoveLog::Part moves = inputs.begin_moves();
    last = moves.last;
    engine::StepSizes now = last ? sizes : engine::StepSizes{};
    now.n_moves = moves.n_moves;
    now.n_forks = moves.n_forks;
    is_done = pipeline.run(inputs.step(now), overlaps);
    cache.sequences().moves().commit();
    inputs.taken();
  }
  return is_done;
}

void Context::Impl::undo(const Batch& batch) {
  placer.give_back(batch);
  for (const auto& memory : cache.memories()) memory->end_batch(/*computed=*/false);
}

void Context::Impl::carry_out_moves() {
  pipeline.drain();
  cache.follow_moves();
  if (!cache.sequences().moves().empty()) run_without_tokens({});
}

void Context::Impl::run_without_tokens(const engine::StepSizes& sizes) {
  pipeline.drain();
  note_parts(nullptr);
  try {
    run_step(sizes, /*overlaps=*/false);
  } catch (...) {
    cache.sequences().abandon_moves();
    throw;
  }
}

DecodeStatus Context::Impl::set_source(SeqId seq, std::span<const Token> tokens) {
  cache.check_sequence(seq);
  if (!model->info().reads_source)
    throw Error(ErrorCode::kUnsupported, "a model of the family " + model->info().architecture +
                                             " has no encoder; its prompt is the beginning of the sequence");
  if (cache.sequences().min_pos(seq) >= 0)
    refuse("sequence " + std::to_string(seq) +
           " may hold tokens that were computed with another encoder input; remove it first");
  if (tokens.empty()) refuse("the encoder input is empty");
  engine::check_source_size(tokens.size(), params.n_source);
  for (const Token token : tokens)
    if (token < 0 || token >= model->info().n_vocab)
      refuse("token " + std::to_string(token) + " of the encoder input is outside the vocabulary of " +
             std::to_string(model->info().n_vocab));
  cache.follow_moves();
  const engine::StepSizes sizes = inputs.bind_source(seq, tokens);
  try {
    if (!take_cancel()) {
      run_without_tokens(sizes);
      pipeline.add_column_sums();
      if (!take_cancel()) return DecodeStatus::kOk;
    }
  } catch (...) {
    cache.sources().remove(seq);
    throw;
  }
  cache.sources().remove(seq);
  return DecodeStatus::kCancelled;
}

}  // namespace weft
