#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include "backend/remote/link.h"
#include "backend/remote/protocol.h"
#include "backend/remote/wire.h"

namespace weft::remote {

/// A follower's links to the other followers, by their ranks. One thread sends and receives; at the same time
/// another one may call `listen` and `lose`.
class Peers {
 public:
  /// Makes this process's end of the link to a rank. Its `send` must never wait: otherwise two senders could
  /// wait for each other.
  using Connect = std::function<std::unique_ptr<Link>(int rank)>;
  explicit Peers(Connect connect) : connect_(std::move(connect)) {}

  /// The receiver gets the bytes, or an error that describes them. One that is lost gets nothing. Throws
  /// Error kDevice where it cannot be sent.
  void send(const TransferEnd& to, Kind kind, Writer contents);
  /// Waits for it. Throws Error kDevice where it does not come, or `is_given_up` says so now and then.
  Message receive(const TransferEnd& from, const std::function<bool()>& is_given_up);
  /// Takes in messages that no thread has requested yet, so that they do not cross only then.
  void listen();
  /// Nothing comes from there any more.
  void lose(int rank);

 private:
  struct Arrived {
    Kind kind = Kind::kResponse;
    Message contents;
  };
  struct Peer {
    std::unique_ptr<Link> link;  // Once it is needed.
    std::atomic<bool> is_lost = false;
    std::mutex reading;
    std::map<std::uint64_t, Arrived> arrived;  // By number, with `reading` held.
  };
  Peer& connected(int rank);
  static bool listen_to(Peer& peer, Deadline deadline);

  const Connect connect_;
  std::mutex mutex_;  // Guards the map, and the making of links.
  std::map<int, Peer> peers_;
};

}  // namespace weft::remote
