#include "http/http_server.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <exception>
#include <list>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "http/connection.h"
#include "http/listening.h"

namespace weft::server {
namespace {

using Acceptor = asio::basic_socket_acceptor<Protocol>;

/// With a larger buffer a client that reads nothing would be noticed late.
constexpr int kSendBufferBytes = 128 << 10;
/// The interval between checks for timeouts. They also notice that a client has gone while nothing is read
/// from it.
constexpr auto kSweep = std::chrono::milliseconds(250);
/// Connections beyond a limit that may wait for their 503.
constexpr int kRefusedConnections = 256;
/// Between attempts to accept where descriptors are used up.
constexpr auto kAcceptPause = std::chrono::milliseconds(100);

/// The implementation of HttpServer.
class Server {
 public:
  Server(HttpParams params, HttpServer::Handler handler);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  void run();
  void post(std::function<void()> call);
  void after(std::chrono::milliseconds time, std::function<void()> call);
  void drain();
  void shut_down();
  const ListeningSockets& listening() const { return listening_; }
  const Shared& shared() const { return shared_; }

 private:
  void start_accepting(Acceptor& acceptor);
  asio::awaitable<void> accept_from(Acceptor& acceptor);
  void admit(Socket socket);
  std::string why_refused(const std::string& client) const;
  void open_mail();
  void start_sweeping();

  asio::io_context io_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_{io_.get_executor()};
  Shared shared_;
  ListeningSockets listening_;
  std::list<Acceptor> acceptors_;
  std::unordered_set<std::shared_ptr<Connection>> connections_;
  std::unordered_map<std::string, int> n_open_of_;  ///< Connections of each client.
  int n_refusing_ = 0;                              ///< Connections that get a 503 and no more.
  asio::steady_timer sweep_timer_{io_};
  bool sweeping_ = false, stopped_ = false;
};

/// Connections leave descriptors for files: models are loaded while clients wait.
HttpParams within_descriptors(HttpParams params) {
  const int n_files = raise_descriptor_limit();
  const int most = std::max(1, n_files - std::min(256, n_files / 4));
  if (most >= params.n_connections) return params;
  params.n_connections = most;
  params.n_connections_each = std::min(params.n_connections_each, std::max(1, most / 2));
  return params;
}

Server::Server(HttpParams params, HttpServer::Handler handler)
    : shared_{.params = within_descriptors(params),
              .handler = std::move(handler),
              .mailbox = std::make_shared<Mailbox>([this] { asio::post(io_, [this] { open_mail(); }); },
                                                   params.headers),
              .bodies = std::make_shared<BodyBudget>(params.all_bodies_bytes)},
      listening_(params.listening.empty() ? ListeningSockets(params.host, params.port)
                                          : ListeningSockets(params.listening)) {
  for (const int socket : listening_.release()) {
    acceptors_.emplace_back(io_, Protocol(family_of(socket), 0), socket);
    acceptors_.back().non_blocking(true);
    start_accepting(acceptors_.back());
  }
}

Server::~Server() {
  shared_.mailbox->close();
  shut_down();
  io_.restart();
  io_.poll();  // What was cancelled ends here, while there is a server.
}

void Server::run() {
  for (;;) {
    try {
      io_.run();
      return;
    } catch (const std::exception&) {
      // Memory was short between callbacks; the connections that it concerns run into their deadlines.
    }
  }
}

void Server::post(std::function<void()> call) {
  asio::post(io_, [this, call = std::move(call)] {
    if (!stopped_) call_guarded(call);
  });
}

void Server::after(std::chrono::milliseconds time, std::function<void()> call) {
  const auto timer = std::make_shared<asio::steady_timer>(io_, time);
  asio::post(io_, [this, timer, call = std::move(call)]() mutable {
    timer->async_wait([this, timer, call = std::move(call)](const error_code& error) {
      if (!error && !stopped_) call_guarded(call);
    });
  });
}

void Server::start_accepting(Acceptor& acceptor) {
  asio::co_spawn(io_, accept_from(acceptor), [this, &acceptor](std::exception_ptr error) {
    if (error && !shared_.mailbox->draining) start_accepting(acceptor);
  });
}

asio::awaitable<void> Server::accept_from(Acceptor& acceptor) {
  asio::steady_timer pause(io_);
  while (acceptor.is_open() && !shared_.mailbox->draining) {
    Socket socket(io_);
    const auto accepted = co_await acceptor.async_accept(socket, kAwait);
    const error_code error = std::get<0>(accepted);
    if (!error) {
      admit(std::move(socket));
    } else if (error != asio::error::operation_aborted) {
      // Without descriptors or memory the connection stays in the queue, and at once the same would happen
      // again.
      pause.expires_after(kAcceptPause);
      const auto waited = co_await pause.async_wait(kAwait);
      (void)waited;
    }
  }
  // The system has accepted these already: their requests may be under way.
  error_code error;
  while (acceptor.is_open() && !error) {
    Socket socket(io_);
    acceptor.accept(socket, error);
    if (!error) admit(std::move(socket));
  }
  acceptor.close(error);
}

void Server::admit(Socket socket) {
  const int descriptor = socket.native_handle();
  ::fcntl(descriptor, F_SETFD, FD_CLOEXEC);
  const auto set = [&](int level, int name, int value) {
    ::setsockopt(descriptor, level, name, &value, sizeof(value));
  };
  set(SOL_SOCKET, SO_SNDBUF, kSendBufferBytes);
  // On a Unix socket these fail, and are not needed.
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  // Notices a machine that vanished without closing.
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT,
      static_cast<int>(
          std::chrono::duration_cast<std::chrono::milliseconds>(shared_.params.write_timeout).count()));
  ++shared_.n_accepted;
  const std::optional<Address> peer = peer_address(descriptor);
  const bool counts = peer && !shared_.params.trusted_proxies.trusts(peer);
  const std::string client = counts ? peer->client() : std::string();
  std::string refusal = why_refused(client);
  const bool refused = !refusal.empty();
  if (stopped_ || (refused && n_refusing_ >= kRefusedConnections)) {
    ++shared_.n_refused;
    return;
  }
  error_code error;
  socket.non_blocking(true, error);
  const auto connection = std::make_shared<Connection>(shared_, std::move(socket), std::move(refusal));
  connections_.insert(connection);
  if (refused) {
    ++n_refusing_;
  } else {
    ++shared_.n_open;
    ++n_open_of_[client];
  }
  start_sweeping();
  asio::co_spawn(io_, connection->serve(), [this, connection, client, refused](std::exception_ptr) {
    connection->lost();
    connections_.erase(connection);
    if (refused) {
      --n_refusing_;
    } else {
      --shared_.n_open;
      if (--n_open_of_[client] == 0) n_open_of_.erase(client);
    }
    if (stopped_ && connections_.empty()) io_.stop();
  });
}

/// Empty where one more connection of the client may be open.
std::string Server::why_refused(const std::string& client) const {
  const HttpParams& params = shared_.params;
  if (shared_.n_open >= params.n_connections) return "too many connections; try again later";
  const auto found = n_open_of_.find(client);
  if (client.empty() || params.n_connections_each == 0 || found == n_open_of_.end() ||
      found->second < params.n_connections_each)
    return {};
  return "too many connections from this address; close some of them first";
}

void Server::start_sweeping() {
  if (sweeping_ || connections_.empty() || stopped_) return;
  sweeping_ = true;
  sweep_timer_.expires_after(kSweep);
  sweep_timer_.async_wait([this](const error_code& error) {
    sweeping_ = false;
    if (error) return;
    const auto now = Clock::now();
    for (const auto& connection : connections_) connection->sweep(now);
    start_sweeping();
  });
}

void Server::open_mail() {
  Mailbox::Mail mail = shared_.mailbox->take();
  for (const auto& answer : mail.answers) {
    ResponseSender* const sender = answer->sender();
    if (sender != nullptr) sender->flush();
  }
  for (const auto& call : mail.calls) call_guarded(call);
}

void Server::drain() {
  if (shared_.mailbox->draining.exchange(true)) return;
  error_code ignored;
  for (Acceptor& acceptor : acceptors_) acceptor.cancel(ignored);
  for (const auto& connection : connections_) connection->wake_if_idle();
}

void Server::shut_down() {
  if (std::exchange(stopped_, true)) return;
  shared_.mailbox->draining = true;
  error_code ignored;
  for (Acceptor& acceptor : acceptors_) acceptor.close(ignored);
  sweep_timer_.cancel();
  for (const auto& connection : connections_) connection->lost();
  work_.reset();
  if (connections_.empty()) io_.stop();
}

}  // namespace

struct HttpServer::Impl : Server {
  using Server::Server;
};

HttpServer::HttpServer(HttpParams params, Handler handler)
    : impl_(std::make_unique<Impl>(std::move(params), std::move(handler))) {}
HttpServer::~HttpServer() = default;
std::uint16_t HttpServer::port() const { return impl_->listening().port(); }
std::vector<std::string> HttpServer::addresses() const {
  std::vector<std::string> addresses = impl_->listening().addresses();
  for (std::string& address : addresses)
    if (impl_->shared().params.tls && address.starts_with("http:")) address.insert(4, "s");
  return addresses;
}
std::vector<std::string> HttpServer::included_hosts() const { return impl_->listening().included(); }
void HttpServer::run() { impl_->run(); }
void HttpServer::post(std::function<void()> call) { impl_->post(std::move(call)); }
void HttpServer::after(std::chrono::milliseconds time, std::function<void()> call) {
  impl_->after(time, std::move(call));
}
void HttpServer::stop_accepting() {
  impl_->post([server = impl_.get()] { server->drain(); });
}
void HttpServer::stop() {
  impl_->post([server = impl_.get()] { server->shut_down(); });
}

HttpCounts HttpServer::counts() const {
  const Shared& shared = impl_->shared();
  return {.n_open = shared.n_open,
          .n_busy = shared.n_busy,
          .n_accepted = shared.n_accepted,
          .n_requests = shared.n_requests,
          .n_malformed = shared.n_malformed,
          .n_refused = shared.n_refused};
}

}  // namespace weft::server
