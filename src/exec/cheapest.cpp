#include "exec/cheapest.h"

#include <algorithm>

#include "backend/usual_speed.h"
#include "exec/placement.h"

namespace weft::exec {
namespace {

// The cost of each node in addition to its bytes and operations: a barrier, a dispatch.
constexpr double kNodeSeconds = 2e-6;

/// Copies between devices go through the host's memory, and both devices begin and end a step for them.
Link link_between(const DeviceSpeed& from, const DeviceSpeed& to) {
  return {.seconds = from.step_seconds + to.step_seconds,
          .bytes_per_second = 1.0 / (1.0 / from.copy_bytes_per_second + 1.0 / to.copy_bytes_per_second)};
}

}  // namespace

DeviceSpeed expected_speed(const DeviceInfo& info) {
  DeviceSpeed speed = info.speed;
  // CPUs of other machines have threads, too.
  const DeviceSpeed& usual =
      info.on_host_cpu || info.n_threads > 0 ? backend::kUsualProcessor : backend::kUsualGraphicsCard;
  for (double DeviceSpeed::* const figure : {&DeviceSpeed::bytes_per_second, &DeviceSpeed::flops,
                                             &DeviceSpeed::step_seconds, &DeviceSpeed::copy_bytes_per_second})
    if (!(speed.*figure > 0.0)) speed.*figure = usual.*figure;
  return speed;
}

std::vector<int> place_cheapest(const Graph& graph, const DeviceSet& set, std::span<const int> fixed) {
  const std::vector<Device*> devices = set.pointers();
  const auto nodes = graph.nodes();
  const auto supported = [&](const Node& node) { return devices[0]->supports(graph, node); };
  // Without a choice, the costs are not needed.
  const auto may_be_there = [](int device) { return device <= 0; };
  if (devices.size() == 1 && std::all_of(nodes.begin(), nodes.end(), supported) &&
      std::all_of(fixed.begin(), fixed.end(), may_be_there))
    return std::vector<int>(nodes.size(), 0);
  std::vector<DeviceSpeed> speeds;
  for (const Device* device : devices) speeds.push_back(expected_speed(device->info()));
  std::vector<NodeSpeed> node_speeds;
  std::vector<Link> links;
  for (const DeviceSpeed& from : speeds) {
    node_speeds.push_back(
        {.bytes_per_second = from.bytes_per_second, .flops = from.flops, .node_seconds = kNodeSeconds});
    for (const DeviceSpeed& to : speeds) links.push_back(link_between(from, to));
  }
  // A step of one token is the one that is run most.
  std::vector<std::int64_t> symbols;
  for (const Symbol& symbol : graph.symbols())
    symbols.push_back(std::clamp<std::int64_t>(1, symbol.min, symbol.max));
  Costs costs = costs_of(graph, devices, node_speeds, links, set.host, symbols);
  const std::size_t n = devices.size();
  for (std::size_t node = 0; node < fixed.size(); ++node)
    for (std::size_t d = 0; d < n && fixed[node] >= 0; ++d)
      if (fixed[node] != static_cast<int>(d)) costs.node[node * n + d] = kImpossible;
  return place(graph, costs).device_of;
}

}  // namespace weft::exec
