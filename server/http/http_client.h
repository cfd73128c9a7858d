#pragma once
// A client of HTTP/1.1 for many requests at the same time, on one thread: responses are passed on piece by
// piece as they come. For load tools and tests.
//
// All members but stop() belong to the thread that calls run(); callbacks run on it too, and may start more
// requests.
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "http/http_server.h"

namespace weft::server {

struct HttpUrl {
  std::string host;         ///< An address, a name, or the path of a Unix socket (with a "/").
  std::uint16_t port = 80;  ///< 443 with TLS.
  std::string path;         ///< Without a "/" at its end: "" or "/v1".
  bool tls =
      false;  ///< The certificate is checked against OpenSSL's authorities (SSL_CERT_FILE, SSL_CERT_DIR).
};
/// "http://host:port/path", "https://..." or "unix:/path/of/socket". Throws Error kInvalidArgument.
HttpUrl parse_url(std::string_view url);

/// How a request of the client ended.
enum class HttpEnd {
  kComplete,   ///< The whole response came, with any status.
  kConnect,    ///< The client could not connect, or the TLS handshake failed.
  kClosed,     ///< The server closed before the response's end.
  kMalformed,  ///< The response is not HTTP, or exceeds HttpClientParams::head_bytes or body_bytes.
  kTimeout,
  kCancelled,  ///< By on_body or stop().
};

struct HttpCall {
  std::string method = "GET";
  std::string path = "/";  ///< Escaped; with the query.
  HttpHeaders headers = {};
  std::string body = {};
  std::chrono::milliseconds timeout = std::chrono::minutes(10);  ///< From start() to the end.
  std::function<void(int status, const HttpHeaders& headers)> on_head = nullptr;
  /// False: the client hangs up.
  std::function<bool(std::string_view piece)> on_body = nullptr;
  /// Always called once. `reason` says why a response is not complete.
  std::function<void(HttpEnd end, const std::string& reason)> on_end = nullptr;
};

struct HttpClientParams {
  std::chrono::milliseconds connect_timeout = std::chrono::seconds(10);
  std::size_t head_bytes = 64 << 10;
  std::size_t body_bytes = std::size_t{1} << 30;
};

class HttpClient {
 public:
  /// Finds the host's addresses. Throws Error kIo where it has none.
  explicit HttpClient(const HttpUrl& url, HttpClientParams params = {});
  ~HttpClient();

  /// Sends a request on a connection that is idle, or on a new one. If the server has closed an idle
  /// connection, a new one replaces it. on_end comes later, never from within start().
  void start(HttpCall call);
  void after(std::chrono::milliseconds time, std::function<void()> call);
  /// Runs until nothing is left to do, or stop(). In the first case it may be called again.
  void run();
  /// From any thread: closes all connections. run() returns after the last on_end, and calls of after() are
  /// dropped.
  void stop();

  int n_open() const;  ///< Connections, idle ones included.

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft::server
