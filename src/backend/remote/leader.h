#pragma once
// Devices of another process, as the leader has them: what is asked of one becomes a message, and so does
// each step, with what changed of its inputs. Steps run beside the host.
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
  /// `name` is for messages. Throws Error kUnsupported where it
  /// is of another build, kDevice where it does not answer.
  Follower(std::string name, std::unique_ptr<Link> link, Patience patience = {});
  /// Tells it that this was all, once its devices are gone.
  ~Follower();
  Follower(const Follower&) = delete;
  Follower& operator=(const Follower&) = delete;

  /// As it names them itself. The speed of its CPU is that of reading memory, measured when it was greeted.
  const std::vector<DeviceInfo>& devices() const { return devices_; }
  /// Of messages to it, measured when it was greeted; to the nearest power of two.
  struct LinkSpeed {
    double seconds = 0.0;  ///< Of a question and an answer that say nothing.
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
  /// The others know it by this rank, and so can send it what they make. Once it is lost they are told, lest
  /// they wait for what it was to send them.
  void meet(int rank, std::span<const std::shared_ptr<Follower>> others);
  /// Nobody learns any more that it is lost, nor tells others: to be called for all of them before the first
  /// is destroyed.
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
