#include "http/connection.h"

#include <poll.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "http/listening.h"

namespace weft::server {
namespace {

constexpr std::size_t kReadBytes = 64 << 10;
/// Bytes of a body that a sink gets at once, at least.
constexpr std::size_t kPieceBytes = 256 << 10;
/// How long the server reads from a connection that it ends. Unread bytes would reset the connection, and the
/// client would lose the response.
constexpr auto kLinger = std::chrono::seconds(2);
/// Bytes of one write. Other connections have their turn between writes.
constexpr std::size_t kWriteBytes = 256 << 10;

/// Not an error: the operation continues once the socket is ready.
bool must_wait(const error_code& error) {
  return error == asio::error::would_block || error == asio::error::try_again;
}

}  // namespace

HttpResponse Shared::error_response(int status, std::string_view reason) const {
  if (params.error_body) return {.status = status, .body = params.error_body(status, reason)};
  return {.status = status, .body = std::string(reason) + "\n", .content_type = "text/plain"};
}

Connection::Connection(Shared& shared, Socket socket, std::string refusal)
    : shared_(shared),
      channel_(std::move(socket), shared.params.tls.get()),
      refusal_(std::move(refusal)),
      peer_(peer_name(channel_.socket().native_handle())),
      peer_address_(peer_address(channel_.socket().native_handle())),
      buffer_(shared.params.header_bytes + kReadBytes),
      piece_taken_(channel_.socket().get_executor()) {}

asio::awaitable<void> Connection::serve() {
  if (channel_.is_secure()) {
    const bool secure = co_await shake_hands();
    if (!secure) closing_ = true;
  }
  if (!closing_ && !refusal_.empty()) {
    Refusal refusal{503, refusal_};
    co_await refuse(std::move(refusal));
  }
  while (!closing_) {
    const bool read = co_await read_request();
    if (!read) break;
    co_await watch_client();
  }
  co_await linger();
}

asio::awaitable<bool> Connection::shake_hands() {
  set_deadline(refusal_.empty() ? params().first_timeout : kLinger);
  for (;;) {
    std::string reason;
    const Channel::Handshake state = channel_.handshake(reason);
    if (state == Channel::Handshake::kDone) co_return true;
    if (state == Channel::Handshake::kPlain) {
      Refusal refusal{400, "this port speaks TLS: use https:// instead of http://"};
      co_await refuse(std::move(refusal));
      co_return false;
    }
    if (state == Channel::Handshake::kFailed) {
      if (!reason.empty()) note_refusal({400, "the TLS handshake failed: " + reason});
      co_return false;
    }
    if (leaving()) co_return false;
    const auto side = state == Channel::Handshake::kReads ? Socket::wait_read : Socket::wait_write;
    const auto waited = co_await channel_.socket().async_wait(side, kAwait);
    (void)waited;
    if (timed_out_ || !channel_.socket().is_open()) co_return false;
  }
}

void Connection::cancel() {
  error_code ignored;
  channel_.socket().cancel(ignored);
  piece_taken_.cancel();
}

void Connection::wake_if_idle() {
  if (!busy_ && !response_ && !closing_) cancel();
}

void Connection::set_deadline(Clock::duration time) {
  deadline_ = Clock::now() + time;
  timed_out_ = false;
}

void Connection::set_busy(bool busy) {
  if (busy != busy_) shared_.n_busy += busy ? 1 : -1;
  busy_ = busy;
}

void Connection::lost() {
  const auto answer = std::exchange(response_, nullptr);
  set_busy(false);
  closing_ = true;
  channel_.close();
  piece_taken_.cancel();
  if (!answer) return;
  answer->set_sender(nullptr);
  answer->gone();
}

void Connection::sweep(Clock::time_point now) {
  if (response_) {
    pollfd end{channel_.socket().native_handle(), POLLRDHUP, 0};
    if (writing_ && now > write_deadline_) {
      lost();
    } else if (input_full_ && ::poll(&end, 1, 0) > 0) {
      end_input();
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
    if (!leaving() && !channel_.has_read()) {
      const auto waited = co_await channel_.socket().async_wait(channel_.read_wait(), kAwait);
      (void)waited;  // After a cancelled wait too there may be input.
    }
    if (timed_out_ || !channel_.socket().is_open()) co_return false;
    error_code error;
    const std::size_t room = std::min(buffer_.max_size() - buffer_.size(), kReadBytes);
    buffer_.commit(channel_.read_some(buffer_.prepare(room), error));
    if (!error) co_return true;
    if (!must_wait(error)) co_return false;
    if (leaving()) co_return false;
  }
}

asio::awaitable<bool> Connection::read_request() {
  parser_.emplace();
  parser_->header_limit(static_cast<std::uint32_t>(params().header_bytes));
  parser_->body_limit(boost::none);  // limit_body() sets it.
  parser_->get().body().share = BodyShare(shared_.bodies);
  set_deadline(is_first_ ? params().first_timeout : params().idle_timeout);
  const bool has_head = co_await read_head();
  if (!has_head) co_return false;
  const bool has_body = co_await read_body();
  if (!has_body) co_return false;
  start_response();
  co_return true;
}

/// Some clients send an empty line after a body.
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
        refusal = refusal_of(error, params(), params().body_bytes);
        break;
      }
    }
    const bool came = co_await more();
    if (came) continue;
    if (!timed_out_ || !busy_) co_return false;
    refusal = Refusal{408, "the request headers took too long"};
  }
  const std::string_view text(parser_->get().target().data(), parser_->get().target().size());
  std::optional<Target> target = parse_target(text);
  if (!refusal) refusal = check_head(parser_->get(), target);
  if (target) note_head(std::move(*target));
  if (!refusal) {
    take_head();
    refusal = limit_body();
  }
  if (refusal) co_await refuse(std::move(*refusal));
  co_return !refusal;
}

asio::awaitable<bool> Connection::read_body() {
  parser_->eager(true);
  set_deadline(params().body_timeout);
  if (!parser_->is_done() && buffer_.size() == 0 && parser_->get().count(http::field::expect) > 0) {
    constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
    const bool written = co_await write_all(kContinue);
    if (!written) co_return false;
  }
  std::optional<Refusal> refusal;
  while (!parser_->is_done()) {
    error_code error;
    if (request_.sink && parser_->get().body().text.size() >= kPieceBytes) {
      const bool passed = co_await pass_piece();
      if (!passed) co_return false;
    }
    if (buffer_.size() > 0) {
      buffer_.consume(parser_->put(buffer_.data(), error));
      if (!error) continue;
      if (error != http::error::need_more) {
        refusal = refusal_of(error, params(), body_bytes_);
      } else if (buffer_.size() >= params().header_bytes) {
        refusal = Refusal{400, "malformed request: the line before a chunk is too long"};
      }
    }
    if (refusal) break;
    const bool came = co_await more();
    if (came) continue;
    if (!timed_out_) co_return false;
    refusal = Refusal{408, "the request body took too long"};
    break;
  }
  if (refusal) {
    co_await refuse(std::move(*refusal));
    co_return false;
  }
  const bool passed = co_await pass_piece();
  co_return passed;
}

/// Finds the body's sink and its limit.
std::optional<Refusal> Connection::limit_body() {
  if (params().body_sink) call_guarded([&] { request_.sink = params().body_sink(request_); });
  body_bytes_ = request_.sink ? request_.sink->max_bytes() : params().body_bytes;
  parser_->body_limit(body_bytes_);
  const auto length = parser_->content_length();
  if (length && *length > body_bytes_) return body_too_large(body_bytes_);
  return std::nullopt;
}

/// Passes the bytes that were read to the body's sink, if it has one, and waits until it has taken them.
/// False if the server ends.
asio::awaitable<bool> Connection::pass_piece() {
  HeldBody::value_type& body = parser_->get().body();
  if (request_.sink == nullptr || body.text.empty()) co_return true;
  waits_for_sink_ = true;
  deadline_ = Clock::time_point::max();  // The client does not wait for itself.
  request_.sink->put(std::exchange(body.text, {}), [weak = weak_from_this(), mailbox = shared_.mailbox] {
    mailbox->add([weak] {
      if (const auto self = weak.lock()) self->take_up_reading();
    });
  });
  while (waits_for_sink_ && channel_.socket().is_open()) {
    piece_taken_.expires_at(Clock::time_point::max());
    const auto waited = co_await piece_taken_.async_wait(kAwait);
    (void)waited;
  }
  body.share = BodyShare(shared_.bodies);
  set_deadline(params().body_timeout);
  co_return channel_.socket().is_open();
}

void Connection::take_up_reading() {
  waits_for_sink_ = false;
  piece_taken_.cancel();
}

/// False where the client does not take it.
asio::awaitable<bool> Connection::write_all(std::string_view text) {
  while (!text.empty()) {
    error_code error;
    text.remove_prefix(channel_.write_some(asio::buffer(text), error));
    if (!error) continue;
    if (!must_wait(error)) co_return false;
    const auto waited = co_await channel_.socket().async_wait(channel_.write_wait(), kAwait);
    if (std::get<0>(waited)) co_return false;
  }
  co_return true;
}

/// Responds to a malformed or refused request, and ends the connection.
asio::awaitable<void> Connection::refuse(Refusal refusal) {
  closing_ = true;
  set_deadline(kLinger);
  note_refusal(refusal);
  const HttpResponse answer = shared_.error_response(refusal.status, refusal.reason);
  HttpHeaders own;
  if (params().headers_for) call_guarded([&] { own = params().headers_for(request_); });
  const std::string text = head_text({.status = answer.status,
                                      .content_type = answer.content_type,
                                      .common = &shared_.params.headers,
                                      .own = &own,
                                      .length = answer.body.size(),
                                      .keep_alive = false}) +
                           answer.body;
  co_await write_all(text);
}

void Connection::note_refusal(const Refusal& refusal) {
  ++(refusal_.empty() ? shared_.n_malformed : shared_.n_refused);
  request_.peer = peer_;
  if (params().on_refused)
    call_guarded([&] { params().on_refused({request_, refusal.status, refusal.reason}); });
}

/// Refused requests are logged with these fields, too.
void Connection::note_head(Target target) {
  std::string path = std::move(target.path);
  const std::string& prefix = params().prefix;
  redirects_ = !prefix.empty() && path == prefix;
  if (!prefix.empty() && path.starts_with(prefix) && path[prefix.size()] == '/') path.erase(0, prefix.size());
  request_ = {.method = std::string(parser_->get().method_string()),
              .path = std::move(path),
              .query = std::move(target.query),
              .peer = peer_,
              .address = {},
              .client = {},
              .scheme = channel_.is_secure() ? "https" : "http"};
  for (const auto& field : parser_->get())
    request_.headers.emplace_back(std::string(field.name_string()), std::string(field.value()));
  const Forwarded forwarded = read_forwarded(request_.headers, peer_address_, params().trusted_proxies);
  if (!forwarded.scheme.empty()) request_.scheme = forwarded.scheme;
  if (!forwarded.client) return;
  request_.address = forwarded.client->text();
  request_.client = forwarded.client->client();
}

/// Called before the body is read: later the message also holds the fields of its trailer, which are not
/// headers.
void Connection::take_head() {
  const auto& message = parser_->get();
  terms_ = {.head_only = message.method() == http::verb::head,
            .old_client = message.version() < 11,
            .keep_alive = message.keep_alive(),
            .low_water = params().low_water,
            .high_water = params().high_water};
  if (params().headers_for) terms_.headers = params().headers_for(request_);
}

void Connection::start_response() {
  HeldBody::value_type& body = parser_->get().body();
  request_.body = std::move(body.text);
  response_ =
      std::make_shared<ActiveResponse>(std::move(request_), std::move(body.share), terms_, shared_.mailbox);
  response_->set_sender(this);
  parser_.reset();
  request_ = {};
  ++shared_.n_requests;
  is_first_ = false;
  // Links of the page are relative to the prefix with its slash.
  if (redirects_) return response_->send({.status = 308, .headers = {{"Location", params().prefix + "/"}}});
  try {
    shared_.handler(make_exchange(response_));
  } catch (const std::exception&) {
    response_->let_go();
  }
}

/// The client has closed its side. Whether it still listens is known once something has been sent.
void Connection::end_input() {
  if (std::exchange(input_ended_, true)) return;
  if (!response_->ended() && !response_->probe()) lost();
}

/// Reads while the response is under way, to notice that the client goes, even if the response waits.
asio::awaitable<void> Connection::watch_client() {
  input_ended_ = false;
  while (response_) {
    input_full_ = buffer_.size() >= params().header_bytes;
    const auto what = input_full_ || input_ended_ ? Socket::wait_error : channel_.read_wait();
    error_code error;
    if (what == Socket::wait_error || !channel_.has_read()) {
      const auto waited = co_await channel_.socket().async_wait(what, kAwait);
      error = std::get<0>(waited);
    }
    if (!response_) break;
    if (error) continue;
    if (what == Socket::wait_error) {
      lost();
      break;
    }
    buffer_.commit(channel_.read_some(buffer_.prepare(params().header_bytes - buffer_.size()), error));
    if (!error || must_wait(error)) continue;
    if (error == asio::error::eof) {
      end_input();
    } else {
      lost();
    }
  }
  input_full_ = false;
}

void Connection::flush() {
  try {
    while (response_ && !writing_ && send_written()) {
    }
  } catch (const std::exception&) {
    lost();
  }
}

/// False where there is nothing to send at the moment.
bool Connection::send_written() {
  if (n_sent_ == sending_.size()) {
    sending_.clear();
    n_sent_ = 0;
    next_ = response_->take(sending_);
    if (next_ == ActiveResponse::Next::kUnasked) {
      response_->send(shared_.error_response(500, "the server failed to respond"));
      next_ = response_->take(sending_);
    }
  }
  if (!sending_.empty()) {
    write_some();
    return true;
  }
  if (next_ != ActiveResponse::Next::kMore) finish_response();
  return false;
}

void Connection::write_some() {
  error_code error;
  const std::size_t size =
      channel_.write_some(asio::buffer(asio::buffer(sending_) + n_sent_, kWriteBytes), error);
  if (error && !must_wait(error)) return lost();
  n_sent_ += size;
  if (size > 0) response_->sent(size);
  if (n_sent_ == sending_.size()) return;
  writing_ = true;
  write_deadline_ = Clock::now() + params().write_timeout;
  channel_.socket().async_wait(channel_.write_wait(), [self = shared_from_this()](const error_code& failed) {
    self->writing_ = false;
    if (failed && self->response_) self->lost();
    self->flush();
  });
}

void Connection::finish_response() {
  const auto answer = std::exchange(response_, nullptr);
  answer->set_sender(nullptr);
  answer->finish();
  sending_ = {};
  n_sent_ = 0;
  set_busy(false);
  if (next_ == ActiveResponse::Next::kClose) closing_ = true;
  cancel();  // Wakes the reader, which then sees that the response is done.
}

asio::awaitable<void> Connection::linger() {
  closing_ = true;
  set_busy(false);
  error_code error;
  channel_.end_writing();
  set_deadline(kLinger);
  std::size_t left = params().body_bytes;
  while (!error && left > 0) {
    const auto waited = co_await channel_.socket().async_wait(Socket::wait_read, kAwait);
    if (std::get<0>(waited) || timed_out_ || !channel_.socket().is_open()) break;
    buffer_.clear();
    const std::size_t size = channel_.socket().read_some(buffer_.prepare(kReadBytes), error);
    if (must_wait(error)) error = {};
    left -= std::min(left, size);
  }
}

}  // namespace weft::server
