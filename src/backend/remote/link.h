#pragma once
#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace weft::remote {

using Message = std::vector<std::byte>;
using Deadline = std::chrono::steady_clock::time_point;

/// One end of a way to another process: messages arrive whole, once, and in the order in which they were
/// sent. `send` and `receive` may be called at the same time, each by one thread at a time. Both throw Error
/// kDevice where the way is broken, which it stays.
class Link {
 public:
  virtual ~Link() = default;
  /// Returns when the message's memory may be used again; the other end need not have it by then.
  virtual void send(std::span<const std::byte> message) = 0;
  /// The next message, or nothing where none came before the deadline.
  virtual std::optional<Message> receive(Deadline deadline) = 0;
};

}  // namespace weft::remote
