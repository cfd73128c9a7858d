#include "serving/http_probe.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <memory>

#include "commands/command.h"
#include "weft/error.h"

namespace weft::cli {
namespace {

constexpr std::size_t kMaxBody = 64 << 10;

[[noreturn]] void fail(const std::string& why) { throw Error(ErrorCode::kIo, why); }

bool is_socket(const ProbeTarget& target) { return target.host.find('/') != std::string::npos; }

// "127.0.0.1:8080", "[::1]:8080"
std::string authority(const ProbeTarget& target) {
  const bool v6 = target.host.find(':') != std::string::npos;
  return fmt::format("{}{}{}:{}", v6 ? "[" : "", target.host, v6 ? "]" : "", target.port);
}

std::size_t append(char* data, std::size_t, std::size_t n, void* to) {
  auto& body = *static_cast<std::string*>(to);
  const std::size_t taken = std::min(n, kMaxBody - body.size());
  body.append(data, taken);
  return taken;  // Less than n ends the transfer.
}

std::string reason(CURL* curl, CURLcode code) {
  long number = 0;
  curl_easy_getinfo(curl, CURLINFO_OS_ERRNO, &number);
  if (code == CURLE_OPERATION_TIMEDOUT) return "no response in time";
  if (code == CURLE_GOT_NOTHING) return "the connection was closed without a response";
  if (code == CURLE_UNSUPPORTED_PROTOCOL || code == CURLE_WEIRD_SERVER_REPLY)
    return "the server does not speak HTTP";
  if (code == CURLE_SSL_CONNECT_ERROR)
    return "TLS failed: the server closed the connection, or speaks plain HTTP";
  return code == CURLE_COULDNT_CONNECT && number != 0 ? std::strerror(static_cast<int>(number))
                                                      : curl_easy_strerror(code);
}

bool is_plain(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 0x7f; });
}

bool is_port(std::string_view text) {
  int port = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  return error == std::errc{} && rest == text.data() + text.size() && port > 0 && port < 65536;
}

}  // namespace

std::string ProbeTarget::url() const {
  return is_socket(*this) ? "unix:" + host
                          : fmt::format("{}://{}{}", tls ? "https" : "http", authority(*this), path);
}

ProbeTarget parse_probe_url(std::string_view url) {
  const auto wrong = [&](std::string_view why) {
    return UsageError(fmt::format("'{}': {}; expected e.g. http://127.0.0.1:8080/health", url, why));
  };
  if (!is_plain(url)) throw wrong("a URL has no spaces, and only ASCII");
  ProbeTarget target;
  std::string_view rest = url;
  if (rest.starts_with("unix:")) {
    target.host = rest.substr(5);
    if (target.host.find('/') == std::string::npos)
      throw wrong("a Unix socket is named by a path with a '/'");
    return target;
  }
  target.tls = rest.starts_with("https://");
  if (target.tls || rest.starts_with("http://")) rest.remove_prefix(target.tls ? 8 : 7);
  const std::size_t slash = rest.find('/');
  if (slash != std::string_view::npos && slash + 1 < rest.size()) target.path = rest.substr(slash);
  rest = rest.substr(0, slash);
  std::size_t end = rest.find(':');
  if (rest.starts_with('[')) {
    const std::size_t bracket = rest.find(']');
    if (bracket == std::string_view::npos) throw wrong("']' is missing");
    target.host = rest.substr(1, bracket - 1);
    end = bracket + 1;
  } else {
    target.host = rest.substr(0, end);
  }
  if (target.host.empty()) throw wrong("there is no host");
  if (end < rest.size()) {
    target.port = rest.substr(end + 1);
    if (rest[end] != ':' || !is_port(target.port)) throw wrong("the port is not a number from 1 to 65535");
  }
  return target;
}

ProbeResponse probe(const ProbeTarget& target, std::chrono::milliseconds timeout) {
  static const CURLcode started = curl_global_init(CURL_GLOBAL_DEFAULT);
  const std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> curl(
      started == CURLE_OK ? curl_easy_init() : nullptr, curl_easy_cleanup);
  if (curl == nullptr) fail("libcurl does not start");
  ProbeResponse answer;
  const auto set = [&](CURLoption option, auto value) {
    if (const CURLcode code = curl_easy_setopt(curl.get(), option, value); code != CURLE_OK)
      fail(curl_easy_strerror(code));
  };
  const std::string url = is_socket(target)
                              ? (target.tls ? "https://localhost" : "http://localhost") + target.path
                              : target.url();
  set(CURLOPT_URL, url.c_str());
  if (is_socket(target)) set(CURLOPT_UNIX_SOCKET_PATH, target.host.c_str());
  set(CURLOPT_PROXY, "");
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  set(CURLOPT_SSL_VERIFYPEER, 0L);
  set(CURLOPT_SSL_VERIFYHOST, 0L);
  set(CURLOPT_TIMEOUT_MS, static_cast<long>(timeout.count()));
  set(CURLOPT_WRITEFUNCTION, &append);
  set(CURLOPT_WRITEDATA, &answer.body);
  const CURLcode code = curl_easy_perform(curl.get());
  long status = 0;
  curl_easy_getinfo(curl.get(), CURLINFO_RESPONSE_CODE, &status);
  const bool has_enough = code == CURLE_OK || code == CURLE_WRITE_ERROR || code == CURLE_PARTIAL_FILE;
  if (!has_enough) fail(reason(curl.get(), code));
  if (status < 100) fail("the server does not speak HTTP");
  answer.status = static_cast<int>(status);
  return answer;
}

}  // namespace weft::cli
