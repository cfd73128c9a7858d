#pragma once
#include <chrono>
#include <cstddef>
#include <optional>
#include <vector>

namespace weft::remote {

using Message = std::vector<std::byte>;
using Deadline = std::chrono::steady_clock::time_point;

/// One end of a way to another process: messages arrive whole, once, and in the order in which they were
/// sent. `send` and `receive` may be called at the same time, each by one thread at a time. Both throw Error
/// kDevice where the way is broken or given up, which it stays.
class Link {
 public:
  virtual ~Link() = default;
  /// The other end need not have it when this returns, nor listen: an end that computes takes it up later.
  /// Waits where much that was sent has not been taken up.
  virtual void send(Message message) = 0;
  /// The next message, or nothing where none came before the deadline.
  virtual std::optional<Message> receive(Deadline deadline) = 0;
  /// The other end is taken for dead: calls that wait return. From any thread.
  virtual void give_up() noexcept = 0;
};

}  // namespace weft::remote
