#include "bench/load_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <utility>

#include "base/json.h"
#include "bench/load_prompts.h"
#include "bench/load_response.h"
#include "http/http_client.h"
#include "http/http_text.h"
#include "weft/error.h"

namespace weft::cli {
namespace {

using Clock = std::chrono::steady_clock;

/// Requests under way beyond this are not sent: the server is lost already, and descriptors are finite.
constexpr int kMaxUnderWay = 8192;
/// Behind an error, before a client's next request; a server that says how long is obeyed up to the longest.
constexpr double kErrorPause = 0.2, kLongestPause = 30.0;
/// After this many refused connections in a row, the server is considered gone and the load ends.
constexpr int kMaxRefused = 100;
constexpr auto kWatch = std::chrono::milliseconds(50);

std::string kind_of(server::HttpEnd end) {
  switch (end) {
    case server::HttpEnd::kComplete:
      return "";
    case server::HttpEnd::kConnect:
      return "no connection";
    case server::HttpEnd::kClosed:
      return "disconnected";
    case server::HttpEnd::kMalformed:
      return "malformed";
    case server::HttpEnd::kTimeout:
      return "timeout";
    case server::HttpEnd::kCancelled:
      return "cancelled";
  }
  return "";
}

std::string_view value_of(const server::HttpHeaders& headers, std::string_view name) {
  for (const auto& [own, value] : headers)
    if (server::same_word(own, name)) return value;
  return {};
}

/// The path of the API: the URL's path, with "/v1" appended unless it ends so.
std::string base_path(const server::HttpUrl& url) {
  return url.path.ends_with("/v1") ? url.path : url.path + "/v1";
}

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(std::max(seconds, 0.0) * 1e3));
}

server::HttpHeaders headers_of(const LoadPlan& plan) {
  server::HttpHeaders headers = {{"Content-Type", "application/json"},
                                 {"Accept", "text/event-stream, application/json"}};
  if (!plan.api_key.empty()) headers.emplace_back("Authorization", "Bearer " + plan.api_key);
  return headers;
}

/// One load: schedules and sends its requests.
class Load {
 public:
  Load(const LoadPlan& plan, const server::HttpUrl& url, const std::string& model, const Arrivals& arrivals,
       int series)
      : plan_(plan),
        url_(url),
        model_(model),
        arrivals_(arrivals),
        prompts_(plan, series),
        random_(plan.seed + 1) {}

  LoadResult run(const LoadWatch& watch) {
    warm_up(watch);
    measured_ = true;
    begin_ = Clock::now();
    if (arrivals_.concurrency > 0) {
      for (int i = 0; i < arrivals_.concurrency && may_send(); ++i) send();
    } else {
      schedule_next(0.0);
    }
    follow(watch);
    client_.run();
    LoadResult result;
    result.arrivals = arrivals_;
    result.is_lost = n_refused_ >= kMaxRefused;
    result.interrupted = stopped_ && !result.is_lost;
    for (const LoadRecord& record : records_) result.seconds = std::max(result.seconds, record.end);
    result.records = std::move(records_);
    return result;
  }

 private:
  struct Request {
    explicit Request(std::function<void()> on_text) : answer(std::move(on_text)) {}
    LoadRecord record;
    LoadResponse answer;
    double last = 0.0;  ///< Time of the last content event.
    double pause = kErrorPause;
  };

  double now() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }

  bool may_send() const {
    if (stopped_) return false;
    if (!measured_) return n_sent_ < plan_.n_warm_up;
    if (plan_.n_requests > 0 && n_sent_ >= plan_.n_requests) return false;
    return plan_.duration.count() == 0 || now() * 1e3 < static_cast<double>(plan_.duration.count());
  }

  void warm_up(const LoadWatch& watch) {
    begin_ = Clock::now();
    const int n_clients = std::max(1, arrivals_.concurrency);
    for (int i = 0; i < n_clients && may_send(); ++i) send();
    follow(watch);
    client_.run();
    records_.clear();
    n_sent_ = n_ended_ = 0;
  }

  /// Polls for Ctrl-C and reports progress until the load ends.
  void follow(const LoadWatch& watch) {
    if (watch.is_stopped()) {
      stopped_ = true;
      client_.stop();
      return;
    }
    if (measured_) watch.on_progress(progress());
    if (n_under_way_ > 0 || n_scheduled_ > 0) client_.after(kWatch, [this, &watch] { follow(watch); });
  }

  double progress() const {
    double fraction = 0.0;
    if (plan_.n_requests > 0)
      fraction = static_cast<double>(n_ended_) / static_cast<double>(plan_.n_requests);
    if (plan_.duration.count() > 0)
      fraction = std::max(fraction, now() * 1e3 / static_cast<double>(plan_.duration.count()));
    return fraction;
  }

  /// Arrivals follow their own clock, however late the last one was.
  void schedule_next(double after) {
    const double at = arrivals_.rate > 0.0 ? after + random_.interval(arrivals_.rate) : prompts_.next_at();
    schedule(at - now(), [this, at] {
      if (!may_send()) return;
      send();
      if (may_send()) schedule_next(at);
    });
  }

  void schedule(double seconds, std::function<void()> call) {
    ++n_scheduled_;
    client_.after(milliseconds(seconds), [this, call = std::move(call)] {
      --n_scheduled_;
      call();
    });
  }

  void send() {
    ++n_sent_;
    const auto request = std::make_shared<Request>([] {});
    const std::weak_ptr<Request> weak = request;
    request->answer = LoadResponse([this, weak] { note_text(*weak.lock()); });
    server::HttpCall call;
    call.method = "POST";
    call.path = base_path(url_) + (plan_.chat ? "/chat/completions" : "/completions");
    call.headers = headers_of(plan_);
    call.body = prompts_.next(model_);
    call.timeout = plan_.timeout;
    call.on_head = [request](int status, const server::HttpHeaders& headers) {
      request->answer.head(status, value_of(headers, "Content-Type"));
      const std::string_view wait = value_of(headers, "Retry-After");
      double seconds = 0.0;
      std::from_chars(wait.data(), wait.data() + wait.size(), seconds);
      request->pause = std::clamp(seconds, kErrorPause, kLongestPause);
    };
    call.on_body = [request](std::string_view piece) { return request->answer.take(piece); };
    call.on_end = [this, request](server::HttpEnd end, const std::string& reason) {
      note_end(*request, end, reason);
    };
    request->record.start = now();
    if (n_under_way_ >= kMaxUnderWay) {
      request->record.error = "not sent";
      request->record.detail = fmt::format("{} requests are under way", kMaxUnderWay);
      request->record.end = request->record.start;
      records_.push_back(std::move(request->record));
      return;
    }
    ++n_under_way_;
    client_.start(std::move(call));
  }

  void note_text(Request& request) {
    const double time = now();
    if (request.record.first == 0.0) {
      request.record.first = time;
    } else {
      request.record.gaps.push_back(time - request.last);
    }
    request.last = time;
  }

  void note_end(Request& request, server::HttpEnd end, const std::string& reason) {
    --n_under_way_;
    ++n_ended_;
    n_refused_ = end == server::HttpEnd::kConnect ? n_refused_ + 1 : 0;
    if (n_refused_ >= kMaxRefused) stopped_ = true;
    if (stopped_ && end == server::HttpEnd::kCancelled) return;
    LoadRecord& record = request.record;
    LoadResponse& answer = request.answer;
    record.end = now();
    if (end == server::HttpEnd::kComplete) answer.end();
    if (!answer.error().empty()) {
      record.error = answer.error();
      record.detail = answer.detail();
    } else {
      record.error = kind_of(end);
      record.detail = reason;
    }
    if (record.error.empty() && !plan_.schema.is_null() && answer.finish_reason() == "stop" &&
        !base::try_parse_json<Json>(answer.text())) {
      record.error = "no JSON";
      record.detail = answer.text().substr(0, 200);
    }
    if (record.error.empty() && !plan_.tools.is_null() && answer.finish_reason() != "length" &&
        !base::try_parse_json<Json>(answer.arguments())) {
      record.error = "no call";
      record.detail = (answer.text() + answer.arguments()).substr(0, 200);
    }
    record.n_prompt_tokens = answer.n_prompt_tokens();
    record.n_tokens = answer.n_tokens();
    const bool failed = !record.error.empty();
    records_.push_back(std::move(record));
    if (arrivals_.concurrency == 0 && measured_) return;
    if (!failed) {
      if (may_send()) send();
      return;
    }
    schedule(request.pause, [this] {
      if (may_send()) send();
    });
  }

  const LoadPlan& plan_;
  const server::HttpUrl& url_;
  const std::string& model_;
  const Arrivals arrivals_;
  LoadPrompts prompts_;
  LoadRandom random_;
  server::HttpClient client_{url_};
  Clock::time_point begin_;
  std::vector<LoadRecord> records_;
  std::int64_t n_sent_ = 0, n_ended_ = 0;
  int n_under_way_ = 0, n_scheduled_ = 0;
  int n_refused_ = 0;  ///< Connections, the last ones.
  bool measured_ = false, stopped_ = false;
};

std::string first_model(const LoadPlan& plan, const server::HttpUrl& url) {
  server::HttpClient client(url);
  std::string text, problem;
  int status = 0;
  client.start({.path = base_path(url) + "/models",
                .headers = headers_of(plan),
                .timeout = std::chrono::seconds(30),
                .on_head = [&](int code, const server::HttpHeaders&) { status = code; },
                .on_body =
                    [&](std::string_view piece) {
                      text += piece;
                      return text.size() < (1 << 20);
                    },
                .on_end = [&](server::HttpEnd, const std::string& reason) { problem = reason; }});
  client.run();
  if (!problem.empty()) throw Error(ErrorCode::kIo, plan.url + " does not respond: " + problem);
  const Json list = base::try_parse_json<Json>(text).value_or(nullptr);
  if (status == 200 && list.is_object() && list.contains("data") && list["data"].is_array() &&
      !list["data"].empty()) {
    const Json& first = list["data"][0];
    if (first.is_object() && first.contains("id") && first["id"].is_string())
      return first["id"].get<std::string>();
  }
  throw Error(ErrorCode::kIo,
              fmt::format("{} lists no models at {}/models (status {}); give the model's name with -m",
                          plan.url, base_path(url), status));
}

}  // namespace

double LoadRecord::token_s() const {
  if (n_tokens < 2 || gaps.empty()) return 0.0;
  double sum = 0.0;
  for (const double gap : gaps) sum += gap;
  return sum / static_cast<double>(n_tokens - 1);
}

struct LoadClient::Impl {
  const LoadPlan& plan;
  const server::HttpUrl url;
  std::string model;
};

LoadClient::LoadClient(const LoadPlan& plan)
    : impl_(std::make_unique<Impl>(Impl{plan, server::parse_url(plan.url), plan.model})) {
  if (impl_->model.empty()) impl_->model = first_model(plan, impl_->url);
}
LoadClient::~LoadClient() = default;

const std::string& LoadClient::model() const { return impl_->model; }

LoadResult LoadClient::run(const Arrivals& arrivals, int series, const LoadWatch& watch) {
  return Load(impl_->plan, impl_->url, impl_->model, arrivals, series).run(watch);
}

}  // namespace weft::cli
