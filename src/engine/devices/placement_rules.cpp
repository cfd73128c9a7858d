#include "engine/devices/placement_rules.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <string>

#include "base/to_size.h"
#include "exec/cheapest.h"
#include "exec/pins.h"
#include "model/shard.h"
#include "weft/dtype.h"
#include "weft/error.h"

namespace weft::engine {

std::vector<double> row_shares(const PlacementParams& params) {
  if (!params.split_rows || params.devices.size() < 2) return {};
  std::vector<double> shares(params.devices.size(), params.shares.empty() ? 1.0 : 0.0);
  for (std::size_t i = 0; i < std::min(shares.size(), params.shares.size()); ++i)
    shares[i] = std::max(static_cast<double>(params.shares[i]), 0.0);
  return shares;
}

PlacementRules::PlacementRules(const Graph& graph, int n_layers, const exec::DeviceSet& set,
                               const PlacementParams& params, int n_cpu_moe)
    : graph_(graph), n_layers_(n_layers), set_(set), params_(params), pinned_(graph.nodes().size(), -1) {
  pin_experts(n_cpu_moe);
  for (const Pin& pin : params.pins) apply(pin);
  unite_states();
}

std::vector<int> PlacementRules::with_layers(int n_named, Shares by) const {
  const int first = std::max(n_layers_ - n_named, 0);
  const int end = std::min(first + n_named, n_layers_ + 1);
  const std::vector<int> ends = ends_of_shares(first, end, by);
  const std::vector<double> shares = row_shares(params_);
  std::vector<int> result = pinned_;
  for (std::size_t n = 0; n < result.size(); ++n) {
    if (result[n] >= 0) continue;
    const Node& node = graph_.nodes()[n];
    const int layer = layer_of(node);
    const bool is_shard = node.tag.shard != NodeTag::kNone;
    if (layer == NodeTag::kNone && !is_shard) {
      if (is_separate_table(node)) result[n] = set_.host;
      continue;
    }
    int device = set_.host;
    if (is_shard && (layer == NodeTag::kNone ? n_named > 0 : layer >= first && layer < end)) {
      device = node.tag.shard;
    } else if (!shares.empty() && layer >= first && layer < end) {
      device = static_cast<int>(model::first_with_share(shares));
    } else if (layer >= first && layer < end) {
      const auto share = std::upper_bound(ends.begin(), ends.end(), layer - first) - ends.begin();
      device = set_.named[to_size(share)];
    }
    if (set_.devices[index(device)]->supports(graph_, node)) result[n] = device;
  }
  open_states(result);
  return result;
}

/// The head counts as one more layer.
int PlacementRules::layer_of(const Node& node) const {
  return node.tag.part == Part::kHead ? n_layers_ : node.tag.layer;
}

/// Rows of a weight that no other node reads.
bool PlacementRules::is_separate_table(const Node& node) const {
  if (get_op<ops::GetRows>(node) == nullptr || graph_.value(node.inputs[0]).kind != ValueKind::kWeight)
    return false;
  const auto nodes = graph_.nodes();
  return std::count_if(nodes.begin(), nodes.end(), [&](const Node& other) {
           return std::find(other.inputs.begin(), other.inputs.end(), node.inputs[0]) != other.inputs.end();
         }) == 1;
}

std::span<const PlacementRules::Shares> PlacementRules::ways_to_share() const {
  static constexpr Shares kBoth[] = {Shares::kSpeed, Shares::kMemory};
  const bool by_speed = params_.shares.empty() && set_.all_named_are_cpus();
  return by_speed ? std::span(kBoth) : std::span(kBoth).last(1);
}

/// Bytes of the layers and the head, as stored in the file.
std::vector<double> PlacementRules::weight_bytes() const {
  std::vector<double> bytes(to_size(n_layers_) + 1);
  for (const Node& node : graph_.nodes()) {
    const int layer = layer_of(node);
    if (layer < 0 || layer > n_layers_) continue;
    for (const ValueId input : node.inputs) {
      const ValueInfo& value = graph_.value(input);
      if (value.kind != ValueKind::kWeight) continue;
      const auto shape = value.shape.dims({});
      const auto n = std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
      bytes[to_size(layer)] += static_cast<double>(row_bytes(value.dtype, n));
    }
  }
  return bytes;
}

/// Where each named device's part of the layers ends, counted from the first of them.
std::vector<int> PlacementRules::ends_of_shares(int first, int end, Shares by) const {
  const int n = end - first;
  std::vector<double> shares(set_.named.size());
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const DeviceInfo& info = set_.devices[index(set_.named[i])]->info();
    shares[i] = !params_.shares.empty()
                    ? static_cast<double>(i < params_.shares.size() ? params_.shares[i] : 0.0f)
                : by == Shares::kMemory ? static_cast<double>(info.memory_free)
                                        : exec::expected_speed(info).bytes_per_second;
  }
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  // The bytes before each layer, of all that is divided.
  std::vector<double> before(to_size(n) + 1);
  const std::vector<double> bytes = by == Shares::kSpeed ? weight_bytes() : std::vector<double>();
  for (std::size_t i = 0; i < before.size() - 1; ++i)
    before[i + 1] = before[i] + (bytes.empty() ? 1.0 : bytes[to_size(first) + i]);
  std::vector<int> ends;
  double so_far = 0.0;
  for (const double share : shares) {
    so_far += share;
    const double wanted = sum > 0.0 ? so_far / sum * before.back() : before.back();
    // The layer at the boundary goes to the device with the larger part of it.
    int to = 0;
    while (to < n && before[to_size(to)] + before[to_size(to) + 1] <= 2.0 * wanted) ++to;
    ends.push_back(to);
  }
  if (!ends.empty()) ends.back() = n;
  return ends;
}

/// If a device supports some nodes of a state but not all, all of them are open.
void PlacementRules::open_states(std::vector<int>& device_of) const {
  std::vector<bool> open(graph_.values().size());
  for (bool again = true; again;) {
    again = false;
    for (std::size_t n = 0; n < device_of.size(); ++n) {
      std::vector<ValueId> states;
      for (const ValueId input : graph_.nodes()[n].inputs)
        if (const ValueId state = state_behind(graph_, input); state != kNoValue) states.push_back(state);
      if (std::any_of(states.begin(), states.end(), [&](ValueId state) { return open[index(state)]; }) &&
          pinned_[n] < 0)
        device_of[n] = -1;
      for (const ValueId state : states) {
        again = again || (device_of[n] < 0 && !open[index(state)]);
        if (device_of[n] < 0) open[index(state)] = true;
      }
    }
  }
}

void PlacementRules::pin_experts(int n_cpu_moe) {
  const int n_layers = params_.experts_on_cpu ? n_layers_ : n_cpu_moe;
  for (std::size_t n = 0; n < pinned_.size(); ++n)
    if (const NodeTag& tag = graph_.nodes()[n].tag; tag.part == Part::kExperts && tag.layer < n_layers)
      pinned_[n] = set_.host;
}

void PlacementRules::apply(const Pin& pin) {
  const int device = set_.find(pin.device);
  const std::vector<bool> pinned = exec::pinned_nodes(graph_, pin, *set_.devices[index(device)]);
  for (std::size_t n = 0; n < pinned_.size(); ++n)
    if (pinned[n]) pinned_[n] = device;
}

/// The nodes of a state are on one device: one that is pinned takes the others along.
void PlacementRules::unite_states() {
  std::vector<int> device_of(graph_.values().size(), -1);
  // Attention connects keys and values: repeat for the added nodes.
  for (int pass = 0; pass < 2; ++pass)
    for (std::size_t n = 0; n < pinned_.size(); ++n) {
      for (const ValueId input : graph_.nodes()[n].inputs) {
        const ValueId state = state_behind(graph_, input);
        if (state != kNoValue && pinned_[n] >= 0) device_of[index(state)] = pinned_[n];
      }
    }
  for (int pass = 0; pass < 2; ++pass)
    for (std::size_t n = 0; n < pinned_.size(); ++n) {
      int device = -1;
      for (const ValueId input : graph_.nodes()[n].inputs)
        if (const ValueId state = state_behind(graph_, input); state != kNoValue)
          device = std::max(device, device_of[index(state)]);
      if (device < 0) continue;
      pinned_[n] = device;
      for (const ValueId input : graph_.nodes()[n].inputs)
        if (const ValueId state = state_behind(graph_, input); state != kNoValue)
          device_of[index(state)] = device;
    }
}

}  // namespace weft::engine
