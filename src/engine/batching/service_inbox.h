#pragma once
// What the callers of a service and its thread exchange: new requests, calls between steps, published
// statistics, and the service's end.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "engine/batching/response_state.h"
#include "weft/batcher.h"

namespace weft::engine {

/// A request on its way to the service's thread.
struct Submission {
  std::shared_ptr<ResponseState> state;
  std::vector<Token> prompt;
  RequestParams params;
  bool is_checked = true;  ///< check_request was called.
};

/// Thread-safe. It shares the mutex of `wakeup` with the responses.
class ServiceInbox {
 public:
  /// `published` are the first statistics. The load of new requests is checked against `limits`.
  ServiceInbox(std::shared_ptr<Wakeup> wakeup, const BatcherLimits& limits, const BatcherStats& published)
      : wakeup_(std::move(wakeup)), limits_(limits), published_(published) {}

  // --- Any thread

  /// Adds a request and sets the id of its response. Throws OverloadedError if the queue is full, and Error
  /// kUnavailable after close(). Strong exception guarantee.
  void submit(Submission submission);
  /// The service's thread calls `f` between two steps. `f` must not throw. False after end(). A call may be
  /// destroyed without being called, if the service ends first.
  bool call(std::function<void()> f);
  BatcherStats stats() const;
  /// Refuses new requests, and waits at most this long until the open ones have ended. False if some have
  /// not.
  bool drain(std::chrono::milliseconds at_most);
  /// Refuses new requests and calls, and lets the service's thread end.
  void end();
  void wait_until_ended();

  // --- The service's thread

  /// What the thread has to do next.
  struct News {
    std::vector<Submission> submissions;
    std::vector<std::function<void()>> calls;
    bool attention = false;  ///< Responses have set flags.
  };
  /// Fills `news`, which must be empty. Waits until there are any, or until the deadline, unless there is
  /// `more` to compute. `idle`: no request is open. False after end(); `news` has the last submissions then.
  bool take(News& news, bool more, bool idle, std::optional<std::chrono::steady_clock::time_point> deadline);
  /// Publishes the queue's load, and all other statistics if they are given.
  void publish(const std::optional<BatcherStats>& stats, int n_waiting, std::int64_t n_waiting_tokens);
  /// The thread uses nothing of the service any more.
  void set_ended();

 private:
  enum class Phase : std::uint8_t { kOpen, kClosed, kEnding, kEnded };  // In this order.
  void enter(Phase phase) { phase_ = std::max(phase_, phase); }

  const std::shared_ptr<Wakeup> wakeup_;
  const BatcherLimits limits_;

  // Guarded by the mutex of wakeup_:
  std::vector<Submission> submissions_;
  std::vector<std::function<void()>> calls_;
  BatcherStats published_;
  std::int64_t n_new_ = 0, n_new_tokens_ = 0;  // Submitted since the last publication.
  std::int64_t n_rejected_ = 0;
  RequestId last_id_ = 0;
  Phase phase_ = Phase::kOpen;
  bool idle_ = true;
};

}  // namespace weft::engine
