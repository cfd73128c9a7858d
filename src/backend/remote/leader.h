#pragma once
// Devices of another process, as the leader has them. Each call becomes a message, and so does each step,
// with the changes of its inputs. Steps run asynchronously to the host.
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/remote/link.h"
#include "backend/remote/patience.h"
#include "weft/backend/device.h"
#include "weft/backend/registry.h"
#include "weft/device.h"

namespace weft::remote {

class Conversation;

/// A process that serves (server.h). Thread-safe; devices keep it alive.
class Follower {
 public:
  /// `name` is for messages. Throws Error kUnsupported where it has another build, kDevice where it does not
  /// respond.
  Follower(std::string name, std::unique_ptr<Link> link, Patience patience = {});
  /// Sends it the end of requests, once its devices are gone.
  ~Follower();
  Follower(const Follower&) = delete;
  Follower& operator=(const Follower&) = delete;

  /// As it names them itself. The speed of its CPU is the speed of reading memory, measured at the greeting.
  const std::vector<DeviceInfo>& devices() const { return devices_; }
  /// The speed of messages to it, measured at the greeting; to the nearest power of two.
  struct LinkSpeed {
    double seconds = 0.0;  ///< Round trip of an empty message.
    double bytes_per_second = 0.0;
  };
  const LinkSpeed& link_speed() const { return link_; }
  /// What its steps so far have sent, all messages' labels included, and what other followers were to send
  /// it.
  struct Traffic {
    std::uint64_t n_steps = 0, bytes_there = 0, bytes_back = 0, bytes_from_others = 0;
  };
  Traffic traffic() const;
  /// Why it is taken for dead, which it is for good: all that is asked of its devices throws Error kDevice.
  /// Empty while it lives.
  std::string lost() const;
  /// Gives it this rank among the others, which can then send it values directly. Once it is lost, they are
  /// notified, so that they do not wait for its values.
  void meet(int rank, std::span<const std::shared_ptr<Follower>> others);
  /// After this its loss is no longer noticed or reported to others. Call it for all followers before the
  /// first is destroyed.
  void part();
  /// Opens the device that the follower lists as `there`; here it is `info`.
  std::shared_ptr<Device> open(const DeviceInfo& there, const OpenOptions& options, DeviceInfo info) const;

 private:
  void measure();

  std::shared_ptr<Conversation> conversation_;
  LinkSpeed link_;
  std::vector<DeviceInfo> devices_;
};

}  // namespace weft::remote
