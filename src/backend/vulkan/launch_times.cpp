#include "backend/vulkan/launch_times.h"

#include <algorithm>

#include "base/to_size.h"

namespace weft::vulkan {

LaunchTimes::LaunchTimes(Gpu& gpu, Profile& profile, std::span<const std::string> names)
    : gpu_(gpu), profile_(profile) {
  VkQueryPoolCreateInfo create = {VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO};
  create.queryType = VK_QUERY_TYPE_TIMESTAMP;
  create.queryCount = static_cast<std::uint32_t>(names.size()) + 1;
  check(vkCreateQueryPool(gpu_.handle(), &create, nullptr, &pool_), "making timestamps");
  profile_.n_threads = std::max(profile_.n_threads, 1);
  for (const std::string& one : names) {
    auto& known = profile_.work;
    auto found = std::find_if(known.begin(), known.end(), [&](const auto& w) { return w.name == one; });
    if (found == known.end()) found = known.insert(known.end(), {.name = one});
    place_.push_back(to_size(found - known.begin()));
  }
}

LaunchTimes::~LaunchTimes() {
  gpu_.wait_idle();
  vkDestroyQueryPool(gpu_.handle(), pool_, nullptr);
}

void LaunchTimes::begin(VkCommandBuffer commands, std::span<const std::size_t> launches) {
  launches_.assign(launches.begin(), launches.end());
  vkCmdResetQueryPool(commands, pool_, 0, static_cast<std::uint32_t>(launches_.size()) + 1);
  stamp(commands, 0);
}

void LaunchTimes::stamp(VkCommandBuffer commands, std::size_t number) const {
  vkCmdWriteTimestamp(commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, pool_,
                      static_cast<std::uint32_t>(number));
}

void LaunchTimes::add() {
  std::vector<std::uint64_t> times(launches_.size() + 1);
  check(vkGetQueryPoolResults(gpu_.handle(), pool_, 0, static_cast<std::uint32_t>(times.size()),
                              times.size() * sizeof(times[0]), times.data(), sizeof(times[0]),
                              VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT),
        "reading timestamps");
  const double period = static_cast<double>(gpu_.properties().limits.timestampPeriod) * 1e-9;
  for (std::size_t i = 0; i < launches_.size(); ++i) {
    Profile::Work& to = profile_.work[place_[launches_[i]]];
    const double seconds =
        times[i + 1] > times[i] ? static_cast<double>(times[i + 1] - times[i]) * period : 0.0;
    ++to.calls;
    to.busy_seconds += seconds;
    to.seconds += seconds;
    profile_.seconds += seconds;
  }
  ++profile_.n_steps;
}

}  // namespace weft::vulkan
