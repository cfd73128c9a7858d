#include "exec/splits.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "backend/host_tensor.h"
#include "base/check.h"
#include "base/to_size.h"
#include "weft/dtype.h"
#include "weft/error.h"

namespace weft::exec {
namespace {

/// Assigns nodes to splits. A node joins the last split of its device, unless that would delay another device
/// that reads from the split already. Nor may the split then have to wait for an input from a device that
/// works at the same time.
class Splitter {
 public:
  Splitter(const Graph& graph, std::span<const int> device_of, const std::vector<bool>& is_async)
      : graph_(graph),
        device_of_(device_of),
        is_async_(is_async),
        live_(live_nodes(graph)),
        split_of_(graph.nodes().size(), -1),
        last_of_(is_async.size(), -1) {
    WEFT_CHECK(device_of.size() == graph.nodes().size());
  }

  Splits run() {
    check_states();
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i)
      if (live_[i]) add(i);
    sort();
    find_homes();
    find_crossing();
    for (const std::size_t run : order_) make_split(run);
    for (std::size_t s = 0; s < result_.splits.size(); ++s) note_copies(static_cast<int>(s));
    return std::move(result_);
  }

 private:
  struct Run {
    int device = 0;
    bool closed = false;
    std::vector<std::size_t> nodes;
    std::vector<int> after;         // Runs that it reads from ...
    std::vector<bool> known_after;  // ... and, by run, its indirect dependencies, too.
  };

  void check_states() const {
    std::vector<int> device_of_state(graph_.values().size(), -1);
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i) {
      if (!live_[i]) continue;
      for (const ValueId input : graph_.nodes()[i].inputs) {
        const ValueId state = state_behind(graph_, input);
        if (state == kNoValue) continue;
        int& device = device_of_state[index(state)];
        if (device >= 0 && device != device_of_[i])
          throw Error(ErrorCode::kInvalidArgument,
                      "the nodes of state " + graph_.value(state).name + " are placed on two devices, " +
                          graph_.value(graph_.nodes()[i].output).name + " on another than those before it");
        device = device_of_[i];
      }
    }
  }

  void add(std::size_t node) {
    const int device = device_of_[node];
    int& last = last_of_[to_size(device)];
    std::vector<int> sources;
    for (const ValueId input : graph_.nodes()[node].inputs) {
      const NodeId producer = graph_.value(input).producer;
      if (producer != kNoNode) sources.push_back(split_of_[index(producer)]);
    }
    if (last < 0 || run(last).closed || waits_anew(last, sources)) {
      last = static_cast<int>(runs_.size());
      runs_.push_back({.device = device, .closed = false, .nodes = {}, .after = {}, .known_after = {}});
    }
    split_of_[node] = last;
    run(last).nodes.push_back(node);
    for (const int source : sources) {
      // The last open run of a device has no readers elsewhere, so this cannot make a circle.
      if (source == last) continue;
      // A value from another device is waited for itself: that device may report only then that it is made.
      std::vector<int>& after = run(last).after;
      const bool is_after = comes_after(last, source);
      if ((!is_after || run(source).device != device) &&
          std::find(after.begin(), after.end(), source) == after.end())
        after.push_back(source);
      if (is_after) continue;
      std::vector<bool>& known = run(last).known_after;
      known.resize(runs_.size());
      known[to_size(source)] = true;
      for (std::size_t r = 0; r < run(source).known_after.size(); ++r)
        if (run(source).known_after[r]) known[r] = true;
    }
    for (const int source : sources)
      if (source != last) run(source).closed = true;
  }

  Run& run(int r) { return runs_[to_size(r)]; }
  const Run& run(int r) const { return runs_[to_size(r)]; }

  bool comes_after(int later, int earlier) const {
    const auto& known = run(later).known_after;
    return to_size(earlier) < known.size() && known[to_size(earlier)];
  }

  /// Whether a run that could so far run at the same time as one of the sources would have to wait for it.
  bool waits_anew(int r, std::span<const int> sources) const {
    return std::any_of(sources.begin(), sources.end(), [&](int source) {
      const auto beside = [&](int of) { return is_async_[to_size(run(of).device)]; };
      return source != r && !comes_after(r, source) && (beside(r) || beside(source));
    });
  }

  /// Sorts the possible next runs: asynchronous devices come first, then earlier runs.
  void sort() {
    std::vector<bool> done(runs_.size());
    while (order_.size() < runs_.size()) {
      std::size_t best = runs_.size();
      for (std::size_t r = 0; r < runs_.size(); ++r) {
        const auto& after = runs_[r].after;
        if (done[r] || !std::all_of(after.begin(), after.end(), [&](int a) { return done[to_size(a)]; }))
          continue;
        const auto beside = [&](std::size_t run) { return is_async_[to_size(runs_[run].device)]; };
        if (best == runs_.size() || (beside(r) && !beside(best))) best = r;
      }
      WEFT_CHECK(best < runs_.size());
      done[best] = true;
      order_.push_back(best);
    }
    place_of_.resize(runs_.size());
    for (std::size_t i = 0; i < order_.size(); ++i) place_of_[order_[i]] = static_cast<int>(i);
  }

  void find_homes() {
    result_.home.assign(graph_.values().size(), -1);
    for (const std::size_t run : order_)
      for (const std::size_t i : runs_[run].nodes) {
        const Node& node = graph_.nodes()[i];
        result_.home[index(node.output)] = runs_[run].device;
        for (const ValueId input : node.inputs)
          if (graph_.value(input).kind == ValueKind::kInput && result_.home[index(input)] < 0)
            result_.home[index(input)] = runs_[run].device;
      }
  }

  void find_crossing() {
    crosses_.resize(graph_.values().size());
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i) {
      if (!live_[i]) continue;
      for (const ValueId input : graph_.nodes()[i].inputs) {
        const NodeId producer = graph_.value(input).producer;
        if (producer != kNoNode && split_of_[index(producer)] != split_of_[i]) crosses_[index(input)] = true;
      }
    }
  }

  /// Whether a run has all that the graph has.
  bool is_whole(const Run& run) const {
    if (run.nodes.size() < graph_.nodes().size()) return false;
    std::vector<bool> used(graph_.values().size());
    for (const Node& node : graph_.nodes()) {
      used[index(node.output)] = true;
      for (const ValueId input : node.inputs) used[index(input)] = true;
    }
    return std::find(used.begin(), used.end(), false) == used.end();
  }

  void make_split(std::size_t run_index) {
    const Run& run = runs_[run_index];
    Split split;
    if (is_whole(run)) {
      split.device = run.device;
      split.graph = graph_;  // Which costs nothing.
      split.whole_value.resize(graph_.values().size());
      std::iota(split.whole_value.begin(), split.whole_value.end(), ValueId{0});
      result_.splits.push_back(std::move(split));
      return;
    }
    split.device = run.device;
    for (const int before : run.after) split.after.push_back(place_of_[to_size(before)]);
    std::sort(split.after.begin(), split.after.end());
    for (const Symbol& symbol : graph_.symbols()) split.graph.add_symbol(symbol.name, symbol.min, symbol.max);
    std::vector<ValueId> here(graph_.values().size(), kNoValue);
    const auto note = [&](ValueId whole, ValueId own) {
      here[index(whole)] = own;
      split.whole_value.push_back(whole);
      WEFT_CHECK(index(own) + 1 == split.whole_value.size());
      return own;
    };
    const auto import = [&](ValueId whole) {
      if (here[index(whole)] != kNoValue) return here[index(whole)];
      const ValueInfo& value = graph_.value(whole);
      if (value.kind == ValueKind::kWeight)
        return note(whole, split.graph.add_weight(value.name, value.dtype, value.shape));
      // A cache that an earlier split has changed is the cache.
      if (const ValueId state = state_behind(graph_, whole); state != kNoValue) {
        const ValueInfo& info = graph_.value(state);
        if (here[index(state)] == kNoValue)
          note(state, split.graph.add_state(info.name, info.dtype, info.shape));
        return here[index(whole)] = here[index(state)];
      }
      return note(whole, split.graph.add_input(value.name, value.dtype, value.shape));
    };
    for (const std::size_t i : run.nodes) {
      const Node& node = graph_.nodes()[i];
      std::vector<ValueId> inputs;
      for (const ValueId input : node.inputs) inputs.push_back(import(input));
      note(node.output, split.graph.add(node.op, inputs, graph_.value(node.output).name, node.tag));
    }
    for (const std::size_t i : run.nodes) {
      const ValueId output = graph_.nodes()[i].output;
      const bool is_output = graph_.is_output(output);
      if (is_output || (state_behind(graph_, output) == kNoValue && crosses_[index(output)]))
        split.graph.add_output(here[index(output)]);
    }
    result_.splits.push_back(std::move(split));
  }

  void note_copies(int s) {
    const Split& split = result_.splits[to_size(s)];
    for (std::size_t v = 0; v < split.whole_value.size(); ++v) {
      const ValueId whole = split.whole_value[v];
      const int from = result_.home[index(whole)];
      if (split.graph.values()[v].kind != ValueKind::kInput || from == split.device) continue;
      const bool known = std::any_of(result_.copies.begin(), result_.copies.end(), [&](const Copy& copy) {
        return copy.value == whole && copy.to == split.device;
      });
      if (!known) result_.copies.push_back({whole, from, split.device, s});
    }
  }

  const Graph& graph_;
  std::span<const int> device_of_;
  const std::vector<bool>& is_async_;
  const std::vector<bool> live_;
  std::vector<Run> runs_;
  std::vector<int> split_of_;       // By node: its run.
  std::vector<int> last_of_;        // By device: its last run.
  std::vector<std::size_t> order_;  // Of the runs.
  std::vector<int> place_of_;       // By run: its place in the order.
  std::vector<bool> crosses_;       // By value: another run reads it than the one that makes it.
  Splits result_;
};

}  // namespace

Splits split(const Graph& graph, std::span<const int> device_of, const std::vector<bool>& is_async) {
  return Splitter(graph, device_of, is_async).run();
}

std::vector<bool> is_async(std::span<Device* const> devices) {
  std::vector<bool> result;
  for (const Device* device : devices) result.push_back(device->info().is_async);
  return result;
}

std::vector<StepTensor> step_tensors(const Graph& graph, const Splits& splits) {
  std::vector<StepTensor> result;
  std::vector<std::vector<bool>> seen;  // By device and value.
  for (const Split& split : splits.splits) {
    const auto device = to_size(split.device);
    seen.resize(std::max(seen.size(), device + 1));
    seen[device].resize(graph.values().size());
    for (std::size_t v = 0; v < split.whole_value.size(); ++v) {
      const bool is_input = split.graph.values()[v].kind == ValueKind::kInput;
      if (!is_input && !split.graph.is_output(static_cast<ValueId>(v))) continue;
      const ValueId whole = split.whole_value[v];
      if (seen[device][index(whole)]) continue;
      seen[device][index(whole)] = true;
      result.push_back(
          {whole, split.device,
           graph.value(whole).kind == ValueKind::kInput && splits.home[index(whole)] == split.device});
    }
  }
  return result;
}

int steps_at_once(const Splits& splits, const std::vector<bool>& is_async, int most) {
  constexpr int kHost = -1;
  std::vector<int> stage_of;                // By split: at the same one they can be side by side.
  std::set<int> workers;                    // Devices that are asynchronous to the host, and the host.
  std::set<std::pair<int, int>> positions;  // A stage, and a worker in it.
  int n_stages = 0;
  for (const Split& split : splits.splits) {
    int stage = 0;
    for (const int before : split.after) stage = std::max(stage, stage_of[to_size(before)] + 1);
    stage_of.push_back(stage);
    n_stages = std::max(n_stages, stage + 1);
    const int worker = is_async[to_size(split.device)] ? split.device : kHost;
    workers.insert(worker);
    positions.insert({stage, worker});
  }
  if (splits.splits.size() < 2 || workers.size() == workers.count(kHost)) return 1;
  // The steps: all workers over the mean number of workers per stage. If that is nearly one step, two steps
  // would wait for each other with half of the rows each.
  const int n_positions = static_cast<int>(positions.size()), n = static_cast<int>(workers.size()) * n_stages;
  if (8 * n <= 9 * n_positions) return 1;
  return std::min(std::max((n + n_positions - 1) / n_positions, 2), most);
}

std::string to_dot(const Graph& graph, const Splits& splits, std::span<const std::string> device_names,
                   std::span<const std::int64_t> symbols) {
  static constexpr const char* kColours[] = {"#dbe9f6", "#fde0c5", "#d9f0d3",
                                             "#e7d4e8", "#fff2b3", "#f4cccc"};
  std::string text =
      "digraph weft {\n  rankdir=TB; node [shape=box, style=filled, fontname=\"sans-serif\", fontsize=10];\n"
      "  edge [fontname=\"sans-serif\", fontsize=9];\n";
  std::vector<int> made_by(graph.values().size(), -1);
  for (std::size_t s = 0; s < splits.splits.size(); ++s) {
    const Split& split = splits.splits[s];
    const auto nodes = split.graph.nodes();
    for (const Node& node : nodes)
      made_by[index(split.whole_value[index(node.output)])] = static_cast<int>(s);
    text += "  s" + std::to_string(s) + " [fillcolor=\"" +
            kColours[to_size(split.device) % std::size(kColours)] + "\", label=\"split " + std::to_string(s) +
            " on " + device_names[to_size(split.device)] + "\\n" + std::to_string(nodes.size()) +
            " nodes\\n" + split.graph.value(nodes.front().output).name + "\\nto " +
            split.graph.value(nodes.back().output).name + "\"];\n";
    for (const int before : split.after)
      text += "  s" + std::to_string(before) + " -> s" + std::to_string(s) + " [style=dotted];\n";
  }
  for (const Copy& copy : splits.copies) {
    const int from = made_by[index(copy.value)];
    const std::string source = from >= 0 ? "s" + std::to_string(from) : "host";
    if (from < 0) text += "  host [label=\"inputs\", fillcolor=\"#ffffff\"];\n";
    text += "  " + source + " -> s" + std::to_string(copy.before) + " [label=\"" +
            graph.value(copy.value).name + " " +
            std::to_string(value_bytes(graph.value(copy.value), symbols)) + " B\"];\n";
  }
  return text + "}\n";
}

}  // namespace weft::exec
