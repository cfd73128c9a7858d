#include "weft/context.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "base/atomic_file.h"
#include "base/read_file.h"
#include "engine/context_impl.h"
#include "engine/context_params.h"
#include "engine/refuse.h"

namespace weft {

using engine::refuse;

namespace {

/// What CacheType::kAuto means.
CacheType best_cache_type(const engine::ModelImpl& model) {
  const auto& devices = model.devices.devices;
  const model::HParams& hparams = model.description.hparams;
  const bool bf16 = engine::fits_cache(CacheType::kBF16, hparams.k_head_dim) &&
                    engine::fits_cache(CacheType::kBF16, hparams.v_head_dim) &&
                    std::all_of(devices.begin(), devices.end(),
                                [](const auto& device) { return device->best_cache_type() == DType::kBF16; });
  return bf16 ? CacheType::kBF16 : CacheType::kF16;
}

/// Whether the graph finds the best tokens: the CPU does so at no cost. Its device is among the model's
/// always.
bool finds_best(const engine::ModelImpl& model) {
  return model.devices.size() == 1 && model.info.n_vocab <= ops::Best::kMaxColumns;
}

}  // namespace

Context::Impl::Impl(std::shared_ptr<const Model> model_in, const ContextParams& params_in,
                    std::shared_ptr<Workspaces> workspaces_in)
    : model(std::move(model_in)),
      params(engine::fill_in(params_in, model->info(), best_cache_type(model->impl()),
                             finds_best(model->impl()))),
      n_pages(kv::Sequences::n_pages_for(params.n_ctx, params.n_sequences)),
      graph(model::build_graph(model->impl().file, model->impl().description, sizes())),
      bound(model->impl(), graph.graph),
      bindings(bound.home()),
      sequences(
          params.n_ctx, params.n_sequences,
          {values<Extent>(graph.full.extents), values<std::int32_t>(graph.full.extent_counts), n_extents()}),
      windows(make_windows()),
      slots(params.n_sequences),
      placing(sequences, windows ? &*windows : nullptr, n_pages * kPageCells, params.n_ubatch,
              params.n_outputs),
      states(*model, graph, bound, sequences, windows ? &*windows : nullptr, slots),
      workspaces(std::move(workspaces_in)),
      plan(bound.compile(graph.graph, {.allowed = {.shapes = true, .tensors = true},
                                       .n_threads = params.n_threads,
                                       .workspaces = workspaces})),
      last_pos(static_cast<std::size_t>(params.n_sequences), -1) {
  best.reserve(static_cast<std::size_t>(params.n_outputs) * static_cast<std::size_t>(params.n_best));
  max_pos = hparams().learned_positions ? model->info().n_ctx_train : engine::kMaxPosition;
}

model::GraphSizes Context::Impl::sizes() const {
  return engine::graph_sizes(params, engine::cache_dtype("K", params.k_type, hparams().k_head_dim),
                             engine::cache_dtype("V", params.v_type, hparams().v_head_dim),
                             model->impl().row_shares);
}

std::optional<kv::WindowPages> Context::Impl::make_windows() const {
  if (graph.window == 0) return std::nullopt;
  return std::make_optional<kv::WindowPages>(sequences, graph.window, params.window_rewind);
}

bool Context::Impl::consistent() const {
  for (SeqId seq = 0; seq < params.n_sequences && recurrent; ++seq)
    if ((slots.slot(seq) == kv::StateSlots::kNone) != (sequences.next_pos(seq) == 0)) return false;
  return sequences.consistent() && slots.consistent() && (!windows || windows->consistent());
}

Context::Context(std::shared_ptr<const Model> model, const ContextParams& params)
    : impl_(std::make_unique<Impl>(std::move(model), params, std::make_shared<Workspaces>())) {}
Context::Context(std::shared_ptr<const Model> model, const ContextParams& params, const Context& other)
    : impl_(std::make_unique<Impl>(std::move(model), params, other.impl_->workspaces)) {}
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
    refuse("item " + std::to_string(i) +
           " of the last batch has no logits; ask for them, and for all of them, when adding it");
  return {impl_->logits_of[static_cast<std::size_t>(i)],
          static_cast<std::size_t>(impl_->model->info().n_vocab)};
}

std::span<const Best> Context::best(int i) const {
  if (i < 0 || i >= static_cast<int>(impl_->best_of.size()) ||
      impl_->best_of[static_cast<std::size_t>(i)].n == 0)
    refuse("item " + std::to_string(i) + " of the last batch did not ask for its best tokens (only_best)");
  const auto& [begin, n] = impl_->best_of[static_cast<std::size_t>(i)];
  return std::span(impl_->best).subspan(begin, n);
}

namespace {

/// The end of a range that may be given as "to the end".
Pos end_of(Pos end) { return end < 0 ? engine::kMaxPosition : end; }

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

[[noreturn]] void refuse_faded(SeqId seq, const char* what) {
  throw Error(ErrorCode::kUnsupported, "sequence " + std::to_string(seq) + " cannot be " + what +
                                           ": sliding-window layers have forgotten what it would see next" +
                                           engine::kKeepWindows);
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
  if (impl_->windows && !impl_->windows->can_remove(seq, std::max(begin, 0), end_of(end)))
    refuse_faded(seq, "cut off there");
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
  if (impl_->windows && !impl_->windows->can_copy(from, to, std::max(begin, 0), end_of(end)))
    refuse_faded(from, "copied like this");
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
  if (impl_->windows && !impl_->windows->can_add(seq, std::max(begin, 0), end_of(end), delta))
    refuse_faded(seq, "shifted like this");
  const bool shifted = impl_->sequences.add(seq, std::max(begin, 0), end_of(end), delta);
  impl_->follow_moves();
  return shifted;
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
  if (impl_->windows && !impl_->windows->can_divide(seq, std::max(begin, 0), end_of(end), divisor))
    refuse_faded(seq, "divided like this");
  const bool divided = impl_->sequences.divide(seq, std::max(begin, 0), end_of(end), divisor);
  impl_->follow_moves();
  return divided;
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

bool Context::can_cut(SeqId seq, Pos pos) const {
  impl_->check_sequence(seq);
  if (impl_->recurrent) return pos <= impl_->sequences.min_pos(seq) || pos >= impl_->sequences.next_pos(seq);
  return !impl_->windows || impl_->windows->can_remove(seq, std::max(pos, 0), engine::kMaxPosition);
}

bool Context::cuts_anywhere() const { return !impl_->recurrent && !impl_->windows; }

void Context::defragment(int max_cells) {
  impl_->sequences.defragment(max_cells);
  impl_->follow_moves();
}
bool Context::consistent() const { return impl_->consistent(); }
bool Context::can_shift() const { return !impl_->hparams().learned_positions && !impl_->recurrent; }
Pos Context::max_positions() const { return impl_->max_pos; }
int Context::batch_size() const {
  constexpr int kSteps = 4;  // A batch that is cancelled loses no more.
  return impl_->params.n_ubatch * (impl_->plan.pipelined() ? kSteps : 1);
}
int Context::cells_used() const { return impl_->sequences.cells_used(); }
int Context::cells_total() const { return impl_->sequences.cells_total(); }
std::int64_t Context::cache_bytes() const {
  return impl_->states.cache_bytes(impl_->sequences.pages_touched(),
                                   impl_->windows ? impl_->windows->n_touched() : 0);
}

// --- States
// ---------------------------------------------------------------------------------------------------

std::vector<std::byte> Context::Impl::save(std::optional<SeqId> seq) {
  if (seq) check_sequence(*seq);
  carry_out_moves();
  if (windows) windows->evict();  // What nobody needs is not saved.
  std::vector<std::byte> bytes;
  states.save(seq,
              [&](std::span<const std::byte> part) { bytes.insert(bytes.end(), part.begin(), part.end()); });
  return bytes;
}

void Context::Impl::save_file(const std::filesystem::path& path, std::optional<SeqId> seq) {
  if (seq) check_sequence(*seq);
  carry_out_moves();
  if (windows) windows->evict();  // What nobody needs is not saved.
  base::AtomicFile file(path);
  states.save(seq, [&](std::span<const std::byte> part) { file.write(part); });
  file.commit();
}

bool Context::Impl::restore(std::span<const std::byte> bytes, std::optional<SeqId> seq) {
  if (seq) check_sequence(*seq);
  const bool restored = states.restore(bytes, seq, [&] { carry_out_moves(); });
  follow_moves();  // Packing for a text that found no room all the same.
  return restored;
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

void Context::lease() {
  if (std::exchange(impl_->leased, true))
    refuse("a batcher uses the context already; make another context for a second one");
}

void Context::end_lease() noexcept { impl_->leased = false; }

void Context::set_profile(Profile* profile) { impl_->plan.set_profile(profile); }

PlanStats Context::plan_stats() const {
  const exec::PlanCounters& counters = impl_->plan.counters();
  PlanStats stats;
  stats.compiled = counters.compiled;
  stats.steps = counters.steps;
  stats.steps_unchanged = counters.unchanged;
  stats.steps_shapes = counters.shapes;
  stats.steps_tensors = counters.tensors;
  stats.copies = counters.copies;
  stats.copied_bytes = counters.copied_bytes;
  if (counters.steps > 0)
    stats.host_us_per_step = impl_->host_seconds * 1e6 / static_cast<double>(counters.steps);
  for (int device = 0; device < impl_->model->impl().devices.size(); ++device)
    stats.workspace_bytes += static_cast<std::int64_t>(impl_->plan.own_bytes(device));
  stats.shared_workspace_bytes = static_cast<std::int64_t>(impl_->workspaces->bytes());
  return stats;
}

}  // namespace weft
