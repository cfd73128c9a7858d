#include "backend/remote/conversation.h"

#include <algorithm>
#include <utility>

#include "weft/error.h"

namespace weft::remote {
namespace {

using Clock = std::chrono::steady_clock;

/// How long a thread reads before it looks at whether its step was cancelled.
constexpr std::chrono::milliseconds kSlice{20};
/// The answers to pings are nobody's.
constexpr std::uint64_t kNobody = 0;

}  // namespace

std::uint64_t Conversation::ask(Kind kind, const Writer& request) {
  Writer message;
  const std::scoped_lock sending(sending_);
  {
    const std::scoped_lock lock(mutex_);
    check();
  }
  const std::uint64_t number = kind == Kind::kPing ? kNobody : ++last_request_;
  message.put(Head{.kind = kind, .request = number}).raw(request.message());
  try {
    link_->send(message.message());
  } catch (const Error& error) {
    lose(error.what());
  }
  return number;
}

void Conversation::tell(Kind kind, const Writer& request) noexcept {
  try {
    ask(kind, request);
  } catch (...) {  // Lost, or no memory to say it with: then it is kept until the follower ends.
  }
}

Message Conversation::wait(std::uint64_t request, const std::function<void()>& each_slice) {
  Clock::time_point last_ping = Clock::now();
  std::unique_lock lock(mutex_);
  last_heard_ = std::max(last_heard_, last_ping);
  for (;;) {
    if (const auto at = answers_.find(request); at != answers_.end()) {
      Message answer = std::move(at->second);
      answers_.erase(at);
      lock.unlock();
      Reader reader(answer);
      if (reader.get<Head>().kind == Kind::kError) {
        const auto code = reader.get<ErrorCode>();
        throw Error(code, name_ + ": " + reader.text());
      }
      return {reader.rest().begin(), reader.rest().end()};
    }
    check();
    if (!reading_) {
      read(lock);
    } else {
      news_.wait_for(lock, kSlice);
    }
    const Clock::time_point now = Clock::now();
    const bool ping = now - std::max(last_ping, last_heard_) > kPingAfter;
    const bool silent = now - last_heard_ > kLostAfter;
    if (!ping && !silent && !each_slice) continue;
    lock.unlock();
    if (silent) lose("it does not answer");
    if (ping) {
      last_ping = now;
      ask(Kind::kPing, {});
    }
    if (each_slice) each_slice();
    lock.lock();
  }
}

/// Reads for a slice, without the lock, and keeps what came for whom it concerns.
void Conversation::read(std::unique_lock<std::mutex>& lock) {
  reading_ = true;
  lock.unlock();
  std::optional<Message> message;
  std::string why;
  try {
    message = link_->receive(Clock::now() + kSlice);
  } catch (const std::exception& error) {
    why = error.what();
  }
  lock.lock();
  reading_ = false;
  if (!why.empty() && lost_.empty()) lost_ = why;
  if (message) {
    last_heard_ = Clock::now();
    const auto number = Reader(*message).get<Head>().request;
    if (number != kNobody) answers_[number] = *std::move(message);
  }
  news_.notify_all();
}

void Conversation::check() const {
  if (!lost_.empty()) throw Error(ErrorCode::kDevice, name_ + " is lost: " + lost_);
}

void Conversation::lose(const std::string& why) {
  const std::scoped_lock lock(mutex_);
  if (lost_.empty()) lost_ = why;
  news_.notify_all();
  throw Error(ErrorCode::kDevice, name_ + " is lost: " + lost_);
}

}  // namespace weft::remote
