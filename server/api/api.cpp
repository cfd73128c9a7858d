#include "api/api.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "api/adapters.h"
#include "api/chat_completions.h"
#include "api/completions.h"
#include "api/embeddings.h"
#include "api/media.h"
#include "api/messages.h"
#include "api/rerank.h"
#include "api/responses.h"
#include "api/tokens.h"
#include "web/web_files.h"

namespace weft::server {
namespace {

constexpr std::size_t kMaxQueued = 4096;

/// What a browser of another page may send and see.
const HttpHeaders kPreflight = {
    {"Access-Control-Allow-Methods", "GET, POST, DELETE, OPTIONS"},
    {"Access-Control-Allow-Headers", "*, Authorization, Content-Type, X-Api-Key, X-Request-Id"},
    {"Access-Control-Max-Age", "86400"}};

// In a time that depends on the lengths alone.
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

// "localhost:8080" to "localhost", "[::1]:8080" to "[::1]".
std::string_view without_port(std::string_view host) {
  const std::size_t colon = host.rfind(':');
  return colon == std::string_view::npos || host.ends_with(']') ? host : host.substr(0, colon);
}

bool is_this_machine(std::string_view host) {
  const std::string_view name = without_port(host);
  return name == "localhost" || name.ends_with(".localhost") || name == "[::1]" || name.starts_with("127.");
}

// The client's own id, where it is one that logs can hold.
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
  std::string_view path;  ///< One that ends with "/" stands for all below it.
  enum class Where : std::uint8_t {
    kHere,  ///< On the HTTP thread: nothing that takes time.
    kWorker,
    kModel,  ///< On a worker, once the model that the body names is loaded.
  };
  Where where = Where::kHere;
  bool open = false;       ///< Needs no key.
  bool generates = false;  ///< Its end is told by the generation.
  void (*run)(Api&, Job&) = nullptr;
  ErrorShape shape = ErrorShape::kOpenAi;
};

const std::vector<Api::Route>& Api::routes() {
  using enum Route::Where;
  // Paths with and without /v1, as llama.cpp's server has them.
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
      {"POST", "/completions", kModel, false, true, [](Api&, Job& job) { completions(job); }},
      {"POST", "/infill", kModel, false, true, [](Api&, Job& job) { infill(job); }},
      {"POST", "/v1/embeddings", kModel, false, true, [](Api&, Job& job) { embeddings(job); }},
      {"POST", "/embeddings", kModel, false, true, [](Api&, Job& job) { embeddings(job); }},
      {"POST", "/v1/rerank", kModel, false, true, [](Api&, Job& job) { rerank(job); }},
      {"POST", "/rerank", kModel, false, true, [](Api&, Job& job) { rerank(job); }},
      {"POST", "/v1/reranking", kModel, false, true, [](Api&, Job& job) { rerank(job); }},
      {"POST", "/v1/responses", kModel, false, true, [](Api&, Job& job) { responses(job); }},
      {"POST", "/v1/messages", kModel, false, true, [](Api&, Job& job) { messages(job); },
       ErrorShape::kAnthropic},
      {"POST", "/v1/messages/count_tokens", kModel, false, false,
       [](Api&, Job& job) { count_message_tokens(job); }, ErrorShape::kAnthropic},
      {"POST", "/tokenize", kModel, false, false, [](Api&, Job& job) { tokenize(job); }},
      {"POST", "/detokenize", kModel, false, false, [](Api&, Job& job) { detokenize(job); }},
      {"POST", "/apply-template", kModel, false, false, [](Api&, Job& job) { apply_template(job); }},
  };
  return kRoutes;
}

Api::Api(ApiSetup setup, ModelPool& models)
    : setup_(std::move(setup)),
      models_(&models),
      sessions_(setup_.save_folder),
      workers_(std::make_unique<Workers>(setup_.n_workers, kMaxQueued)),
      media_workers_(std::make_unique<Workers>(1, kMaxQueued)) {
  if (!setup_.access_log.empty()) access_log_ = std::make_unique<AccessLog>(setup_.access_log);
}

Api::~Api() = default;

void Api::stop() {
  workers_->stop();
  media_workers_->stop();
}

void Api::set_keys(std::vector<std::string> keys) {
  const std::lock_guard lock(keys_mutex_);
  setup_.keys = std::move(keys);
}

bool Api::is_open_to(const HttpRequest& request) const {
  const std::lock_guard lock(keys_mutex_);
  if (setup_.keys.empty()) return true;
  // Anthropic's clients send one, OpenAI's the other; some send both.
  const std::string_view key = request.header("X-Api-Key");
  std::string_view token = request.header("Authorization");
  token = is_bearer(token) ? token.substr(7) : std::string_view();
  bool known = false;
  for (const std::string& mine : setup_.keys) known |= equal(key, mine) | equal(token, mine);
  return known;
}

// A page in a browser that is not the server's own: it would use the machine of whoever looks at it.
bool Api::is_from_elsewhere(const HttpRequest& request) const {
  const std::string_view host = request.header("Host");
  if (setup_.only_local && !host.empty() && !is_this_machine(host)) return true;
  std::string_view origin = request.header("Origin");
  if (origin.empty() || setup_.cors) return false;
  const std::size_t slashes = origin.find("://");
  if (slashes == std::string_view::npos) return true;  // "null": a file, a frame of nobody.
  origin.remove_prefix(slashes + 3);
  return origin != host && !is_this_machine(origin);
}

bool Api::serve_page(const std::shared_ptr<Exchange>& exchange) const {
  const HttpRequest& request = exchange->request();
  if (!setup_.web_page || (request.method != "GET" && request.method != "HEAD")) return false;
  const WebFile* const file = find_web_file(request.path);
  if (file == nullptr) return false;
  HttpAnswer answer;
  answer.content_type = file->content_type;
  answer.headers = {{"ETag", std::string(file->etag)},
                    {"Cache-Control", "no-cache"},
                    {"Vary", "Accept-Encoding"},
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
  exchange->send(std::move(answer));
  return true;
}

void Api::handle(const std::shared_ptr<Exchange>& exchange) {
  const HttpRequest& request = exchange->request();
  Job job;
  job.exchange = exchange;
  job.id = request_id(request);
  job.params = &setup_.params;
  job.http = http_;
  job.sessions = &sessions_;
  job.start = std::chrono::steady_clock::now();
  if (is_from_elsewhere(request))
    return fail(job, ErrorShape::kOpenAi,
                {403, "invalid_request_error", "foreign_origin", "",
                 "pages of other origins may use this server only if it was started with --cors"});
  if (request.method == "OPTIONS") return exchange->send({.status = 204, .headers = kPreflight});
  if (serve_page(exchange)) return;

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
  const ErrorShape shape =
      request.path.starts_with("/v1/messages") ? ErrorShape::kAnthropic : ErrorShape::kOpenAi;
  if (found == nullptr) {
    if (allowed.empty())
      return fail(job, shape,
                  {404, "invalid_request_error", "not_found", "",
                   fmt::format("there is no {} here", request.path.substr(0, 200))});
    return fail(job, shape,
                {405, "invalid_request_error", "method_not_allowed", "",
                 fmt::format("{} takes {}", request.path.substr(0, 200), allowed)},
                {{"Allow", allowed}});
  }
  if (!found->open && !is_open_to(request))
    return fail(job, shape,
                {401, "invalid_request_error", "invalid_api_key", "",
                 "the API key is missing or wrong; send it as 'Authorization: Bearer KEY'"});
  start(*found, std::move(job));
}

void Api::start(const Route& route, Job job) {
  if (route.where == Route::Where::kHere) return run(route, job);
  auto shared = std::make_shared<Job>(std::move(job));
  work_on(*workers_, route, shared, [this, &route, shared] {
    try {
      if (route.method == "POST") {
        const std::string& body = shared->exchange->request().body;
        shared->body = body.empty() && route.path.ends_with('/') ? Json::object() : parse_json(body);
        const bool list = shared->body.is_array() && route.path == "/lora-adapters";
        if (!shared->body.is_object() && !list) throw bad_request("", "the body must be a JSON object");
      }
    } catch (...) {
      return fail(*shared, route.shape, to_api_error(std::current_exception()));
    }
    if (route.where == Route::Where::kModel) return with_model(route, shared);
    run(route, *shared);
  });
}

void Api::work_on(Workers& workers, const Route& route, const std::shared_ptr<Job>& job,
                  std::function<void()> work) {
  if (!workers.run(std::move(work)))
    fail(*job, route.shape, unavailable("overloaded", "too many requests are being read; try again"));
}

void Api::with_model(const Route& route, std::shared_ptr<Job> job) {
  std::string name;
  try {
    name = model_of(job->body, job->exchange->request());
  } catch (...) {
    return fail(*job, route.shape, to_api_error(std::current_exception()));
  }
  job->model_name = models_->whole_name(name);
  // Loaded models answer at once, on this thread; others when they are there.
  if (auto model = models_->use(name)) {
    job->model = std::move(model);
    return run_with_model(route, job);
  }
  models_->get(name, [this, &route, job](std::shared_ptr<ServedModel> model, std::exception_ptr error) {
    if (error != nullptr) return fail(*job, route.shape, to_api_error(error));
    job->model = std::move(model);
    work_on(*workers_, route, job, [this, &route, job] { run_with_model(route, job); });
  });
}

void Api::run_with_model(const Route& route, const std::shared_ptr<Job>& job) {
  const bool reads_media = job->model->vision != nullptr || job->model->audio != nullptr;
  if (!reads_media || !has_media(job->body)) return run(route, *job);
  work_on(*media_workers_, route, job, [this, &route, job] { run(route, *job); });
}

void Api::run(const Route& route, Job& job) noexcept {
  try {
    if (route.generates)
      job.done = [this, copy = Job{.exchange = job.exchange,
                                   .id = job.id,
                                   .body = {},
                                   .model = job.model,
                                   .start = job.start}](const Outcome& outcome) { finish(copy, outcome); };
    route.run(*this, job);
    if (!route.generates) finish(job, {});
  } catch (...) {
    const auto gone = job.model != nullptr ? job.model->gone() : std::nullopt;
    fail(job, route.shape, gone.value_or(to_api_error(std::current_exception())));
  }
}

void Api::finish(const Job& job, const Outcome& outcome) {
  const std::string model = job.model != nullptr ? job.model->spec.name : std::string();
  const HttpRequest& request = job.exchange->request();
  if (setup_.trace != nullptr && job.model != nullptr)
    setup_.trace->request(job.id, request.path, model, job.start, outcome);
  if (access_log_ == nullptr) return;
  const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - job.start;
  access_log_->add({job.id, request.method, request.path, request.peer, model, time.count(), outcome});
}

void Api::fail(Job& job, ErrorShape shape, const ApiError& error, const HttpHeaders& headers) noexcept {
  try {
    HttpAnswer answer = error_answer(error, shape);
    answer.headers.insert(answer.headers.end(), headers.begin(), headers.end());
    answer.headers.emplace_back("X-Request-Id", job.id);
    job.exchange->send(std::move(answer));
    finish(job, {.status = error.status, .error = error.what()});
  } catch (...) {  // No memory for an answer: the exchange says 500 by itself when it is let go.
  }
}

}  // namespace weft::server
