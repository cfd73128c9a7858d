// Threads share data at two places only. The service's mutex guards incoming requests and published
// statistics. Each response's mutex guards output that was not taken yet. Readers that resume or leave only
// set flags, so they need no memory.
#include "weft/service.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <future>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>

#include "engine/batching/batcher_impl.h"
#include "engine/batching/limits.h"
#include "engine/refuse.h"

namespace weft {
namespace {

/// Practically infinite, and representable in every clock.
constexpr std::chrono::milliseconds kLong = std::chrono::hours(24 * 365);
/// Maximum age of published statistics.
constexpr std::chrono::milliseconds kStatsAge{20};

}  // namespace

/// Shared by responses and their service; it lives as long as either.
struct Wakeup {
  std::mutex mutex;
  std::condition_variable changed;
  bool attention = false;  ///< A response has set flags.

  void call() {
    {
      const std::lock_guard lock(mutex);
      attention = true;
    }
    changed.notify_all();
  }
};

struct Response::State {
  State(RequestId id_in, int n, int n_unread_in, std::shared_ptr<Wakeup> service_in)
      : id(id_in),
        n_unread_max(n_unread_in),
        service(std::move(service_in)),
        parts(static_cast<std::size_t>(n)) {
    for (int i = 0; i < n; ++i) parts[static_cast<std::size_t>(i)].chunk.completion = i;
    news.reserve(parts.size());
  }

  /// The next chunk of a completion.
  struct Part {
    Chunk chunk;
    bool is_news = false;
    bool is_held = false;  // Its end is not visible yet.
    bool lost = false;     // An allocation failed, so output is missing.
    bool paused = false;   // Whether the service's thread has paused it; only that thread uses it.
    bool taken_to_end = false;
  };

  /// Called by the service's thread. False if the reader is gone.
  bool add(const Output& output) {
    bool wants_more = true;
    {
      const std::lock_guard lock(mutex);
      Part& part = parts[static_cast<std::size_t>(output.completion)];
      Chunk& chunk = part.chunk;
      if (!part.lost) {
        try {
          chunk.text += output.text;
          chunk.tokens.insert(chunk.tokens.end(), output.tokens.begin(), output.tokens.end());
          chunk.prompt.insert(chunk.prompt.end(), output.prompt.begin(), output.prompt.end());
          chunk.embedding.assign(output.embedding.begin(), output.embedding.end());
          chunk.error = output.error;
          chunk.not_numbers = output.not_numbers;
        } catch (const std::bad_alloc&) {
          part.lost = true;
          if (!output.done && parts.size() == 1) return false;  // The request's other completions continue.
        }
      }
      if (output.done) {
        chunk.done = true;
        chunk.stop = part.lost ? StopReason::kError : output.stop;
        chunk.stop_string = part.lost ? -1 : output.stop_string;
        chunk.stats = output.stats;
        part.is_held = true;
        part.is_news = false;
        std::erase(news, output.completion);
        return true;
      }
      note(part);
      wants_more = !wants_cancel;
    }
    tell();
    return wants_more;
  }

  /// Called by the service's thread after the ends are in its statistics.
  void show_ends() {
    bool any = false;
    {
      const std::lock_guard lock(mutex);
      for (Part& part : parts) {
        if (!std::exchange(part.is_held, false)) continue;
        note(part);
        any = true;
      }
    }
    if (any) tell();
  }

  /// Ends completions that never reached the batcher.
  void end_all(StopReason stop, std::string_view why) noexcept {
    {
      const std::lock_guard lock(mutex);
      for (Part& part : parts) {
        part.chunk.done = true;
        part.chunk.stop = stop;
        try {
          part.chunk.error = why;
        } catch (const std::bad_alloc&) {  // The message is lost, not the error.
        }
        note(part);
      }
    }
    tell();
  }

  void note(Part& part) {
    if (std::exchange(part.is_news, true)) return;
    news.push_back(part.chunk.completion);
  }

  void tell() {
    changed.notify_all();
    const std::lock_guard lock(wake_mutex);
    try {
      if (wake) wake();
    } catch (...) {  // A throwing waker must not affect other requests.
    }
  }

  /// Requires the mutex. True if there was a chunk.
  bool take(Chunk& chunk) {
    if (news.empty()) return false;
    Part& part = parts[static_cast<std::size_t>(news.front())];
    news.erase(news.begin());
    part.is_news = false;
    part.taken_to_end = part.chunk.done;
    n_taken_to_end += part.taken_to_end ? 1 : 0;
    chunk = std::exchange(part.chunk, Chunk{.completion = part.chunk.completion});
    return true;
  }

  bool at_end() const { return n_taken_to_end == parts.size(); }
  bool is_full(const Chunk& chunk) const {
    return static_cast<int>(chunk.tokens.size() + chunk.prompt.size()) >= n_unread_max && !chunk.done;
  }

  RequestId id;
  const int n_unread_max;
  const std::shared_ptr<Wakeup> service;
  RequestId in_batcher = 0;  // Used by the service's thread.

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Part> parts;
  std::vector<int> news;  // Completions with a chunk, oldest first.
  std::size_t n_taken_to_end = 0;
  bool wants_cancel = false;
  bool has_room_again = false;  // A full completion was read.

  std::mutex wake_mutex;  // Held while wake is called.
  std::function<void()> wake;
};

Response::Response() = default;
Response::Response(std::shared_ptr<State> state) : state_(std::move(state)) {}
Response::Response(Response&&) noexcept = default;
Response& Response::operator=(Response&& other) noexcept {
  if (this == &other) return *this;
  const Response gone(std::move(*this));
  state_ = std::move(other.state_);
  return *this;
}
Response::~Response() {
  if (!state_) return;
  on_ready(nullptr);
  cancel();
}

RequestId Response::id() const { return state_ ? state_->id : 0; }

Response::Poll Response::poll(Chunk& chunk, std::chrono::milliseconds at_most) {
  if (!state_) return Poll::kEnd;
  bool was_full = false;
  Poll result = Poll::kChunk;
  {
    std::unique_lock lock(state_->mutex);
    const auto ready = [&] { return !state_->news.empty() || state_->at_end(); };
    if (at_most > kLong) {
      state_->changed.wait(lock, ready);
    } else if (at_most.count() > 0) {
      state_->changed.wait_for(lock, at_most, ready);
    }
    if (!state_->take(chunk)) {
      result = state_->at_end() ? Poll::kEnd : Poll::kNothingYet;
    } else if (state_->is_full(chunk)) {
      was_full = state_->has_room_again = true;
    }
  }
  if (was_full) state_->service->call();
  return result;
}

bool Response::next(Chunk& chunk) { return poll(chunk, std::chrono::milliseconds::max()) == Poll::kChunk; }

void Response::cancel() {
  if (!state_) return;
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->at_end() || std::exchange(state_->wants_cancel, true)) return;
  }
  state_->service->call();
}

void Response::on_ready(std::function<void()> wake) {
  if (!state_) return;
  const std::lock_guard lock(state_->wake_mutex);
  state_->wake = std::move(wake);
  if (!state_->wake) return;
  bool has_news = false;  // Later output calls `wake`.
  {
    const std::lock_guard news_lock(state_->mutex);
    has_news = !state_->news.empty() || state_->at_end();
  }
  if (has_news) state_->wake();
}

// --- The service

struct Service::Impl {
  using StatePtr = std::shared_ptr<Response::State>;
  struct Submission {
    StatePtr state;
    std::vector<Token> prompt;
    RequestParams params;
    bool is_checked = true;
  };

  Impl(Context context_in, const ServiceParams& params_in)
      : model(context_in.model()),
        context(std::move(context_in)),
        limits(params_in.batcher.limits),
        n_unread(params_in.n_unread),
        batcher(context, params_in.batcher) {
    if (n_unread < 1) engine::refuse("n_unread must be at least 1");
    batcher.impl_->recovery.set_devices_lost(params_in.devices_lost);
    published = batcher.stats();
    try {
      thread = std::thread([this] { run(); });
    } catch (const std::system_error& error) {
      throw Error(ErrorCode::kOutOfMemory, std::string("the thread of the service cannot be started: ") +
                                               error.what() + "; raise the limit of threads of the process");
    }
  }

  ~Impl() {
    shutdown();
    thread.join();
  }

  // Called by any thread:

  Response submit(std::vector<Token> prompt, RequestParams p) {
    if (p.on_output) engine::refuse("requests of a service must not set on_output; read the response");
    const bool is_checked = check(prompt, p);
    auto state = std::make_shared<Response::State>(0, p.n, n_unread, wakeup);
    Submission submission{nullptr, std::move(prompt), std::move(p), is_checked};
    {
      const std::lock_guard lock(wakeup->mutex);
      if (closed)
        throw Error(ErrorCode::kUnavailable, "the service is shutting down and accepts no more requests");
      try {
        engine::check_load({published.n_waiting + n_new, published.n_waiting_tokens + n_new_tokens,
                            published.ms_per_admission},
                           submission.prompt.size(), submission.params.n, limits);
      } catch (const OverloadedError&) {
        ++n_rejected;
        throw;
      }
      state->id = last_id + 1;
      submission.state = state;
      const int n = submission.params.n;
      const auto n_tokens = static_cast<std::int64_t>(submission.prompt.size()) * n;
      submissions.push_back(std::move(submission));
      n_new += n;
      n_new_tokens += n_tokens;
      ++last_id;
    }
    wakeup->changed.notify_all();
    return Response(std::move(state));
  }

  /// False while the context is replaced. Callers do not wait for that; the service's thread checks the
  /// request later.
  bool check(std::span<const Token> prompt, const RequestParams& p) {
    const std::shared_lock lock(context_mutex, std::try_to_lock);
    if (!lock || !has_context) return false;
    engine::check_request(prompt, p, context, limits);
    return true;
  }

  BatcherStats stats() {
    const std::lock_guard lock(wakeup->mutex);
    BatcherStats result = published;
    result.n_rejected += n_rejected;
    return result;
  }

  /// Runs `f` on the service's thread between two steps and returns its result.
  template <typename F>
  auto between_steps(F f) {
    using Result = std::invoke_result_t<F>;
    auto task = std::make_shared<std::packaged_task<Result()>>(std::move(f));
    std::future<Result> result = task->get_future();
    {
      const std::lock_guard lock(wakeup->mutex);
      if (ending) throw_down();
      calls.push_back([task = std::move(task)] { (*task)(); });
    }
    wakeup->changed.notify_all();
    try {
      return result.get();
    } catch (const std::future_error&) {  // The service ended first.
      throw_down();
    }
  }

  void renew(const std::function<Context()>& make) {
    between_steps([&] {
      const std::lock_guard alone(context_mutex);
      try {
        batcher.impl_->renew([&] {
          has_context = false;
          {
            const Context gone = std::move(context);
          }
          context = make();
          has_context = true;
        });
      } catch (...) {
        const std::lock_guard lock(wakeup->mutex);
        closed = ending = true;
        throw;
      }
    });
  }

  [[noreturn]] static void throw_down() { throw Error(ErrorCode::kUnavailable, "the service was shut down"); }

  bool drain(std::chrono::milliseconds at_most) {
    bool done = false;
    {
      std::unique_lock lock(wakeup->mutex);
      closed = true;
      done = wakeup->changed.wait_for(lock, std::min(at_most, kLong),
                                      [&] { return idle && submissions.empty(); });
    }
    if (!done) shutdown();
    return done;
  }

  void shutdown() {
    {
      const std::lock_guard lock(wakeup->mutex);
      closed = ending = true;
    }
    // Cancels the running step: its results are not needed.
    if (const std::shared_lock context_lock(context_mutex, std::try_to_lock); context_lock) context.cancel();
    wakeup->changed.notify_all();
    std::unique_lock lock(wakeup->mutex);
    wakeup->changed.wait(lock, [&] { return ended; });
  }

  // Called by the service's thread:

  void run() {
    std::vector<Submission> taken;
    std::vector<std::function<void()>> asked;
    bool more = false;
    while (true) {
      publish(!more || active.empty());  // Callers that wait for the end see current statistics.
      bool attention = false;
      {
        std::unique_lock lock(wakeup->mutex);
        idle = active.empty();
        if (idle) wakeup->changed.notify_all();
        const auto ready = [&] {
          return more || ending || wakeup->attention || !submissions.empty() || !calls.empty();
        };
        if (const auto deadline = more ? std::nullopt : batcher.next_deadline()) {
          wakeup->changed.wait_until(lock, *deadline, ready);
        } else {
          wakeup->changed.wait(lock, ready);
        }
        std::swap(taken, submissions);
        std::swap(asked, calls);
        if (!taken.empty()) idle = false;
        attention = std::exchange(wakeup->attention, false);
        if (ending) break;
      }
      for (Submission& submission : taken) begin(submission);
      taken.clear();
      if (attention) listen();
      for (const auto& call : asked) call();
      asked.clear();
      more = step();
      std::erase_if(active, [](const StatePtr& state) { return is_over(*state); });
    }
    asked.clear();
    for (const Submission& submission : taken)
      submission.state->end_all(StopReason::kCancelled, "the service was shut down");
    for (const StatePtr& state : active) batcher.cancel(state->in_batcher);
    while (step()) {
    }
    active.clear();
    publish(true);
    const std::lock_guard lock(wakeup->mutex);
    idle = ended = true;
    wakeup->changed.notify_all();
  }

  bool step() {
    bool more = true;
    try {
      more = batcher.step();
    } catch (...) {  // A waker threw, which it must not: only its own request is cancelled.
    }
    if (std::exchange(any_ended, false)) {
      publish(true);
      for (const StatePtr& state : active) state->show_ends();
    }
    return more;
  }

  void begin(Submission& submission) {
    const StatePtr& state = submission.state;
    try {
      if (active.size() == active.capacity()) active.reserve(2 * active.size() + 8);
      submission.params.on_output = [this, state = state.get()](const Output& output) {
        any_ended |= output.done;
        if (!state->add(output)) return false;
        pause_if_full(*state, output.completion);
        return true;
      };
      // The load limits were checked at submission, including requests not yet in the queue.
      if (!submission.is_checked)
        engine::check_request(submission.prompt, submission.params, context, limits);
      state->in_batcher = batcher.impl_->add(std::move(submission.prompt), std::move(submission.params));
      active.push_back(state);
    } catch (const std::exception& error) {
      state->end_all(StopReason::kError, error.what());
    }
  }

  void pause_if_full(Response::State& state, int completion) {
    const std::lock_guard lock(state.mutex);
    Response::State::Part& part = state.parts[static_cast<std::size_t>(completion)];
    if (part.paused || !state.is_full(part.chunk)) return;
    part.paused = true;
    batcher.pause(state.in_batcher, completion);
  }

  /// Handles the flags that responses have set.
  void listen() {
    for (const StatePtr& state : active) {
      const std::lock_guard lock(state->mutex);
      if (state->wants_cancel) batcher.cancel(state->in_batcher);
      if (!std::exchange(state->has_room_again, false)) continue;
      for (Response::State::Part& part : state->parts) {
        if (!part.paused || state->is_full(part.chunk)) continue;
        part.paused = false;
        batcher.resume(state->in_batcher, part.chunk.completion);
      }
    }
  }

  static bool is_over(Response::State& state) {
    const std::lock_guard lock(state.mutex);
    return std::all_of(state.parts.begin(), state.parts.end(), [](const Response::State::Part& part) {
      return part.chunk.done || part.taken_to_end;
    });
  }

  /// Publishes the queue's load every time, and the other statistics at intervals or if `all` is set.
  void publish(bool all) {
    const auto now = std::chrono::steady_clock::now();
    std::optional<BatcherStats> stats;
    try {
      if (has_context && (all || now - published_at >= kStatsAge)) stats = batcher.stats();
    } catch (const std::bad_alloc&) {  // The next step tries again.
    }
    const std::lock_guard lock(wakeup->mutex);
    if (stats) published = *stats;
    if (stats) published_at = now;
    published.n_waiting = batcher.n_waiting();
    published.n_waiting_tokens = batcher.n_waiting_tokens();
    n_new = 0;
    n_new_tokens = 0;
    for (const Submission& submission : submissions) {
      n_new += submission.params.n;
      n_new_tokens += static_cast<std::int64_t>(submission.prompt.size()) * submission.params.n;
    }
  }

  const Model& model;  // Shared by all contexts.
  Context context;
  std::shared_mutex context_mutex;  // Other threads hold it shared to read the context.
  bool has_context = true;
  const BatcherLimits limits;
  const int n_unread;
  const std::shared_ptr<Wakeup> wakeup = std::make_shared<Wakeup>();

  // Guarded by the mutex of `wakeup`:
  std::vector<Submission> submissions;
  std::vector<std::function<void()>> calls;  // Run between steps; they do not throw.
  BatcherStats published;
  std::int64_t n_new = 0, n_new_tokens = 0;  // Submitted since the last publication.
  std::int64_t n_rejected = 0;
  RequestId last_id = 0;
  bool closed = false, ending = false, ended = false, idle = true;

  // Used by the service's thread:
  Batcher batcher;
  std::vector<StatePtr> active;
  bool any_ended = false;  // In this step.
  std::chrono::steady_clock::time_point published_at;

  std::thread thread;
};

Service::Service(Context context, const ServiceParams& params)
    : impl_(std::make_unique<Impl>(std::move(context), params)) {}
Service::~Service() = default;
const Model& Service::model() const { return impl_->model; }
Response Service::submit(std::vector<Token> prompt, RequestParams params) {
  return impl_->submit(std::move(prompt), std::move(params));
}
BatcherStats Service::stats() const { return impl_->stats(); }
BatcherPicture Service::picture() const {
  return impl_->between_steps([&] { return impl_->batcher.picture(); });
}
SavedText Service::save_text(std::span<const Token> tokens,
                             const std::optional<std::vector<AdapterUse>>& adapters) {
  return impl_->between_steps([&] { return impl_->batcher.save_text(tokens, adapters); });
}
RestoredText Service::restore_text(std::span<const std::byte> state) {
  return impl_->between_steps([&] { return impl_->batcher.restore_text(state); });
}
int Service::forget_text(std::span<const Token> tokens) {
  return impl_->between_steps([&] { return impl_->batcher.forget_text(tokens); });
}
void Service::renew(const std::function<Context()>& make) { impl_->renew(make); }
bool Service::drain(std::chrono::milliseconds at_most) { return impl_->drain(at_most); }
void Service::shutdown() { impl_->shutdown(); }

}  // namespace weft
