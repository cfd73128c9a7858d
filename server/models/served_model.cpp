#include "models/served_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <system_error>
#include <utility>

namespace weft::server {
namespace {

/// Each get() measures all grammars.
constexpr std::size_t kMostGrammars = 1024;

std::optional<Chat> chat_of(const Model& model) {
  if (model.info().encoder) return std::nullopt;
  if (model.chat_template() == nullptr)
    return why_no_template(model).empty() ? std::optional(Chat::chatml(model.tokenizer())) : std::nullopt;
  return Chat(*model.chat_template());
}

std::function<bool()> is_lost(const ServedModelParams& params) {
  if (!params.lost) return nullptr;
  return [lost = params.lost] { return !lost().empty(); };
}

ServiceParams complete(const ServedModelParams& params, std::shared_ptr<Context> draft, StepLog& steps) {
  ServiceParams service = params.service;
  service.batcher.draft = std::move(draft);
  service.batcher.on_step = [&steps](const StepRecord& record) { steps.add(record); };
  service.devices_lost = is_lost(params);
  return service;
}

std::unique_ptr<EmbeddingService> embedding_of(const std::shared_ptr<const Model>& model,
                                               const ServedModelParams& params) {
  return std::make_unique<EmbeddingService>(
      Embedder(model, {.n_tokens = params.n_ctx, .n_threads = params.context.n_threads}),
      params.service.batcher.limits.n_waiting, is_lost(params));
}

}  // namespace

std::int64_t seconds_of(const std::filesystem::path& path) {
  std::error_code error;
  const auto time = std::filesystem::last_write_time(path, error);
  if (error) return 0;
  const auto system = std::chrono::file_clock::to_sys(time);
  return std::chrono::duration_cast<std::chrono::seconds>(system.time_since_epoch()).count();
}

std::string without_folders(std::string_view text) {
  constexpr std::string_view kEnds = " \t\n'\"()";
  std::string result;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of(kEnds), text.size());
    std::string_view word = text.substr(0, end);
    if (word.starts_with('/') || word.starts_with("./") || word.starts_with("../"))
      word.remove_prefix(word.find_last_of('/') + 1);
    result += word;
    if (end < text.size()) result += text[end];
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return result;
}

std::string why_no_template(const Model& model) {
  for (const std::string& note : model.notes())
    if (note.starts_with("tokenizer.chat_template")) return fmt::format(" ({})", note);
  return {};
}

std::string load_failure(const ModelSpec& spec, std::string_view why) {
  return fmt::format("the model '{}' could not be loaded: {}", spec.name, why);
}

std::string weights_lost(const ModelSpec& spec, std::string_view why) {
  return fmt::format("the model '{}' lost its weights while it was served, and the server loads it again: {}",
                     spec.name, why);
}

ApiError model_unavailable(std::string_view message, double retry_after_ms) {
  return unavailable("model_unavailable", without_folders(message), retry_after_ms);
}

std::shared_ptr<const CompiledGrammar> GrammarCache::get(const std::string& key,
                                                         const std::function<Grammar()>& make) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = by_key_.find(key); found != by_key_.end()) {
      entries_.splice(entries_.begin(), entries_, found->second);
      shrink();
      return entries_.front().grammar;
    }
  }
  // Two clients may compile the same one at the same time; the second result is dropped.
  std::shared_ptr<const CompiledGrammar> grammar = compiler_.compile(make());
  const std::lock_guard lock(mutex_);
  if (by_key_.contains(key)) return grammar;
  entries_.push_front({key, grammar});
  by_key_.emplace(entries_.front().key, entries_.begin());
  shrink();
  return grammar;
}

void GrammarCache::shrink() {
  std::size_t bytes = 0;
  auto last = entries_.begin();
  for (std::size_t n = 0; last != entries_.end() && n < kMostGrammars; ++last, ++n) {
    bytes += last->grammar->bytes() + last->key.size();
    if (n > 0 && bytes > max_bytes_) break;
  }
  for (auto entry = last; entry != entries_.end(); ++entry) by_key_.erase(entry->key);
  entries_.erase(last, entries_.end());
}

std::size_t GrammarCache::size() {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

ServedModel::ServedModel(ModelSpec spec_in, std::shared_ptr<const Model> model_in,
                         const ServedModelParams& params)
    : ServedModel(std::move(spec_in), model_in, params,
                  model_in->info().encoder
                      ? std::nullopt
                      : std::optional<Context>(std::in_place, model_in, params.context)) {}

ServedModel::ServedModel(ModelSpec spec_in, std::shared_ptr<const Model> model_in,
                         const ServedModelParams& params, std::optional<Context> made)
    : spec(std::move(spec_in)),
      model(std::move(model_in)),
      vision(params.vision),
      audio(params.audio),
      created(seconds_of(spec.path)),
      chat(chat_of(*model)),
      chat_defaults(params.chat),
      infill(find_infill_tokens(*model)),
      infill_order(params.infill_order),
      grammars(std::in_place, model->tokenizer()),
      context(made ? made->params() : params.context),
      embedding(made ? nullptr : embedding_of(model, params)),
      n_ctx(embedding != nullptr ? embedding->max_tokens()
            : params.n_ctx > 0   ? std::min(params.n_ctx, context.n_ctx)
                                 : context.n_ctx),
      n_slots(params.service.batcher.n_running > 0 ? params.service.batcher.n_running : context.n_sequences),
      drafts(made && made->cache().cuts_back() && params.service.batcher.speculation != Speculation::kNone),
      keeps_snapshots(made && !made->cache().cuts_anywhere() && params.service.batcher.n_snapshots > 0),
      steps(params.on_step),
      lost_(params.lost),
      reload_(params.reload),
      usual_adapters_(params.context.adapters) {
  if (!made) return;
  std::shared_ptr<Context> draft;
  if (params.draft != nullptr) draft = std::make_shared<Context>(params.draft, params.draft_context, *made);
  service.emplace(std::move(*made), complete(params, std::move(draft), steps));
}

ServedModel::ServedModel(ModelSpec spec_in, std::shared_ptr<const Transcriber> transcriber_in)
    : spec(std::move(spec_in)),
      transcriber(std::move(transcriber_in)),
      created(seconds_of(spec.path)),
      infill_order(InfillOrder::kPrefixFirst),
      n_ctx(0),
      n_slots(1),
      drafts(false),
      keeps_snapshots(false),
      steps(nullptr) {}

void ServedModel::count_use(int n) {
  const std::lock_guard lock(uses_mutex_);
  n_uses_ += n;
  if (n_uses_ == 0) no_uses_.notify_all();
}

void ServedModel::count(const std::function<void(TranscriptionStats&)>& change) {
  const std::lock_guard lock(uses_mutex_);
  change(transcriptions_);
}

TranscriptionStats ServedModel::transcriptions() const {
  const std::lock_guard lock(uses_mutex_);
  return transcriptions_;
}

void ServedModel::renew(const std::function<bool(float)>& progress) {
  const auto again = [&](auto make) {
    while (true) {
      try {
        reload_(progress);
        return make();
      } catch (...) {
        if (!lost().empty()) continue;  // More was lost during the reload.
        const ApiError error = to_api_error(std::current_exception());
        const std::lock_guard lock(gone_mutex_);
        gone_ = error.code == "cancelled" ? error : model_unavailable(weights_lost(spec, error.what()));
        throw;
      }
    }
  };
  if (embedding != nullptr) {
    embedding->renew([&] {
      return again([&] { return Embedder(model, {.n_tokens = n_ctx, .n_threads = context.n_threads}); });
    });
  } else {
    service->renew([&] { return again([&] { return Context(model, context); }); });
  }
}

std::optional<ApiError> ServedModel::gone() const {
  const std::lock_guard lock(gone_mutex_);
  return gone_;
}

void ServedModel::note_failure(std::string why) {
  const std::lock_guard lock(gone_mutex_);
  failure_ = std::move(why);
}

std::string ServedModel::failure() const {
  const std::lock_guard lock(gone_mutex_);
  return failure_;
}

void ServedModel::drain(std::chrono::milliseconds at_most) {
  if (service) service->drain(at_most);
  if (embedding != nullptr) embedding->drain(at_most);
  std::unique_lock lock(uses_mutex_);
  no_uses_.wait_for(lock, at_most, [this] { return n_uses_ == 0; });
}

void ServedModel::shutdown() {
  stopped_ = true;
  if (service) service->shutdown();
  if (embedding != nullptr) embedding->shutdown();
}

std::vector<AdapterUse> ServedModel::adapters_for(std::string_view name) const {
  if (std::find(spec.adapters.begin(), spec.adapters.end(), name) != spec.adapters.end())
    for (std::size_t i = 0; i < model->adapters().size(); ++i)
      if (model->adapters()[i].name == name) return {{static_cast<int>(i), 1.0f}};
  const std::lock_guard lock(adapters_mutex_);
  return usual_adapters_;
}

void ServedModel::set_usual_adapters(std::vector<AdapterUse> adapters) {
  const std::lock_guard lock(adapters_mutex_);
  usual_adapters_ = std::move(adapters);
}

std::shared_ptr<const BatcherSnapshot> ServedModel::snapshot() {
  constexpr std::chrono::milliseconds kFresh{200};
  {
    const std::lock_guard lock(snapshot_mutex_);
    if (!service || drawing_ || std::chrono::steady_clock::now() - snapshot_time_ < kFresh) return snapshot_;
    drawing_ = true;
  }
  std::shared_ptr<const BatcherSnapshot> drawn;
  std::exception_ptr error;
  try {
    drawn = std::make_shared<const BatcherSnapshot>(service->snapshot());
  } catch (...) {
    error = std::current_exception();
  }
  const std::lock_guard lock(snapshot_mutex_);
  drawing_ = false;
  if (error != nullptr) std::rethrow_exception(error);
  snapshot_ = drawn;
  snapshot_time_ = std::chrono::steady_clock::now();
  return drawn;
}

}  // namespace weft::server
