#include "backend/remote/conversation.h"

#include <optional>
#include <utility>

#include "backend/remote/no_signals.h"
#include "weft/error.h"

namespace weft::remote {
namespace {

using Clock = std::chrono::steady_clock;

/// How long a thread reads before it looks at whether its step was cancelled.
constexpr std::chrono::milliseconds kReadSlice{20};
/// Responses to pings have no reader.
constexpr std::uint64_t kNobody = 0;

}  // namespace

Conversation::Conversation(std::string name, std::unique_ptr<Link> link, Patience patience)
    : name_(std::move(name)), link_(std::move(link)), patience_(patience) {
  const NoSignals inherited;
  watch_ = std::jthread([this](const std::stop_token& stop) { watch(stop); });
}

std::uint64_t Conversation::ask(Kind kind, Writer request) {
  return send(std::unique_lock(sending_), kind, std::move(request));
}

std::uint64_t Conversation::send(std::unique_lock<std::mutex> /*sending*/, Kind kind, Writer request,
                                 bool is_for_nobody) {
  {
    const std::scoped_lock lock(mutex_);
    check();
  }
  const std::uint64_t number = is_for_nobody ? kNobody : ++last_request_;
  try {
    link_->send(labelled(std::move(request), {.kind = kind, .request = number}));
  } catch (const Error& error) {
    std::unique_lock lock(mutex_);
    lose(lock, error.what());
    check();
  }
  return number;
}

void Conversation::tell(Kind kind, Writer request) noexcept {
  try {
    ask(kind, std::move(request));
  } catch (...) {  // Lost, or no memory to say it with: then it is kept until the follower ends.
  }
}

Message Conversation::wait(std::uint64_t request, const std::function<void()>& each_slice) {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (const auto at = responses_.find(request); at != responses_.end()) {
      Response answer = std::move(at->second);
      responses_.erase(at);
      lock.unlock();
      if (answer.kind != Kind::kError) return std::move(answer.contents);
      Reader reader(answer.contents);
      const auto code = reader.get<ErrorCode>();
      throw Error(code, name_ + ": " + reader.text());
    }
    check();
    if (each_slice) {
      lock.unlock();
      each_slice();
      lock.lock();
    }
    listen(lock);
  }
}

/// Reads for a slice, without the lock, and keeps what came for whom it concerns; or lets another do that.
void Conversation::listen(std::unique_lock<std::mutex>& lock) {
  if (reading_) {
    news_.wait_for(lock, kReadSlice);
    return;
  }
  reading_ = true;
  lock.unlock();
  std::optional<Message> message;
  Label label;
  std::string why;
  try {
    message = link_->receive(Clock::now() + kReadSlice);
    if (message) label = take_label(*message);
  } catch (const std::exception& error) {
    why = error.what();
  }
  lock.lock();
  reading_ = false;
  if (!why.empty()) lose(lock, why);
  if (message && why.empty()) {
    heard_ = true;
    if (label.request != kNobody) responses_[label.request] = {label.kind, *std::move(message)};
  }
  news_.notify_all();
}

void Conversation::watch(const std::stop_token& stop) {
  watch_until_lost(stop);
  std::unique_lock lock(mutex_);
  loss_.wait(lock, stop, [&] { return when_lost_ != nullptr; });
  const auto call = std::exchange(when_lost_, nullptr);
  if (stop.stop_requested() || lost_.empty() || !call) return;
  lock.unlock();
  call();
}

void Conversation::when_lost(std::function<void()> call) {
  const std::scoped_lock lock(mutex_);
  when_lost_ = std::move(call);
  loss_.notify_all();
}

void Conversation::watch_until_lost(const std::stop_token& stop) try {
  std::unique_lock lock(mutex_);
  for (;;) {
    loss_.wait_for(lock, stop, patience_.ping_after(), [&] { return !lost_.empty(); });
    bool asked = false;
    heard_ = false;
    silence_.broken();
    while (!heard_) {
      if (stop.stop_requested() || !lost_.empty()) return;
      if (silence_.so_far() > patience_.lost_after) return lose(lock, "it does not respond");
      lock.unlock();
      // If another thread cannot send its message, the follower does not read.
      if (!asked)
        if (std::unique_lock sending(sending_, std::try_to_lock); sending) {
          send(std::move(sending), Kind::kPing, {}, true);
          asked = true;
        }
      lock.lock();
      if (!heard_) listen(lock);
    }
  }
} catch (const std::exception& error) {
  std::unique_lock lock(mutex_);
  lose(lock, error.what());
}

void Conversation::check() const {
  if (!lost_.empty()) throw Error(ErrorCode::kDevice, name_ + " is lost: " + lost_);
}

std::string Conversation::lost() const {
  const std::scoped_lock lock(mutex_);
  return lost_;
}

void Conversation::lose(std::unique_lock<std::mutex>& /*lock*/, std::string_view why) {
  if (lost_.empty()) lost_ = why;
  link_->give_up();
  news_.notify_all();
  loss_.notify_all();
}

void Conversation::end_watch() {
  watch_.request_stop();
  if (watch_.joinable()) watch_.join();
}

void Conversation::end() noexcept {
  end_watch();
  std::jthread limit;
  try {
    const NoSignals inherited;
    limit = std::jthread([this](const std::stop_token& stop) {
      std::unique_lock lock(mutex_);
      loss_.wait_for(lock, stop, patience_.lost_after, [&] { return !lost_.empty(); });
      if (!stop.stop_requested()) lose(lock, "it does not listen");
    });
  } catch (...) {  // No thread: then no message is sent, so that this cannot wait forever.
    std::unique_lock lock(mutex_);
    lose(lock, "it is to end");
  }
  tell(Kind::kEnd, {});
}

}  // namespace weft::remote
