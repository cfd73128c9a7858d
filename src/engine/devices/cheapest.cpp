#include "engine/devices/cheapest.h"

#include <algorithm>

#include "exec/placement.h"

namespace weft::engine {
namespace {

// What placement assumes of devices as long as nobody has measured them. Only their ratios matter.
constexpr exec::NodeSpeed kAssumedSpeed = {.bytes_per_second = 2e10, .flops = 5e11, .node_seconds = 2e-6};
constexpr exec::Link kAssumedLink = {.seconds = 2e-5, .bytes_per_second = 5e9};

}  // namespace

std::vector<int> place_cheapest(const Graph& graph, const DeviceSet& set, std::span<const int> fixed) {
  const auto n = static_cast<std::size_t>(set.size());
  const std::vector<exec::NodeSpeed> speeds(n, kAssumedSpeed);
  const std::vector<exec::Link> links(n * n, kAssumedLink);
  // A step of one token is the one that is run most.
  std::vector<std::int64_t> symbols;
  for (const Symbol& symbol : graph.symbols()) symbols.push_back(std::min<std::int64_t>(symbol.max, 1));
  const std::vector<Device*> devices = set.pointers();
  exec::Costs costs = exec::costs_of(graph, devices, speeds, links, set.host, symbols);
  for (std::size_t node = 0; node < fixed.size(); ++node)
    for (std::size_t d = 0; d < n && fixed[node] >= 0; ++d)
      if (fixed[node] != static_cast<int>(d)) costs.node[node * n + d] = exec::kImpossible;
  return exec::place(graph, costs).device_of;
}

}  // namespace weft::engine
