#include "weft/context.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "base/atomic_file.h"
#include "base/read_file.h"
#include "base/to_size.h"
#include "engine/boundary.h"
#include "engine/context/context_impl.h"
#include "engine/context_params.h"
#include "engine/graph_sizes.h"
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
      graph(build(model->impl(), sizes(), params.sum_columns ? &column_sums : nullptr)),
      bound(model->impl(), graph.graph),
      cache(*model, graph, bound.home(), params),
      checker(*model, params, cache),
      placer(cache, params.n_outputs),
      inputs(graph, bound.home(), *model, params, cache),
      states(*model, graph, bound, cache),
      workspaces(std::move(workspaces_in)),
      pipeline(model->info(), graph, bound, std::move(column_sums), params,
               {.allowed = {.shapes = true, .tensors = true},
                .n_threads = params.n_threads,
                .workspaces = workspaces,
                .cancelled = &cancelled}) {}

model::GraphSizes Context::Impl::sizes() const {
  return engine::graph_sizes(params, engine::k_cache_dtype(params.k_type, hparams()),
                             engine::v_cache_dtype(params.v_type, hparams()), model->impl().row_shares);
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

std::string_view to_string(DecodeStatus status) {
  switch (status) {
    case DecodeStatus::kOk:
      return "ok";
    case DecodeStatus::kCacheFull:
      return "cache_full";
    case DecodeStatus::kCancelled:
      return "cancelled";
  }
  return "";
}

DecodeStatus Context::decode(const Batch& batch) {
  return engine::throwing_errors([&] { return impl().decode(batch); });
}

int Context::n_at_once() const { return impl().pipeline.n_at_once(); }
DecodeStatus Context::begin(const Batch& batch) {
  return engine::throwing_errors([&] { return impl().begin(batch); });
}
DecodeStatus Context::finish() {
  return engine::throwing_errors([&] { return impl().finish(); });
}
void Context::drop_begun() noexcept {
  if (impl_ != nullptr) impl_->pipeline.drop_all();
}

void Context::cancel() noexcept {
  if (impl_ != nullptr) impl_->cancelled.store(true);
}

bool Context::take_back_cancel() noexcept { return impl_ != nullptr && impl_->take_cancel(); }

// --- Results

std::span<const float> Context::logits(int i) const { return impl().pipeline.results().logits(i); }
std::span<const Best> Context::best(int i) const { return impl().pipeline.results().best(i); }
std::span<const float> Context::embedding(int i) const { return impl().pipeline.results().embedding(i); }
float Context::log_sum_exp(int i) const { return impl().pipeline.results().log_sum_exp(i); }
float Context::logit(int i) const { return impl().pipeline.results().logit(i); }

// --- Sequences

KvCache& Context::cache() { return impl().public_cache; }
const KvCache& Context::cache() const { return impl().public_cache; }

void Context::set_adapters(SeqId seq, std::span<const AdapterUse> adapters) {
  impl().cache.set_adapters(seq, adapters);
}

std::span<const AdapterUse> Context::adapters(SeqId seq) const {
  impl().cache.check_sequence(seq);
  return impl().cache.adapters().of(seq);
}

DecodeStatus Context::set_source(SeqId seq, std::span<const Token> tokens) {
  return engine::throwing_errors([&] { return impl().set_source(seq, tokens); });
}

int Context::source_size(SeqId seq) const {
  impl().cache.check_sequence(seq);
  return impl().cache.sources().size(seq);
}

int Context::batch_size() const {
  constexpr int kSteps = 2;  // With more, a cancelled batch would lose more work.
  const int n_at_once = impl().pipeline.plan().n_at_once();
  return impl().params.n_ubatch * (n_at_once > 1 ? kSteps * n_at_once : 1);
}

// --- States

void Context::Impl::prepare_save(std::optional<SeqId> seq) {
  if (seq) cache.check_sequence(*seq);
  for (SeqId s = 0; s < params.n_sequences; ++s)
    if (!seq || s == *seq) cache.check_intact(s);
  carry_out_moves();
  for (const auto& memory : cache.memories()) memory->evict();  // Unneeded rows are not saved.
}

std::vector<std::byte> Context::Impl::save(std::optional<SeqId> seq, Pos begin, Pos end) {
  prepare_save(seq);
  std::vector<std::byte> bytes;
  if (seq) {  // Growing would take twice the memory.
    const Pos n = std::min(end, cache.sequences().next_pos(*seq)) - begin;
    bytes.reserve(to_size(states.sequence_bytes(std::clamp(n, 0, cache.sequences().cells_total()))));
  }
  states.save(
      seq, [&](std::span<const std::byte> part) { bytes.insert(bytes.end(), part.begin(), part.end()); },
      begin, end);
  return bytes;
}

void Context::Impl::save_file(const std::filesystem::path& path, std::optional<SeqId> seq) {
  prepare_save(seq);
  base::AtomicFile file(path);
  states.save(seq, [&](std::span<const std::byte> part) { file.write(part); });
  file.commit();
}

bool Context::Impl::restore(std::span<const std::byte> bytes, std::optional<SeqId> seq) {
  if (seq) cache.check_sequence(*seq);
  const bool restored = states.restore(bytes, seq, [&] { carry_out_moves(); });
  if (restored && hparams().axes)
    for (SeqId of = seq.value_or(0); of < (seq ? *seq + 1 : params.n_sequences); ++of) cache.note_axes(of);
  cache.follow_moves();  // Defragmentation moves, if the sequence did not fit without.
  return restored;
}

bool Context::Impl::restore_file(const std::filesystem::path& path, std::optional<SeqId> seq) {
  if (seq) cache.check_sequence(*seq);
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

void Context::set_profile(Profile* profile) { impl().pipeline.plan().set_profile(profile); }

std::vector<ColumnSums> Context::column_sums() const { return impl().pipeline.column_totals().sums(); }

PlanStats Context::Impl::plan_stats() const {
  const exec::Plan& plan = pipeline.plan();
  const PlanCounters& counters = plan.counters();
  PlanStats stats;
  stats.compiled = counters.compiled;
  stats.steps = counters.steps;
  stats.steps_unchanged = counters.unchanged;
  stats.steps_shapes = counters.shapes;
  stats.steps_tensors = counters.tensors;
  stats.copies = counters.copies;
  stats.copied_bytes = counters.copied_bytes;
  if (counters.steps > 0) stats.host_us_per_step = host_seconds * 1e6 / static_cast<double>(counters.steps);
  for (int device = 0; device < model->impl().devices.size(); ++device)
    stats.workspace_bytes += static_cast<std::int64_t>(plan.own_bytes(device));
  stats.shared_workspace_bytes = static_cast<std::int64_t>(workspaces->bytes());
  return stats;
}

PlanStats Context::plan_stats() const { return impl().plan_stats(); }

}  // namespace weft
