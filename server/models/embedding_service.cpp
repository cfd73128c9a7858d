#include "models/embedding_service.h"

#include <string>
#include <utility>

#include "base/to_size.h"
#include "weft/batcher.h"
#include "weft/error.h"
#include "weft/not_numbers.h"

namespace weft::server {
namespace {

constexpr double kRetryMs = 1000.0;

/// An exception of one request's callback must not end the thread of all requests.
void tell(const EmbeddingRequest& request, std::vector<float> values,
          const std::exception_ptr& error) noexcept try {
  request.done(std::move(values), error);
} catch (...) {
}

bool is_abandoned(const EmbeddingRequest& request) noexcept try {
  return request.is_abandoned && request.is_abandoned();
} catch (...) {
  return false;
}

/// Errors are made at the start, as memory may be short when they are needed.
std::exception_ptr made(ErrorCode code, const char* message) {
  return std::make_exception_ptr(Error(code, message));
}

}  // namespace

EmbeddingService::EmbeddingService(Embedder embedder, int n_waiting, std::function<bool()> devices_lost)
    : embedder_(std::move(embedder)),
      max_tokens_(embedder_.max_tokens()),
      dimensions_(embedder_.dimensions()),
      n_scores_(embedder_.n_scores()),
      n_waiting_most_(n_waiting),
      devices_lost_(std::move(devices_lost)),
      cancelled_(made(ErrorCode::kCancelled, "the client disconnected")),
      why_stopped_(made(ErrorCode::kUnavailable, "the server is shutting down")),
      thread_([this] { work(); }) {}

EmbeddingService::~EmbeddingService() { shutdown(); }

void EmbeddingService::submit(EmbeddingRequest request) {
  {
    const std::lock_guard lock(mutex_);
    if (stopped_) std::rethrow_exception(why_stopped_);
    const std::size_t n_waiting = waiting_.size() + n_in_step_;
    // Half of the places are for clients, as in a Batcher. 0, no limit, stays 0.
    const std::size_t all = to_size(n_waiting_most_), most = request.is_background ? (all + 1) / 2 : all;
    if (most > 0 && n_waiting >= most)
      throw OverloadedError(
          std::to_string(n_waiting) + " requests are waiting already, which is the limit; try again later",
          kRetryMs);
    Requests added;
    added.push_back({.request = std::move(request), .values = {}, .error = nullptr});
    put_back(added, added.begin());
  }
  changed_.notify_all();
}

void EmbeddingService::put_back(Requests& from, Requests::iterator one) noexcept {
  auto place = waiting_.end();
  if (!one->request.is_background)
    while (place != waiting_.begin() && std::prev(place)->request.is_background) --place;
  waiting_.splice(place, from, one);
}

void EmbeddingService::renew(const std::function<Embedder()>& make) {
  {
    std::unique_lock lock(mutex_);
    lost_ = true;
    changed_.wait(lock, [&] { return n_in_step_ == 0; });
  }
  {
    const Embedder gone = std::move(embedder_);
  }
  std::exception_ptr error;
  try {
    embedder_ = make();
  } catch (...) {
    error = std::current_exception();
  }
  {
    const std::lock_guard lock(mutex_);
    lost_ = false;
    // Waiting requests keep the model alive, and with it this service, so its destructor cannot stop it.
    if (error != nullptr && !std::exchange(stopped_, true)) why_stopped_ = error;
  }
  changed_.notify_all();
  if (error != nullptr) std::rethrow_exception(error);
}

void EmbeddingService::drain(std::chrono::milliseconds at_most) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, at_most, [&] { return (waiting_.empty() && n_in_step_ == 0) || stopped_; });
}

void EmbeddingService::shutdown() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

// Each request gets the same number of tokens, in turns. Tokens that some do not need go to the requests in
// front.
EmbeddingService::Requests EmbeddingService::next_step() noexcept {
  const EmbeddingRequest& first = waiting_.front().request;
  const auto fits = [&](const Waiting& waiting) {
    return waiting.request.scores == first.scores && waiting.request.pooling == first.pooling &&
           waiting.request.is_background == first.is_background;
  };
  for (Waiting& waiting : waiting_) waiting.n_next = 0;
  std::size_t n_tokens = 0;
  for (bool more = true; more;) {
    more = false;
    for (Waiting& waiting : waiting_) {
      const std::vector<TokenPair>& texts = waiting.request.texts;
      const std::size_t next = waiting.n_read + waiting.n_next;
      if (!fits(waiting) || next == texts.size()) continue;
      if (n_tokens > 0 && n_tokens + texts[next].tokens.size() > Embedder::kTokensOfStep) continue;
      n_tokens += texts[next].tokens.size();
      ++waiting.n_next;
      more = true;
    }
  }
  Requests step;
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    const auto waiting = it++;
    if (waiting->n_next > 0) step.splice(step.end(), waiting_, waiting);
  }
  n_in_step_ = step.size();
  return step;
}

void EmbeddingService::compute(Requests& step) {
  std::vector<TextTokens> texts;
  for (const Waiting& one : step)
    for (std::size_t i = 0; i < one.n_next; ++i) {
      const TokenPair& text = one.request.texts[one.n_read + i];
      texts.push_back({text.tokens, text.second});
    }
  const EmbeddingRequest& first = step.front().request;
  const std::vector<float> values =
      first.scores ? embedder_.score(texts) : embedder_.embed(texts, first.pooling);
  const auto n_columns = to_size(first.scores ? n_scores_ : dimensions_);
  auto from = values.begin();
  for (Waiting& one : step) {
    const auto end = from + static_cast<std::ptrdiff_t>(one.n_next * n_columns);
    one.values.insert(one.values.end(), from, end);
    one.n_read += one.n_next;
    from = end;
  }
}

void EmbeddingService::compute_alone(Requests& step) {
  for (std::size_t n = step.size(); n > 0; --n) {
    Requests one;
    one.splice(one.end(), step, step.begin());
    std::exception_ptr thrown;
    try {
      compute(one);
    } catch (const NotNumbersError&) {
      one.front().error = std::current_exception();
    } catch (...) {
      thrown = std::current_exception();
    }
    step.splice(step.end(), one);
    if (thrown != nullptr) std::rethrow_exception(thrown);
  }
}

void EmbeddingService::end_step(const std::exception_ptr& error, Requests step) noexcept {
  Requests ended, abandoned;
  {
    const std::lock_guard lock(mutex_);
    // Requests of this step queue after all others.
    for (auto it = step.begin(); it != step.end();) {
      const auto one = it++;
      if (one->error == nullptr) one->error = error;
      const bool done = one->error != nullptr || one->n_read == one->request.texts.size();
      if (!done && !is_abandoned(one->request)) {
        put_back(step, one);
        continue;
      }
      Requests& to = done ? ended : abandoned;
      to.splice(to.end(), step, one);
    }
    for (auto it = waiting_.begin(); it != waiting_.end();) {
      const auto one = it++;
      if (is_abandoned(one->request)) abandoned.splice(abandoned.end(), waiting_, one);
    }
    n_in_step_ = 0;
  }
  changed_.notify_all();
  for (Waiting& one : ended)
    tell(one.request, one.error == nullptr ? std::move(one.values) : std::vector<float>(), one.error);
  for (Waiting& one : abandoned) tell(one.request, {}, cancelled_);
}

void EmbeddingService::work() {
  for (;;) {
    Requests step;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stopped_ || (!lost_ && !waiting_.empty()); });
      if (stopped_) break;
      step = next_step();
    }
    std::exception_ptr error;
    try {
      try {
        compute(step);
      } catch (const NotNumbersError&) {
        compute_alone(step);
      }
    } catch (...) {
      error = std::current_exception();
      if (devices_lost_ && devices_lost_()) {
        error = nullptr;  // The requests stay, and are computed after renew().
        const std::lock_guard lock(mutex_);
        lost_ = true;
      }
    }
    end_step(error, std::move(step));
  }
  for (Waiting& waiting : waiting_) tell(waiting.request, {}, why_stopped_);
  waiting_.clear();
}

}  // namespace weft::server
