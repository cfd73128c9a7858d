#include "http/http_server.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/fields.hpp>
#include <boost/beast/http/parser.hpp>
#include <exception>
#include <list>
#include <optional>
#include <unordered_set>

#include "http/answer.h"
#include "http/http_text.h"
#include "http/listening.h"

namespace weft::server {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;
using Protocol = asio::generic::stream_protocol;
using Socket = Protocol::socket;
using Acceptor = asio::basic_socket_acceptor<Protocol>;

/// An operation gives its error as a value. GCC 12 frees captures twice in lambdas within co_await, and later
/// ones forget destructors of what is bound there: results of co_await are named first.
constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);

constexpr std::size_t kReadBytes = 64 << 10;
/// Where the kernel takes more, a client that reads nothing is noticed late.
constexpr int kSendBufferBytes = 128 << 10;
/// Timeouts are looked for so often; a client that goes is noticed by then even where nothing is read from
/// it.
constexpr auto kSweep = std::chrono::milliseconds(250);
/// How long a connection that the server ends is read on, so that what the client still sends does not make
/// its side drop the answer.
constexpr auto kLinger = std::chrono::seconds(2);
/// Connections beyond the bound that may wait for their 503.
constexpr int kRefusedConnections = 256;
/// Between attempts to accept where descriptors are used up.
constexpr auto kAcceptPause = std::chrono::milliseconds(100);

/// A body that grows as bytes come, not as its length is promised, within the bound of all bodies.
struct HeldBody {
  struct value_type {
    std::string text;
    BodyShare share;
  };
  class reader {
   public:
    template <bool is_request, class Fields>
    reader(http::header<is_request, Fields>&, value_type& body) : body_(body) {}
    void init(const boost::optional<std::uint64_t>&, error_code& error) { error = {}; }
    template <class Buffers>
    std::size_t put(const Buffers& buffers, error_code& error) {
      const std::size_t size = asio::buffer_size(buffers);
      error = {};
      if (!body_.share.grow(size)) {
        error = boost::system::errc::make_error_code(boost::system::errc::not_enough_memory);
        return 0;
      }
      const std::size_t old_size = body_.text.size();
      body_.text.resize(old_size + size);
      return asio::buffer_copy(asio::buffer(body_.text.data() + old_size, size), buffers);
    }
    void finish(error_code& error) { error = {}; }

   private:
    value_type& body_;
  };
};
using Parser = http::request_parser<HeldBody>;

/// Why a request never becomes one.
struct Refusal {
  int status;
  std::string reason;
};

std::string bytes_text(std::size_t bytes) { return std::to_string(bytes) + " bytes"; }

Refusal refusal_of(const error_code& error, const HttpParams& params) {
  if (error == http::error::header_limit)
    return {431, "the head of the request has more than " + bytes_text(params.header_bytes)};
  if (error == http::error::body_limit)
    return {413, "the body of the request has more than " + bytes_text(params.body_bytes)};
  if (error == boost::system::errc::not_enough_memory)
    return {503, "too many large requests at the same time; try again later"};
  if (error == http::error::bad_version) return {505, "malformed request: HTTP/1.1 or HTTP/1.0 is expected"};
  return {400, "malformed request: " + error.message()};
}

/// What Beast leaves to its user, above all where the body ends: two readings of that are two requests.
std::optional<Refusal> check_head(const http::request_header<>& head, const std::optional<Target>& target) {
  const bool old_client = head.version() < 11;
  if (!target)
    return Refusal{400, "malformed request: the target is no path, or holds an escape that is wrong"};
  const std::size_t n_hosts = head.count(http::field::host);
  if (n_hosts > 1 || (n_hosts == 0 && !old_client))
    return Refusal{400, "malformed request: one Host header is expected"};
  if (head.count(http::field::content_length) > 1 ||
      head[http::field::content_length].find(',') != head[""].npos)
    return Refusal{400, "malformed request: more than one Content-Length"};
  if (head.count(http::field::transfer_encoding) > 0) {
    if (old_client || head.count(http::field::content_length) > 0)
      return Refusal{400, "malformed request: Transfer-Encoding with HTTP/1.0, or beside Content-Length"};
    if (head.count(http::field::transfer_encoding) > 1 ||
        !same_word(head[http::field::transfer_encoding], "chunked"))
      return Refusal{501, "the only Transfer-Encoding that is understood is chunked"};
  }
  if (head.count(http::field::expect) > 0 && !same_word(head[http::field::expect], "100-continue"))
    return Refusal{417, "the only Expect that is understood is 100-continue"};
  return std::nullopt;
}

class Connection;

/// Everything but the contract's face.
class Server {
 public:
  Server(HttpParams given, HttpServer::Handler handler_of_user);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  void drain();
  void shut_down();
  HttpAnswer error_answer(int status, std::string_view reason) const;

  const HttpParams params;
  const HttpServer::Handler handler;
  asio::io_context io{1};
  ListeningSockets listening;
  std::shared_ptr<Mailbox> mailbox;
  std::shared_ptr<BodyBudget> bodies;
  std::atomic<int> n_open = 0, n_busy = 0;
  std::atomic<std::int64_t> n_accepted = 0, n_requests = 0, n_malformed = 0, n_refused = 0;

 private:
  void start_accepting(Acceptor& acceptor);
  asio::awaitable<void> accept_from(Acceptor& acceptor);
  void admit(Socket socket);
  void open_mail();
  void start_sweeping();

  asio::executor_work_guard<asio::io_context::executor_type> work_{io.get_executor()};
  std::list<Acceptor> acceptors_;
  std::unordered_set<std::shared_ptr<Connection>> connections_;
  asio::steady_timer sweep_timer_{io};
  bool sweeping_ = false, stopped_ = false;
};

/// One client. A coroutine (serve) reads: requests, and while an answer is under way whether the client is
/// still there. Answers are written by calls (flush) as they come.
class Connection final : public std::enable_shared_from_this<Connection>, public AnswerSender {
 public:
  Connection(Server& server, Socket socket, bool refused)
      : server_(server),
        socket_(std::move(socket)),
        refused_(refused),
        peer_(peer_name(socket_.native_handle())),
        buffer_(server.params.header_bytes + kReadBytes) {}

  asio::awaitable<void> serve();
  void flush() override;
  void sweep(Clock::time_point now);
  /// The server drains: who waits for a request waits no longer.
  void wake_if_idle();
  /// The client has gone, or must go.
  void lost();

 private:
  const HttpParams& params() const { return server_.params; }
  void cancel();
  void set_deadline(Clock::duration time);
  void set_busy(bool busy);
  bool leaving() const { return server_.mailbox->draining.load() && !busy_; }

  asio::awaitable<bool> more();
  asio::awaitable<bool> read_request();
  asio::awaitable<bool> read_head();
  asio::awaitable<bool> read_body();
  asio::awaitable<void> refuse(Refusal refusal);
  asio::awaitable<void> watch_client();
  asio::awaitable<void> linger();
  void skip_empty_lines();
  void take_head(Target target);
  void start_answer();
  void send_written();
  void write_some();
  void on_written(const error_code& error, std::size_t size);
  void finish_answer();

  Server& server_;
  Socket socket_;
  const bool refused_;
  const std::string peer_;
  boost::beast::flat_buffer buffer_;
  std::optional<Parser> parser_;
  HttpRequest request_;
  AnswerTerms terms_;
  std::shared_ptr<Answer> answer_;  ///< Under way.
  Answer::Next next_ = Answer::Next::kMore;
  std::string sending_;
  std::size_t n_sent_ = 0;  ///< Of sending_.
  bool busy_ = false, writing_ = false, closing_ = false, timed_out_ = false;
  bool input_ended_ = false;  ///< The client has closed its side, behind the end of its answer.
  bool input_full_ = false;   ///< Nothing is read before the answer has ended.
  Clock::time_point deadline_ = Clock::time_point::max();        ///< Of the reader, without an answer.
  Clock::time_point write_deadline_ = Clock::time_point::max();  ///< Of the answer, while writing.
};

asio::awaitable<void> Connection::serve() {
  if (refused_) {
    Refusal refusal{503, "too many connections; try again later"};
    co_await refuse(std::move(refusal));
  }
  while (!closing_) {
    const bool read = co_await read_request();
    if (!read) break;
    co_await watch_client();
  }
  co_await linger();
}

void Connection::cancel() {
  error_code ignored;
  socket_.cancel(ignored);
}

void Connection::wake_if_idle() {
  if (!busy_ && !answer_ && !closing_) cancel();
}

void Connection::set_deadline(Clock::duration time) {
  deadline_ = Clock::now() + time;
  timed_out_ = false;
}

void Connection::set_busy(bool busy) {
  if (busy != busy_) server_.n_busy += busy ? 1 : -1;
  busy_ = busy;
}

void Connection::lost() {
  const auto answer = std::exchange(answer_, nullptr);
  set_busy(false);
  closing_ = true;
  error_code ignored;
  socket_.close(ignored);
  if (!answer) return;
  answer->set_sender(nullptr);
  answer->gone();
}

void Connection::sweep(Clock::time_point now) {
  if (answer_) {
    pollfd end{socket_.native_handle(), POLLRDHUP, 0};
    if (writing_ && now > write_deadline_) {
      lost();
    } else if (input_full_ && ::poll(&end, 1, 0) > 0) {
      lost();
    }
  } else if (now > deadline_) {
    timed_out_ = true;
    cancel();
  }
}

/// Waits for input; false where none comes: the end, an error, the deadline, or the server's end.
asio::awaitable<bool> Connection::more() {
  for (;;) {
    if (buffer_.size() == 0) buffer_.shrink_to_fit();  // Thousands of connections wait here.
    if (!leaving()) {
      const auto waited = co_await socket_.async_wait(Socket::wait_read, kAwait);
      (void)waited;  // After a cancelled wait too there may be input.
    }
    if (timed_out_ || !socket_.is_open()) co_return false;
    error_code error;
    const std::size_t room = std::min(buffer_.max_size() - buffer_.size(), kReadBytes);
    buffer_.commit(socket_.read_some(buffer_.prepare(room), error));
    if (!error) co_return true;
    if (error != asio::error::would_block && error != asio::error::try_again) co_return false;
    if (leaving()) co_return false;
  }
}

asio::awaitable<bool> Connection::read_request() {
  parser_.emplace();
  parser_->header_limit(static_cast<std::uint32_t>(params().header_bytes));
  parser_->body_limit(params().body_bytes);
  parser_->get().body().share = BodyShare(server_.bodies);
  set_deadline(params().idle_timeout);
  const bool has_head = co_await read_head();
  if (!has_head) co_return false;
  const bool has_body = co_await read_body();
  if (!has_body) co_return false;
  start_answer();
  co_return true;
}

/// Some clients send one behind a body.
void Connection::skip_empty_lines() {
  while (buffer_.size() > 0) {
    const char first = *static_cast<const char*>(buffer_.data().data());
    if (first != '\r' && first != '\n') return;
    buffer_.consume(1);
  }
}

asio::awaitable<bool> Connection::read_head() {
  parser_->eager(false);
  std::optional<Refusal> refusal;
  while (!refusal && !parser_->is_header_done()) {
    if (!busy_) skip_empty_lines();
    error_code error;
    if (buffer_.size() > 0) {
      if (!busy_) set_deadline(params().header_timeout);
      set_busy(true);
      buffer_.consume(parser_->put(buffer_.data(), error));
      if (!error) continue;
      if (error != http::error::need_more) {
        refusal = refusal_of(error, params());
        break;
      }
    }
    const bool came = co_await more();
    if (came) continue;
    if (!timed_out_ || !busy_) co_return false;
    refusal = Refusal{408, "the head of the request took too long"};
  }
  if (!refusal) {
    const std::string_view text(parser_->get().target().data(), parser_->get().target().size());
    std::optional<Target> target = parse_target(text);
    refusal = check_head(parser_->get(), target);
    if (!refusal) take_head(std::move(*target));
  }
  if (refusal) co_await refuse(std::move(*refusal));
  co_return !refusal;
}

asio::awaitable<bool> Connection::read_body() {
  parser_->eager(true);
  set_deadline(params().body_timeout);
  if (!parser_->is_done() && buffer_.size() == 0 && parser_->get().count(http::field::expect) > 0) {
    constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
    const auto written = co_await asio::async_write(socket_, asio::buffer(kContinue), kAwait);
    if (std::get<0>(written)) co_return false;
  }
  std::optional<Refusal> refusal;
  while (!parser_->is_done()) {
    error_code error;
    if (buffer_.size() > 0) {
      buffer_.consume(parser_->put(buffer_.data(), error));
      if (!error) continue;
      if (error != http::error::need_more) {
        refusal = refusal_of(error, params());
      } else if (buffer_.size() >= params().header_bytes) {
        refusal = Refusal{
            400, "malformed request: what frames a chunk has more than " + bytes_text(params().header_bytes)};
      }
    }
    if (refusal) break;
    const bool came = co_await more();
    if (came) continue;
    if (!timed_out_) co_return false;
    refusal = Refusal{408, "the body of the request took too long"};
    break;
  }
  if (refusal) co_await refuse(std::move(*refusal));
  co_return !refusal;
}

/// Answers what is no request; the connection ends with it.
asio::awaitable<void> Connection::refuse(Refusal refusal) {
  ++(refused_ ? server_.n_refused : server_.n_malformed);
  closing_ = true;
  set_deadline(kLinger);
  const HttpAnswer answer = server_.error_answer(refusal.status, refusal.reason);
  const std::string text = head_text({.status = answer.status,
                                      .content_type = answer.content_type,
                                      .length = answer.body.size(),
                                      .keep_alive = false}) +
                           answer.body;
  const auto written = co_await asio::async_write(socket_, asio::buffer(text), kAwait);
  (void)written;  // Who does not take it gets no other.
}

/// Behind the body the message holds the fields of its trailer too, which are no headers.
void Connection::take_head(Target target) {
  const auto& message = parser_->get();
  request_ = {.method = std::string(message.method_string()),
              .path = std::move(target.path),
              .query = std::move(target.query),
              .peer = peer_};
  for (const auto& field : message)
    request_.headers.emplace_back(std::string(field.name_string()), std::string(field.value()));
  terms_ = {.head_only = message.method() == http::verb::head,
            .old_client = message.version() < 11,
            .keep_alive = message.keep_alive(),
            .low_water = params().low_water,
            .high_water = params().high_water};
}

void Connection::start_answer() {
  HeldBody::value_type& body = parser_->get().body();
  request_.body = std::move(body.text);
  answer_ = std::make_shared<Answer>(std::move(request_), std::move(body.share), terms_, server_.mailbox);
  answer_->set_sender(this);
  parser_.reset();
  request_ = {};
  ++server_.n_requests;
  try {
    server_.handler(make_exchange(answer_));
  } catch (const std::exception&) {
    answer_->let_go();
  }
}

/// Reads on while the answer is under way: that is how a client that goes is noticed, whatever the answer
/// waits for.
asio::awaitable<void> Connection::watch_client() {
  while (answer_) {
    input_full_ = buffer_.size() >= params().header_bytes;
    const auto what = input_full_ || input_ended_ ? Socket::wait_error : Socket::wait_read;
    const auto waited = co_await socket_.async_wait(what, kAwait);
    if (!answer_) break;
    error_code error = std::get<0>(waited);
    if (error) continue;
    if (what == Socket::wait_error) {
      lost();
      break;
    }
    buffer_.commit(socket_.read_some(buffer_.prepare(params().header_bytes - buffer_.size()), error));
    if (!error || error == asio::error::would_block || error == asio::error::try_again) continue;
    if (error == asio::error::eof && answer_->ended()) {
      input_ended_ = true;
    } else {
      lost();
    }
  }
  input_full_ = false;
}

void Connection::flush() {
  if (writing_ || !answer_) return;
  try {
    send_written();
  } catch (const std::exception&) {
    lost();
  }
}

void Connection::send_written() {
  if (n_sent_ == sending_.size()) {
    sending_.clear();
    n_sent_ = 0;
    next_ = answer_->take(sending_);
    if (next_ == Answer::Next::kUnasked) {
      answer_->send(server_.error_answer(500, "the request was not answered"));
      next_ = answer_->take(sending_);
    }
  }
  if (!sending_.empty()) {
    write_some();
  } else if (next_ != Answer::Next::kMore) {
    finish_answer();
  }
}

void Connection::write_some() {
  writing_ = true;
  write_deadline_ = Clock::now() + params().write_timeout;
  socket_.async_write_some(asio::buffer(sending_) + n_sent_,
                           [self = shared_from_this()](const error_code& error, std::size_t size) {
                             self->on_written(error, size);
                           });
}

void Connection::on_written(const error_code& error, std::size_t size) {
  writing_ = false;
  if (!answer_) return;
  if (error) return lost();
  n_sent_ += size;
  answer_->sent(size);
  flush();
}

void Connection::finish_answer() {
  const auto answer = std::exchange(answer_, nullptr);
  answer->set_sender(nullptr);
  answer->finish();
  sending_ = {};
  n_sent_ = 0;
  set_busy(false);
  if (next_ == Answer::Next::kClose || input_ended_) closing_ = true;
  cancel();  // The reader looks whether there is an answer.
}

asio::awaitable<void> Connection::linger() {
  closing_ = true;
  set_busy(false);
  error_code error;
  socket_.shutdown(Socket::shutdown_send, error);
  set_deadline(kLinger);
  std::size_t left = params().body_bytes;
  while (!error && left > 0) {
    const auto waited = co_await socket_.async_wait(Socket::wait_read, kAwait);
    if (std::get<0>(waited) || timed_out_ || !socket_.is_open()) break;
    buffer_.clear();
    const std::size_t size = socket_.read_some(buffer_.prepare(kReadBytes), error);
    if (error == asio::error::would_block || error == asio::error::try_again) error = {};
    left -= std::min(left, size);
  }
}

Server::Server(HttpParams given, HttpServer::Handler handler_of_user)
    : params(std::move(given)),
      handler(std::move(handler_of_user)),
      listening(params.listening.empty() ? ListeningSockets(params.host, params.port)
                                         : ListeningSockets(params.listening)),
      mailbox(std::make_shared<Mailbox>([this] { asio::post(io, [this] { open_mail(); }); })),
      bodies(std::make_shared<BodyBudget>(params.all_bodies_bytes)) {
  raise_descriptor_limit();
  for (const int socket : listening.release()) {
    acceptors_.emplace_back(io, Protocol(family_of(socket), 0), socket);
    acceptors_.back().non_blocking(true);
    start_accepting(acceptors_.back());
  }
}

Server::~Server() {
  mailbox->close();
  shut_down();
  io.restart();
  io.poll();  // What was cancelled ends here, while there is a server.
}

void Server::start_accepting(Acceptor& acceptor) {
  asio::co_spawn(io, accept_from(acceptor), [this, &acceptor](std::exception_ptr error) {
    if (error && !mailbox->draining) start_accepting(acceptor);
  });
}

asio::awaitable<void> Server::accept_from(Acceptor& acceptor) {
  asio::steady_timer pause(io);
  while (acceptor.is_open() && !mailbox->draining) {
    Socket socket(io);
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
    Socket socket(io);
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
  // A machine that vanished without a word.
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT,
      static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(params.write_timeout).count()));
  ++n_accepted;
  const bool refused = n_open >= params.n_connections;
  if (stopped_ || n_open >= params.n_connections + kRefusedConnections) {
    ++n_refused;
    return;
  }
  error_code error;
  socket.non_blocking(true, error);
  const auto connection = std::make_shared<Connection>(*this, std::move(socket), refused);
  connections_.insert(connection);
  ++n_open;
  start_sweeping();
  asio::co_spawn(io, connection->serve(), [this, connection](std::exception_ptr) {
    connection->lost();
    connections_.erase(connection);
    --n_open;
    if (stopped_ && connections_.empty()) io.stop();
  });
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
  Mailbox::Mail mail = mailbox->take();
  for (const auto& answer : mail.answers) {
    AnswerSender* const sender = answer->sender();
    if (sender != nullptr) call_guarded([&] { sender->flush(); });
  }
  for (const auto& call : mail.calls) call_guarded(call);
}

void Server::drain() {
  if (mailbox->draining.exchange(true)) return;
  error_code ignored;
  for (Acceptor& acceptor : acceptors_) acceptor.cancel(ignored);
  for (const auto& connection : connections_) connection->wake_if_idle();
}

void Server::shut_down() {
  if (std::exchange(stopped_, true)) return;
  mailbox->draining = true;
  error_code ignored;
  for (Acceptor& acceptor : acceptors_) acceptor.close(ignored);
  sweep_timer_.cancel();
  for (const auto& connection : connections_) connection->lost();
  work_.reset();
  if (connections_.empty()) io.stop();
}

HttpAnswer Server::error_answer(int status, std::string_view reason) const {
  if (params.error_body) return {.status = status, .body = params.error_body(status, reason)};
  return {.status = status, .body = std::string(reason) + "\n", .content_type = "text/plain"};
}

}  // namespace

struct HttpServer::Impl : Server {
  using Server::Server;
};

HttpServer::HttpServer(HttpParams params, Handler handler)
    : impl_(std::make_unique<Impl>(std::move(params), std::move(handler))) {}
HttpServer::~HttpServer() = default;
std::uint16_t HttpServer::port() const { return impl_->listening.port(); }
std::string HttpServer::address() const { return impl_->listening.address(); }

void HttpServer::run() {
  for (;;) {
    try {
      impl_->io.run();
      return;
    } catch (const std::exception&) {
      // Memory was short in a callback; the connections_ that it concerns run into their deadlines.
    }
  }
}

void HttpServer::post(std::function<void()> call) {
  asio::post(impl_->io, [call = std::move(call)] { call_guarded(call); });
}

void HttpServer::after(std::chrono::milliseconds time, std::function<void()> call) {
  const auto timer = std::make_shared<asio::steady_timer>(impl_->io, time);
  asio::post(impl_->io, [timer, call = std::move(call)]() mutable {
    timer->async_wait([timer, call = std::move(call)](const error_code& error) {
      if (!error) call_guarded(call);
    });
  });
}

void HttpServer::stop_accepting() {
  asio::post(impl_->io, [server = impl_.get()] { server->drain(); });
}
void HttpServer::stop() {
  asio::post(impl_->io, [server = impl_.get()] { server->shut_down(); });
}

HttpCounts HttpServer::counts() const {
  return {.n_open = impl_->n_open,
          .n_busy = impl_->n_busy,
          .n_accepted = impl_->n_accepted,
          .n_requests = impl_->n_requests,
          .n_malformed = impl_->n_malformed,
          .n_refused = impl_->n_refused};
}

}  // namespace weft::server
