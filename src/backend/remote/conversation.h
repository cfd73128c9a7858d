#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "backend/remote/link.h"
#include "backend/remote/patience.h"
#include "backend/remote/protocol.h"
#include "backend/remote/wire.h"

namespace weft::remote {

/// Requests to a follower and its responses. Any number of threads send requests; a thread that waits reads
/// from the link for all of them. A separate thread checks periodically whether the follower lives. Once it
/// is lost, all requests throw Error kDevice.
class Conversation {
 public:
  Conversation(std::string name, std::unique_ptr<Link> link, Patience patience);

  /// A number for a new object, never 0.
  std::uint64_t new_id() { return ++last_id_; }
  /// Sends a request, and returns its number. One that is answered must be waited for, or forgotten.
  std::uint64_t ask(Kind kind, Writer request);
  /// The response, without its label. Throws what the follower threw. `each_slice` is called first, and now
  /// and then while it waits.
  Message wait(std::uint64_t request, const std::function<void()>& each_slice = {});
  Message call(Kind kind, Writer request) { return wait(ask(kind, std::move(request))); }
  /// Sends a request without a response, from destructors: a lost follower has lost its objects as well.
  void tell(Kind kind, Writer request) noexcept;
  /// Sends the follower the end of requests; one that does not respond is given up soon.
  void end() noexcept;
  /// To be called once it is lost, by a thread of its own, or not at all where `end` comes before.
  void when_lost(std::function<void()> call);
  /// What other followers know this one by; kNoRank where they do not.
  static constexpr int kNoRank = -1;
  std::atomic<int> rank = kNoRank;
  /// Nobody asks any more whether it lives.
  void end_watch();
  /// Of steps so far.
  struct Traffic {
    std::atomic<std::uint64_t> n_steps = 0, bytes_there = 0, bytes_back = 0, bytes_from_others = 0;
  };
  Traffic& traffic() { return traffic_; }
  /// Why it is lost; empty while it lives.
  std::string lost() const;

 private:
  std::uint64_t send(std::unique_lock<std::mutex> sending, Kind kind, Writer request,
                     bool is_for_nobody = false);
  void lose(std::unique_lock<std::mutex>& lock, std::string_view why);
  void check() const;  // With mutex_ held.
  void listen(std::unique_lock<std::mutex>& lock);
  void watch(const std::stop_token& stop);
  void watch_until_lost(const std::stop_token& stop);

  const std::string name_;
  const std::unique_ptr<Link> link_;
  Traffic traffic_;
  std::atomic<std::uint64_t> last_id_ = 0;
  std::mutex sending_;
  std::uint64_t last_request_ = 0;  // With sending_ held.
  mutable std::mutex mutex_;        // Of all below.
  std::condition_variable news_;
  std::condition_variable_any loss_;
  struct Response {
    Kind kind = Kind::kResponse;
    Message contents;
  };
  std::map<std::uint64_t, Response> responses_;
  bool reading_ = false;
  std::string lost_;
  std::function<void()> when_lost_;
  bool heard_ = false;  // Something, since the last question.
  Silence silence_;
  const Patience patience_;
  std::jthread watch_;  // Last: it uses the others.
};

}  // namespace weft::remote
