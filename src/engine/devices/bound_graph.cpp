#include "engine/devices/bound_graph.h"

#include "backend/host_tensor.h"
#include "engine/model_impl.h"
#include "exec/splits.h"
#include "weft/error.h"

namespace weft::engine {

BoundGraph::BoundGraph(const ModelImpl& model, const Graph& graph)
    : model_(model),
      device_of_(graph.values().size(), -1),
      bindings_(model.devices.devices.size(), Bindings(graph.values().size(), nullptr)),
      home_(graph.values().size(), nullptr) {
  // A context's graph may have additional nodes: for rotated caches, the best tokens and sums of columns.
  // Each is placed where its input is made, if that device can compute it.
  std::size_t n_placed = 0;
  for (const Node& node : graph.nodes()) {
    if (get_op<ops::Hadamard>(node) == nullptr && n_placed < model.device_of.size()) {
      device_of_node_.push_back(model.device_of[n_placed++]);
      continue;
    }
    NodeId maker = kNoNode;
    for (const ValueId input : node.inputs)
      if (const NodeId producer = graph.value(input).producer; producer != kNoNode) maker = producer;
    const int device = maker == kNoNode ? model.devices.host : device_of_node_[index(maker)];
    const bool can = model.devices.devices[index(device)]->supports(graph, node);
    device_of_node_.push_back(can ? device : model.devices.host);
  }
  const std::vector<bool> live = live_nodes(graph);
  for (std::size_t n = 0; n < graph.nodes().size(); ++n) {
    if (!live[n]) continue;
    const Node& node = graph.nodes()[n];
    // The model was placed with other sizes and types of caches.
    if (Device& device = *model.devices.devices[index(device_of_node_[n])]; !device.supports(graph, node))
      throw Error(ErrorCode::kUnsupported,
                  device.info().name + " cannot compute " + std::string(to_string(node.op)) + " (" +
                      graph.value(node.output).name +
                      ") for this context; use f16 caches or smaller steps, or leave its layer to the CPU");
    for (const ValueId input : node.inputs)
      if (graph.value(input).kind != ValueKind::kResult && device_of_[index(input)] < 0)
        device_of_[index(input)] = device_of_node_[n];
    device_of_[index(node.output)] = device_of_node_[n];
  }
  const exec::Splits splits = exec::split(graph, device_of_node_, model.devices.is_async());
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
    // Unused inputs are on the CPU.
    if (device_of_[v] < 0) device_of_[v] = model.devices.host;
    const std::vector<std::int64_t> shape = value.shape.dims(bounds);
    Device& device = device_of(static_cast<ValueId>(v));
    tensors_.push_back(value.kind == ValueKind::kState ? device.create_state(value.dtype, shape)
                                                       : create_host_tensor(device, value, shape));
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
