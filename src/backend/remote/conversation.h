#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "backend/remote/link.h"
#include "backend/remote/protocol.h"
#include "backend/remote/wire.h"

namespace weft::remote {

/// Requests to a follower and its answers. Any number of threads ask; whoever waits reads from the link, for
/// the others too. Once the follower is lost, all that is asked throws Error kDevice.
class Conversation {
 public:
  Conversation(std::string name, std::unique_ptr<Link> link)
      : name_(std::move(name)), link_(std::move(link)) {}

  /// A number for a new object, never 0.
  std::uint64_t new_id() { return ++last_id_; }
  /// Sends a request, and returns its number. One that is answered must be waited for, or forgotten.
  std::uint64_t ask(Kind kind, const Writer& request);
  /// What follows the head of the answer. Throws what the follower threw. `each_slice` is called now and then
  /// while it waits.
  Message wait(std::uint64_t request, const std::function<void()>& each_slice = {});
  Message call(Kind kind, const Writer& request) { return wait(ask(kind, request)); }
  /// Of what has no answer, from destructors: a lost follower has lost that as well.
  void tell(Kind kind, const Writer& request) noexcept;

 private:
  [[noreturn]] void lose(const std::string& why);
  void check() const;  // With mutex_ held.
  void read(std::unique_lock<std::mutex>& lock);

  const std::string name_;
  const std::unique_ptr<Link> link_;
  std::atomic<std::uint64_t> last_id_ = 0;
  std::mutex sending_;
  std::uint64_t last_request_ = 0;  // With sending_ held.
  std::mutex mutex_;                // Of all below.
  std::condition_variable news_;
  std::map<std::uint64_t, Message> answers_;
  bool reading_ = false;
  std::string lost_;  // Why; empty while it lives.
  std::chrono::steady_clock::time_point last_heard_ = {};
};

}  // namespace weft::remote
