#include "engine/devices/fit_model.h"

#include <algorithm>

#include "engine/context_params.h"
#include "engine/devices/placement_rules.h"
#include "engine/graph_sizes.h"
#include "exec/cheapest.h"
#include "exec/placement.h"
#include "weft/error.h"

namespace weft::engine {
namespace {

/// The devices whose memory a placement exceeds, with the needed memory; empty where it fits.
std::string exceeded(const Graph& graph, const exec::DeviceSet& set, std::span<const int> device_of) {
  const std::vector<Device*> devices = set.pointers();
  const auto needs = memory_needs(graph, devices, device_of, set.host);
  for (std::size_t d = 0; d < devices.size(); ++d) {
    const DeviceInfo& info = devices[d]->info();
    // The CPU's memory also holds the file's pages, which the system can evict.
    const std::uint64_t room = static_cast<int>(d) == set.host ? info.memory_total : info.memory_free;
    if (needs[d].total() > room)
      return info.name + " has " + std::to_string(room >> 20) + " MiB but needs " +
             std::to_string(needs[d].total() >> 20) + " MiB";
  }
  return "";
}

}  // namespace

model::GraphSizes expected_sizes(const PlacementParams& params, const ModelInfo& info) {
  if (info.encoder) return encoder_sizes(default_text_length(info), row_shares(params));
  const ContextParams context = fill_in({.n_ctx = params.n_ctx,
                                         .n_sequences = params.n_sequences,
                                         .n_ubatch = params.n_ubatch,
                                         .n_source = params.n_source},
                                        info, CacheType::kF16);
  return graph_sizes(context, DType::kF16, DType::kF16, row_shares(params));
}

std::vector<exec::MemoryNeed> memory_needs(const Graph& graph, std::span<Device* const> devices,
                                           std::span<const int> device_of, int host, int n_threads) {
  std::vector<exec::MemoryNeed> needs = exec::memory_needs(graph, devices, device_of, host, n_threads);
  const auto readers = exec::devices_reading(graph, device_of);
  for (std::size_t v = 0; v < graph.values().size(); ++v) {
    const ValueInfo& value = graph.values()[v];
    if (value.kind != ValueKind::kWeight || !readers[v].empty()) continue;
    for (std::size_t d = 0; d < devices.size(); ++d)
      needs[d].weights += devices[d]->bytes_of(value.kind, value.dtype, value.shape.dims({}));
  }
  return needs;
}

std::vector<int> place_model(const Graph& graph, int n_layers, const exec::DeviceSet& set,
                             const PlacementParams& params, int n_cpu_moe) {
  // Also with one device: it checks the pins.
  const PlacementRules rules(graph, n_layers, set, params, n_cpu_moe);
  if (set.size() == 1) {
    if (const std::string what = exceeded(graph, set, std::vector<int>(graph.nodes().size(), 0));
        params.fit && !what.empty())
      throw Error(ErrorCode::kOutOfMemory,
                  "the model does not fit: " + what +
                      "; use a smaller model, a smaller quantization, or a shorter context");
    return std::vector<int>(graph.nodes().size(), 0);
  }
  const int all = set.named.empty() ? 0 : n_layers + 1;
  std::string first_problem;
  for (int n = params.n_layers >= 0 ? std::min(params.n_layers, all) : all; n >= 0; --n) {
    for (const PlacementRules::Shares shares : rules.ways_to_share()) {
      std::vector<int> device_of = exec::place_cheapest(graph, set, rules.with_layers(n, shares));
      const std::string what = params.fit ? exceeded(graph, set, device_of) : "";
      if (what.empty()) return device_of;
      if (first_problem.empty()) first_problem = what;
    }
    if (params.n_layers >= 0) break;
  }
  throw Error(ErrorCode::kOutOfMemory,
              "the model does not fit on its devices: " + first_problem +
                  "; place fewer layers there, or use a smaller model or a shorter context");
}

}  // namespace weft::engine
