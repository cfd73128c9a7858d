#include "engine/devices/fit_model.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "base/memory.h"
#include "base/to_size.h"
#include "engine/context_params.h"
#include "engine/devices/placement_rules.h"
#include "engine/graph_sizes.h"
#include "exec/cheapest.h"
#include "exec/placement.h"
#include "weft/error.h"

namespace weft::engine {
namespace {

std::uint64_t margin_of(const PlacementParams& params, const exec::DeviceSet& set, int device) {
  const bool is_named = std::ranges::find(set.named, device) != set.named.end();
  const std::string& name = set.devices[to_size(device)]->info().name;
  std::uint64_t bytes = 0;
  for (const Margin& margin : params.margins)
    if (margin.device.empty() ? is_named : margin.device == name) bytes += margin.bytes;
  return bytes;
}

std::string mib_text(std::uint64_t bytes) { return std::to_string(bytes >> 20) + " MiB"; }

/// One way to place a graph.
struct Choice {
  std::vector<int> device_of = {};
  int n_layers = 0;
  int n_cpu_moe = 0;
  std::string problem = {};  ///< The device whose memory it exceeds; empty: it fits.
  bool fits() const { return problem.empty(); }
};

class FitSearch {
 public:
  FitSearch(int n_layers, const exec::DeviceSet& set, const PlacementParams& params, int n_cpu_moe,
            bool has_contexts)
      : set_(set),
        params_(params),
        has_contexts_(has_contexts),
        n_layers_(n_layers),
        n_cpu_moe_(params.experts_on_cpu ? n_layers : n_cpu_moe),
        most_(set.named.empty()      ? 0
              : params.n_layers >= 0 ? std::min(params.n_layers, n_layers + 1)
                                     : n_layers + 1) {}

  /// All layers, and the experts that the user left to the devices.
  Choice most(const Graph& graph) const { return choose(graph, most_, n_cpu_moe_); }

  /// The most that fits; if nothing does, the first problem.
  Choice best(const Graph& graph) const {
    const Choice first = most(graph);
    if (first.fits() || set_.size() == 1) return first;
    const int n_moe = experts_are_open(graph) ? n_layers_ : n_cpu_moe_;
    if (n_moe != n_cpu_moe_) {
      Choice fitting = choose(graph, most_, n_moe);
      // All above `too_few` are tried or fit.
      for (int too_few = 0; fitting.fits() && fitting.n_cpu_moe > too_few + 1;) {
        const int middle = (too_few + fitting.n_cpu_moe) / 2;
        Choice choice = choose(graph, most_, middle);
        if (choice.fits()) {
          fitting = std::move(choice);
        } else {
          too_few = middle;
        }
      }
      if (fitting.fits()) return fitting;
    }
    for (int n = most_ - 1; params_.n_layers < 0 && n >= 0; --n)
      if (Choice choice = choose(graph, n, n_moe); choice.fits()) return choice;
    return first;
  }

  Choice choose(const Graph& graph, int n_layers, int n_cpu_moe) const {
    // Also with one device: it checks the pins.
    const PlacementRules rules(graph, n_layers_, set_, params_, n_cpu_moe);
    Choice choice{.n_layers = n_layers, .n_cpu_moe = n_cpu_moe};
    if (set_.size() == 1) {
      choice.device_of.assign(graph.nodes().size(), 0);
      choice.problem = problem_of(graph, choice.device_of);
      return choice;
    }
    for (const PlacementRules::Shares shares : rules.ways_to_share()) {
      std::vector<int> device_of = exec::place_cheapest(graph, set_, rules.with_layers(n_layers, shares));
      std::string problem = problem_of(graph, device_of);
      const bool fits = problem.empty();
      if (fits || choice.device_of.empty()) {
        choice.device_of = std::move(device_of);
        choice.problem = std::move(problem);
      }
      if (fits) break;
    }
    return choice;
  }

 private:
  bool experts_are_open(const Graph& graph) const {
    return !params_.experts_on_cpu && n_cpu_moe_ == 0 && most_ > 0 &&
           std::ranges::any_of(graph.nodes(),
                               [](const Node& node) { return node.tag.part == Part::kExperts; });
  }

  std::string problem_of(const Graph& graph, std::span<const int> device_of) const {
    if (!params_.fit) return "";
    const std::vector<Device*> devices = set_.pointers();
    const auto needs = memory_needs(graph, devices, device_of, set_.host);
    for (std::size_t d = 0; d < devices.size(); ++d) {
      const DeviceInfo& info = devices[d]->info();
      // Contexts that are there have taken their part of the host's free memory already.
      const bool is_taken = has_contexts_ && static_cast<int>(d) == set_.host;
      const std::uint64_t memory = is_taken ? info.memory_total : info.memory_free;
      const std::uint64_t margin = std::min(margin_of(params_, set_, static_cast<int>(d)), memory);
      if (needs[d].total() > memory - margin)
        return info.name + " needs " + mib_text(needs[d].total()) + ", " + mib_text(memory) +
               " are available" + (margin > 0 ? " with a margin of " + mib_text(margin) : "") +
               (static_cast<int>(d) == set_.host ? std::string(" (") + base::machine_memory().limit + ")"
                                                 : "");
    }
    return "";
  }

  const exec::DeviceSet& set_;
  const PlacementParams& params_;
  const bool has_contexts_;
  const int n_layers_;
  const int n_cpu_moe_;
  const int most_;  ///< Layers on named devices, at most.
};

PlacementReport report_of(const Graph& graph, const exec::DeviceSet& set, const PlacementParams& params,
                          const Choice& choice) {
  PlacementReport report{.n_layers = choice.n_layers, .n_cpu_moe = choice.n_cpu_moe};
  const std::vector<Device*> devices = set.pointers();
  const auto needs = memory_needs(graph, devices, choice.device_of, set.host);
  for (std::size_t d = 0; d < devices.size(); ++d)
    report.devices.push_back({.name = devices[d]->info().name,
                              .weights = needs[d].weights,
                              .cache = needs[d].states,
                              .workspace = needs[d].step_tensors + needs[d].workspace,
                              .margin = margin_of(params, set, static_cast<int>(d)),
                              .free = devices[d]->info().memory_free});
  return report;
}

ContextParams expected_context(const PlacementParams& params, const ModelInfo& info, int n_ctx) {
  return fill_in({.n_ctx = n_ctx > 0 ? n_ctx : params.n_ctx,
                  .n_sequences = params.n_sequences,
                  .n_ubatch = params.n_ubatch,
                  .n_source = params.n_source,
                  .n_outputs = params.n_outputs,
                  .k_type = params.k_type,
                  .v_type = params.v_type,
                  .state_rewind = params.state_rewind},
                 info, CacheType::kF16);
}

[[noreturn]] void refuse_to_place(const exec::DeviceSet& set, const PlacementParams& params,
                                  const std::string& problem) {
  const bool has_margin = margin_of(params, set, set.host) > 0;
  if (set.size() == 1)
    throw Error(ErrorCode::kOutOfMemory,
                "the model does not fit: " + problem +
                    "; use a smaller model, a smaller quantization, a shorter context (--ctx-size), or "
                    "weights in the file's layout (--no-repack)" +
                    (has_margin ? ", or a smaller margin (--fit-target)" : ""));
  throw Error(ErrorCode::kOutOfMemory,
              "the model does not fit on its devices: " + problem +
                  "; place fewer layers there, or use a smaller model or a shorter context");
}

}  // namespace

model::GraphSizes expected_sizes(const PlacementParams& params, const ModelInfo& info,
                                 const model::HParams& hparams, int n_ctx) {
  if (info.encoder) return encoder_sizes(default_text_length(info), row_shares(params));
  const ContextParams context = expected_context(params, info, n_ctx);
  return graph_sizes(context, k_cache_dtype(context.k_type, hparams), v_cache_dtype(context.v_type, hparams),
                     row_shares(params));
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

PlacedGraph place_model(model::ModelGraph graph, const GraphOfLength& build, const ModelInfo& info,
                        const exec::DeviceSet& set, const PlacementParams& params, int n_cpu_moe,
                        bool has_contexts) {
  constexpr int kGranule = 256, kLeastDefault = 4096;
  const FitSearch search(info.n_layers, set, params, n_cpu_moe, has_contexts);
  const int full = info.encoder ? 0 : expected_context(params, info, 0).n_ctx;
  int n_ctx = full;
  // The longest context with which `fitting`, a choice for n_ctx, still fits.
  const auto lengthen = [&](Choice& fitting) {
    for (int too_long = full; too_long - n_ctx > kGranule;) {
      const int middle = n_ctx + (too_long - n_ctx) / 2 / kGranule * kGranule;
      if (middle == n_ctx) break;
      model::ModelGraph longer = build(middle);
      Choice choice = search.choose(longer.graph, fitting.n_layers, fitting.n_cpu_moe);
      if (!choice.fits()) {
        too_long = middle;
        continue;
      }
      graph = std::move(longer);
      fitting = std::move(choice);
      n_ctx = middle;
    }
  };
  Choice choice = search.most(graph.graph);
  const bool is_default = params.n_ctx == 0 && info.n_ctx_fit == 0;
  const int least = params.n_ctx_min > 0 ? params.n_ctx_min : is_default ? kLeastDefault : full;
  const bool can_lower = params.fit && least < full;
  if (!choice.fits()) {
    std::optional<model::ModelGraph> shortest;
    const auto shorten = [&](Choice found) {
      if (!found.fits()) return;
      graph = *std::move(shortest);
      n_ctx = least;
      choice = std::move(found);
      lengthen(choice);
    };
    if (can_lower) shorten(search.most((shortest = build(least))->graph));
    if (!choice.fits()) choice = search.best(graph.graph);
    if (!choice.fits() && can_lower) shorten(search.best(shortest->graph));
    if (!choice.fits()) refuse_to_place(set, params, choice.problem);
  }
  PlacementReport report = report_of(graph.graph, set, params, choice);
  report.n_layers_all = info.n_layers + 1;
  report.n_ctx = n_ctx;
  report.n_ctx_full = full;
  return {std::move(graph), std::move(choice.device_of), std::move(report)};
}

}  // namespace weft::engine
