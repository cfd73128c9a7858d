#include "backend/mpi/world.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backend/mpi/mpi_link.h"
#include "backend/remote/leader.h"
#include "backend/remote/server.h"
#include "weft/error.h"

namespace weft::mpi {
namespace {

/// Those that the leader has, once for the process. They end with it, before MPI does.
struct Followers {
  struct Listed {
    std::shared_ptr<remote::Follower> follower;
    DeviceInfo here, there;  ///< As it is called by the leader, and by its own process.
  };
  std::vector<Listed> devices;
  std::vector<std::string> problems;

  static const Followers& all() {
    join();  // First: what is made later ends earlier.
    static const Followers kAll;
    return kAll;
  }

 private:
  Followers() {
    for (int rank = 1; rank < join().size; ++rank) {
      const std::string name = "rank" + std::to_string(rank);
      try {
        const auto follower = std::make_shared<remote::Follower>(name, link_to(rank));
        for (const DeviceInfo& there : follower->devices()) {
          if (there.on_host_cpu && there.n_threads == 0) continue;  // A driver on the CPU, which is listed.
          DeviceInfo here = there;
          here.name = name + "." + there.name;
          here.backend = "mpi";
          here.description += " of rank " + std::to_string(rank);
          here.beside_host = true;  // As it is once it is open.
          here.on_host_cpu = false;
          devices.push_back({follower, std::move(here), there});
        }
      } catch (const Error& error) {
        problems.emplace_back(error.what());
      }
    }
  }
};

}  // namespace

void add(Registry& registry) {
  if (join().rank != 0 || join().size == 1) return;
  const Followers& followers = Followers::all();
  registry.add(
      {.name = "mpi",
       .list =
           [&followers] {
             std::vector<DeviceInfo> infos;
             for (const auto& device : followers.devices) infos.push_back(device.here);
             return infos;
           },
       .open = [&followers](std::string_view name, const OpenOptions& options) -> std::shared_ptr<Device> {
         for (const auto& device : followers.devices)
           if (device.here.name == name) return device.follower->open(device.there, options, device.here);
         return nullptr;
       }});
  if (!followers.problems.empty()) throw Error(ErrorCode::kDevice, followers.problems.front());
}

bool follow(const Registry& registry) {
  if (join().rank == 0) return false;
  const auto link = link_to(0);
  remote::serve(registry, *link);
  return true;
}

}  // namespace weft::mpi
