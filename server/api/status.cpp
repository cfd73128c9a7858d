// Endpoints for the state of server and models.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <ctime>

#include "api/adapters.h"
#include "api/api.h"
#include "api/response_json.h"
#include "observe/live.h"
#include "observe/metrics.h"
#include "weft/error.h"

namespace weft::server {
namespace {

/// Why the model is not loaded, or why it failed the last request; empty: neither.
std::string failure_of(const ModelState& state) {
  if (state.stage == ModelState::Stage::kFailed) return state.error;
  return state.model != nullptr ? state.model->failure() : std::string();
}

/// The fields of OpenAI's API, and further ones of Anthropic's: "type", "display_name" and "created_at".
Json named_json(const std::string& name, std::int64_t created) {
  return {
      {"id", name},
      {"object", "model"},
      {"created", created},
      {"owned_by", "weft"},
      {"type", "model"},
      {"display_name", name},
      {"created_at", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(static_cast<std::time_t>(created)))}};
}

std::int64_t created(const ModelState& state) {
  return state.model != nullptr ? state.model->created : seconds_of(state.path);
}

Json model_json(const ModelState& state) {
  constexpr const char* kStages[] = {"unloaded", "loading", "loaded", "failed"};
  Json json = named_json(state.name, created(state));
  json["aliases"] = state.aliases;
  json["tags"] = state.tags;
  json["status"] = {{"value", kStages[static_cast<std::size_t>(state.stage)]}};
  if (const std::string error = failure_of(state); !error.empty()) json["status"]["error"] = error;
  if (state.model != nullptr && state.model->model != nullptr) {
    const ModelInfo& info = state.model->model->info();
    json["max_model_len"] = state.model->n_ctx;
    json["meta"] = {{"architecture", info.architecture}, {"quantisation", info.quantisation},
                    {"n_params", info.n_parameters},     {"size", info.file_bytes},
                    {"n_vocab", info.n_vocab},           {"n_embd", info.n_embd},
                    {"n_ctx", state.model->n_ctx},       {"n_ctx_train", info.n_ctx_train}};
  }
  return json;
}

/// An entry of the list `models`. llama.cpp's server sends it in addition to OpenAI's `data`, and clients
/// read capabilities there.
Json capable_json(const ModelState& state) {
  Json capabilities = Json::array();
  Json details = {{"parent_model", ""}, {"format", "gguf"}};
  if (state.model != nullptr && state.model->transcriber != nullptr) {
    capabilities.push_back("transcription");
    details["family"] = "whisper";
  } else if (state.model != nullptr) {
    const ServedModel& model = *state.model;
    if (model.service) capabilities.push_back("completion");
    if (model.vision != nullptr || model.audio != nullptr) capabilities.push_back("multimodal");
    if (!model.model->info().reads_source) capabilities.push_back("embedding");
    if (model.model->info().ranks) capabilities.push_back("rerank");
    details["family"] = model.model->info().architecture;
    details["quantization_level"] = model.model->info().quantisation;
  }
  return {{"name", state.name},
          {"model", state.name},
          {"type", "model"},
          {"tags", state.tags},
          {"capabilities", std::move(capabilities)},
          {"details", std::move(details)}};
}

bool can_answer(const std::vector<ModelState>& states) {
  return std::any_of(states.begin(), states.end(),
                     [](const ModelState& state) { return state.stage == ModelState::Stage::kLoaded; });
}

std::shared_ptr<ServedModel> any_loaded(const ModelPool& models, const HttpRequest& request) {
  auto model = models.loaded(request.query_value("model"));
  const auto writes = [](const auto& one) { return one != nullptr && one->transcriber == nullptr; };
  if (writes(model)) return model;
  const std::vector<ModelState> states = models.states();
  for (const ModelState& state : states)
    if (writes(state.model)) return state.model;
  const bool transcribes = std::all_of(states.begin(), states.end(), [](const ModelState& state) {
    return state.model != nullptr && state.model->transcriber != nullptr;
  });
  if (transcribes) throw bad_request("model", "all models are Whisper models, which transcribe audio only");
  throw unavailable("loading", "no model is loaded yet");
}

}  // namespace

// The state of the first model, or of another model that can serve. Also lists models that could not be
// loaded, or computed values that are not numbers. An unloaded model counts as available, since the next
// request loads it. A probe must not end the process while a model is loaded again.
void Api::health(Job& job) {
  const std::vector<ModelState> states = models_->states();
  const ModelState& first = states.front();
  HttpResponse answer;
  answer.headers = job.headers();
  answer.status = 503;
  if (leaving_) {
    answer.body = to_text({{"status", "stopping"}});
  } else if (first.stage == ModelState::Stage::kLoading && !first.was_loaded) {
    answer.body = to_text({{"status", "loading"}, {"progress", first.progress}});
    answer.headers.emplace_back("Retry-After", "1");
  } else if (first.stage == ModelState::Stage::kFailed && !can_answer(states)) {
    answer.body = to_text({{"status", "error"}, {"error", {{"message", first.error}}}});
  } else {
    answer.status = 200;
    Json body = {{"status", "ok"}};
    for (const ModelState& state : states)
      if (const std::string error = failure_of(state); !error.empty()) body["failed"][state.name] = error;
    answer.body = to_text(body);
  }
  job.status = answer.status;
  job.exchange->send(std::move(answer));
}

void Api::ready(Job& job) {
  if (leaving_) throw unavailable("stopping", "the server is shutting down");
  const std::vector<ModelState> states = models_->states();
  const ModelState& first = states.front();
  if (can_answer(states) || first.stage == ModelState::Stage::kIdle) return job.send({{"status", "ok"}});
  if (first.stage == ModelState::Stage::kLoading) throw unavailable("loading", "the model is being loaded");
  throw unavailable("model_unavailable",
                    "the model could not be loaded; see the log or GET /v1/models for the reason");
}

Json Api::models_json() const {
  Json data = Json::array();
  for (const ModelState& state : models_->states()) {
    data.push_back(model_json(state));
    for (const std::string& adapter : state.adapters) {  // As vLLM lists them.
      data.push_back(named_json(adapter, created(state)));
      data.back()["parent"] = state.name;
    }
  }
  return data;
}

void Api::list_models(Job& job) {
  Json models = Json::array();
  for (const ModelState& state : models_->states()) models.push_back(capable_json(state));
  Json data = models_json();
  // The list is one page of Anthropic's API.
  Json first = data.front()["id"], last = data.back()["id"];
  job.send({{"object", "list"},
            {"data", std::move(data)},
            {"models", std::move(models)},
            {"has_more", false},
            {"first_id", std::move(first)},
            {"last_id", std::move(last)}});
}

void Api::show_model(Job& job) {
  const std::string name = job.exchange->request().path.substr(std::string_view("/v1/models/").size());
  for (Json& model : models_json())
    if (model["id"] == name) return job.send(std::move(model));
  throw ApiError(404, "invalid_request_error", "model_not_found", "model",
                 fmt::format("unknown model '{}'; GET /v1/models lists the models", name.substr(0, 200)));
}

namespace {

std::string token_text(const Tokenizer& tokenizer, Token id) {
  return id == kNoToken ? std::string() : std::string(tokenizer.text(id));
}

/// The facts that are known without a loaded model.
Json props_without_model(const ModelState& state, const RequestParams& defaults, const std::string& version) {
  return {{"default_generation_settings", {{"params", settings_json(defaults)}}},
          {"model", state.name},
          {"model_alias", state.name},
          {"model_path", state.path.filename().string()},
          {"modalities", {{"vision", false}, {"audio", false}}},
          {"build_info", "weft-" + version},
          {"is_sleeping", true}};
}

/// The first model was unloaded, and no other model is loaded.
bool is_sleeping(const std::vector<ModelState>& states) {
  return states.front().was_loaded && std::all_of(states.begin(), states.end(), [](const ModelState& state) {
           return state.stage == ModelState::Stage::kIdle;
         });
}

}  // namespace

void Api::props(Job& job) {
  if (const std::vector<ModelState> states = models_->states(); is_sleeping(states))
    return job.send(props_without_model(states.front(), setup_.params.defaults.params, setup_.version));
  const auto model = any_loaded(*models_, job.exchange->request());
  const bool chats = model->chat.has_value();
  const ChatTemplate* const own = model->model->chat_template();
  Json params = settings_json(setup_.params.defaults.params);
  params["stream"] = false;
  params["chat_format"] = chats ? std::string(model->chat->format()) : std::string();
  const ChatDefaults& defaults = model->chat_defaults;
  if (!defaults.variables_json.empty()) params["chat_template_kwargs"] = parse_json(defaults.variables_json);
  if (defaults.reasoning) params["reasoning"] = *defaults.reasoning;
  if (defaults.reasoning_budget >= 0) params["reasoning_budget"] = defaults.reasoning_budget;
  job.send({{"default_generation_settings",
             {{"id", 0},
              {"id_task", -1},
              {"n_ctx", model->n_ctx},
              {"speculative", model->drafts},
              {"is_processing", false},
              {"params", std::move(params)},
              {"prompt", ""}}},
            {"total_slots", model->n_slots},
            {"model", model->spec.name},
            {"model_alias", model->spec.name},
            {"model_path", model->spec.path.filename().string()},
            {"n_ctx", model->n_ctx},
            {"modalities", {{"vision", model->vision != nullptr}, {"audio", model->audio != nullptr}}},
            {"chat_template", own != nullptr ? std::string(own->source())
                              : chats        ? std::string(ChatTemplate("chatml").source())
                                             : std::string()},
            {"chat_template_is_fallback", chats && own == nullptr},
            {"chat_template_caps",
             {{"chat", chats},
              {"tools", chats && model->chat->has_tools()},
              {"reasoning", chats && model->chat->has_reasoning()},
              {"supports_tools", chats && model->chat->has_tools()},
              {"supports_tool_calls", chats && model->chat->has_tools()}}},
            {"chat_format", chats ? std::string(model->chat->format()) : std::string()},
            {"bos_token", token_text(model->tokenizer(), model->tokenizer().bos())},
            {"eos_token", token_text(model->tokenizer(), model->tokenizer().eos())},
            {"build_info", "weft-" + setup_.version},
            {"is_sleeping", false}});
}

void Api::list_adapters(Job& job) { job.send(adapters_json(*any_loaded(*models_, job.exchange->request()))); }

namespace {

/// The refusal of an endpoint that would show requests of all keys.
void check_may_look(const Job& job) {
  if (job.owner.empty()) return;
  throw ApiError(
      403, "invalid_request_error", "not_shared", "",
      fmt::format("{} shows the requests of all API keys; start the server with --share-slots to allow that",
                  job.exchange->request().path));
}

}  // namespace

void Api::slots(Job& job) {
  if (!setup_.slots)
    throw ApiError(501, "not_supported_error", "", "",
                   "/slots is disabled: the server was started with --no-slots");
  check_may_look(job);
  const auto model = any_loaded(*models_, job.exchange->request());
  Json slots = slots_json(*model->snapshot(), model->n_slots, model->n_ctx, model->drafts,
                          setup_.params.defaults.params);
  const bool all_busy = std::all_of(slots.begin(), slots.end(),
                                    [](const Json& slot) { return slot["is_processing"].get<bool>(); });
  if (all_busy && job.exchange->request().query_value("fail_on_no_slot") == "1")
    throw unavailable("no_slot", "all slots are busy");
  job.send(std::move(slots));
}

void Api::act_on_slot(Job& job) {
  const HttpRequest& request = job.exchange->request();
  const std::string_view text = std::string_view(request.path).substr(std::string_view("/slots/").size());
  int slot = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), slot);
  if (error != std::errc{} || end != text.data() + text.size() || slot < 0 || slot >= kMostSlots)
    throw bad_request("id_slot", fmt::format("a slot is a number from 0 to {}", kMostSlots - 1));
  sessions_.act(job, slot, request.query_value("action"));
}

void Api::metrics(Job& job) {
  if (!setup_.metrics)
    throw ApiError(501, "not_supported_error", "", "",
                   "/metrics is disabled; start the server with --metrics");
  job.exchange->send({.body = metrics_text(models_->states(), http_->counts()),
                      .content_type = "text/plain; version=0.0.4; charset=utf-8",
                      .headers = job.headers()});
}

void Api::ollama_version(Job& job) {
  // Clients compare the numbers with the version of Ollama that they need.
  constexpr const char* kOllamaApi = "0.12.6";
  job.send({{"version", kOllamaApi}, {"weft", setup_.version}});
}

/// A client of the live page: a snapshot twice a second for as long as it stays.
class LiveStream : public std::enable_shared_from_this<LiveStream> {
 public:
  LiveStream(HttpServer& http, Workers& workers, std::shared_ptr<Exchange> exchange,
             std::weak_ptr<ServedModel> model, std::string client,
             std::chrono::steady_clock::time_point start, std::function<void(const Outcome&)> done)
      : http_(&http),
        workers_(&workers),
        exchange_(std::move(exchange)),
        model_(std::move(model)),
        client_(std::move(client)),
        start_(start),
        done_(std::move(done)) {}

  void start() {
    // The timer holds the stream.
    exchange_->on_closed([weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->log();
    });
    next();
  }

  /// On the HTTP server's thread.
  void stop() {
    over_ = true;
    exchange_->end();
    log();
  }

 private:
  void next() {
    if (over_ || exchange_->closed()) return;
    // A client that does not read gets no more until it does.
    if (exchange_->n_unsent() == 0 && !telling_.exchange(true) &&
        !workers_->run(client_, [self = shared_from_this()] { self->tell(); }))
      telling_ = false;
    http_->after(kPeriod, [self = shared_from_this()] { self->next(); });
  }
  void tell() {
    const auto model = model_.lock();
    if (model == nullptr) return end();
    const std::chrono::duration<double> uptime = std::chrono::steady_clock::now() - start_;
    try {
      std::string out;
      add_event(out, to_text(live_json(*model, uptime.count(), last_step_)));
      exchange_->write(std::move(out));
    } catch (const std::exception&) {  // The service is shutting down, or memory is short: no snapshot.
      end();
    }
    telling_ = false;
  }
  void end() {
    over_ = true;
    exchange_->end();
    http_->post([self = shared_from_this()] { self->log(); });
  }
  // On the HTTP server's thread.
  void log() {
    if (done_) std::exchange(done_, nullptr)({});
  }

  static constexpr std::chrono::milliseconds kPeriod{500};
  HttpServer* http_;
  Workers* workers_;
  const std::shared_ptr<Exchange> exchange_;
  const std::weak_ptr<ServedModel> model_;  ///< Watching keeps no model in memory.
  const std::string client_;
  const std::chrono::steady_clock::time_point start_;
  std::atomic<bool> over_{false};
  std::function<void(const Outcome&)> done_;  ///< Null once it was called.
  std::atomic<bool> telling_{false};          ///< A worker is making a snapshot.
  std::int64_t last_step_ = 0;
};

void Api::live(Job& job) {
  check_may_look(job);
  const auto model = any_loaded(*models_, job.exchange->request());
  job.exchange->begin(200, kEventStream, stream_headers(job.headers()));
  if (job.exchange->request().method == "HEAD") {
    job.exchange->end();
    return job.done({});
  }
  const auto stream =
      std::make_shared<LiveStream>(*http_, *workers_, job.exchange, model, job.client, start_, job.done);
  std::erase_if(live_, [](const auto& other) { return other.expired(); });
  live_.push_back(stream);
  stream->start();
}

void Api::end_live() {
  http_->post([this] {
    for (const auto& weak : live_)
      if (const auto stream = weak.lock()) stream->stop();
  });
}

}  // namespace weft::server
