#pragma once
// What a response and its service share. The response's thread takes outputs and sets flags; the service's
// thread adds output and handles the flags. Readers that resume or leave only set flags, so they need no
// memory.
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/batcher.h"
#include "weft/service.h"

namespace weft::engine {

/// Practically infinite, and representable in every clock.
inline constexpr std::chrono::milliseconds kForever = std::chrono::hours(24 * 365);

/// Wakes the service's thread. Shared by responses and their service; it lives as long as either.
struct Wakeup {
  std::mutex mutex;
  std::condition_variable changed;
  bool attention = false;  ///< A response has set flags. Guarded by the mutex.

  void call();
};

/// The function that an event loop wants to be called at new output. Thread-safe.
class Waker {
 public:
  /// Replaces the function; null: none. Calls the new one if `is_due()` is true. After the return the
  /// earlier function is not called any more.
  template <typename F>
  void set(std::function<void()> wake, F is_due) {
    const std::lock_guard lock(mutex_);
    wake_ = std::move(wake);
    if (wake_ && is_due()) wake_();
  }
  /// Calls the function, if there is one. What it throws is ignored: it must not affect other requests.
  void call() noexcept;

 private:
  std::mutex mutex_;  // Held while wake_ is called.
  std::function<void()> wake_;
};

/// Thread-safe, except for the functions of the service's thread, which only that thread calls.
class ResponseState {
 public:
  /// `n` completions. A completion pauses while `n_unread` of its tokens are unread.
  ResponseState(int n, int n_unread, std::shared_ptr<Wakeup> service);

  // --- Before any other thread has it

  RequestId id() const { return id_; }
  void set_id(RequestId id);

  // --- The response

  /// Takes an output, after waiting for it if `at_most` is positive.
  Response::Poll poll(Output& output, std::chrono::milliseconds at_most);
  void cancel();
  void on_ready(std::function<void()> wake);

  // --- The service's thread

  /// The request has this id in the batcher.
  void set_in_batcher(RequestId id) { in_batcher_ = id; }
  RequestId in_batcher() const { return in_batcher_; }
  /// Adds output. A completion's end is not visible before show_ends(). False if the reader is gone, or if
  /// memory ran out for the only completion.
  bool add(const Output& output);
  /// Pauses the completion if it is full.
  void pause_if_full(int completion, Batcher& batcher);
  /// Called after the ends are in the service's statistics.
  void show_ends();
  /// Ends completions that never reached the batcher.
  void end_all(StopReason stop, std::string_view why) noexcept;
  /// Handles the flags: cancels the request, or resumes completions that have room again.
  void handle_flags(Batcher& batcher);
  /// Whether all completions have ended.
  bool is_over() const;

 private:
  /// The output of a completion that was not taken yet.
  struct Part {
    Output unread;
    bool is_news = false;
    bool is_held = false;  // Its end is not visible yet.
    bool lost = false;     // An allocation failed, so output is missing.
    bool paused = false;   // Whether the service's thread has paused it; only that thread uses it.
    bool taken_to_end = false;
  };

  // These require the mutex:
  /// Appends output to a completion's unread output. False if memory ran out.
  static bool append(Output& unread, const Output& output);
  /// The completion has unread output.
  void note(Part& part);
  /// Takes the oldest output. False if there is none.
  bool take(Output& output);
  bool at_end() const { return n_taken_to_end_ == parts_.size(); }
  bool has_news() const { return !news_.empty() || at_end(); }
  bool is_full(const Output& output) const;

  /// Wakes the reader. Must not hold the mutex.
  void tell();

  RequestId id_ = 0;
  const int n_unread_;
  const std::shared_ptr<Wakeup> service_;
  RequestId in_batcher_ = 0;  // Used by the service's thread.

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Part> parts_;
  std::vector<int> news_;  // Completions with unread output, oldest first.
  std::size_t n_taken_to_end_ = 0;
  bool wants_cancel_ = false;
  bool has_room_again_ = false;  // A full completion was read.

  Waker waker_;
};

}  // namespace weft::engine

namespace weft {

struct Response::State final : engine::ResponseState {
  using ResponseState::ResponseState;
};

}  // namespace weft
