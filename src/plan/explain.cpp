// Explanations of plans.
#include <nlohmann/json.hpp>

#include "backend/host_tensor.h"
#include "exec/placement.h"
#include "plan/plan_impl.h"

namespace weft {
namespace {

using Json = nlohmann::ordered_json;

std::string joined(const Json& words) {
  std::string text;
  for (const Json& word : words) text += (text.empty() ? "" : ", ") + word.get<std::string>();
  return text;
}

std::string as_text(const Json& plan) {
  std::string text;
  for (std::size_t s = 0; s < plan["splits"].size(); ++s) {
    const Json& split = plan["splits"][s];
    for (const Json& copy : split["copies"])
      text += "copy " + copy["value"].get<std::string>() + " to " + split["device"].get<std::string>() +
              ", up to " + copy["bytes"].dump() + " bytes\n";
    text += "split " + std::to_string(s) + " on " + split["device"].get<std::string>() + ": " +
            std::to_string(split["nodes"].size()) + " nodes\n";
    for (const Json& node : split["nodes"])
      text += "  " + node["name"].get<std::string>() + " = " + node["op"].get<std::string>() + "(" +
              joined(node["inputs"]) + ") " + node["shape"].get<std::string>() + "\n";
  }
  if (plan.contains("watched") && plan["watched"].empty())
    text += "watched: no result has a name that matches\n";
  for (const Json& device : plan["devices"]) {
    const Json& memory = device["memory"];
    text += "memory on " + device["name"].get<std::string>() + ": weights " + memory["weights"].dump() +
            ", states " + memory["states"].dump() + ", inputs, outputs and copies " +
            memory["step_tensors"].dump() + ", temporaries " + memory["temporaries"].dump() + " bytes\n";
  }
  return text;
}

/// The one description: the string is the same in another form.
template <typename Impl>
Json describe(const Impl& impl) {
  const Graph& graph = impl.now.graph;
  const std::vector<std::int64_t> bounds = graph.bounds();
  Json plan = {{"symbols", Json::array()}, {"devices", Json::array()}, {"splits", Json::array()}};
  for (const Symbol& symbol : graph.symbols())
    plan["symbols"].push_back({{"name", symbol.name}, {"min", symbol.min}, {"max", symbol.max}});
  const auto needs = exec::memory_needs(graph, impl.devices.set().pointers(), impl.now.device_of,
                                        impl.devices.set().host, impl.params.n_threads, kStepsAtOnce);
  for (std::size_t d = 0; d < needs.size(); ++d)
    plan["devices"].push_back({{"name", impl.device_name(static_cast<int>(d))},
                               {"memory",
                                {{"weights", needs[d].weights},
                                 {"states", needs[d].states},
                                 {"step_tensors", needs[d].step_tensors},
                                 {"temporaries", needs[d].workspace}}}});
  const auto& splits = impl.now.splits.splits;
  for (std::size_t s = 0; s < splits.size(); ++s) {
    const exec::Split& split = splits[s];
    Json one = {{"device", impl.device_name(split.device)},
                {"after", split.after},
                {"copies", Json::array()},
                {"nodes", Json::array()}};
    for (const exec::Copy& copy : impl.now.splits.copies)
      if (copy.before == static_cast<int>(s))
        one["copies"].push_back({{"value", graph.value(copy.value).name},
                                 {"from", impl.device_name(copy.from)},
                                 {"bytes", value_bytes(graph.value(copy.value), bounds)}});
    for (const Node& node : split.graph.nodes()) {
      const ValueInfo& value = split.graph.value(node.output);
      Json inputs = Json::array();
      for (const ValueId input : node.inputs) inputs.push_back(split.graph.value(input).name);
      one["nodes"].push_back({{"name", value.name},
                              {"op", to_string(node.op)},
                              {"inputs", std::move(inputs)},
                              {"dtype", info(value.dtype).name},
                              {"shape", to_string(value.shape, graph.symbols())}});
    }
    plan["splits"].push_back(std::move(one));
  }
  if (impl.watched) {
    plan["watched"] = Json::array();
    for (const ValueId value : impl.now.watched) plan["watched"].push_back(graph.value(value).name);
  }
  return plan;
}

}  // namespace

std::string Plan::explain(Explain as) const {
  if (as == Explain::kDot) {
    std::vector<std::string> names;
    for (int d = 0; d < impl_->devices.set().size(); ++d) names.push_back(impl_->device_name(d));
    return exec::to_dot(impl_->now.graph, impl_->now.splits, names, impl_->now.graph.bounds());
  }
  const Json plan = describe(*impl_);
  // Names are the user's, in any bytes.
  return as == Explain::kText ? as_text(plan) : plan.dump(2, ' ', true, Json::error_handler_t::replace);
}

}  // namespace weft
