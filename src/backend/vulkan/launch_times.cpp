#include "backend/vulkan/launch_times.h"

#include <algorithm>
#include <cstdio>

#include "base/to_size.h"

namespace weft::vulkan {
namespace {

/// "blk.3.ffn_down.weight" as "ffn_down".
std::string without_layer(const std::string& name) {
  std::string text = name;
  const std::size_t end = text.find_first_not_of("0123456789", 4);
  if (text.starts_with("blk.") && end != std::string::npos && text[end] == '.') text.erase(0, end + 1);
  if (text.ends_with(".weight")) text.resize(text.size() - 7);
  return text;
}

}  // namespace

std::string work_name(const Graph& graph, const Launch& launch) {
  const Node& node = graph.node(launch.node);
  const std::string shader = name(launch.shader);
  if (!shader.starts_with("matmul")) return shader + " " + std::string(weft::to_string(node.op));
  const ValueInfo& weight = graph.value(node.inputs[0]);
  const Shape& s = weight.shape;
  double bytes = static_cast<double>(row_bytes(weight.dtype, s.columns()));
  const bool experts = get_op<ops::MatmulExperts>(node) != nullptr;
  for (int i = experts ? 1 : 0; i + 1 < s.rank(); ++i) bytes *= static_cast<double>(s[i].constant());
  if (experts)
    bytes *= static_cast<double>(std::min(s[0].constant(), graph.value(node.inputs[2]).shape.columns()));
  char size[32];
  std::snprintf(size, sizeof size, ", %.1f MB", bytes * 1e-6);
  return shader + " " + without_layer(weight.name) + size;
}

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
