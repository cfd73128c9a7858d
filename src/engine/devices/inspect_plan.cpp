// How a model would be spread over devices, without loading it.
#include "backend/host_tensor.h"
#include "base/to_size.h"
#include "engine/boundary.h"
#include "engine/devices/device_choice.h"
#include "engine/devices/fit_model.h"
#include "engine/model_impl.h"
#include "engine/model_params.h"
#include "exec/device_set.h"
#include "exec/placement.h"
#include "exec/splits.h"
#include "weft/model.h"

namespace weft {

PlanReport inspect_plan(const std::filesystem::path& path, const ModelParams& params) try {
  engine::check(params);
  const gguf::File file = gguf::File::open(path);
  model::ModelDescription description = model::describe(file);
  description.additions = engine::load_additions(params, file, description.hparams);
  const ModelInfo info = engine::model_info(file, description);
  const auto registry = params.registry != nullptr ? params.registry : load_backends();
  const PlacementParams placement = engine::choose_devices(*registry, params.placement);
  const exec::DeviceSet set =
      exec::open_devices(*registry, placement, {.n_threads = params.n_threads, .feature = {}});
  const auto build = [&](int n_ctx) {
    return model::build_graph(file, description,
                              engine::expected_sizes(placement, info, description.hparams, n_ctx));
  };
  const engine::PlacedGraph placed =
      engine::place_model(build(0), build, info, set, placement, params.n_cpu_moe);
  const model::ModelGraph& model = placed.graph;
  const Graph& graph = model.graph;
  const exec::Splits splits = exec::split(graph, placed.device_of, set.is_async());

  std::vector<std::int64_t> one_token;
  for (const Symbol& symbol : graph.symbols()) one_token.push_back(symbol.min);
  for (const SymbolId symbol : {model.n_tokens, model.n_wanted, model.n_outputs, model.n_vectors})
    if (symbol != kNoSymbol) one_token[to_size(symbol)] = 1;

  PlanReport report{placed.report, {}, {}, {}};
  std::vector<std::string> names;
  for (const PlacementReport::Device& device : report.devices) names.push_back(device.name);
  const auto name_of = [&](int device) { return names[to_size(device)]; };
  for (const exec::Split& split : splits.splits) {
    const auto nodes = split.graph.nodes();
    const auto made = [&](const Node& node) { return split.graph.value(node.output).name; };
    report.splits.push_back(
        {name_of(split.device), static_cast<int>(nodes.size()), made(nodes.front()), made(nodes.back())});
  }
  for (const exec::Copy& copy : splits.copies)
    report.copies.push_back({graph.value(copy.value).name, name_of(copy.from), name_of(copy.to),
                             value_bytes(graph.value(copy.value), one_token), copy.before});
  report.drawing = exec::to_dot(graph, splits, names, one_token);
  return report;
} catch (...) {
  engine::rethrow_as_error();
}

}  // namespace weft
