#include "engine/devices/devices.h"

#include <algorithm>
#include <charconv>
#include <numeric>

#include "base/check.h"
#include "engine/context_params.h"
#include "engine/graph_sizes.h"
#include "engine/model_impl.h"
#include "text/search_pattern.h"
#include "weft/error.h"

namespace weft::engine {
namespace {

constexpr int kNoLayer = -1;
constexpr int kNoPart = -1;

/// Digits at the beginning of a text, or kNoLayer.
int leading_number(std::string_view text) {
  int number = kNoLayer;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

/// The layer that a name tells: "blk.3.attn_q", "cache.k.3", "state.conv.3".
int layer_of(std::string_view name) {
  if (name.starts_with("blk.")) return leading_number(name.substr(4));
  if (name.starts_with("cache.") || name.starts_with("state.")) {
    const std::size_t dot = name.find('.', 6);
    if (dot != std::string_view::npos) return leading_number(name.substr(dot + 1));
  }
  return kNoLayer;
}

/// Which part of a matrix that is cut by rows a node computes (GraphSizes::row_shares).
int part_of(std::string_view name) {
  const std::size_t mark = name.rfind('#');
  return mark == std::string_view::npos ? kNoPart : leading_number(name.substr(mark + 1));
}

int layer_of(const Graph& graph, const Node& node) {
  int layer = layer_of(graph.value(node.output).name);
  for (const ValueId input : node.inputs) layer = std::max(layer, layer_of(graph.value(input).name));
  return layer;
}

/// Rules for the devices of nodes, from the weakest to the strongest: layers, experts, pins.
class Rules {
 public:
  Rules(const Graph& graph, int n_layers, const DeviceSet& set, const PlacementParams& params)
      : graph_(graph), n_layers_(n_layers), set_(set), params_(params), pinned_(graph.nodes().size(), -1) {
    for (const Node& node : graph.nodes()) {
      int layer = layer_of(graph, node);
      // Between a layer's nodes it is that layer's, whatever it reads.
      const bool named = layer_of(graph.value(node.output).name) != kNoLayer;
      if (!named && layer != kNoLayer && !layers_.empty()) layer = std::max(layer, layers_.back());
      layers_.push_back(layer);
    }
    // What comes behind the last layer is the output's; the table of embeddings stays with the CPU unless the
    // output uses it as well.
    std::size_t last = 0;
    for (std::size_t n = 0; n < layers_.size(); ++n)
      if (layers_[n] == n_layers - 1) last = n;
    for (std::size_t n = last + 1; n < layers_.size(); ++n)
      if (layers_[n] == kNoLayer) layers_[n] = n_layers;
    pin_experts();
    for (const Pin& pin : params.pins) apply(pin);
    unite_states();
  }

  /// The device of each node where n_layers go to the named devices; -1 where it is open.
  std::vector<int> with_layers(int n_named) const {
    const int first = std::max(n_layers_ - n_named, 0);
    const int end = std::min(first + n_named, n_layers_ + 1);
    const std::vector<int> ends = ends_of_shares(end - first);
    std::vector<int> result = pinned_;
    for (std::size_t n = 0; n < result.size(); ++n) {
      const int layer = layers_[n];
      if (result[n] >= 0) continue;
      if (layer == kNoLayer) {
        if (is_table(n)) result[n] = set_.host;
        continue;
      }
      int device = set_.host;
      const int part = part_of(graph_.value(graph_.nodes()[n].output).name);
      if (layer >= first && layer < end && params_.split_rows) {
        device = part != kNoPart ? part : set_.named.front();
      } else if (layer >= first && layer < end) {
        const auto share = std::upper_bound(ends.begin(), ends.end(), layer - first) - ends.begin();
        device = set_.named[static_cast<std::size_t>(share)];
      }
      if (set_.devices[static_cast<std::size_t>(device)]->supports(graph_, graph_.nodes()[n]))
        result[n] = device;
    }
    open_states(result);
    return result;
  }

 private:
  /// Where a device can do something with a state, but not all that the graph asks for, all of it is open.
  void open_states(std::vector<int>& device_of) const {
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

  bool is_table(std::size_t n) const {
    const Node& node = graph_.nodes()[n];
    if (get_op<ops::GetRows>(node) == nullptr || graph_.value(node.inputs[0]).kind != ValueKind::kWeight)
      return false;
    const auto nodes = graph_.nodes();
    return std::count_if(nodes.begin(), nodes.end(), [&](const Node& other) {
             return std::find(other.inputs.begin(), other.inputs.end(), node.inputs[0]) != other.inputs.end();
           }) == 1;
  }

  /// Where each named device's part of n layers ends.
  std::vector<int> ends_of_shares(int n) const {
    std::vector<double> shares(set_.named.size());
    for (std::size_t i = 0; i < shares.size(); ++i)
      shares[i] = params_.shares.empty()
                      ? static_cast<double>(set_.devices[index(set_.named[i])]->info().memory_free)
                      : static_cast<double>(i < params_.shares.size() ? params_.shares[i] : 0.0f);
    const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
    std::vector<int> ends;
    double so_far = 0.0;
    for (const double share : shares) {
      so_far += share;
      ends.push_back(sum > 0.0 ? static_cast<int>(so_far / sum * n + 0.5) : n);
    }
    if (!ends.empty()) ends.back() = n;
    return ends;
  }

  void pin_experts() {
    if (!params_.experts_on_cpu) return;
    for (std::size_t n = 0; n < pinned_.size(); ++n)
      if (get_op<ops::MatmulExperts>(graph_.nodes()[n]) != nullptr) pinned_[n] = set_.host;
  }

  void apply(const Pin& pin) {
    const int device = set_.find(pin.device);
    const text::SearchPattern pattern(pin.pattern);
    bool found = false;
    for (std::size_t n = 0; n < pinned_.size(); ++n) {
      const Node& node = graph_.nodes()[n];
      const auto fits = [&](ValueId value) { return pattern.found_in(graph_.value(value).name); };
      const bool of_input = std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) {
        const ValueKind kind = graph_.value(input).kind;
        return (kind == ValueKind::kWeight || kind == ValueKind::kState) && fits(input);
      });
      if (!of_input && !fits(node.output)) continue;
      found = true;
      if (!set_.devices[index(device)]->supports(graph_, node))
        throw Error(ErrorCode::kUnsupported, pin.device + " cannot compute " + std::string(name(node.op)) +
                                                 " (" + graph_.value(node.output).name +
                                                 "), which is pinned to it");
      pinned_[n] = device;
    }
    if (!found)
      throw Error(ErrorCode::kInvalidArgument,
                  "the pin '" + pin.pattern + "' fits no tensor; inspect --tensors lists their names");
  }

  /// The nodes of a state are on one device: one that is pinned takes the others along.
  void unite_states() {
    std::vector<int> device_of(graph_.values().size(), -1);
    for (int pass = 0; pass < 2; ++pass)  // Attention ties keys to values: once more for what it brought.
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

  const Graph& graph_;
  const int n_layers_;
  const DeviceSet& set_;
  const PlacementParams& params_;
  std::vector<int> layers_;  // By node.
  std::vector<int> pinned_;  // By node: a device or -1.
};

// What placement assumes of devices as long as nobody has measured them. Only their ratios matter.
constexpr exec::NodeSpeed kAssumedSpeed = {.bytes_per_second = 2e10, .flops = 5e11, .node_seconds = 2e-6};
constexpr exec::Link kAssumedLink = {.seconds = 2e-5, .bytes_per_second = 5e9};

std::vector<int> place_rest(const Graph& graph, const DeviceSet& set, std::span<const int> fixed) {
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

/// The devices whose memory a placement exceeds, with what it needs there; empty where it fits.
std::string exceeded(const Graph& graph, const DeviceSet& set, std::span<const int> device_of) {
  const std::vector<Device*> devices = set.pointers();
  const auto needs = exec::memory_needs(graph, devices, device_of, set.host);
  for (std::size_t d = 0; d < devices.size(); ++d) {
    const DeviceInfo& info = devices[d]->info();
    // The CPU's memory holds the file's pages too, which the system gives back.
    const std::uint64_t room = static_cast<int>(d) == set.host ? info.memory_total : info.memory_free;
    if (needs[d].total() > room)
      return info.name + " has " + std::to_string(room >> 20) + " MiB and needs " +
             std::to_string(needs[d].total() >> 20) + " MiB";
  }
  return "";
}

}  // namespace

std::vector<Device*> DeviceSet::pointers() const {
  std::vector<Device*> result;
  for (const auto& device : devices) result.push_back(device.get());
  return result;
}

std::vector<bool> DeviceSet::beside_host() const { return exec::beside_host(pointers()); }

int DeviceSet::find(const std::string& name) const {
  std::string known;
  for (int d = 0; d < size(); ++d) {
    const std::string& own = devices[index(d)]->info().name;
    if (own == name) return d;
    known += (known.empty() ? "" : ", ") + own;
  }
  throw Error(ErrorCode::kNotFound, "no device \"" + name + "\" was asked for; there are " + known);
}

DeviceSet open_devices(const Registry& registry, const PlacementParams& params, const OpenOptions& options) {
  DeviceSet set;
  std::vector<std::string> names;
  set.host = -1;
  for (const std::string& word : params.devices) {
    const std::size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const std::string listed = equals == std::string::npos ? name : word.substr(equals + 1);
    if (std::find(names.begin(), names.end(), name) != names.end())
      throw Error(ErrorCode::kInvalidArgument,
                  "two devices are named \"" + name + "\"; NAME=DEVICE gives one another");
    names.push_back(name);
    OpenOptions own = options;
    own.name = name;
    set.devices.push_back(registry.open(listed, own));
    if (name == kHostDevice) {
      set.host = set.size() - 1;
    } else {
      set.named.push_back(set.size() - 1);
    }
  }
  if (set.host < 0) {
    set.devices.push_back(registry.open(kHostDevice, options));
    set.host = set.size() - 1;
  }
  return set;
}

std::vector<double> row_shares(const PlacementParams& params) {
  if (!params.split_rows || params.devices.size() < 2) return {};
  std::vector<double> shares(params.devices.size(), params.shares.empty() ? 1.0 : 0.0);
  for (std::size_t i = 0; i < std::min(shares.size(), params.shares.size()); ++i)
    shares[i] = std::max(static_cast<double>(params.shares[i]), 0.0);
  return shares;
}

model::GraphSizes expected_sizes(const PlacementParams& params, const ModelInfo& info) {
  const ContextParams context =
      fill_in({.n_ctx = params.n_ctx, .n_sequences = params.n_sequences, .n_ubatch = params.n_ubatch}, info,
              CacheType::kF16);
  return graph_sizes(context, DType::kF16, DType::kF16, row_shares(params));
}

std::vector<int> place_model(const Graph& graph, int n_layers, const DeviceSet& set,
                             const PlacementParams& params) {
  const Rules rules(graph, n_layers, set, params);  // Also of one device: wrong pins are refused.
  if (set.size() == 1) {
    if (const std::string what = exceeded(graph, set, std::vector<int>(graph.nodes().size(), 0));
        params.fit && !what.empty())
      throw Error(ErrorCode::kOutOfMemory,
                  "the model does not fit: " + what +
                      "; use a smaller or more strongly quantised model, or a shorter context");
    return std::vector<int>(graph.nodes().size(), 0);
  }
  const int all = set.named.empty() ? 0 : n_layers + 1;
  std::string first_problem;
  for (int n = params.n_layers >= 0 ? std::min(params.n_layers, all) : all; n >= 0; --n) {
    std::vector<int> device_of = place_rest(graph, set, rules.with_layers(n));
    const std::string what = params.fit ? exceeded(graph, set, device_of) : "";
    if (what.empty()) return device_of;
    if (first_problem.empty()) first_problem = what;
    if (params.n_layers >= 0) break;
  }
  throw Error(ErrorCode::kOutOfMemory,
              "the model does not fit where it is placed: " + first_problem +
                  "; place fewer layers there, or use a smaller model or a shorter context");
}

std::vector<int> devices_of_weight(const Graph& graph, std::span<const int> device_of, ValueId weight,
                                   int n_devices) {
  std::vector<int> result;
  for (std::size_t n = 0; n < graph.nodes().size(); ++n) {
    const auto& inputs = graph.nodes()[n].inputs;
    if (std::find(inputs.begin(), inputs.end(), weight) == inputs.end()) continue;
    if (std::find(result.begin(), result.end(), device_of[n]) == result.end()) result.push_back(device_of[n]);
  }
  if (result.empty()) {
    result.resize(static_cast<std::size_t>(n_devices));
    std::iota(result.begin(), result.end(), 0);
  }
  return result;
}

BoundGraph::BoundGraph(const ModelImpl& model, const Graph& graph)
    : model_(model),
      device_of_node_(model.device_of),
      device_of_(graph.values().size(), -1),
      bindings_(model.devices.devices.size(), Bindings(graph.values().size(), nullptr)),
      home_(graph.values().size(), nullptr) {
  // A context's graph may have nodes that the model's lacks (for the best tokens), where there is no choice.
  if (model.devices.size() == 1) device_of_node_.assign(graph.nodes().size(), 0);
  WEFT_CHECK(device_of_node_.size() == graph.nodes().size());
  const std::vector<bool> live = live_nodes(graph);
  for (std::size_t n = 0; n < graph.nodes().size(); ++n) {
    if (!live[n]) continue;
    const Node& node = graph.nodes()[n];
    // The model was placed with other sizes and types of caches.
    if (Device& device = *model.devices.devices[index(device_of_node_[n])]; !device.supports(graph, node))
      throw Error(ErrorCode::kUnsupported,
                  device.info().name + " cannot compute " + std::string(name(node.op)) + " (" +
                      graph.value(node.output).name +
                      ") for this context; use f16 caches or smaller steps, or leave its layer to the CPU");
    for (const ValueId input : node.inputs)
      if (graph.value(input).kind != ValueKind::kResult && device_of_[index(input)] < 0)
        device_of_[index(input)] = device_of_node_[n];
    device_of_[index(node.output)] = device_of_node_[n];
  }
  const exec::Splits splits = exec::split(graph, device_of_node_, model.devices.beside_host());
  const std::vector<std::int64_t> bounds = graph.bounds();
  for (std::size_t v = 0; v < graph.values().size(); ++v) {
    const ValueInfo& value = graph.values()[v];
    if (value.kind == ValueKind::kWeight) {
      for (std::size_t d = 0; d < bindings_.size(); ++d)
        if (const auto found = model.weights[d].find(value.name); found != model.weights[d].end())
          home_[v] = bindings_[d][v] = found->second.get();
      continue;
    }
    if (value.kind == ValueKind::kResult && !graph.is_output(static_cast<ValueId>(v))) continue;
    if (value.kind == ValueKind::kInput && splits.home[v] >= 0) device_of_[v] = splits.home[v];
    // What nobody reads is with the CPU.
    if (device_of_[v] < 0) device_of_[v] = model.devices.host;
    const std::vector<std::int64_t> shape = value.shape.dims(bounds);
    Device& device = device_of(static_cast<ValueId>(v));
    tensors_.push_back(value.kind == ValueKind::kState ? device.create_state(value.dtype, shape)
                                                       : device.create_host_tensor(value.dtype, shape));
    home_[v] = bindings_[index(device_of_[v])][v] = tensors_.back().get();
  }
}

Device& BoundGraph::device_of(ValueId value) const {
  return *model_.devices.devices[index(device_of_[index(value)])];
}

exec::Plan BoundGraph::compile(const Graph& graph, const CompileOptions& options) const {
  return exec::Plan(model_.devices.pointers(), {graph, device_of_node_, bindings_}, options);
}

}  // namespace weft::engine
