// A batcher on its own thread. Callers and the thread share data at three places only. ServiceInbox has
// incoming requests and published statistics. Each ResponseState has output that was not taken yet.
// SharedContext guards the context while it is replaced.
#include "weft/service.h"

#include <chrono>
#include <exception>
#include <functional>
#include <future>
#include <mutex>
#include <new>
#include <optional>
#include <shared_mutex>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>

#include "engine/batching/batcher_impl.h"
#include "engine/batching/limits.h"
#include "engine/batching/response_state.h"
#include "engine/batching/service_inbox.h"
#include "engine/refuse.h"

namespace weft {
namespace {

using engine::Submission;

/// Maximum age of published statistics.
constexpr std::chrono::milliseconds kStatsAge{20};

/// The context of a service. Its thread uses and replaces it. Other threads read its constants and cancel its
/// steps, but never wait while it is replaced.
class SharedContext {
 public:
  explicit SharedContext(Context context) : context_(std::move(context)) {}

  /// For the service's thread.
  Context& get() { return context_; }
  /// For the service's thread. False after a failed replace().
  bool exists() const { return exists_; }
  /// Calls `f` with the context. False, without a call, if the context is being replaced or does not exist.
  template <typename F>
  bool try_use(F f) {
    const std::shared_lock lock(mutex_, std::try_to_lock);
    if (!lock || !exists_) return false;
    f(context_);
    return true;
  }
  /// Calls `replace(swap)`. Its call of `swap` destroys the context, and replaces it by the result of `make`.
  template <typename F>
  void replace(const std::function<Context()>& make, F replace) {
    const std::lock_guard alone(mutex_);
    replace([&] {
      exists_ = false;
      {
        const Context gone = std::move(context_);
      }
      context_ = make();
      exists_ = true;
    });
  }

 private:
  Context context_;
  bool exists_ = true;
  std::shared_mutex mutex_;  // Other threads hold it shared.
};

}  // namespace

struct Service::Impl {
  using StatePtr = std::shared_ptr<engine::ResponseState>;

  Impl(Context context_in, const ServiceParams& params)
      : model(context_in.model()),
        context(std::move(context_in)),
        limits(params.batcher.limits),
        n_unread(params.n_unread),
        batcher(context.get(), params.batcher),
        inbox(wakeup, limits, batcher.stats()) {
    if (n_unread < 1) engine::refuse("n_unread must be at least 1");
    batcher.impl_->stepper.recovery().set_devices_lost(params.devices_lost);
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
    // Callers do not wait while the context is replaced: the service's thread checks the request later.
    const bool is_checked =
        context.try_use([&](const Context& current) { engine::check_request(prompt, p, current, limits); });
    auto state = std::make_shared<Response::State>(p.n, n_unread, wakeup);
    inbox.submit({state, std::move(prompt), std::move(p), is_checked});
    return Response(std::move(state));
  }

  /// Runs `f` on the service's thread between two steps and returns its result.
  template <typename F>
  auto between_steps(F f) {
    using Result = std::invoke_result_t<F>;
    auto task = std::make_shared<std::packaged_task<Result()>>(std::move(f));
    std::future<Result> result = task->get_future();
    if (!inbox.call([task = std::move(task)] { (*task)(); })) throw_down();
    try {
      return result.get();
    } catch (const std::future_error&) {  // The service ended first.
      throw_down();
    }
  }

  void renew(const std::function<Context()>& make) {
    between_steps([&] {
      try {
        context.replace(make, [&](const std::function<void()>& swap) { batcher.impl_->renew(swap); });
      } catch (...) {
        inbox.end();
        throw;
      }
    });
  }

  [[noreturn]] static void throw_down() { throw Error(ErrorCode::kUnavailable, "the service was shut down"); }

  bool drain(std::chrono::milliseconds at_most) {
    const bool done = inbox.drain(at_most);
    if (!done) shutdown();
    return done;
  }

  void shutdown() {
    inbox.end();
    // Cancels the running step: its results are not needed.
    context.try_use([](Context& current) { current.cancel(); });
    inbox.wait_until_ended();
  }

  // Called by the service's thread:

  void run() {
    engine::ServiceInbox::News news;
    bool more = false;
    while (true) {
      publish(!more || active.empty());  // Callers that wait for the end see current statistics.
      if (!inbox.take(news, more, active.empty(), more ? std::nullopt : batcher.next_deadline())) break;
      for (Submission& submission : news.submissions) begin(submission);
      news.submissions.clear();
      if (news.attention)
        for (const StatePtr& state : active) state->handle_flags(batcher);
      for (const auto& call : news.calls) call();
      news.calls.clear();
      more = step();
      std::erase_if(active, [](const StatePtr& state) { return state->is_over(); });
    }
    news.calls.clear();
    for (const Submission& submission : news.submissions)
      submission.state->end_all(StopReason::kCancelled, "the service was shut down");
    for (const StatePtr& state : active) batcher.cancel(state->in_batcher());
    while (step()) {
    }
    active.clear();
    publish(true);
    inbox.set_ended();
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
        state->pause_if_full(output.completion, batcher);
        return true;
      };
      // The load limits were checked at submission, including requests not yet in the queue.
      if (!submission.is_checked)
        engine::check_request(submission.prompt, submission.params, context.get(), limits);
      state->set_in_batcher(batcher.impl_->add(std::move(submission.prompt), std::move(submission.params)));
      active.push_back(state);
    } catch (const std::exception& error) {
      state->end_all(StopReason::kError, error.what());
    }
  }

  /// Publishes the queue's load every time, and the other statistics at intervals or if `all` is set.
  void publish(bool all) {
    const auto now = std::chrono::steady_clock::now();
    std::optional<BatcherStats> stats;
    try {
      if (context.exists() && (all || now - published_at >= kStatsAge)) stats = batcher.stats();
    } catch (const std::bad_alloc&) {  // The next step tries again.
    }
    if (stats) published_at = now;
    inbox.publish(stats, batcher.n_waiting(), batcher.n_waiting_tokens());
  }

  const Model& model;  // Shared by all contexts.
  SharedContext context;
  const BatcherLimits limits;
  const int n_unread;
  const std::shared_ptr<engine::Wakeup> wakeup = std::make_shared<engine::Wakeup>();

  // Used by the service's thread:
  Batcher batcher;
  std::vector<StatePtr> active;
  bool any_ended = false;  // In this step.
  std::chrono::steady_clock::time_point published_at;

  engine::ServiceInbox inbox;
  std::thread thread;
};

Service::Service(Context context, const ServiceParams& params)
    : impl_(std::make_unique<Impl>(std::move(context), params)) {}
Service::~Service() = default;
const Model& Service::model() const { return impl_->model; }
Response Service::submit(std::vector<Token> prompt, RequestParams params) {
  return impl_->submit(std::move(prompt), std::move(params));
}
BatcherStats Service::stats() const { return impl_->inbox.stats(); }
BatcherSnapshot Service::snapshot() const {
  return impl_->between_steps([&] { return impl_->batcher.snapshot(); });
}
SavedPrefix Service::save_prefix(std::span<const Token> tokens,
                                 const std::optional<std::vector<AdapterUse>>& adapters) {
  return impl_->between_steps([&] { return impl_->batcher.save_prefix(tokens, adapters); });
}
RestoredPrefix Service::restore_prefix(std::span<const std::byte> state) {
  return impl_->between_steps([&] { return impl_->batcher.restore_prefix(state); });
}
int Service::forget_prefix(std::span<const Token> tokens) {
  return impl_->between_steps([&] { return impl_->batcher.forget_prefix(tokens); });
}
void Service::renew(const std::function<Context()>& make) { impl_->renew(make); }
bool Service::drain(std::chrono::milliseconds at_most) { return impl_->drain(at_most); }
void Service::shutdown() { impl_->shutdown(); }

}  // namespace weft
