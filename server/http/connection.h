#pragma once
// One client of the server. Boost: for the server's own files.
#include <atomic>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "http/active_response.h"
#include "http/channel.h"
#include "http/request_parser.h"

namespace weft::server {

using Clock = std::chrono::steady_clock;

/// An operation gives its error as a value. Results of co_await get a name first: GCC 12 frees captures twice
/// in lambdas within co_await, and later versions forget destructors of values bound there.
inline constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);

/// The state that all connections of a server share. It outlives them.
struct Shared {
  const HttpParams params;
  const HttpServer::Handler handler;
  const std::shared_ptr<Mailbox> mailbox;
  const std::shared_ptr<BodyBudget> bodies;
  std::atomic<int> n_open = 0, n_busy = 0;
  std::atomic<std::int64_t> n_accepted = 0, n_requests = 0, n_malformed = 0, n_refused = 0;

  HttpResponse error_response(int status, std::string_view reason) const;
};

/// One client. A coroutine (serve) reads requests. While a response is under way, it watches whether the
/// client is still there. Calls (flush) write responses as their bytes come.
class Connection final : public std::enable_shared_from_this<Connection>, public ResponseSender {
 public:
  /// With a `refusal` the connection sends it with status 503 and closes.
  Connection(Shared& shared, Socket socket, std::string refusal);

  asio::awaitable<void> serve();
  void flush() override;
  void sweep(Clock::time_point now);
  /// The server drains: a connection without a request stops waiting for one.
  void wake_if_idle();
  /// The client has gone, or must go.
  void lost();

 private:
  const HttpParams& params() const { return shared_.params; }
  void cancel();
  void set_deadline(Clock::duration time);
  void set_busy(bool busy);
  bool leaving() const { return shared_.mailbox->draining.load() && !busy_; }

  asio::awaitable<bool> shake_hands();
  asio::awaitable<bool> more();
  asio::awaitable<bool> read_request();
  asio::awaitable<bool> read_head();
  asio::awaitable<bool> read_body();
  std::optional<Refusal> limit_body();
  asio::awaitable<bool> pass_piece();
  void take_up_reading();
  asio::awaitable<bool> write_all(std::string_view text);
  asio::awaitable<void> refuse(Refusal refusal);
  asio::awaitable<void> watch_client();
  asio::awaitable<void> linger();
  void skip_empty_lines();
  void note_head(Target target);
  void note_refusal(const Refusal& refusal);
  void end_input();
  void take_head();
  void start_response();
  bool send_written();
  void write_some();
  void finish_response();

  Shared& shared_;
  Channel channel_;
  const std::string refusal_;
  const std::string peer_;
  const std::optional<Address> peer_address_;
  boost::beast::flat_buffer buffer_;
  std::optional<Parser> parser_;
  std::uint64_t body_bytes_ = 0;    ///< The limit of the request's body.
  bool waits_for_sink_ = false;     ///< The sink has not taken the last piece.
  asio::steady_timer piece_taken_;  ///< Never expires: it is cancelled to wake the reader.
  HttpRequest request_;
  ResponseTerms terms_;
  std::shared_ptr<ActiveResponse> response_;  ///< Under way.
  ActiveResponse::Next next_ = ActiveResponse::Next::kMore;
  std::string sending_;
  std::size_t n_sent_ = 0;  ///< Of sending_.
  bool is_first_ = true;    ///< No request has come yet.
  bool redirects_ = false;  ///< The path is the prefix without its slash.
  bool busy_ = false, writing_ = false, closing_ = false, timed_out_ = false;
  bool input_ended_ = false;  ///< The client has closed its side while a response is under way.
  bool input_full_ = false;   ///< Nothing is read before the response has ended.
  Clock::time_point deadline_ = Clock::time_point::max();        ///< For reading, without a response.
  Clock::time_point write_deadline_ = Clock::time_point::max();  ///< For writing a response.
};

}  // namespace weft::server
