#include "api/api.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "api/adapters.h"
#include "api/chat_completions.h"
#include "api/completions.h"
#include "api/embeddings.h"
#include "api/form.h"
#include "api/loading.h"
#include "api/media.h"
#include "api/messages.h"
#include "api/ollama/ollama.h"
#include "api/rerank.h"
#include "api/responses.h"
#include "api/score.h"
#include "api/stored_responses.h"
#include "api/tokens.h"
#include "api/transcriptions.h"
#include "base/counted.h"
#include "files/batch_endpoints.h"
#include "files/file_endpoints.h"
#include "web/web_files.h"

namespace weft::server {
namespace {

constexpr std::size_t kMaxQueued = 4096;
constexpr std::size_t kMaxTranscriptions = 64;  // That wait.
/// Ignored fields that are logged.
constexpr std::size_t kMaxReported = 256;

/// Bodies from this size on are parsed by a thread of their own.
constexpr std::size_t kLargeBody = 256 << 10;

// Constant-time: depends on the lengths alone.
bool equal(std::string_view a, std::string_view b) {
  unsigned difference = a.size() == b.size() ? 0U : 1U;
  for (std::size_t i = 0; i < a.size(); ++i)
    difference |= static_cast<unsigned>(static_cast<unsigned char>(a[i]) ^
                                        static_cast<unsigned char>(b.empty() ? '\0' : b[i % b.size()]));
  return difference == 0;
}

bool is_bearer(std::string_view header) {
  constexpr std::string_view kBearer = "bearer ";
  return header.size() >= kBearer.size() &&
         std::equal(kBearer.begin(), kBearer.end(), header.begin(), [](char expected, char c) {
           return std::tolower(static_cast<unsigned char>(c)) == expected;
         });
}

// The client's own id, if logs can hold it.
std::string request_id(const HttpRequest& request) {
  const std::string_view given = request.header("X-Request-Id");
  const bool fits =
      !given.empty() && given.size() <= 64 && std::all_of(given.begin(), given.end(), [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_';
      });
  return fits ? std::string(given) : make_id("req_");
}

std::string model_of(const Json& body, const HttpRequest& request) {
  if (const auto found = body.find("model"); found != body.end()) {
    if (found->is_string()) return found->get<std::string>();
    if (!found->is_null()) throw bad_request("model", "'model' must be a string");
  }
  return request.query_value("model");
}

}  // namespace

struct Api::Route {
  std::string_view method;
  std::string_view path;  ///< A path that ends with "/" matches all paths below it.
  enum class Where : std::uint8_t {
    kHere,  ///< On the HTTP thread: quick endpoints only.
    kWorker,
    kModel,  ///< On a worker, once the model that the body names is loaded.
  };
  Where where = Where::kHere;
  bool open = false;       ///< Needs no key.
  bool generates = false;  ///< The generation calls Job::done at its end.
  void (*run)(Api&, Job&) = nullptr;
  ErrorShape shape = ErrorShape::kOpenAi;
  /// With kModel: called before the model is loaded. True: it has sent the response.
  bool (*respond_early)(Job&) = nullptr;
  bool uploads = false;      ///< The body is no JSON: HttpRequest::sink has it.
  bool transcribes = false;  ///< The body is a form with audio, and the model transcribes it.
};

const std::vector<Api::Route>& Api::routes() {
  using enum Route::Where;
  // Paths with and without /v1, as llama.cpp's server has them.
  constexpr ErrorShape kOllama = ErrorShape::kOllama;
  static const std::vector<Route> kRoutes = {
      {"GET", "/health", kHere, true, false, [](Api& api, Job& job) { api.health(job); }},
      {"GET", "/v1/health", kHere, true, false, [](Api& api, Job& job) { api.health(job); }},
      {"GET", "/ready", kHere, true, false, [](Api& api, Job& job) { api.ready(job); }},
      {"GET", "/v1/models", kHere, false, false, [](Api& api, Job& job) { api.list_models(job); }},
      {"GET", "/models", kHere, false, false, [](Api& api, Job& job) { api.list_models(job); }},
      {"GET", "/v1/models/", kHere, false, false, [](Api& api, Job& job) { api.show_model(job); }},
      {"GET", "/props", kHere, false, false, [](Api& api, Job& job) { api.props(job); }},
      {"GET", "/metrics", kHere, false, false, [](Api& api, Job& job) { api.metrics(job); }},
      {"GET", "/slots", kWorker, false, false, [](Api& api, Job& job) { api.slots(job); }},
      {"GET", "/lora-adapters", kHere, false, false, [](Api& api, Job& job) { api.list_adapters(job); }},
      {"POST", "/lora-adapters", kModel, false, false, [](Api&, Job& job) { set_adapters(job); }},
      {"POST", "/slots/", kModel, false, false, [](Api& api, Job& job) { api.act_on_slot(job); }},
      {"GET", "/live", kHere, false, true, [](Api& api, Job& job) { api.live(job); }},
      {"POST", "/v1/chat/completions", kModel, false, true, [](Api&, Job& job) { chat_completions(job); }},
      {"POST", "/chat/completions", kModel, false, true, [](Api&, Job& job) { chat_completions(job); }},
      {"POST", "/v1/completions", kModel, false, true, [](Api&, Job& job) { completions(job); }},
      {"POST", "/completions", kModel, false, true, [](Api&, Job& job) { completions_in_both_forms(job); }},
      {"POST", "/completion", kModel, false, true, [](Api&, Job& job) { native_completion(job); }},
      {"POST", "/infill", kModel, false, true, [](Api&, Job& job) { infill(job); }},
      {"POST", "/v1/embeddings", kModel, false, true, [](Api&, Job& job) { embeddings(job); }},
      {"POST", "/embeddings", kModel, false, true, [](Api&, Job& job) { embeddings(job); }},
      {"POST", "/embedding", kModel, false, true, [](Api&, Job& job) { native_embedding(job); }},
      {.method = "POST",
       .path = "/v1/audio/transcriptions",
       .where = kModel,
       .generates = true,
       .run = [](Api&, Job& job) { transcribe_audio(job, false); },
       .transcribes = true},
      {.method = "POST",
       .path = "/v1/audio/translations",
       .where = kModel,
       .generates = true,
       .run = [](Api&, Job& job) { transcribe_audio(job, true); },
       .transcribes = true},
      {"POST", "/v1/score", kModel, false, true, [](Api&, Job& job) { score(job); }},
      {"POST", "/score", kModel, false, true, [](Api&, Job& job) { score(job); }},
      {"POST", "/classify", kModel, false, true, [](Api&, Job& job) { classify(job); }},
      {"POST", "/v1/classify", kModel, false, true, [](Api&, Job& job) { classify(job); }},
      {"POST", "/v1/rerank", kModel, false, true, [](Api&, Job& job) { rerank(job); }},
      {"POST", "/rerank", kModel, false, true, [](Api&, Job& job) { rerank(job); }},
      {"POST", "/v1/reranking", kModel, false, true, [](Api&, Job& job) { rerank(job); }},
      {"POST", "/reranking", kModel, false, true, [](Api&, Job& job) { rerank(job); }},
      {"POST", "/v1/responses", kModel, false, true, [](Api&, Job& job) { responses(job); }},
      {"POST", "/responses", kModel, false, true, [](Api&, Job& job) { responses(job); }},
      {"POST", "/v1/responses/input_tokens", kModel, false, false,
       [](Api&, Job& job) { count_response_tokens(job); }},
      {"POST", "/responses/input_tokens", kModel, false, false,
       [](Api&, Job& job) { count_response_tokens(job); }},
      {"GET", "/v1/responses/", kWorker, false, false, [](Api&, Job& job) { show_response(job); }},
      {"GET", "/responses/", kWorker, false, false, [](Api&, Job& job) { show_response(job); }},
      {"DELETE", "/v1/responses/", kWorker, false, false, [](Api&, Job& job) { delete_response(job); }},
      {"DELETE", "/responses/", kWorker, false, false, [](Api&, Job& job) { delete_response(job); }},
      {.method = "POST",
       .path = "/v1/files",
       .where = kWorker,
       .run = [](Api&, Job& job) { upload_file(job); },
       .uploads = true},
      {"GET", "/v1/files", kWorker, false, false, [](Api&, Job& job) { list_files(job); }},
      {"GET", "/v1/files/", kWorker, false, true, [](Api&, Job& job) { show_file(job); }},
      {"DELETE", "/v1/files/", kWorker, false, false, [](Api&, Job& job) { delete_file(job); }},
      {"POST", "/v1/batches", kWorker, false, false, [](Api&, Job& job) { create_batch(job); }},
      {"GET", "/v1/batches", kWorker, false, false, [](Api&, Job& job) { list_batches(job); }},
      {"GET", "/v1/batches/", kWorker, false, false, [](Api&, Job& job) { show_batch(job); }},
      {"POST", "/v1/batches/", kWorker, false, false, [](Api&, Job& job) { act_on_batch(job); }},
      {"POST", "/v1/chat/completions/input_tokens", kModel, false, false,
       [](Api&, Job& job) { count_chat_tokens(job); }},
      {"POST", "/chat/completions/input_tokens", kModel, false, false,
       [](Api&, Job& job) { count_chat_tokens(job); }},
      {"POST", "/v1/messages", kModel, false, true, [](Api&, Job& job) { messages(job); },
       ErrorShape::kAnthropic},
      {"POST", "/v1/messages/count_tokens", kModel, false, false,
       [](Api&, Job& job) { count_message_tokens(job); }, ErrorShape::kAnthropic},
      {"POST", "/tokenize", kModel, false, false, [](Api&, Job& job) { tokenize(job); }},
      {"POST", "/detokenize", kModel, false, false, [](Api&, Job& job) { detokenize(job); }},
      {"POST", "/apply-template", kModel, false, false, [](Api&, Job& job) { apply_template(job); }},
      {"POST", "/models/load", kModel, false, false, [](Api&, Job& job) { report_loaded(job); }},
      {"POST", "/models/unload", kWorker, false, false, [](Api&, Job& job) { unload_model(job); }},
      {"POST", "/api/chat", kModel, false, true, [](Api&, Job& job) { ollama_chat(job); }, kOllama,
       &unload_by_request},
      {"POST", "/api/generate", kModel, false, true, [](Api&, Job& job) { ollama_generate(job); }, kOllama,
       &unload_by_request},
      {"POST", "/api/embed", kModel, false, true, [](Api&, Job& job) { ollama_embed(job); }, kOllama},
      {"POST", "/api/embeddings", kModel, false, true, [](Api&, Job& job) { ollama_embeddings(job); },
       kOllama},
      {"GET", "/api/tags", kWorker, false, false, [](Api&, Job& job) { ollama_tags(job); }, kOllama},
      {"GET", "/api/ps", kWorker, false, false, [](Api&, Job& job) { ollama_ps(job); }, kOllama},
      {"GET", "/api/version", kHere, true, false, [](Api& api, Job& job) { api.ollama_version(job); },
       kOllama},
      {"POST", "/api/show", kWorker, false, false, [](Api&, Job& job) { ollama_show(job); }, kOllama},
      {"POST", "/api/pull", kWorker, false, false, [](Api&, Job& job) { ollama_pull(job); }, kOllama},
      {"POST", "/api/copy", kWorker, false, false, [](Api&, Job& job) { ollama_copy(job); }, kOllama},
      {"POST", "/api/create", kWorker, false, false, [](Api&, Job& job) { ollama_create(job); }, kOllama},
      {"POST", "/api/push", kWorker, false, false, [](Api&, Job& job) { ollama_push(job); }, kOllama},
      {"DELETE", "/api/delete", kWorker, false, false, [](Api&, Job& job) { ollama_delete(job); }, kOllama},
  };
  return kRoutes;
}

Api::Api(ApiSetup setup, ModelPool& models)
    : setup_(std::move(setup)),
      models_(&models),
      sessions_(setup_.save_folder),
      responses_(setup_.stored),
      background_params_(setup_.params),
      counts_(std::make_shared<RequestCounts>(setup_.n_requests_each)),
      workers_(std::make_unique<Workers>(setup_.n_workers, kMaxQueued)),
      large_workers_(std::make_unique<Workers>(1, kMaxQueued)),
      media_workers_(std::make_unique<Workers>(1, kMaxQueued)),
      speech_workers_(std::make_unique<Workers>(1, kMaxTranscriptions)) {
  // Requests of a batch wait for others as long as it takes.
  background_params_.defaults.params.priority = kBackgroundPriority;
  background_params_.defaults.timeout_ms = 0.0;
  if (!setup_.files.folder.empty()) files_ = std::make_unique<Files>(setup_.files, setup_.warn);
  if (!setup_.access_log.empty()) access_log_ = std::make_unique<AccessLog>(setup_.access_log, setup_.warn);
  note_keys();
}

Api::~Api() = default;

void Api::serve_on(HttpServer& http) {
  http_ = &http;
  if (files_ == nullptr) return;
  models_->on_crowded([this] { files_->batches.yield(); });
  files_->batches.start(
      {.serve = [this](std::shared_ptr<Exchange> exchange,
                       const std::string& key) { serve_in_background(std::move(exchange), key); },
       .post = [&http](std::function<void()> call) { http.post(std::move(call)); },
       .after = [&http](std::chrono::milliseconds time,
                        std::function<void()> call) { http.after(time, std::move(call)); }});
}

std::shared_ptr<BodySink> Api::sink_for(const HttpRequest& head) {
  const bool transcribes = std::any_of(routes().begin(), routes().end(), [&](const Route& route) {
    return route.transcribes && route.path == head.path;
  });
  if (head.method != "POST" || (!transcribes && (files_ == nullptr || head.path != "/v1/files")))
    return nullptr;
  const std::optional<std::string> key = key_of(head);
  if (!key || refuse_foreign_origin(head, setup_.origins)) return nullptr;
  if (transcribes) {
    const auto boundary = boundary_of(head.header("Content-Type"));
    return boundary ? std::make_shared<FormSink>(*boundary, form_bytes_) : nullptr;
  }
  return files_->sink(head.header("Content-Type"), *key);
}

void Api::leave() {
  leaving_ = true;
  if (files_ != nullptr) files_->batches.stop();
}

void Api::stop() {
  if (files_ != nullptr) files_->stop();
  workers_->stop();
  large_workers_->stop();
  media_workers_->stop();
  speech_workers_->stop();
}

std::shared_ptr<Exchange> RequestCounts::add(const std::string& client, std::shared_ptr<Exchange> exchange) {
  if (most_ == 0 || client.empty()) return exchange;
  {
    const std::lock_guard lock(mutex_);
    int& n = n_of_[client];
    if (n >= most_) return nullptr;
    ++n;
  }
  struct Counted {
    ~Counted() { counts->remove(client); }
    const std::shared_ptr<RequestCounts> counts;
    const std::string client;
    const std::shared_ptr<Exchange> exchange;
  };
  const std::shared_ptr<Counted> counted(new Counted{shared_from_this(), client, std::move(exchange)});
  return {counted, counted->exchange.get()};
}

void RequestCounts::remove(const std::string& client) {
  const std::lock_guard lock(mutex_);
  const auto found = n_of_.find(client);
  if (found != n_of_.end() && --found->second == 0) n_of_.erase(found);
}

void Api::set_keys(std::vector<ApiKey> keys) {
  const std::lock_guard lock(keys_mutex_);
  setup_.keys = std::move(keys);
  note_keys();
}

/// With keys_mutex_, or before the first request.
void Api::note_keys() {
  keeps_apart_ = keeps_apart_ || (!setup_.share_slots && setup_.keys.size() > 1);
  if (files_ != nullptr) files_->store.set_shared(keeps_apart_);
}

std::optional<std::string> Api::key_of(const HttpRequest& request) const {
  const std::lock_guard lock(keys_mutex_);
  if (setup_.keys.empty()) return "";
  // Anthropic's clients send x-api-key, OpenAI's Authorization; some send both.
  const std::string_view key = request.header("X-Api-Key");
  std::string_view token = request.header("Authorization");
  token = is_bearer(token) ? token.substr(7) : std::string_view();
  std::optional<std::string> name;
  for (const ApiKey& mine : setup_.keys)
    if (equal(key, mine.key) | equal(token, mine.key)) name = mine.name;
  return name;
}

bool Api::keeps_apart() const {
  const std::lock_guard lock(keys_mutex_);
  return keeps_apart_;
}

bool Api::serve_page(Job& job) const {
  const HttpRequest& request = job.exchange->request();
  if (request.method != "GET" && request.method != "HEAD") return false;
  // Browsers accept HTML by name. Clients of Ollama look for this line, and accept any type.
  const std::string_view accepted = request.header("Accept");
  const bool is_page = setup_.web_page && (accepted.empty() || accepted.find("text/html") != accepted.npos);
  if (request.path == "/" && !is_page) {
    job.exchange->send({.body = "Ollama is running",
                        .content_type = "text/plain; charset=utf-8",
                        .headers = {{"Vary", "Accept"}}});
    return true;
  }
  if (!setup_.web_page) return false;
  const WebFile* const file = find_web_file(request.path);
  if (file == nullptr) return false;
  HttpResponse answer;
  answer.content_type = file->content_type;
  answer.headers = {{"ETag", std::string(file->etag)},
                    {"Cache-Control", "no-cache"},
                    {"Vary", "Accept, Accept-Encoding"},
                    {"Content-Security-Policy", std::string(web_content_policy())},
                    {"Referrer-Policy", "no-referrer"}};
  if (request.header("If-None-Match") == file->etag) {
    answer.status = 304;
  } else if (request.header("Accept-Encoding").find("gzip") != std::string_view::npos) {
    answer.headers.emplace_back("Content-Encoding", "gzip");
    answer.body = file->gzip;
  } else {
    answer.body = file->bytes;
  }
  job.status = answer.status;
  job.exchange->send(std::move(answer));
  return true;
}

Job Api::make_job(std::shared_ptr<Exchange> exchange) {
  Job job;
  job.id = request_id(exchange->request());
  job.exchange = std::move(exchange);
  job.params = &setup_.params;
  job.http = http_;
  job.workers = workers_.get();
  job.sessions = &sessions_;
  job.models = models_;
  job.responses = &responses_;
  job.files = files_.get();
  job.start = std::chrono::steady_clock::now();
  return job;
}

void Api::serve_in_background(std::shared_ptr<Exchange> exchange, const std::string& key) {
  Job job = make_job(std::move(exchange));
  job.params = &background_params_;
  job.key = key;
  if (keeps_apart()) job.owner = key;
  job.client = "batches";  // All of them have one turn among the clients.
  const HttpRequest& request = job.exchange->request();
  const auto route = std::find_if(routes().begin(), routes().end(), [&](const Route& one) {
    return one.method == request.method && one.path == request.path;
  });
  start(*route, std::move(job));  // BatchInput admits endpoints of the table only.
}

void Api::handle(const std::shared_ptr<Exchange>& exchange) {
  const HttpRequest& request = exchange->request();
  Job job = make_job(exchange);
  if (const auto error = refuse_foreign_origin(request, setup_.origins))
    return fail(job, ErrorShape::kOpenAi, *error);
  if (request.method == "OPTIONS") {
    HttpResponse answer = preflight_response(request);
    const int status = answer.status;
    exchange->send(std::move(answer));
    return finish(job, {.status = status});
  }
  if (serve_page(job)) return finish(job, {.status = job.status});
  route_request(std::move(job));
}

void Api::route_request(Job job) {
  const HttpRequest& request = job.exchange->request();
  const Route* found = nullptr;
  std::string allowed;
  for (const Route& route : routes()) {
    const bool fits =
        route.path.ends_with('/') ? request.path.starts_with(route.path) : request.path == route.path;
    if (!fits) continue;
    const bool same = route.method == request.method || (route.method == "GET" && request.method == "HEAD");
    if (same && found == nullptr) found = &route;
    if (!same) allowed += (allowed.empty() ? "" : ", ") + std::string(route.method);
  }
  const ErrorShape shape = request.path.starts_with("/v1/messages") ? ErrorShape::kAnthropic
                           : request.path.starts_with("/api/")      ? ErrorShape::kOllama
                                                                    : ErrorShape::kOpenAi;
  if (found == nullptr) {
    if (allowed.empty())
      return fail(job, shape,
                  {404, "invalid_request_error", "not_found", "",
                   fmt::format("this server has no endpoint {}", request.path.substr(0, 200))});
    return fail(job, shape,
                {405, "invalid_request_error", "method_not_allowed", "",
                 fmt::format("{} accepts {} only", request.path.substr(0, 200), allowed)},
                {{"Allow", allowed}});
  }
  const std::optional<std::string> key = key_of(request);
  if (!found->open && !key)
    return fail(job, shape,
                {401, "authentication_error", "invalid_api_key", "",
                 "the API key is missing or wrong; send it as 'Authorization: Bearer KEY'"});
  job.key = key.value_or("");
  if (keeps_apart()) job.owner = job.key;
  if (!setup_.share_slots) job.viewer = job.key;
  job.client = job.key.empty() ? request.client : "key " + job.key;
  if (found->where == Route::Where::kHere && !found->generates) return run(*found, job);
  auto counted = counts_->add(job.client, job.exchange);
  if (counted == nullptr) {
    ApiError error(429, "rate_limit_error", "too_many_requests", "",
                   fmt::format("this client has {} in progress, which is the limit; wait until one has ended",
                               base::counted(setup_.n_requests_each, "request")));
    error.retry_after_ms = 1000.0;
    return fail(job, shape, error);
  }
  job.exchange = std::move(counted);
  start(*found, std::move(job));
}

void Api::start(const Route& route, Job job) {
  if (route.where == Route::Where::kHere) return run(route, job);
  auto shared = std::make_shared<Job>(std::move(job));
  const bool is_large = shared->exchange->request().body.size() >= kLargeBody;
  Workers& workers = route.uploads && files_ != nullptr ? *files_->disk
                     : is_large                         ? *large_workers_
                                                        : *workers_;
  work_on(workers, route, shared, [this, &route, shared] {
    try {
      shared->check_wanted();
      if (route.transcribes) {
        Form form = take_form(shared->exchange->request());
        shared->body = std::move(form.fields);
        shared->file = std::move(form.file);
      } else if (route.method != "GET" && !route.uploads) {
        const std::string& body = shared->exchange->request().body;
        shared->body = body.empty() && route.path.ends_with('/') ? Json::object() : parse_json(body);
        const bool list = shared->body.is_array() && route.path == "/lora-adapters";
        if (!shared->body.is_object() && !list) throw bad_request("", "the body must be a JSON object");
        if (!list) static_cast<void>(Fields(shared->body));  // Bounds the work before a model is loaded.
      }
    } catch (...) {
      return fail(*shared, route.shape, to_api_error(std::current_exception()));
    }
    if (route.where != Route::Where::kModel) return run(route, *shared);
    if (!responds_early(route, *shared)) with_model(route, shared);
  });
}

void Api::work_on(Workers& workers, const Route& route, const std::shared_ptr<Job>& job,
                  std::function<void()> work) {
  if (!workers.run(job->client, std::move(work)))
    fail(*job, route.shape, unavailable(kOverloaded, "too many requests are being received; try again"));
}

void Api::with_model(const Route& route, std::shared_ptr<Job> job) {
  std::string name;
  try {
    name = model_of(job->body, job->exchange->request());
  } catch (...) {
    return fail(*job, route.shape, to_api_error(std::current_exception()));
  }
  // Clients send fixed names such as "whisper-1" with audio.
  if (name.empty() || (route.transcribes && !models_->knows(name)))
    if (std::string first = models_->first_name(route.transcribes); !first.empty()) name = std::move(first);
  job->model_name = models_->whole_name(name);
  // With a loaded model the request continues at once, on this thread; otherwise once it is loaded.
  const bool is_background = job->is_background();
  if (auto model = models_->use(name, is_background)) {
    job->model = std::move(model);
    return run_with_model(route, job);
  }
  auto ready = [this, &route, job](std::shared_ptr<ServedModel> model, std::exception_ptr error) {
    if (error != nullptr) return fail(*job, route.shape, to_api_error(error));
    job->model = std::move(model);
    const bool is_large = job->exchange->request().body.size() >= kLargeBody;
    work_on(is_large ? *large_workers_ : *workers_, route, job,
            [this, &route, job] { run_with_model(route, job); });
  };
  models_->get(name, std::move(ready), is_background);
}

bool Api::responds_early(const Route& route, Job& job) noexcept {
  if (route.respond_early == nullptr) return false;
  try {
    if (!route.respond_early(job)) return false;
    finish(job, {.status = job.status});
  } catch (...) {
    fail(job, route.shape, to_api_error(std::current_exception()));
  }
  return true;
}

void Api::run_with_model(const Route& route, const std::shared_ptr<Job>& job) {
  if (job->model->transcriber != nullptr && !route.transcribes && route.path != "/models/load")
    return fail(*job, route.shape,
                bad_request("model",
                            fmt::format("the model '{}' only transcribes audio: use /v1/audio/transcriptions",
                                        job->model->spec.name)));
  if (route.transcribes && job->model->transcriber != nullptr) {
    const auto use = std::make_shared<ServedModel::Use>(job->model);
    return work_on(*speech_workers_, route, job, [this, &route, job, use] { run(route, *job); });
  }
  const bool reads_media = job->model->vision != nullptr || job->model->audio != nullptr;
  if (!reads_media || !has_media(job->body)) return run(route, *job);
  work_on(*media_workers_, route, job, [this, &route, job] { run(route, *job); });
}

void Api::run(const Route& route, Job& job) noexcept {
  try {
    job.check_wanted();
    if (route.generates)
      job.done = [this, request = ServedRequest(job)](const Outcome& outcome) { finish(request, outcome); };
    route.run(*this, job);
    tell_ignored(job);
    if (!route.generates) finish(job, {.status = job.status});
  } catch (...) {
    const auto gone = job.model != nullptr ? job.model->gone() : std::nullopt;
    fail(job, route.shape, gone.value_or(to_api_error(std::current_exception())));
  }
}

void Api::tell_ignored(const Job& job) {
  if (!setup_.warn) return;
  for (const std::string& name : job.ignored.names()) {
    {
      const std::lock_guard lock(reported_mutex_);
      if (reported_.size() == kMaxReported || !reported_.insert(name).second) continue;
    }
    setup_.warn(
        fmt::format("{}: '{}' is ignored: this server does not know it, or it has no effect here (logged "
                    "once; responses list it in X-Weft-Ignored)",
                    job.exchange->request().path.substr(0, 64), name));
  }
}

void Api::finish(const ServedRequest& request, const Outcome& outcome) {
  const std::string model = request.model != nullptr ? request.model->spec.name : std::string();
  const HttpRequest& http_request = request.exchange->request();
  if (setup_.trace != nullptr && request.model != nullptr)
    setup_.trace->request(request.id, http_request.path, model, request.start, outcome);
  if (access_log_ == nullptr) return;
  const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - request.start;
  access_log_->add({.request = http_request,
                    .id = request.id,
                    .key = request.key,
                    .model = model,
                    .ms = time.count(),
                    .n_bytes = request.exchange->n_written(),
                    .outcome = outcome});
}

void Api::log_refused(const RefusedRequest& refused) {
  if (access_log_ == nullptr) return;
  access_log_->add(
      {.request = refused.request, .outcome = {.status = refused.status, .error = refused.reason}});
}

void Api::fail(Job& job, ErrorShape shape, const ApiError& error, const HttpHeaders& headers) noexcept {
  try {
    HttpResponse answer = error_response(error, shape);
    answer.headers.insert(answer.headers.end(), headers.begin(), headers.end());
    for (auto& header : job.headers()) answer.headers.push_back(std::move(header));
    job.exchange->send(std::move(answer));
    finish(job, {.status = error.status, .error = error.what()});
  } catch (...) {  // No memory for a response: the exchange responds with 500 when it is dropped.
  }
}

}  // namespace weft::server
