#include "http.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <deque>
#include <exception>
#include <optional>
#include <string_view>
#include <thread>

#include "address.h"
#include "weft/error.h"
#include "weft/version.h"

namespace weft::fetch {
namespace {

using Clock = std::chrono::steady_clock;

constexpr long kConnectSeconds = 20, kStallSeconds = 30, kStallBytesPerSecond = 64;
constexpr long kMaxRedirects = 10;
// After this many bytes, a broken connection is replaced at once.
constexpr std::int64_t kProgressBytes = 1 << 16;
constexpr auto kTick = std::chrono::milliseconds(100);
constexpr std::string_view kUserAgent = "weft/" WEFT_VERSION;

using Easy = std::unique_ptr<CURL, decltype(&curl_easy_cleanup)>;
using Multi = std::unique_ptr<CURLM, decltype(&curl_multi_cleanup)>;

[[noreturn]] void cancelled() { throw Error(ErrorCode::kCancelled, "interrupted"); }

bool may_work_later(long status) { return status == 429 || status == 408 || status >= 500; }

/// One request that is under way.
class Transfer {
 public:
  /// Is given the bytes of a body of the status that was hoped for; false ends the transfer.
  using Body = std::function<bool(const Transfer&, const char*, std::size_t)>;

  Transfer(const Request& request, const std::string& range, Body body)
      : easy_(make(), curl_easy_cleanup), body_(std::move(body)) {
    CURL* const easy = easy_.get();
    set(CURLOPT_URL, request.url.c_str());
    set(CURLOPT_FOLLOWLOCATION, 1L);
    set(CURLOPT_MAXREDIRS, kMaxRedirects);
    set(CURLOPT_PROTOCOLS_STR, "http,https");
    // HTTP may redirect to HTTP or HTTPS; HTTPS never to HTTP.
    set(CURLOPT_REDIR_PROTOCOLS_STR, request.url.starts_with("https:") ? "https" : "http,https");
    set(CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
    set(CURLOPT_LOW_SPEED_LIMIT, kStallBytesPerSecond);
    set(CURLOPT_LOW_SPEED_TIME, kStallSeconds);
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_USERAGENT, kUserAgent.data());
    if (!range.empty()) set(CURLOPT_RANGE, range.c_str());
    if (!request.token.empty()) {
      set(CURLOPT_HTTPAUTH, static_cast<long>(CURLAUTH_BEARER));
      set(CURLOPT_XOAUTH2_BEARER, request.token.c_str());
    }
    set(CURLOPT_PRIVATE, this);
    set(CURLOPT_WRITEDATA, this);
    set(CURLOPT_HEADERDATA, this);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &Transfer::on_body);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, &Transfer::on_header);
  }
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  CURL* easy() const { return easy_.get(); }
  long status() const {
    long status = 0;
    curl_easy_getinfo(easy_.get(), CURLINFO_RESPONSE_CODE, &status);
    return status;
  }
  std::string header(const std::string& name) const {
    const auto found = headers_.find(name);
    return found != headers_.end() ? found->second : std::string();
  }
  const std::map<std::string, std::string>& headers() const { return headers_; }
  /// Calls `keep_going` several times a second; false ends the transfer.
  void watch(const KeepGoing& keep_going) {
    keep_going_ = &keep_going;
    set(CURLOPT_NOPROGRESS, 0L);
    set(CURLOPT_XFERINFODATA, this);
    curl_easy_setopt(easy_.get(), CURLOPT_XFERINFOFUNCTION, &Transfer::on_progress);
  }
  std::string etag() const {
    std::string tag = header("etag");
    if (tag.starts_with("W/")) tag.erase(0, 2);
    std::erase(tag, '"');
    return tag;
  }
  std::chrono::seconds retry_after() const {
    curl_off_t seconds = 0;
    curl_easy_getinfo(easy_.get(), CURLINFO_RETRY_AFTER, &seconds);
    return std::chrono::seconds(std::clamp<curl_off_t>(seconds, 0, 3600));
  }
  /// Rethrows an exception of a callback, which must not pass through libcurl.
  void rethrow() const {
    if (thrown_) std::rethrow_exception(thrown_);
  }

 private:
  static CURL* make() {
    static const CURLcode started = curl_global_init(CURL_GLOBAL_DEFAULT);
    CURL* const easy = started == CURLE_OK ? curl_easy_init() : nullptr;
    if (easy == nullptr) throw Error(ErrorCode::kOutOfMemory, "libcurl cannot be initialized");
    return easy;
  }
  template <typename T>
  void set(CURLoption option, T value) {
    const CURLcode code = curl_easy_setopt(easy_.get(), option, value);
    if (code != CURLE_OK) throw Error(ErrorCode::kInvalidArgument, curl_easy_strerror(code));
  }
  static std::size_t on_body(char* data, std::size_t, std::size_t n, void* self) {
    Transfer& transfer = *static_cast<Transfer*>(self);
    try {
      return transfer.body_(transfer, data, n) ? n : CURL_WRITEFUNC_ERROR;
    } catch (...) {
      transfer.thrown_ = std::current_exception();
      return CURL_WRITEFUNC_ERROR;
    }
  }
  static std::size_t on_header(char* data, std::size_t, std::size_t n, void* self) {
    Transfer& transfer = *static_cast<Transfer*>(self);
    try {
      std::string_view line(data, n);
      if (line.starts_with("HTTP/")) {
        transfer.headers_.clear();  // Those before were of a redirect.
      } else if (const std::size_t colon = line.find(':'); colon != line.npos) {
        std::string name(line.substr(0, colon));
        std::transform(name.begin(), name.end(), name.begin(),
                       [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
        line.remove_prefix(colon + 1);
        while (!line.empty() && line.front() == ' ') line.remove_prefix(1);
        while (!line.empty() && (line.back() == '\n' || line.back() == '\r' || line.back() == ' '))
          line.remove_suffix(1);
        transfer.headers_[name] = line;
      }
      return n;
    } catch (...) {
      transfer.thrown_ = std::current_exception();
      return 0;
    }
  }

  static int on_progress(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
    Transfer& transfer = *static_cast<Transfer*>(self);
    try {
      return (*transfer.keep_going_)() ? 0 : 1;
    } catch (...) {
      transfer.thrown_ = std::current_exception();
      return 1;
    }
  }

  Easy easy_;
  Body body_;
  const KeepGoing* keep_going_ = nullptr;
  std::map<std::string, std::string> headers_;
  std::exception_ptr thrown_;
};

/// Counts tries that bring nothing, and says how long to wait before the next.
class Tries {
 public:
  void reset() { n_ = 0; }
  /// Until when to wait. Throws `why` after the last.
  Clock::time_point after(const Request& request, const RetryParams& params, const std::string& why,
                          std::chrono::milliseconds asked_for) {
    if (++n_ >= params.n_tries || asked_for > params.longest_wait)
      throw Error(ErrorCode::kIo,
                  fmt::format("{}: {}{}", host_of(request.url), why,
                              asked_for > params.longest_wait
                                  ? fmt::format("; it asks to retry in {} s", asked_for.count() / 1000)
                                  : ", also after retries"));
    const auto own = params.first_wait * (1 << std::min(n_ - 1, 10));
    return Clock::now() +
           std::clamp(std::max(own, asked_for), std::chrono::milliseconds(0), params.longest_wait);
  }

 private:
  int n_ = 0;
};

void wait_until(Clock::time_point time, const KeepGoing& keep_going) {
  while (Clock::now() < time) {
    if (!keep_going()) cancelled();
    std::this_thread::sleep_for(std::min<Clock::duration>(kTick, time - Clock::now()));
  }
}

std::string why_of(CURLcode code, long status) {
  if (code == CURLE_PARTIAL_FILE) return "the connection was closed early";
  return code != CURLE_OK ? std::string(curl_easy_strerror(code))
                          : fmt::format("the server responded with status {}", status);
}

/// Repeats a request while its response is a temporary error. `wanted` decides by the curl code and the
/// status whether to keep a response.
template <typename Make, typename Wanted>
auto with_retries(const Request& request, const KeepGoing& keep_going, const RetryParams& retry,
                  const Make& make, const Wanted& wanted) {
  Tries tries;
  while (true) {
    auto transfer = make();
    transfer->watch(keep_going);
    const CURLcode code = curl_easy_perform(transfer->easy());
    transfer->rethrow();
    if (code == CURLE_ABORTED_BY_CALLBACK) cancelled();
    const long status = transfer->status();
    if (wanted(code, status)) return transfer;
    if (code == CURLE_OK && !may_work_later(status)) refuse_status(request, status);
    wait_until(tries.after(request, retry, why_of(code, status), transfer->retry_after()), keep_going);
  }
}

/// "bytes 10-19/200": the offset of a part, and the size of the whole (-1: unknown).
std::optional<std::pair<std::int64_t, std::int64_t>> parse_content_range(std::string_view text) {
  if (!text.starts_with("bytes ")) return std::nullopt;
  text.remove_prefix(6);
  std::int64_t begin = 0, size = -1;
  if (std::from_chars(text.data(), text.data() + text.size(), begin).ec != std::errc{} || begin < 0)
    return std::nullopt;
  const std::size_t slash = text.find('/');
  if (slash == text.npos) return std::nullopt;
  text.remove_prefix(slash + 1);
  if (text != "*" &&
      (std::from_chars(text.data(), text.data() + text.size(), size).ec != std::errc{} || size < 0))
    return std::nullopt;
  return std::pair{begin, size};
}

}  // namespace

void refuse_status(const Request& request, long status) {
  const std::string where = shown_address(request.url);
  if (status == 404 || status == 410)
    throw Error(ErrorCode::kNotFound, fmt::format("{} does not exist", where));
  if (status == 401 || status == 403)
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("{} denies access {} (status {}): {}", where,
                    request.token.empty() ? "without a token" : "with this token", status,
                    request.token.empty()
                        ? "set HF_TOKEN to a token of the hub, and accept the model's terms on its page"
                        : "check the token, and accept the model's terms on its page"));
  throw Error(ErrorCode::kIo, fmt::format("{}: the server responded with status {}", where, status));
}

Response get(const Request& request, std::size_t max_bytes, const KeepGoing& keep_going,
             const RetryParams& retry) {
  Response answer;
  const auto transfer = with_retries(
      request, keep_going, retry,
      [&] {
        answer.body.clear();
        return std::make_unique<Transfer>(request, "", [&](const Transfer&, const char* data, std::size_t n) {
          if (answer.body.size() + n > max_bytes)
            throw Error(ErrorCode::kIo, fmt::format("{}: the response is larger than {} bytes",
                                                    host_of(request.url), max_bytes));
          answer.body.append(data, n);
          return true;
        });
      },
      [](CURLcode code, long status) { return code == CURLE_OK && status >= 200 && status < 300; });
  answer.status = transfer->status();
  answer.headers = transfer->headers();
  return answer;
}

Probe probe(const Request& request, const KeepGoing& keep_going, const RetryParams& retry) {
  const auto transfer = with_retries(
      request, keep_going, retry,
      [&] {
        // Only the headers are needed: if the server sends the whole file instead of the first byte, it is
        // not read.
        return std::make_unique<Transfer>(
            request, "0-0", [](const Transfer& t, const char*, std::size_t) { return t.status() != 200; });
      },
      [](CURLcode code, long status) {
        return (code == CURLE_OK && (status == 206 || status == 200)) ||
               (code == CURLE_WRITE_ERROR && status == 200);
      });
  if (transfer->header("content-type").starts_with("text/html"))
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} is a web page, not a file; use the URL of the download link on that page",
                            shown_address(request.url)));
  Probe result;
  result.etag = transfer->etag();
  result.strong_etag = !result.etag.empty() && !transfer->header("etag").starts_with("W/");
  if (transfer->status() == 206) {
    const auto range = parse_content_range(transfer->header("content-range"));
    if (range && range->first == 0) {
      result.ranges = range->second >= 0;
      result.size = range->second;
    }
  } else {
    curl_off_t size = -1;
    curl_easy_getinfo(transfer->easy(), CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &size);
    result.size = size;
  }
  return result;
}

void get_ranges(const Request& request, std::vector<Range> ranges, bool whole, int n_connections, Sink& sink,
                const KeepGoing& keep_going, const RetryParams& retry) {
  struct Part {
    Range range;
    std::int64_t at;  // End of the written bytes.
    std::int64_t begun_at;
    Clock::time_point not_before = {};
    Tries tries = {};
    std::unique_ptr<Transfer> transfer = nullptr;
  };
  std::deque<Part> waiting;
  for (const Range& range : ranges) waiting.push_back({range, range.begin, range.begin});
  const Multi multi(curl_multi_init(), curl_multi_cleanup);
  if (multi == nullptr) throw Error(ErrorCode::kOutOfMemory, "libcurl cannot be initialized");
  std::vector<std::unique_ptr<Part>> running;
  // Handles leave the multi handle before they end, whatever is thrown.
  struct Leave {
    CURLM* multi;
    std::vector<std::unique_ptr<Part>>& running;
    ~Leave() {
      for (const auto& part : running) curl_multi_remove_handle(multi, part->transfer->easy());
    }
  } leave{multi.get(), running};

  const auto changed = [&] {
    throw Error(ErrorCode::kIo,
                fmt::format("{}: the file changed while it was downloaded; try again", host_of(request.url)));
  };
  const auto start = [&](Part first) {
    auto part = std::make_unique<Part>(std::move(first));
    if (whole) part->at = part->range.begin;
    part->begun_at = part->at;
    const std::string range = whole ? "" : fmt::format("{}-{}", part->at, part->range.end - 1);
    part->transfer = std::make_unique<Transfer>(
        request, range, [&, p = part.get()](const Transfer& transfer, const char* data, std::size_t n) {
          const long status = transfer.status();
          if (status != (whole ? 200 : 206)) return status != 200;  // Texts of errors are not of the file.
          if (!whole && p->at == p->begun_at) {
            const auto got = parse_content_range(transfer.header("content-range"));
            if (!got || got->first != p->at) return false;
            if (request.size >= 0 && got->second >= 0 && got->second != request.size) changed();
          }
          if (!request.etag.empty() && !transfer.etag().empty() && transfer.etag() != request.etag) changed();
          if (static_cast<std::int64_t>(n) > p->range.end - p->at) return false;
          sink.write(p->at, data, n);
          p->at += static_cast<std::int64_t>(n);
          return true;
        });
    curl_multi_add_handle(multi.get(), part->transfer->easy());
    running.push_back(std::move(part));
  };
  const auto finish = [&](CURL* easy, CURLcode code) {
    const auto found = std::find_if(running.begin(), running.end(),
                                    [&](const auto& part) { return part->transfer->easy() == easy; });
    const std::unique_ptr<Part> part = std::move(*found);
    running.erase(found);
    curl_multi_remove_handle(multi.get(), easy);
    part->transfer->rethrow();
    const long status = part->transfer->status();
    if (code == CURLE_OK && status == (whole ? 200 : 206) && part->at == part->range.end) {
      sink.done(part->range);
      return;
    }
    if (code == CURLE_WRITE_ERROR || (code == CURLE_OK && status == 200 && !whole))
      throw Error(ErrorCode::kIo, fmt::format("{}: the response is not the requested part of the file",
                                              host_of(request.url)));
    if (code == CURLE_OK && status != 206 && status != 200 && !may_work_later(status))
      refuse_status(request, status);
    if (!whole && part->at - part->begun_at >= kProgressBytes) {
      part->tries.reset();
    } else {
      const std::string why =
          code == CURLE_OK && status < 300 ? "the connection was closed early" : why_of(code, status);
      part->not_before = part->tries.after(request, retry, why, part->transfer->retry_after());
    }
    part->transfer.reset();
    waiting.push_front(std::move(*part));
  };

  while (!waiting.empty() || !running.empty()) {
    if (!keep_going()) cancelled();
    for (auto part = waiting.begin(); part != waiting.end() && std::ssize(running) < n_connections;) {
      if (part->not_before > Clock::now()) {
        ++part;
        continue;
      }
      Part next = std::move(*part);
      part = waiting.erase(part);
      start(std::move(next));
    }
    int n_running = 0;
    CURLMcode code = curl_multi_perform(multi.get(), &n_running);
    bool some_ended = false;
    int n_left = 0;
    while (const CURLMsg* const message = curl_multi_info_read(multi.get(), &n_left))
      if (message->msg == CURLMSG_DONE) {
        finish(message->easy_handle, message->data.result);
        some_ended = true;
      }
    // If transfers ended, start waiting ones at once.
    if (code == CURLM_OK && !some_ended)
      code = curl_multi_poll(multi.get(), nullptr, 0, static_cast<int>(kTick.count()), nullptr);
    if (code != CURLM_OK)
      throw Error(ErrorCode::kIo, fmt::format("{}: {}", host_of(request.url), curl_multi_strerror(code)));
  }
}

}  // namespace weft::fetch
