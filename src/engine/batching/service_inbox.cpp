#include "engine/batching/service_inbox.h"

#include <utility>

#include "engine/batching/limits.h"
#include "weft/error.h"

namespace weft::engine {

void ServiceInbox::submit(Submission submission) {
  {
    const std::lock_guard lock(wakeup_->mutex);
    if (phase_ >= Phase::kClosed)
      throw Error(ErrorCode::kUnavailable, "the service is shutting down and accepts no more requests");
    const int n = submission.params.n;
    try {
      check_load({published_.n_waiting + n_new_, published_.n_waiting_tokens + n_new_tokens_,
                  published_.ms_per_admission},
                 submission.prompt.size(), n, limits_of(submission.params, limits_));
    } catch (const OverloadedError&) {
      ++n_rejected_;
      throw;
    }
    submission.state->set_id(last_id_ + 1);
    const auto n_tokens = static_cast<std::int64_t>(submission.prompt.size()) * n;
    submissions_.push_back(std::move(submission));
    n_new_ += n;
    n_new_tokens_ += n_tokens;
    ++last_id_;
  }
  wakeup_->changed.notify_all();
}

bool ServiceInbox::call(std::function<void()> f) {
  {
    const std::lock_guard lock(wakeup_->mutex);
    if (phase_ >= Phase::kEnding) return false;
    calls_.push_back(std::move(f));
  }
  wakeup_->changed.notify_all();
  return true;
}

BatcherStats ServiceInbox::stats() const {
  const std::lock_guard lock(wakeup_->mutex);
  BatcherStats result = published_;
  result.n_rejected += n_rejected_;
  return result;
}

bool ServiceInbox::drain(std::chrono::milliseconds at_most) {
  std::unique_lock lock(wakeup_->mutex);
  enter(Phase::kClosed);
  return wakeup_->changed.wait_for(lock, std::min(at_most, kForever),
                                   [&] { return idle_ && submissions_.empty(); });
}

void ServiceInbox::end() {
  {
    const std::lock_guard lock(wakeup_->mutex);
    enter(Phase::kEnding);
  }
  wakeup_->changed.notify_all();
}

void ServiceInbox::wait_until_ended() {
  std::unique_lock lock(wakeup_->mutex);
  wakeup_->changed.wait(lock, [&] { return phase_ == Phase::kEnded; });
}

bool ServiceInbox::take(News& news, bool more, bool idle,
                        std::optional<std::chrono::steady_clock::time_point> deadline) {
  std::unique_lock lock(wakeup_->mutex);
  idle_ = idle;
  if (idle_) wakeup_->changed.notify_all();
  const auto ready = [&] {
    return more || phase_ >= Phase::kEnding || wakeup_->attention || !submissions_.empty() || !calls_.empty();
  };
  if (deadline) {
    wakeup_->changed.wait_until(lock, *deadline, ready);
  } else {
    wakeup_->changed.wait(lock, ready);
  }
  std::swap(news.submissions, submissions_);
  std::swap(news.calls, calls_);
  if (!news.submissions.empty()) idle_ = false;
  news.attention = std::exchange(wakeup_->attention, false);
  return phase_ < Phase::kEnding;
}

void ServiceInbox::publish(const std::optional<BatcherStats>& stats, int n_waiting,
                           std::int64_t n_waiting_tokens) {
  const std::lock_guard lock(wakeup_->mutex);
  if (stats) published_ = *stats;
  published_.n_waiting = n_waiting;
  published_.n_waiting_tokens = n_waiting_tokens;
  n_new_ = 0;
  n_new_tokens_ = 0;
  for (const Submission& submission : submissions_) {
    n_new_ += submission.params.n;
    n_new_tokens_ += static_cast<std::int64_t>(submission.prompt.size()) * submission.params.n;
  }
}

void ServiceInbox::set_ended() {
  const std::lock_guard lock(wakeup_->mutex);
  idle_ = true;
  phase_ = Phase::kEnded;
  wakeup_->changed.notify_all();
}

}  // namespace weft::engine
