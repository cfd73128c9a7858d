#include "weft/context.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "base/atomic_file.h"
#include "base/read_file.h"
#include "engine/boundary.h"
#include "engine/context_impl.h"
#include "engine/context_params.h"
#include "engine/refuse.h"

namespace weft {

using engine::refuse;

namespace {

/// The meaning of CacheType::kAuto.
CacheType best_cache_type(const engine::ModelImpl& model) {
  const auto& devices = model.devices.devices;
  const bool bf16 = std::all_of(devices.begin(), devices.end(),
                                [](const auto& device) { return device->best_cache_type() == DType::kBF16; });
  return engine::auto_cache_type(model.description.hparams, bf16 ? DType::kBF16 : DType::kF16);
}

std::shared_ptr<const Model> checked(std::shared_ptr<const Model> model, const ContextParams& params) {
  if (model == nullptr) refuse("a context needs a model");
  engine::check_has_weights(*model);
  if (model->info().encoder)
    throw Error(ErrorCode::kUnsupported,
                "a model of the family " + model->info().architecture +
                    " is an encoder and generates no text; use an Embedder (weft embed, weft rerank)");
  engine::checked_length(params.n_ctx, "n_ctx", model->info());
  return model;
}

/// Whether the graph finds the best tokens. CPUs do so at no cost, and CPUs of other processes need not send
/// all logits then.
bool finds_best(const engine::ModelImpl& model) {
  return engine::are_cpus(model) && model.info.n_vocab <= ops::Best::kMaxColumns;
}

/// With the requested sums of columns.
model::ModelGraph build(const engine::ModelImpl& model, const model::GraphSizes& sizes,
                        std::vector<model::ColumnSum>* column_sums) {
  model::ModelGraph graph = model::build_graph(model.file, model.description, sizes);
  if (column_sums != nullptr) *column_sums = model::add_column_sums(graph);
  return graph;
}

}  // namespace

Context::Impl::Impl(std::shared_ptr<const Model> model_in, const ContextParams& params_in,
                    std::shared_ptr<Workspaces> workspaces_in)
    : model(std::move(model_in)),
      params(engine::fill_in(params_in, model->info(), best_cache_type(model->impl()),
                             finds_best(model->impl()))),
      n_pages(kv::Sequences::n_pages_for(params.n_ctx, params.n_sequences)),
      graph(build(model->impl(), sizes(), params.sum_columns ? &column_sums : nullptr)),
      bound(model->impl(), graph.graph),
      bindings(bound.home()),
      sequences(
          params.n_ctx, params.n_sequences,
          {values<Extent>(graph.full.extents), values<std::int32_t>(graph.full.extent_counts), n_extents()}),
      memories(graph, bindings, sequences, n_extents(), params),
      adapters(*model, params.adapters, params.n_sequences),
      on_axes(static_cast<std::size_t>(params.n_sequences), false),
      sources(graph, bindings, params.n_sequences, params.n_source),
      placer(sequences, memories, params.n_outputs),
      states(*model, graph, bound, sequences, memories, adapters, sources),
      workspaces(std::move(workspaces_in)),
      plan(bound.compile(graph.graph, {.allowed = {.shapes = true, .tensors = true},
                                       .n_threads = params.n_threads,
                                       .workspaces = workspaces,
                                       .cancelled = &cancelled})),
      last_pos(static_cast<std::size_t>(params.n_sequences), -1),
      column_totals(graph.graph, std::move(column_sums)),
      symbols(graph.graph.symbols().size(), 0),
      noted(static_cast<std::size_t>(params.n_sequences), 0) {
  started.reserve(static_cast<std::size_t>(plan.n_at_once()));
  spare.resize(static_cast<std::size_t>(plan.n_at_once()));
  const auto reserve = [&](engine::BatchResults& of) {
    of.best.reserve(static_cast<std::size_t>(params.n_outputs) * static_cast<std::size_t>(params.n_best));
  };
  reserve(results);
  for (Coming& of : spare) reserve(of.results);
  max_pos = hparams().embedding.learned_positions ? model->info().n_ctx_train : kv::kEndOfPositions;
}

model::GraphSizes Context::Impl::sizes() const {
  return engine::graph_sizes(params, engine::cache_dtype("K", params.k_type, hparams().k_head_dim()),
                             engine::cache_dtype("V", params.v_type, hparams().v_head_dim()),
                             model->impl().row_shares);
}

bool Context::Impl::consistent() const {
  return sequences.consistent() && sources.consistent() &&
         std::all_of(memories.begin(), memories.end(),
                     [](const auto& memory) { return memory->consistent(); });
}

Context::Context(std::shared_ptr<const Model> model, const ContextParams& params)
    : impl_(engine::throwing_errors([&] {
        return std::make_unique<Impl>(checked(std::move(model), params), params,
                                      std::make_shared<Workspaces>());
      })) {}
Context::Context(std::shared_ptr<const Model> model, const ContextParams& params, const Context& other)
    : impl_(engine::throwing_errors([&] {
        return std::make_unique<Impl>(checked(std::move(model), params), params, other.impl().workspaces);
      })) {}
Context::~Context() = default;
Context::Context(Context&&) noexcept = default;
Context& Context::operator=(Context&&) noexcept = default;

Context::Impl& Context::impl() const {
  if (impl_ == nullptr) refuse("this context was moved from; it can only be assigned to");
  return *impl_;
}

const Model& Context::model() const { return *impl().model; }
const ContextParams& Context::params() const { return impl().params; }

DecodeStatus Context::decode(const Batch& batch) {
  return engine::throwing_errors([&] { return impl().decode(batch); });
}

int Context::n_at_once() const { return impl().n_at_once(); }
DecodeStatus Context::begin(const Batch& batch) {
  return engine::throwing_errors([&] { return impl().begin(batch); });
}
DecodeStatus Context::finish() {
  return engine::throwing_errors([&] { return impl().finish(); });
}
void Context::drop_begun() noexcept {
  if (impl_ != nullptr) impl_->drop_begun();
}

void Context::cancel() noexcept {
  if (impl_ != nullptr) impl_->cancelled.store(true);
}

bool Context::take_back_cancel() noexcept { return impl_ != nullptr && impl_->take_cancel(); }

bool Context::intact(SeqId seq) const {
  impl().check_sequence(seq);
  return impl().sequences.intact(seq);
}

bool Context::intact() const {
  for (SeqId seq = 0; seq < impl().params.n_sequences; ++seq)
    if (!impl().sequences.intact(seq)) return false;
  return true;
}

std::span<const float> Context::logits(int i) const {
  const auto& rows = impl().results.logits_of;
  if (i < 0 || i >= static_cast<int>(rows.size()) || rows[static_cast<std::size_t>(i)] == nullptr)
    refuse("item " + std::to_string(i) +
           " of the last batch has no logits; request all logits when adding the item");
  return {rows[static_cast<std::size_t>(i)], static_cast<std::size_t>(impl().model->info().n_vocab)};
}

std::span<const Best> Context::best(int i) const {
  const engine::BatchResults& results = impl().results;
  if (i < 0 || i >= static_cast<int>(results.best_of.size()) ||
      results.best_of[static_cast<std::size_t>(i)].n == 0)
    refuse("item " + std::to_string(i) + " of the last batch did not request its best tokens (only_best)");
  const auto& [begin, n] = results.best_of[static_cast<std::size_t>(i)];
  return std::span(results.best).subspan(begin, n);
}

std::span<const float> Context::embedding(int i) const {
  const engine::BatchResults& results = impl().results;
  if (i < 0 || i >= static_cast<int>(results.embedding_of.size()) ||
      results.embedding_of[static_cast<std::size_t>(i)] < 0)
    refuse("item " + std::to_string(i) +
           " of the last batch did not request its embedding (Batch::want_embedding)");
  const auto n_embd = static_cast<std::size_t>(impl().model->info().n_embd);
  return std::span(results.kept_embeddings)
      .subspan(static_cast<std::size_t>(results.embedding_of[static_cast<std::size_t>(i)]) * n_embd, n_embd);
}

const engine::LogSumExp& Context::Impl::log_sum_of(int item) const {
  const auto& sums = results.log_sums;
  if (item < 0 || item >= static_cast<int>(sums.size()) || !sums[static_cast<std::size_t>(item)])
    refuse("item " + std::to_string(item) +
           " of the last batch did not request its log-sum-exp (want_log_sum_exp)");
  return *sums[static_cast<std::size_t>(item)];
}

float Context::log_sum_exp(int i) const { return impl().log_sum_of(i).sum; }
float Context::logit(int i) const {
  const engine::LogSumExp& of = impl().log_sum_of(i);
  if (of.token == kNoToken)
    refuse("item " + std::to_string(i) + " of the last batch requested its log-sum-exp without a token");
  return of.logit;
}

namespace {

/// The end of a range that may be given as "to the end".
Pos end_of(Pos end) { return end < 0 ? kv::kEndOfPositions : end; }

/// Throws Error kUnsupported if one of the memories cannot follow: `why_not(memory)` gives the reason.
template <typename F>
void check_memories(const engine::Memories& memories, SeqId seq, const char* what, F why_not) {
  for (const auto& memory : memories)
    if (const kv::Refusal why = why_not(*memory))
      throw Error(ErrorCode::kUnsupported,
                  "sequence " + std::to_string(seq) + " cannot be " + what + ": " + why);
}

}  // namespace

void Context::remove(SeqId seq, Pos begin, Pos end) {
  Impl& c = impl();
  c.check_sequence(seq);
  begin = std::max(begin, 0), end = end_of(end);
  check_memories(c.memories, seq, "cut off there",
                 [&](const auto& memory) { return memory.why_not_remove(seq, begin, end); });
  c.sequences.remove(seq, begin, end);
  for (const auto& memory : c.memories) memory->removed(seq);
  if (c.sequences.next_pos(seq) > 0) return;
  c.adapters.reset(seq);
  c.on_axes[static_cast<std::size_t>(seq)] = false;
  c.sources.remove(seq);
}

bool Context::copy(SeqId from, SeqId to, Pos begin, Pos end) {
  Impl& c = impl();
  c.check_sequence(from);
  c.check_sequence(to);
  c.check_intact(from);
  c.check_intact(to);
  begin = std::max(begin, 0), end = end_of(end);
  check_memories(c.memories, from, "copied like this",
                 [&](const auto& memory) { return memory.why_not_copy(from, to, begin, end); });
  const bool was_empty = c.sequences.min_pos(to) < 0;
  const bool replaces = was_empty || (begin <= c.sequences.min_pos(to) && end >= c.sequences.next_pos(to));
  const bool has_text = c.sequences.min_pos(from) >= 0;
  if (has_text && !replaces && !c.adapters.same(from, to))
    refuse("sequence " + std::to_string(to) + " was computed with other adapters than sequence " +
           std::to_string(from) + ", so it cannot take a part of that; remove it first");
  if (has_text && !replaces && !c.sources.same(from, to))
    refuse("sequence " + std::to_string(to) + " was computed with another encoder input than sequence " +
           std::to_string(from) + ", so it cannot take a part of that; remove it first");
  if (!c.sequences.copy(from, to, begin, end)) return false;
  const bool is_empty = c.sequences.min_pos(to) < 0;
  const bool becomes_empty = is_empty && !was_empty;
  if (becomes_empty) c.adapters.reset(to);
  // A source's rows were computed with the adapters.
  if ((has_text && !becomes_empty) || (is_empty && c.sources.size(from) > 0))
    c.adapters.set(to, c.adapters.of(from));
  if (has_text || is_empty) c.sources.copy(from, to);
  const auto on_axes = [&c](SeqId seq) { return c.on_axes[static_cast<std::size_t>(seq)]; };
  on_axes(to) = !is_empty && (on_axes(from) || (!replaces && on_axes(to)));
  for (const auto& memory : c.memories) memory->copied(from, to, begin, end);
  return true;
}

void Context::keep(SeqId seq) {
  Impl& c = impl();
  c.check_sequence(seq);
  c.sequences.keep(seq);
  for (SeqId other = 0; other < c.params.n_sequences; ++other) {
    if (other == seq) continue;
    for (const auto& memory : c.memories) memory->removed(other);
    c.adapters.reset(other);
    c.on_axes[static_cast<std::size_t>(other)] = false;
    c.sources.remove(other);
  }
}

bool Context::shift(SeqId seq, Pos begin, Pos end, Pos delta) {
  Impl& c = impl();
  c.check_sequence(seq);
  c.check_intact(seq);
  if (c.hparams().embedding.learned_positions)
    throw Error(ErrorCode::kUnsupported,
                "this model has learned positions, so its sequences cannot be shifted");
  const Pos first = std::max(begin, 0), last = end_of(end);
  if (can_shift() && !c.sequences.can_shift(seq, first, last, delta))
    refuse("positions " + std::to_string(begin) + " to " + std::to_string(end) + " of sequence " +
           std::to_string(seq) + " shifted by " + std::to_string(delta) +
           " would collide with others or leave the range of positions");
  check_memories(c.memories, seq, "shifted like this",
                 [&](const auto& memory) { return memory.why_not_shift(seq, first, last, delta); });
  const bool shifted = engine::throwing_errors([&] { return c.sequences.shift(seq, first, last, delta); });
  c.follow_moves();
  return shifted;
}

std::string_view Context::why_not_forget() const {
  if (!impl().hparams().embedding.learned_positions) return {};
  return "this model has learned positions, so later tokens cannot move up";
}

bool Context::forget(SeqId seq, Pos begin, Pos n, const std::function<bool()>& make_room) {
  Impl& c = impl();
  c.check_sequence(seq);
  c.check_intact(seq);
  if (const std::string_view why = why_not_forget(); !why.empty())
    throw Error(ErrorCode::kUnsupported, std::string(why));
  if (begin < 0 || n < 1 || n >= next_pos(seq) - begin)
    refuse("sequence " + std::to_string(seq) + " cannot forget " + std::to_string(n) +
           " positions from position " + std::to_string(begin) + ": it has " + std::to_string(next_pos(seq)) +
           ", and the last one must remain");
  // A running state covers the whole sequence and has no part to forget.
  const auto can_follow = [&](auto why_not) {
    return std::ranges::all_of(c.memories, [&](const auto& memory) {
      return memory.get() == c.memories.of_running_states() || why_not(*memory) == nullptr;
    });
  };
  const Pos end = begin + n;
  if (!can_follow([&](const auto& memory) { return memory.why_not_remove(seq, begin, end); })) return false;
  c.sequences.remove(seq, begin, end);
  for (const auto& memory : c.memories) memory->removed(seq);
  if (!can_follow([&](const auto& memory) { return memory.why_not_shift(seq, end, end_of(-1), -n); }))
    return false;
  while (!engine::throwing_errors([&] { return c.sequences.shift(seq, end, end_of(-1), -n); }))
    if (!make_room || !make_room()) return false;
  c.follow_moves();
  return true;
}

bool Context::divide(SeqId seq, Pos begin, Pos end, int divisor) {
  Impl& c = impl();
  c.check_sequence(seq);
  c.check_intact(seq);
  if (c.hparams().embedding.learned_positions)
    throw Error(ErrorCode::kUnsupported, "this model has learned positions, which cannot be divided");
  // Dividing positions would change lines and columns by other steps than time, and the caches know only a
  // cell's position in the sequence. Rows of an image would keep their distances while the tokens around them
  // came closer.
  if (c.on_axes[static_cast<std::size_t>(seq)])
    throw Error(ErrorCode::kUnsupported,
                "sequence " + std::to_string(seq) +
                    " holds an image, or was restored and may hold one; 2D positions cannot be divided. "
                    "Shift the sequence, or divide one without images");
  const Pos first = std::max(begin, 0), last = end_of(end);
  if (divisor < 1 || (can_shift() && !c.sequences.can_divide(seq, first, last, divisor)))
    refuse("positions " + std::to_string(begin) + " to " + std::to_string(end) + " of sequence " +
           std::to_string(seq) + " cannot be divided by " + std::to_string(divisor) +
           ": they would pass earlier positions");
  check_memories(c.memories, seq, "divided like this",
                 [&](const auto& memory) { return memory.why_not_divide(seq, first, last, divisor); });
  const bool divided = engine::throwing_errors([&] { return c.sequences.divide(seq, first, last, divisor); });
  c.follow_moves();
  return divided;
}

void Context::set_adapters(SeqId seq, std::span<const AdapterUse> adapters) {
  Impl& c = impl();
  c.check_sequence(seq);
  if (c.sequences.min_pos(seq) >= 0)
    refuse("sequence " + std::to_string(seq) +
           " may hold tokens that were computed with other adapters; remove it first");
  std::vector<AdapterUse> uses = engine::checked_adapters(*c.model, adapters);
  if (c.sources.size(seq) > 0 && uses != c.adapters.of(seq))
    refuse("sequence " + std::to_string(seq) +
           " has an encoder input that was computed with other adapters; remove it, and set adapters before "
           "the encoder input");
  c.adapters.set(seq, std::move(uses));
}

std::span<const AdapterUse> Context::adapters(SeqId seq) const {
  impl().check_sequence(seq);
  return impl().adapters.of(seq);
}

DecodeStatus Context::set_source(SeqId seq, std::span<const Token> tokens) {
  return engine::throwing_errors([&] { return impl().set_source(seq, tokens); });
}

int Context::source_size(SeqId seq) const {
  impl().check_sequence(seq);
  return impl().sources.size(seq);
}

void Context::clear() {
  for (SeqId seq = 0; seq < impl().params.n_sequences; ++seq) remove(seq);
}

Pos Context::next_pos(SeqId seq) const {
  impl().check_sequence(seq);
  return impl().sequences.next_pos(seq);
}

Pos Context::min_pos(SeqId seq) const {
  impl().check_sequence(seq);
  return impl().sequences.min_pos(seq);
}

bool Context::can_cut(SeqId seq, Pos pos) const {
  const Impl& c = impl();
  c.check_sequence(seq);
  return std::none_of(c.memories.begin(), c.memories.end(), [&](const auto& memory) {
    return memory->why_not_remove(seq, std::max(pos, 0), kv::kEndOfPositions) != nullptr;
  });
}

bool Context::cuts_anywhere() const { return impl().memories.begin() == impl().memories.end(); }

bool Context::cuts_back() const {
  const Impl& c = impl();
  return std::all_of(c.memories.begin(), c.memories.end(),
                     [](const auto& memory) { return memory->cuts_back(); });
}

void Context::defragment(int max_cells) {
  engine::throwing_errors([&] { impl().sequences.defragment(max_cells); });
  impl().follow_moves();
}
bool Context::consistent() const { return impl().consistent(); }
bool Context::can_shift() const {
  const Impl& c = impl();
  return !c.hparams().embedding.learned_positions &&
         std::all_of(c.memories.begin(), c.memories.end(),
                     [](const auto& memory) { return memory->shifts(); });
}
Pos Context::max_positions() const { return impl().max_pos; }
int Context::batch_size() const {
  constexpr int kSteps = 2;  // With more, a cancelled batch would lose more work.
  const int n_at_once = impl().plan.n_at_once();
  return impl().params.n_ubatch * (n_at_once > 1 ? kSteps * n_at_once : 1);
}
int Context::cells_used() const { return impl().sequences.cells_used(); }
int Context::cells_total() const { return impl().sequences.cells_total(); }
std::string Context::why_full(int n_wanted) const {
  const auto count = [](int n, const char* what) { return std::to_string(n) + " " + what; };
  std::string text =
      "the cache is full: " + count(cells_used(), "of ") + count(cells_total(), "cells are in use");
  if (n_wanted > 0) text += ", and the batch has " + count(n_wanted, "tokens");
  if (n_wanted > 0 && n_wanted <= cells_total() - cells_used())
    text += "; pages of " + std::to_string(kCellsOfPage) +
            " cells that sequences share are copied when one of them continues";
  return text + "; remove or shorten sequences, or create the context with a larger n_ctx";
}
int Context::n_pages() const { return impl().n_pages; }

std::vector<CellRun> Context::cell_runs() const {
  static_assert(kCellsOfPage == kPageCells);
  const kv::Sequences& sequences = impl().sequences;
  struct Holder {
    SeqId seq;
    std::uint64_t mask;
  };
  std::vector<std::vector<Holder>> holders(static_cast<std::size_t>(sequences.pages_touched()));
  for (SeqId seq = 0; seq < sequences.n_sequences(); ++seq)
    for (const Extent& extent : sequences.extents(seq)) {
      std::vector<Holder>& of_page = holders[static_cast<std::size_t>(extent.page)];
      if (of_page.empty() || of_page.back().seq != seq) of_page.push_back({seq, 0});
      of_page.back().mask |= extent.mask;
    }
  std::vector<CellRun> runs;
  for (std::size_t page = 0; page < holders.size(); ++page) {
    std::uint64_t begins = 1;  // Bit i: lane i is held by other sequences than the lane before.
    for (const Holder& holder : holders[page]) begins |= holder.mask ^ holder.mask << 1;
    while (begins != 0 && !holders[page].empty()) {
      const int lane = std::countr_zero(begins);
      begins &= begins - 1;
      const int end = begins != 0 ? std::countr_zero(begins) : kPageCells;
      CellRun run{static_cast<int>(page) * kPageCells + lane, end - lane, {}};
      for (const Holder& holder : holders[page])
        if ((holder.mask >> lane & 1u) != 0) run.sequences.push_back(holder.seq);
      if (run.sequences.empty()) continue;
      if (!runs.empty() && runs.back().first + runs.back().n == run.first &&
          runs.back().sequences == run.sequences) {
        runs.back().n += run.n;
      } else {
        runs.push_back(std::move(run));
      }
    }
  }
  return runs;
}

std::int64_t Context::cache_bytes() const { return impl().states.cache_bytes(); }

// --- States

void Context::Impl::prepare_save(std::optional<SeqId> seq) {
  if (seq) check_sequence(*seq);
  for (SeqId s = 0; s < params.n_sequences; ++s)
    if (!seq || s == *seq) check_intact(s);
  carry_out_moves();
  for (const auto& memory : memories) memory->evict();  // Unneeded rows are not saved.
}

std::vector<std::byte> Context::Impl::save(std::optional<SeqId> seq) {
  prepare_save(seq);
  std::vector<std::byte> bytes;
  states.save(seq,
              [&](std::span<const std::byte> part) { bytes.insert(bytes.end(), part.begin(), part.end()); });
  return bytes;
}

void Context::Impl::save_file(const std::filesystem::path& path, std::optional<SeqId> seq) {
  prepare_save(seq);
  base::AtomicFile file(path);
  states.save(seq, [&](std::span<const std::byte> part) { file.write(part); });
  file.commit();
}

bool Context::Impl::restore(std::span<const std::byte> bytes, std::optional<SeqId> seq) {
  if (seq) check_sequence(*seq);
  const bool restored = states.restore(bytes, seq, [&] { carry_out_moves(); });
  if (restored && hparams().axes)
    for (SeqId of = seq.value_or(0); of < (seq ? *seq + 1 : params.n_sequences); ++of)
      on_axes[static_cast<std::size_t>(of)] = true;
  follow_moves();  // Defragmentation moves, if the sequence did not fit without.
  return restored;
}

bool Context::Impl::restore_file(const std::filesystem::path& path, std::optional<SeqId> seq) {
  if (seq) check_sequence(*seq);
  return restore(base::read_file(path, states.max_bytes()), seq);
}

std::vector<std::byte> Context::save(SeqId seq) const {
  return engine::throwing_errors([&] { return impl().save(seq); });
}
std::vector<std::byte> Context::save() const {
  return engine::throwing_errors([&] { return impl().save({}); });
}
void Context::save_file(const std::filesystem::path& path, SeqId seq) const {
  engine::throwing_errors([&] { impl().save_file(path, seq); });
}
void Context::save_file(const std::filesystem::path& path) const {
  engine::throwing_errors([&] { impl().save_file(path, {}); });
}
bool Context::restore(std::span<const std::byte> state, SeqId seq) {
  return engine::throwing_errors([&] { return impl().restore(state, seq); });
}
bool Context::restore(std::span<const std::byte> state) {
  return engine::throwing_errors([&] { return impl().restore(state, {}); });
}
bool Context::restore_file(const std::filesystem::path& path, SeqId seq) {
  return engine::throwing_errors([&] { return impl().restore_file(path, seq); });
}
bool Context::restore_file(const std::filesystem::path& path) {
  return engine::throwing_errors([&] { return impl().restore_file(path, {}); });
}

void Context::lease() {
  if (std::exchange(impl().leased, true))
    refuse("another batcher uses the context already; create one context per batcher");
}

void Context::end_lease() noexcept {
  if (impl_ == nullptr) return;
  drop_begun();
  impl_->leased = false;
}

void Context::set_profile(Profile* profile) { impl().plan.set_profile(profile); }

std::vector<ColumnSums> Context::column_sums() const { return impl().column_totals.sums(); }

PlanStats Context::plan_stats() const {
  const PlanCounters& counters = impl().plan.counters();
  PlanStats stats;
  stats.compiled = counters.compiled;
  stats.steps = counters.steps;
  stats.steps_unchanged = counters.unchanged;
  stats.steps_shapes = counters.shapes;
  stats.steps_tensors = counters.tensors;
  stats.copies = counters.copies;
  stats.copied_bytes = counters.copied_bytes;
  if (counters.steps > 0)
    stats.host_us_per_step = impl().host_seconds * 1e6 / static_cast<double>(counters.steps);
  for (int device = 0; device < impl().model->impl().devices.size(); ++device)
    stats.workspace_bytes += static_cast<std::int64_t>(impl().plan.own_bytes(device));
  stats.shared_workspace_bytes = static_cast<std::int64_t>(impl().workspaces->bytes());
  return stats;
}

}  // namespace weft
