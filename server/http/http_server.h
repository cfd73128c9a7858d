#pragma once
// HTTP/1.1 with responses that are written piece by piece, for thousands of connections, on one thread. Knows
// nothing of models. Only the files of this folder include Boost.
//
// The handler is called on the server's thread and must not block: it responds, or passes the exchange to
// another thread. Exceptions of handlers and calls are caught: the client gets a 500, and the server
// continues.
//
// The server itself refuses requests that are malformed or ambiguous (both lengths of a body, incomplete
// escapes, no Host), too large (413, 431) or too slow (408). Pipelined requests wait; their responses come in
// order. A client that closes its side of the connection may still listen. The server finds out by an interim
// response (100) or a part of the next chunk, and drops the response where the connection proves closed.
// Clients of HTTP/1.0, which know neither, count as gone.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "http/proxies.h"

namespace weft::server {

class TlsIdentity;

/// Takes the body of a request piece by piece, so that it need not fit into memory.
class BodySink {
 public:
  virtual ~BodySink() = default;
  /// The most bytes that the body may have; larger ones get a 413.
  virtual std::uint64_t max_bytes() const = 0;
  /// The next piece of the body, on the server's thread. Must not block. The next piece comes once `taken`
  /// was called, by any thread. All pieces are taken before the handler gets the request.
  virtual void put(std::string piece, std::function<void()> taken) = 0;
};

struct HttpRequest {
  std::string method = {};
  std::string path = {};   ///< Decoded, without the query; begins with "/".
  std::string query = {};  ///< As sent.
  std::string body = {};
  std::string peer = {};     ///< "127.0.0.1:50412": the other end of the connection, which may be a proxy.
  std::string address = {};  ///< Of the client: read_forwarded(). Empty for a Unix socket.
  std::string client = {};   ///< The same as limits count it: Address::client().
  std::string scheme = {};   ///< "http" or "https", as the client sent it.
  std::vector<std::pair<std::string, std::string>> headers = {};
  std::shared_ptr<BodySink> sink = nullptr;  ///< Has taken the body, if there is one. `body` is empty then.

  std::string_view header(std::string_view name) const;  ///< In any case; empty where there is none.
  std::string query_value(std::string_view name) const;  ///< Decoded; empty where there is none.
};

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpResponse {
  int status = 200;
  std::string body = {};
  std::string content_type = "application/json";
  HttpHeaders headers = {};
  bool is_overload = false;  ///< The server is too busy now: a batch sends the request again.
};

/// A request and its response. All members may be called from any thread. The response is one send(), or
/// begin(), write() and end(). An exchange whose last reference goes without a response gets a 500. Bytes
/// written after the client has gone are dropped.
class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual const HttpRequest& request() const = 0;

  virtual void send(HttpResponse answer) = 0;
  /// A streamed response: head first, then pieces, then the end. abort() instead of end() closes the
  /// connection without the end of the body.
  virtual void begin(int status, std::string content_type, HttpHeaders headers = {}) = 0;
  virtual void write(std::string piece) = 0;
  virtual void end() = 0;
  virtual void abort() = 0;

  /// Bytes written and not yet taken by the client's side of the socket.
  virtual std::size_t n_unsent() const = 0;
  /// Size of the response so far, with its head.
  virtual std::size_t n_written() const = 0;
  /// The client has gone, or took nothing for HttpParams::write_timeout.
  virtual bool closed() const = 0;
  /// Called once on the server's thread if the client goes before the response has ended. Called at once if
  /// it has gone already.
  virtual void on_closed(std::function<void()> call) = 0;
  /// Called on the server's thread each time n_unsent() has fallen below HttpParams::low_water after it was
  /// above high_water.
  virtual void on_drained(std::function<void()> call) = 0;
};

/// A request that the server refused itself. Parts that were not read are empty.
struct RefusedRequest {
  const HttpRequest& request;
  int status;
  const std::string& reason;
};

struct HttpParams {
  /// Addresses, names, and paths of Unix sockets (with a "/"), separated by commas.
  std::string host = "127.0.0.1";
  std::uint16_t port = 8080;  ///< 0: any free one (HttpServer::port).
  /// Sockets to take over that listen already (systemd); host and port are not used then.
  std::vector<int> listening = {};
  std::size_t header_bytes = 64 << 10;
  std::size_t body_bytes = 16 << 20;
  std::size_t all_bodies_bytes = std::size_t{1} << 30;  ///< Of all requests together; more get a 503.
  std::size_t low_water = 64 << 10;
  std::size_t high_water = 256 << 10;
  int n_connections = 16384;                ///< More are closed at once with a 503 ...
  int n_connections_each = 4096;            ///< ... and more of one address; 0: no such limit.
  std::chrono::seconds header_timeout{30};  ///< From the first byte of a request to the end of its head.
  std::chrono::seconds body_timeout{120};
  std::chrono::seconds first_timeout{30};  ///< For a TLS handshake; until the first request's first byte.
  std::chrono::seconds idle_timeout{600};  ///< Between requests.
  std::chrono::seconds write_timeout{60};  ///< A client that takes nothing for so long has gone.
  std::shared_ptr<const TlsIdentity> tls = nullptr;  ///< Null: plain HTTP.
  /// Their headers say where requests come from, and they may open any number of connections.
  TrustedProxies trusted_proxies = {};
  std::string prefix = {};   ///< "/llm". Removed from paths that begin with it.
  HttpHeaders headers = {};  ///< Of every response.
  /// Further headers of the response to a request. Called on the server's thread.
  std::function<HttpHeaders(const HttpRequest&)> headers_for = nullptr;
  /// The sink of a request's body, by its head; null: the body is held in memory. Called on the server's
  /// thread. Null: no request has one.
  std::function<std::shared_ptr<BodySink>(const HttpRequest&)> body_sink = nullptr;
  /// Called on the server's thread, for logs.
  std::function<void(const RefusedRequest&)> on_refused = nullptr;
  /// The JSON body of an error that the server itself sends. Called on the server's thread. Null: a plain
  /// string.
  std::function<std::string(int status, std::string_view reason)> error_body = nullptr;
};

struct HttpCounts {
  int n_open = 0;  ///< Connections ...
  int n_busy = 0;  ///< ... with a request under way: from its first byte to the end of its response.
  std::int64_t n_accepted = 0;
  std::int64_t n_requests = 0;
  std::int64_t n_malformed = 0;  ///< Refused by the server itself.
  std::int64_t n_refused = 0;    ///< Connections beyond a limit.
};

class HttpServer {
 public:
  using Handler = std::function<void(std::shared_ptr<Exchange>)>;
  /// Listens: requests wait until run(). Raises the process's limit of open files as far as it may. Throws
  /// Error kIo if it cannot listen at the address.
  HttpServer(HttpParams params, Handler handler);
  /// run() must not be running. Exchanges may outlive it: bytes written to them are dropped.
  ~HttpServer();

  std::uint16_t port() const;
  /// One for each host: "http://127.0.0.1:8080", "https://...", or "unix:/path".
  std::vector<std::string> addresses() const;
  /// ListeningSockets::included
  std::vector<std::string> included_hosts() const;
  /// Serves until stop(), on the calling thread.
  void run();

  // From any thread:
  /// Runs `call` on the server's thread, soon or after a time, but not after stop().
  void post(std::function<void()> call);
  void after(std::chrono::milliseconds time, std::function<void()> call);
  /// Accepts no more connections. Closes idle ones at once, and busy ones at the end of their response.
  void stop_accepting();
  /// Closes all connections and ends run().
  void stop();
  HttpCounts counts() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft::server
