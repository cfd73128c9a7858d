#include "backend/mpi/world.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backend/mpi/mpi_link.h"
#include "backend/remote/leader.h"
#include "backend/remote/memory_speed.h"
#include "backend/remote/server.h"
#include "backend/usual_speed.h"
#include "weft/error.h"

namespace weft::mpi {
namespace {

/// How long a rank may be silent: WEFT_RANK_TIMEOUT, in seconds.
remote::Patience patience() {
  const char* const text = std::getenv("WEFT_RANK_TIMEOUT");
  if (text == nullptr || *text == '\0') return {};
  char* end = nullptr;
  const double seconds = std::strtod(text, &end);
  if (*end != '\0' || !(seconds >= 0.1 && seconds <= 86400.0))
    throw Error(
        ErrorCode::kInvalidArgument,
        "WEFT_RANK_TIMEOUT is a number of seconds from 0.1 to 86400, not '" + std::string(text) + "'");
  return {.lost_after = std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000.0))};
}

/// Those that the leader has, once for the process. They end with it, before MPI does.
struct Followers {
  struct Listed {
    std::shared_ptr<remote::Follower> follower;
    DeviceInfo here, there;  ///< As it is called by the leader, and by its own process.
  };
  struct Named {
    std::string name;
    int rank = 0;
    std::shared_ptr<remote::Follower> follower;
  };
  std::vector<Named> followers;
  std::vector<Listed> devices;
  std::vector<std::string> problems;

  static const Followers& all(const Registry& registry) {
    join();  // First: later objects are destroyed earlier.
    static const Followers kAll(registry);
    return kAll;
  }

  /// WEFT_RANK_TRAFFIC reports the bytes that steps have sent.
  ~Followers() {
    for (const Named& follower : followers) follower.follower->part();
    if (std::getenv("WEFT_RANK_TRAFFIC") == nullptr) return;
    for (const auto& [name, rank, follower] : followers) {
      const remote::Follower::Traffic traffic = follower->traffic();
      const double n = std::max(1.0, static_cast<double>(traffic.n_steps));
      std::fprintf(stderr, "%s: %llu steps, %.1f bytes to it, %.1f back and %.1f from others in a step\n",
                   name.c_str(), static_cast<unsigned long long>(traffic.n_steps),
                   static_cast<double>(traffic.bytes_there) / n, static_cast<double>(traffic.bytes_back) / n,
                   static_cast<double>(traffic.bytes_from_others) / n);
    }
  }
  Followers(const Followers&) = delete;
  Followers& operator=(const Followers&) = delete;

 private:
  /// What a CPU that reads memory so fast is taken for, where this process's is taken for a usual one.
  /// Rounded to a power of two, so that a placement does not change from start to start.
  double beside_ours(double bytes_per_second) {
    if (!(ours > 0.0 && bytes_per_second > 0.0)) return 0.0;
    return backend::kUsualProcessor.bytes_per_second *
           std::exp2(std::round(std::log2(bytes_per_second / ours)));
  }

  /// How much faster than a usual one this process's CPU is. Links are scaled by that, too.
  double beside_usual() const {
    return ours > 0.0 ? std::exp2(std::round(std::log2(ours / backend::kUsualProcessor.bytes_per_second)))
                      : 1.0;
  }

  double ours = 0.0;  // Bytes that this process's CPU reads in a second.

  explicit Followers(const Registry& registry) {
    for (const Backend& backend : registry.backends())
      if (backend.name == "cpu")
        for (const DeviceInfo& info : backend.list()) ours = remote::measure_memory(info.n_threads);
    for (int rank = 1; rank < join().size; ++rank) {
      const std::string name = "rank" + std::to_string(rank);
      try {
        const auto follower = std::make_shared<remote::Follower>(name, link_to(rank), patience());
        followers.push_back({name, rank, follower});
        for (const DeviceInfo& there : follower->devices()) {
          if (there.on_host_cpu && there.n_threads == 0) continue;  // A driver on the CPU, which is listed.
          DeviceInfo here = there;
          here.name = name + "." + there.name;
          here.backend = "mpi";
          here.description += " of rank " + std::to_string(rank);
          here.is_async = true;  // As it is once it is open.
          here.on_host_cpu = false;
          if (there.n_threads > 0) here.speed.bytes_per_second = beside_ours(there.speed.bytes_per_second);
          // Steps wait for the link, and rows cross it.
          const double link_seconds = follower->link_speed().seconds * beside_usual();
          const double link_speed = follower->link_speed().bytes_per_second / beside_usual();
          here.speed.step_seconds += link_seconds;
          here.speed.copy_bytes_per_second = there.speed.copy_bytes_per_second > 0.0
                                                 ? std::min(there.speed.copy_bytes_per_second, link_speed)
                                                 : link_speed;
          devices.push_back({follower, std::move(here), there});
        }
      } catch (const Error& error) {
        problems.emplace_back(error.what());
      }
    }
    std::vector<std::shared_ptr<remote::Follower>> all;
    for (const Named& follower : followers) all.push_back(follower.follower);
    for (const Named& follower : followers) follower.follower->meet(follower.rank, all);
  }
};

}  // namespace

void add(Registry& registry) {
  if (join().rank != 0 || join().size == 1) return;
  const Followers& followers = Followers::all(registry);
  registry.add(
      {.name = "mpi",
       .list =
           [&followers] {
             std::vector<DeviceInfo> infos;
             for (const auto& device : followers.devices)
               if (device.follower->lost().empty()) infos.push_back(device.here);
             return infos;
           },
       .open = [&followers](std::string_view name, const OpenOptions& options) -> std::shared_ptr<Device> {
         for (const auto& device : followers.devices)
           if (device.here.name == name) return device.follower->open(device.there, options, device.here);
         return nullptr;
       }});
}

bool follow(const Registry& registry) {
  if (join().rank == 0) {
    // One that was started and cannot take part would be missed without a word.
    if (join().size > 1 && !Followers::all(registry).problems.empty())
      throw Error(ErrorCode::kUnsupported, Followers::all(registry).problems.front());
    return false;
  }
  const auto link = link_to(0);
  try {
    remote::serve(registry, *link, patience(), link_between_followers);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnavailable) end_all_at_exit();
    throw;
  }
  return true;
}

}  // namespace weft::mpi
