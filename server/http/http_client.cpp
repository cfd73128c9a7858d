#include "http/http_client.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/fields.hpp>
#include <boost/beast/http/parser.hpp>
#include <charconv>
#include <cstring>
#include <exception>
#include <optional>
#include <tuple>
#include <unordered_set>
#include <utility>
#include <vector>

#include "http/http_text.h"
#include "weft/error.h"

namespace weft::server {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;
using Protocol = asio::generic::stream_protocol;
using Socket = Protocol::socket;

constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);
constexpr std::size_t kReadBytes = 16 << 10;
/// The interval between checks for timeouts.
constexpr auto kTimeoutPoll = std::chrono::milliseconds(50);

/// A body that is passed on, and not kept.
struct PassedBody {
  struct value_type {
    std::function<bool(std::string_view)> take;  ///< False: no more.
  };
  class reader {
   public:
    template <bool is_request, class Fields>
    reader(http::header<is_request, Fields>&, value_type& body) : body_(body) {}
    void init(const boost::optional<std::uint64_t>&, error_code& error) { error = {}; }
    template <class Buffers>
    std::size_t put(const Buffers& buffers, error_code& error) {
      error = {};
      std::size_t size = 0;
      for (auto it = asio::buffer_sequence_begin(buffers); it != asio::buffer_sequence_end(buffers); ++it) {
        const asio::const_buffer piece(*it);
        size += piece.size();
        if (!body_.take({static_cast<const char*>(piece.data()), piece.size()}))
          error = boost::system::errc::make_error_code(boost::system::errc::operation_canceled);
      }
      return size;
    }
    void finish(error_code& error) { error = {}; }

   private:
    value_type& body_;
  };
};
using Parser = http::response_parser<PassedBody>;

using Moved = std::tuple<error_code, std::size_t>;

struct ServerConnection {
  explicit ServerConnection(asio::io_context& io) : socket(io) {}

  asio::awaitable<Moved> write(asio::const_buffer bytes) {
    if (tls) co_return co_await asio::async_write(*tls, bytes, kAwait);
    co_return co_await asio::async_write(socket, bytes, kAwait);
  }
  asio::awaitable<Moved> read_some(asio::mutable_buffer bytes) {
    if (tls) co_return co_await tls->async_read_some(bytes, kAwait);
    co_return co_await socket.async_read_some(bytes, kAwait);
  }

  Socket socket;
  std::optional<asio::ssl::stream<Socket&>> tls;
  boost::beast::flat_buffer buffer;
};

/// A request under way.
struct Job {
  HttpCall call;
  Clock::time_point deadline;
  std::unique_ptr<ServerConnection> connection;
  bool timed_out = false, cancelled = false;
  bool heard = false;  ///< Bytes of a response have come.
  HttpEnd end = HttpEnd::kComplete;
  std::string reason;

  void fail(HttpEnd how, std::string why) {
    end = timed_out ? HttpEnd::kTimeout : cancelled ? HttpEnd::kCancelled : how;
    reason = timed_out ? "no response in time" : cancelled ? "cancelled" : std::move(why);
  }
  void hang_up() {
    error_code ignored;
    if (connection) connection->socket.close(ignored);
  }
  /// Called once.
  void finish() {
    if (cancelled && end == HttpEnd::kComplete) fail(HttpEnd::kCancelled, "");
    if (call.on_end) call.on_end(end, reason);
    call = {};
  }
};

/// Parses the response of a job, piece by piece.
class ResponseParser {
 public:
  ResponseParser(Job& job, const HttpClientParams& params) : job_(job), params_(params) { renew(); }
  ResponseParser(const ResponseParser&) = delete;
  ResponseParser& operator=(const ResponseParser&) = delete;

  /// Takes the bytes in the buffer. False if the response is complete or has failed.
  bool take(boost::beast::flat_buffer& buffer) {
    error_code error;
    while (buffer.size() > 0 && !parser_->is_done() && !error) {
      job_.heard = true;
      buffer.consume(parser_->put(buffer.data(), error));
      if (!error && parser_->is_done() && parser_->get().result_int() / 100 == 1) renew();
    }
    if (error && error != http::error::need_more) {
      if (error == boost::system::errc::operation_canceled) job_.cancelled = true;
      job_.fail(HttpEnd::kMalformed, "the response is malformed or too large: " + error.message());
      return false;
    }
    if (parser_->is_header_done()) tell_head();
    return !parser_->is_done();
  }
  bool may_reuse() const { return parser_->is_done() && parser_->keep_alive(); }
  /// The end of the connection is the end of the response.
  bool ends_with_connection() {
    if (!parser_->is_header_done() || !parser_->need_eof()) return false;
    error_code error;
    parser_->put_eof(error);
    return !error;
  }

 private:
  void renew() {
    parser_.emplace();
    parser_->eager(true);
    parser_->skip(job_.call.method == "HEAD");
    parser_->header_limit(static_cast<std::uint32_t>(params_.head_bytes));
    parser_->body_limit(params_.body_bytes);
    parser_->get().body().take = [this](std::string_view piece) {
      tell_head();
      return !job_.call.on_body || job_.call.on_body(piece);
    };
  }
  void tell_head() {
    if (std::exchange(reported_, true) || !job_.call.on_head) return;
    HttpHeaders headers;
    for (const auto& field : parser_->get())
      headers.emplace_back(std::string(field.name_string()), std::string(field.value()));
    job_.call.on_head(static_cast<int>(parser_->get().result_int()), headers);
  }

  Job& job_;
  const HttpClientParams& params_;
  std::optional<Parser> parser_;
  bool reported_ = false;
};

std::vector<Protocol::endpoint> find_addresses(const HttpUrl& url) {
  std::vector<Protocol::endpoint> found;
  if (url.host.find('/') != url.host.npos) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (url.host.size() >= sizeof(address.sun_path))
      throw Error(ErrorCode::kInvalidArgument, "too long for the path of a Unix socket: " + url.host);
    std::memcpy(address.sun_path, url.host.c_str(), url.host.size() + 1);
    found.emplace_back(&address, sizeof(address));
    return found;
  }
  addrinfo wanted{};
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (const int failed = ::getaddrinfo(url.host.c_str(), std::to_string(url.port).c_str(), &wanted, &list);
      failed != 0)
    throw Error(ErrorCode::kIo, "cannot resolve the host '" + url.host + "': " + ::gai_strerror(failed));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(list, &::freeaddrinfo);
  for (const addrinfo* one = list; one != nullptr; one = one->ai_next)
    found.emplace_back(one->ai_addr, one->ai_addrlen);
  return found;
}

std::string request_text(const HttpCall& call, const std::string& host) {
  std::string text = call.method + " " + call.path + " HTTP/1.1\r\nHost: " + host + "\r\n";
  if (!call.body.empty() || call.method == "POST")
    text += "Content-Length: " + std::to_string(call.body.size()) + "\r\n";
  for (const auto& [name, value] : call.headers) text.append(name).append(": ").append(value).append("\r\n");
  return text.append("\r\n").append(call.body);
}

}  // namespace

HttpUrl parse_url(std::string_view url) {
  HttpUrl out;
  const std::string text(url);
  const auto wrong = [&](const std::string& why) {
    return Error(ErrorCode::kInvalidArgument,
                 "'" + text + "' is not a server address: " + why + "; an example is http://127.0.0.1:8080");
  };
  if (url.starts_with("unix:")) {
    out.host = url.substr(5);
    if (!out.host.starts_with('/')) throw wrong("unix: must be followed by an absolute path");
    return out;
  }
  if (const std::size_t scheme = url.find("://"); scheme != url.npos) {
    out.tls = same_word(url.substr(0, scheme), "https");
    if (!out.tls && !same_word(url.substr(0, scheme), "http"))
      throw wrong("it must begin with http:// or https://");
    if (out.tls) out.port = 443;
    url.remove_prefix(scheme + 3);
  }
  const std::size_t end = std::min(url.find('/'), url.size());
  out.path = url.substr(end);
  while (out.path.ends_with('/')) out.path.pop_back();
  std::string_view place = url.substr(0, end);
  std::string_view port;
  if (place.starts_with('[')) {
    const std::size_t bracket = place.find(']');
    if (bracket == place.npos) throw wrong("']' is missing");
    out.host = place.substr(1, bracket - 1);
    port = place.substr(bracket + 1);
  } else {
    const std::size_t colon = std::min(place.find(':'), place.size());
    out.host = place.substr(0, colon);
    port = place.substr(colon);
  }
  if (out.host.empty()) throw wrong("the host is missing");
  if (port.empty()) return out;
  const auto [stop, error] = std::from_chars(port.data() + 1, port.data() + port.size(), out.port);
  if (port[0] != ':' || error != std::errc() || stop != port.data() + port.size() || out.port == 0)
    throw wrong("a port is 1 to 65535");
  return out;
}

struct HttpClient::Impl {
  Impl(const HttpUrl& url, HttpClientParams given)
      : params(given),
        addresses(find_addresses(url)),
        name(url.host),
        host(url.host.find('/') == url.host.npos
                 ? (url.host.find(':') == url.host.npos ? url.host : "[" + url.host + "]") + ":" +
                       std::to_string(url.port)
                 : "localhost") {
    if (!url.tls) return;
    tls.emplace(asio::ssl::context::tls_client);
    tls->set_default_verify_paths();
    tls->set_verify_mode(asio::ssl::verify_peer);
  }
  ~Impl();

  asio::awaitable<void> perform(std::shared_ptr<Job> job);
  asio::awaitable<bool> connect(Job& job);
  asio::awaitable<error_code> connect(ServerConnection& connection, const Protocol::endpoint& address);
  asio::awaitable<bool> exchange(Job& job);
  void start(HttpCall call);
  void finish(const std::shared_ptr<Job>& job);
  void start_sweeping();
  void hang_up();

  const HttpClientParams params;
  asio::io_context io{1};
  const std::vector<Protocol::endpoint> addresses;
  const std::string name, host;  ///< As certificates have it, and as the header Host has it.
  std::optional<asio::ssl::context> tls;
  std::vector<std::unique_ptr<ServerConnection>> idle;
  std::unordered_set<std::shared_ptr<Job>> jobs;
  asio::steady_timer sweep_timer{io};
  bool sweeping = false, stopped = false;
};

HttpClient::Impl::~Impl() {
  for (const auto& job : jobs) job->call.on_end = nullptr;  // Their owner may be gone.
  hang_up();
  io.restart();
  io.poll();
}

asio::awaitable<error_code> HttpClient::Impl::connect(ServerConnection& connection,
                                                      const Protocol::endpoint& address) {
  const auto connected = co_await connection.socket.async_connect(address, kAwait);
  if (std::get<0>(connected)) co_return std::get<0>(connected);
  const int on = 1;
  ::setsockopt(connection.socket.native_handle(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  if (!tls) co_return error_code();
  auto& stream = connection.tls.emplace(connection.socket, *tls);
  stream.set_verify_callback(asio::ssl::host_name_verification(name));
  ::SSL_set_tlsext_host_name(stream.native_handle(), name.c_str());
  const auto greeted = co_await stream.async_handshake(asio::ssl::stream_base::client, kAwait);
  co_return std::get<0>(greeted);
}

asio::awaitable<bool> HttpClient::Impl::connect(Job& job) {
  std::string why;
  const auto deadline = job.deadline;
  job.deadline = std::min(deadline, Clock::now() + params.connect_timeout);
  for (const Protocol::endpoint& address : addresses) {
    job.connection = std::make_unique<ServerConnection>(io);
    const error_code error = co_await connect(*job.connection, address);
    if (!error) {
      job.deadline = deadline;
      co_return true;
    }
    why = error.message();
    if (error.category() == asio::error::get_ssl_category())
      why += "; SSL_CERT_FILE may name the server's own certificate";
    if (job.timed_out || job.cancelled) break;
  }
  job.fail(HttpEnd::kConnect, "cannot connect to " + host + ": " + why);
  co_return false;
}

/// Sends the request and reads the response. True if it is complete and the connection may be used again.
asio::awaitable<bool> HttpClient::Impl::exchange(Job& job) {
  ServerConnection& connection = *job.connection;
  const std::string text = request_text(job.call, host);
  const Moved written = co_await connection.write(asio::buffer(text));
  // A server may respond and close before it has read the whole request: its response counts.
  const error_code write_error = std::get<0>(written);
  ResponseParser parser(job, params);
  for (;;) {
    const bool more = parser.take(connection.buffer);
    if (!more) co_return parser.may_reuse() && connection.buffer.size() == 0;
    const Moved read = co_await connection.read_some(connection.buffer.prepare(kReadBytes));
    const error_code read_error = std::get<0>(read);
    connection.buffer.commit(std::get<1>(read));
    if (!read_error) continue;
    if (read_error == asio::error::eof && parser.ends_with_connection()) co_return false;
    job.fail(HttpEnd::kClosed, "the connection closed before the end of the response: " +
                                   (write_error ? write_error : read_error).message());
    co_return false;
  }
}

asio::awaitable<void> HttpClient::Impl::perform(std::shared_ptr<Job> job) {
  bool may_reuse = false, done = false;
  if (!idle.empty()) {
    job->connection = std::move(idle.back());
    idle.pop_back();
    may_reuse = co_await exchange(*job);
    // A connection that has been idle may be closed at the other end.
    done = job->end != HttpEnd::kClosed || job->heard;
    if (!done) job->end = HttpEnd::kComplete;
  }
  if (!done) {
    const bool connected = co_await connect(*job);
    if (connected) may_reuse = co_await exchange(*job);
  }
  if (may_reuse && job->end == HttpEnd::kComplete) idle.push_back(std::move(job->connection));
}

void HttpClient::Impl::start(HttpCall call) {
  const auto job = std::make_shared<Job>();
  job->call = std::move(call);
  job->deadline = Clock::now() + job->call.timeout;
  if (stopped) {
    asio::post(io, [job] {
      job->cancelled = true;
      job->finish();
    });
    return;
  }
  jobs.insert(job);
  start_sweeping();
  asio::co_spawn(io, perform(job), [this, job](std::exception_ptr error) {
    jobs.erase(job);
    job->connection.reset();
    if (error) job->fail(HttpEnd::kMalformed, "a callback failed");
    job->finish();
    if (stopped && jobs.empty()) io.stop();
  });
}

void HttpClient::Impl::start_sweeping() {
  if (sweeping || jobs.empty()) return;
  sweeping = true;
  sweep_timer.expires_after(kTimeoutPoll);
  sweep_timer.async_wait([this](const error_code&) {
    sweeping = false;
    const auto now = Clock::now();
    for (const auto& job : jobs) {
      if (now <= job->deadline) continue;
      job->timed_out = true;
      job->hang_up();
    }
    start_sweeping();
  });
}

void HttpClient::Impl::hang_up() {
  stopped = true;
  for (const auto& job : jobs) {
    job->cancelled = true;
    job->hang_up();
  }
  idle.clear();
  if (jobs.empty()) io.stop();
}

HttpClient::HttpClient(const HttpUrl& url, HttpClientParams params)
    : impl_(std::make_unique<Impl>(url, params)) {}
HttpClient::~HttpClient() = default;
void HttpClient::start(HttpCall call) { impl_->start(std::move(call)); }

void HttpClient::after(std::chrono::milliseconds time, std::function<void()> call) {
  const auto timer = std::make_shared<asio::steady_timer>(impl_->io, time);
  timer->async_wait([timer, impl = impl_.get(), call = std::move(call)](const error_code& error) {
    if (!error && !impl->stopped) call();
  });
}

void HttpClient::run() {
  impl_->io.restart();
  // After stop() only ready handlers run; timers are not waited for.
  impl_->stopped ? impl_->io.poll() : impl_->io.run();
}

void HttpClient::stop() {
  asio::post(impl_->io, [impl = impl_.get()] { impl->hang_up(); });
}

int HttpClient::n_open() const {
  return static_cast<int>(impl_->idle.size()) +
         static_cast<int>(std::count_if(impl_->jobs.begin(), impl_->jobs.end(),
                                        [](const auto& job) { return job->connection != nullptr; }));
}

}  // namespace weft::server
