#pragma once
// A response between the threads that write it and the connection that sends it. It knows no sockets. The
// connection takes the written bytes, and reports how many it sent or that the client has gone.
//
// Members say which side calls them: the writers' may be called by any thread, the connection's by the
// server's thread alone.
#include <atomic>
#include <memory>
#include <mutex>

#include "http/http_server.h"
#include "http/http_text.h"

namespace weft::server {

class ActiveResponse;

/// The queue of the server's thread: responses with bytes to send, and calls. The thread is woken once for
/// all entries since its last take().
class Mailbox {
 public:
  Mailbox(std::function<void()> wake, HttpHeaders headers_in)
      : headers(std::move(headers_in)), wake_(std::move(wake)) {}

  const HttpHeaders headers;  ///< Of every response.

  void add(std::shared_ptr<ActiveResponse> answer);
  void add(std::function<void()> call);
  struct Mail {
    std::vector<std::shared_ptr<ActiveResponse>> answers;
    std::vector<std::function<void()>> calls;
  };
  Mail take();
  /// The server ends: later entries are dropped.
  void close();

  std::atomic<bool> draining = false;  ///< A response that begins now is its connection's last.

 private:
  void wake();

  std::mutex mutex_;
  std::function<void()> wake_;  ///< Empty after close().
  Mail mail_;
  bool awake_ = false;
};

/// Bytes of request bodies in memory, of all connections together, and their limit.
struct BodyBudget {
  explicit BodyBudget(std::size_t bytes) : most(bytes) {}
  const std::size_t most;
  std::atomic<std::size_t> held = 0;
};
/// The share of one request.
class BodyShare {
 public:
  BodyShare() = default;
  explicit BodyShare(std::shared_ptr<BodyBudget> budget) : budget_(std::move(budget)) {}
  BodyShare(BodyShare&& other) noexcept
      : budget_(std::move(other.budget_)), held_(std::exchange(other.held_, 0)) {}
  BodyShare& operator=(BodyShare&& other) noexcept;
  ~BodyShare();

  /// False if the budget has fewer bytes left; nothing is taken then.
  bool grow(std::size_t bytes);

 private:
  std::shared_ptr<BodyBudget> budget_;
  std::size_t held_ = 0;
};

/// The facts about request and server that a response depends on.
struct ResponseTerms {
  bool head_only = false;   ///< HEAD
  bool old_client = false;  ///< HTTP/1.0: no chunks.
  bool keep_alive = true;   ///< As the client wishes.
  std::size_t low_water = 0;
  std::size_t high_water = 0;
  HttpHeaders headers = {};  ///< HttpParams::headers_for.
};

/// The connection, as its response sees it.
class ResponseSender {
 public:
  virtual ~ResponseSender() = default;
  /// The response has more to send, or has ended.
  virtual void flush() = 0;
};

class ActiveResponse : public std::enable_shared_from_this<ActiveResponse> {
 public:
  ActiveResponse(HttpRequest request, BodyShare body, ResponseTerms terms, std::shared_ptr<Mailbox> mailbox);

  // The writers' side, as Exchange has it.
  const HttpRequest& request() const { return request_; }
  void send(HttpResponse answer);
  void begin(int status, std::string_view content_type, const HttpHeaders& headers);
  void write(std::string_view piece);
  void end();
  void abort();
  /// The last reference to the exchange is gone. Without a response the client gets a 500; a response in
  /// progress is aborted.
  void let_go();
  std::size_t n_unsent() const { return n_unsent_.load(); }
  std::size_t n_written() const { return n_written_.load(); }
  bool closed() const { return closed_.load(); }
  void on_closed(std::function<void()> call);
  void on_drained(std::function<void()> call);

  // The connection's side.
  /// The connection that sends it; nullptr once all bytes are sent, or the client has gone.
  ResponseSender* sender() const { return sender_; }
  void set_sender(ResponseSender* sender) { sender_ = sender; }
  enum class Next {
    kMore,     ///< The response continues.
    kEnd,      ///< These bytes are its end.
    kClose,    ///< The same, and the connection ends with it.
    kUnasked,  ///< let_go() came first: send() a response.
  };
  /// Puts the bytes written since the last call into `bytes`, which is empty.
  Next take(std::string& bytes);
  /// This number of bytes has been sent. Calls on_drained if that is due.
  void sent(std::size_t bytes);
  /// end() or send() was called.
  bool ended() const;
  /// Sends bytes without a meaning, so that the system finds out whether the client still listens. False if
  /// the protocol has no such bytes at this point.
  bool probe();
  /// The client has gone. Calls on_closed unless the response has ended.
  void gone();
  /// All has been sent.
  void finish();

 private:
  enum class Phase { kNew, kStreaming, kEnded, kAborted, kLetGo };

  /// These hold the lock.
  void add_head(int status, std::string_view content_type, const HttpHeaders& headers, Framing framing,
                std::size_t length);
  void add_bytes(std::string_view bytes);
  void announce();

  const HttpRequest request_;
  const BodyShare body_;
  const ResponseTerms terms_;
  const std::shared_ptr<Mailbox> mailbox_;

  mutable std::mutex mutex_;
  Phase phase_ = Phase::kNew;
  Framing framing_ = Framing::kLength;
  bool keep_alive_ = true;
  bool announced_ = false;  ///< In the mailbox, and not yet taken.
  bool high_ = false;       ///< Above high_water since it was last below low_water.
  std::string bytes_;       ///< Written, and not yet taken.
  std::function<void()> on_closed_, on_drained_;
  std::atomic<std::size_t> n_unsent_ = 0, n_written_ = 0;
  std::atomic<bool> closed_ = false;
  ResponseSender* sender_ = nullptr;
};

/// Runs a callback and drops its exceptions: they must not reach connections of other clients.
void call_guarded(const std::function<void()>& call);

/// The Exchange that a handler holds.
std::shared_ptr<Exchange> make_exchange(std::shared_ptr<ActiveResponse> answer);

}  // namespace weft::server
