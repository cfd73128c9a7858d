#include "exec/placement.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>

#include "backend/host_tensor.h"
#include "base/check.h"
#include "base/to_size.h"
#include "exec/splits.h"
#include "weft/dtype.h"
#include "weft/error.h"

namespace weft::exec {
namespace {

/// The work of a node in a step: multiplications and additions of its product.
double flops_of(const Graph& graph, const Node& node, std::span<const std::int64_t> symbols) {
  const auto out = static_cast<double>(graph.value(node.output).shape.elements(symbols));
  if (is_view(node.op)) return 0.0;
  if (get_op<ops::BatchMatmul>(node) != nullptr) {
    const Shape& a = graph.value(node.inputs[0]).shape;
    return 2.0 * out * static_cast<double>(a.back().value(symbols));
  }
  if (get_op<ops::DenseAttention>(node) != nullptr) {
    const auto keys = static_cast<double>(graph.value(node.inputs[1]).shape[2].value(symbols));
    const auto k_columns = static_cast<double>(graph.value(node.inputs[0]).shape.columns());
    const auto v_columns = static_cast<double>(graph.value(node.output).shape.columns());
    return 2.0 * out * keys * (1.0 + k_columns / v_columns);
  }
  if (get_op<ops::Lstm>(node) != nullptr || get_op<ops::Gru>(node) != nullptr)
    return 2.0 * static_cast<double>(graph.value(node.inputs[0]).shape.elements(symbols)) *
           static_cast<double>(graph.value(node.output).shape.columns());
  if (get_op<ops::Matmul>(node) != nullptr || get_op<ops::MatmulExperts>(node) != nullptr)
    return 2.0 * out * static_cast<double>(graph.value(node.inputs[0]).shape.columns());
  return out;
}

/// Bytes that a node reads and writes. Views move none, where who reads them can follow strides.
double bytes_of(const Graph& graph, const Node& node, std::span<const std::int64_t> symbols) {
  if (is_view(node.op)) return 0.0;
  const auto out = static_cast<double>(graph.value(node.output).shape.elements(symbols));
  double bytes = state_behind(graph, node.output) == kNoValue ? 4.0 * out : 0.0;
  for (const ValueId input : node.inputs) {
    const ValueInfo& value = graph.value(input);
    // A table costs only its selected rows. The reads of a cache by attention are unknown.
    if (state_behind(graph, input) != kNoValue) continue;
    if (get_op<ops::GetRows>(node) != nullptr && input == node.inputs[0]) {
      bytes += 4.0 * out;
    } else if (get_op<ops::MatmulExperts>(node) != nullptr && input == node.inputs[0]) {
      // At most one expert for each id.
      const auto n_experts = static_cast<double>(value.shape[0].constant());
      const auto n_ids = static_cast<double>(graph.value(node.inputs[2]).shape.elements(symbols));
      bytes += static_cast<double>(value_bytes(value, symbols)) * std::min(n_ids / n_experts, 1.0);
    } else {
      bytes += static_cast<double>(value_bytes(value, symbols));
    }
  }
  return bytes;
}

/// The places of a value: the device that made it and the devices that have it.
class Where {
 public:
  static constexpr int kMaxDevices = 26;
  Where() = default;
  explicit Where(int home) : word_(static_cast<char32_t>(home << kMaxDevices | 1 << home)) {}
  explicit Where(char32_t word) : word_(word) {}
  int home() const { return word_ >> kMaxDevices; }
  bool on(int device) const { return (word_ >> device & 1) != 0; }
  void add(int device) { word_ = static_cast<char32_t>(word_ | 1 << device); }
  char32_t word() const { return word_; }

 private:
  char32_t word_ = 0;
};

class Placer {
 public:
  Placer(const Graph& graph, const Costs& costs, std::size_t max_states)
      : graph_(graph), costs_(costs), max_states_(max_states), live_(live_nodes(graph)) {
    find_last_readers();
  }

  Placement run() {
    Placement greedy = place_greedily(graph_, costs_);
    if (costs_.n_devices > Where::kMaxDevices) return greedy;
    // A little slack: equal sums may differ in their last bits.
    bound_ = greedy.seconds == kImpossible ? kImpossible : greedy.seconds * (1.0 + 1e-9);
    states_.push_back({{}, 0.0, -1, -1});
    begin_ = 0;
    for (std::size_t n = 0; n < graph_.nodes().size(); ++n)
      if (live_[n]) step(n);
    return best(greedy);
  }

 private:
  /// The cheapest way to a set of places of the values alive.
  struct State {
    std::u32string where;  // By alive_.
    double seconds = 0.0;
    int parent = -1;
    int device = -1;  // Of the last node.
  };

  /// A value stays alive until its last reader; outputs that the host reads count when they are made.
  void find_last_readers() {
    last_reader_.assign(graph_.values().size(), -1);
    for (std::size_t n = 0; n < graph_.nodes().size(); ++n)
      if (live_[n])
        for (const ValueId input : graph_.nodes()[n].inputs) last_reader_[index(input)] = static_cast<int>(n);
  }

  /// What a node reads and where: weights are wherever they are needed.
  bool is_placed(ValueId value) const { return graph_.value(value).kind != ValueKind::kWeight; }

  void step(std::size_t n) {
    const Node& node = graph_.nodes()[n];
    // The columns of a state: those alive before, the inputs of the graph that come in here, the result.
    std::vector<ValueId> columns = alive_;
    std::vector<std::size_t> reads;
    for (const ValueId input : node.inputs) {
      if (!is_placed(input)) continue;
      auto at = std::find(columns.begin(), columns.end(), input);
      if (at == columns.end()) at = columns.insert(columns.end(), input);
      const auto column = to_size(at - columns.begin());
      if (std::find(reads.begin(), reads.end(), column) == reads.end()) reads.push_back(column);
    }
    columns.push_back(node.output);
    std::vector<std::size_t> kept;
    for (std::size_t c = 0; c < columns.size(); ++c)
      if (last_reader_[index(columns[c])] > static_cast<int>(n)) kept.push_back(c);
    const bool is_output = graph_.is_output(node.output);

    std::unordered_map<std::u32string, std::size_t> found;
    const std::size_t end = states_.size();
    for (std::size_t s = begin_; s < end; ++s) {
      for (int device = 0; device < costs_.n_devices; ++device) {
        double seconds = states_[s].seconds + costs_.node_at(n, device);
        if (is_output) seconds += costs_.copy_of(node.output, device, costs_.host);
        std::u32string where = states_[s].where;
        for (std::size_t c = where.size(); c < columns.size(); ++c) where.push_back(U'\0');
        for (const std::size_t column : reads) {
          Where place(where[column]);
          const ValueId value = columns[column];
          if (place.word() == 0) {  // It comes in here: inputs from the host, states are where they are used.
            const int home = graph_.value(value).kind == ValueKind::kState ? device : costs_.host;
            place = Where(home);
          }
          if (!place.on(device)) {
            seconds += costs_.copy_of(value, place.home(), device);
            place.add(device);
          }
          where[column] = place.word();
        }
        if (!(seconds <= bound_) || seconds == kImpossible) continue;
        where.back() = Where(device).word();
        std::u32string key;
        for (const std::size_t c : kept) key.push_back(where[c]);
        const auto [at, is_new] = found.try_emplace(key, states_.size());
        if (is_new) {
          states_.push_back({std::move(key), seconds, static_cast<int>(s), device});
        } else if (State& state = states_[at->second]; seconds < state.seconds) {
          state.seconds = seconds;
          state.parent = static_cast<int>(s);
          state.device = device;
        }
      }
    }
    if (states_.size() == end)
      throw Error(ErrorCode::kUnsupported, "no device can compute " + std::string(to_string(node.op)) + " (" +
                                               graph_.value(node.output).name +
                                               ") where pins require it; check the pins");
    // From here on, only the way back through earlier states is needed.
    for (std::size_t s = begin_; s < end; ++s) std::u32string().swap(states_[s].where);
    begin_ = end;
    prune();
    std::vector<ValueId> alive;
    for (const std::size_t c : kept) alive.push_back(columns[c]);
    alive_ = std::move(alive);
  }

  void prune() {
    if (states_.size() - begin_ <= max_states_) return;
    exact_ = false;
    const auto first = states_.begin() + static_cast<std::ptrdiff_t>(begin_);
    std::nth_element(first, first + static_cast<std::ptrdiff_t>(max_states_), states_.end(),
                     [](const State& a, const State& b) { return a.seconds < b.seconds; });
    states_.resize(begin_ + max_states_);
  }

  Placement best(const Placement& greedy) const {
    std::size_t last = begin_;
    for (std::size_t s = begin_; s < states_.size(); ++s)
      if (states_[s].seconds < states_[last].seconds) last = s;
    Placement result;
    result.exact = exact_;
    result.device_of = greedy.device_of;
    int at = static_cast<int>(last);
    for (std::size_t n = graph_.nodes().size(); n-- > 0;) {
      if (!live_[n]) continue;
      result.device_of[n] = states_[to_size(at)].device;
      at = states_[to_size(at)].parent;
    }
    result.seconds = cost_of(graph_, costs_, result.device_of);
    return result;
  }

  const Graph& graph_;
  const Costs& costs_;
  const std::size_t max_states_;
  const std::vector<bool> live_;
  std::vector<int> last_reader_;  // By value: a node, or -1.
  std::vector<ValueId> alive_;
  std::vector<State> states_;
  std::size_t begin_ = 0;  // Index of the first state of the last node.
  double bound_ = kImpossible;
  bool exact_ = true;
};

}  // namespace

std::vector<std::vector<int>> devices_reading(const Graph& graph, std::span<const int> device_of) {
  std::vector<std::vector<int>> result(graph.values().size());
  for (std::size_t n = 0; n < graph.nodes().size(); ++n)
    for (const ValueId input : graph.nodes()[n].inputs) {
      std::vector<int>& devices = result[index(input)];
      if (std::find(devices.begin(), devices.end(), device_of[n]) == devices.end())
        devices.push_back(device_of[n]);
    }
  return result;
}

Costs costs_of(const Graph& graph, std::span<Device* const> devices, std::span<const NodeSpeed> speeds,
               std::span<const Link> links, int host, std::span<const std::int64_t> symbols) {
  const std::size_t n = devices.size();
  WEFT_CHECK(speeds.size() == n && links.size() == n * n);
  Costs costs;
  costs.n_devices = static_cast<int>(n);
  costs.host = host;
  for (const Node& node : graph.nodes()) {
    const double bytes = bytes_of(graph, node, symbols), flops = flops_of(graph, node, symbols);
    for (std::size_t d = 0; d < n; ++d)
      costs.node.push_back(devices[d]->supports(graph, node)
                               ? speeds[d].node_seconds +
                                     std::max(bytes / speeds[d].bytes_per_second, flops / speeds[d].flops)
                               : kImpossible);
  }
  for (std::size_t v = 0; v < graph.values().size(); ++v) {
    const bool is_state = state_behind(graph, static_cast<ValueId>(v)) != kNoValue;
    const auto bytes = static_cast<double>(value_bytes(graph.values()[v], symbols));
    for (std::size_t from = 0; from < n; ++from)
      for (std::size_t to = 0; to < n; ++to) {
        const Link& link = links[from * n + to];
        costs.copy.push_back(from == to ? 0.0
                             : is_state ? kImpossible
                                        : link.seconds + bytes / link.bytes_per_second);
      }
  }
  return costs;
}

double cost_of(const Graph& graph, const Costs& costs, std::span<const int> device_of) {
  const std::vector<bool> live = live_nodes(graph);
  std::vector<Where> where(graph.values().size());
  double seconds = 0.0;
  for (std::size_t n = 0; n < graph.nodes().size(); ++n) {
    if (!live[n]) continue;
    const Node& node = graph.nodes()[n];
    const int device = device_of[n];
    seconds += costs.node_at(n, device);
    for (const ValueId input : node.inputs) {
      const ValueKind kind = graph.value(input).kind;
      if (kind == ValueKind::kWeight) continue;
      Where& place = where[index(input)];
      if (place.word() == 0) place = Where(kind == ValueKind::kState ? device : costs.host);
      if (place.on(device)) continue;
      seconds += costs.copy_of(input, place.home(), device);
      place.add(device);
    }
    where[index(node.output)] = Where(device);
    if (graph.is_output(node.output)) seconds += costs.copy_of(node.output, device, costs.host);
  }
  return seconds;
}

Placement place(const Graph& graph, const Costs& costs, std::size_t max_states) {
  return Placer(graph, costs, max_states).run();
}

Placement place_greedily(const Graph& graph, const Costs& costs) {
  Placement result;
  result.exact = false;
  std::vector<int> device_of_state(graph.values().size(), -1);
  for (std::size_t n = 0; n < graph.nodes().size(); ++n) {
    const Node& node = graph.nodes()[n];
    const auto can = [&](int device) { return costs.node_at(n, device) != kImpossible; };
    std::vector<int> n_inputs(to_size(costs.n_devices));
    int of_state = -1;
    for (const ValueId input : node.inputs) {
      const NodeId producer = graph.value(input).producer;
      if (producer != kNoNode) ++n_inputs[to_size(result.device_of[index(producer)])];
      if (const ValueId state = state_behind(graph, input);
          state != kNoValue && device_of_state[index(state)] >= 0)
        of_state = device_of_state[index(state)];
    }
    int best = -1;
    for (int device = 0; device < costs.n_devices; ++device) {
      if (!can(device)) continue;
      const auto more = [&](int d) { return n_inputs[to_size(d)]; };
      if (best < 0 || more(device) > more(best) ||
          (more(device) == more(best) && costs.node_at(n, device) < costs.node_at(n, best)))
        best = device;
    }
    if (of_state >= 0 && can(of_state)) best = of_state;
    best = std::max(best, 0);
    for (const ValueId input : node.inputs)
      if (const ValueId state = state_behind(graph, input); state != kNoValue)
        device_of_state[index(state)] = best;
    result.device_of.push_back(best);
  }
  result.seconds = cost_of(graph, costs, result.device_of);
  return result;
}

std::vector<MemoryNeed> memory_needs(const Graph& graph, std::span<Device* const> devices,
                                     std::span<const int> device_of, int host, int n_threads,
                                     int most_at_once) {
  const std::vector<std::int64_t> bounds = graph.bounds();
  const CompileOptions options = {.n_threads = n_threads, .workspaces = std::make_shared<Workspaces>()};
  std::vector<std::size_t> own(devices.size()), shared(devices.size());
  std::vector<MemoryNeed> needs(devices.size());
  const std::vector<bool> beside = is_async(devices);
  const Splits splits = split(graph, device_of, beside);

  std::vector<std::vector<bool>> counted(devices.size(), std::vector<bool>(graph.values().size()));
  for (const Split& split : splits.splits) {
    const auto d = to_size(split.device);
    for (std::size_t v = 0; v < split.whole_value.size(); ++v) {
      const ValueInfo& info = split.graph.values()[v];
      if (info.kind != ValueKind::kWeight && info.kind != ValueKind::kState) continue;
      if (counted[d][index(split.whole_value[v])]) continue;
      counted[d][index(split.whole_value[v])] = true;
      (info.kind == ValueKind::kWeight ? needs[d].weights : needs[d].states) +=
          devices[d]->bytes_of(info.kind, info.dtype, info.shape.dims(bounds));
    }
    const PlanMemory memory = devices[d]->memory_of(split.graph, options);
    own[d] += memory.own;
    shared[d] = std::max(shared[d], memory.shared);
  }
  for (std::size_t d = 0; d < devices.size(); ++d) needs[d].workspace = own[d] + shared[d];
  const int n_at_once = steps_at_once(splits, beside, most_at_once);
  for (const StepTensor& tensor : step_tensors(graph, splits))
    needs[to_size(tensor.device)].step_tensors +=
        value_bytes(graph.value(tensor.value), bounds) * to_size(sets_of(tensor, n_at_once));
  for (std::size_t v = 0; v < graph.values().size(); ++v)
    if (graph.values()[v].kind == ValueKind::kInput && splits.home[v] < 0)
      needs[to_size(host)].step_tensors += value_bytes(graph.values()[v], bounds);
  return needs;
}

}  // namespace weft::exec
