#include "exec/pins.h"

#include <algorithm>
#include <string>

#include "exec/search_pattern.h"
#include "graph/refuse.h"
#include "weft/error.h"

namespace weft::exec {

std::vector<bool> pinned_nodes(const Graph& graph, const Pin& pin, const Device& device) {
  const SearchPattern pattern(pin.pattern);
  std::vector<bool> pinned(graph.nodes().size());
  NodeId own_op = kNoNode;
  for (std::size_t n = 0; n < pinned.size(); ++n) {
    const Node& node = graph.nodes()[n];
    const auto fits = [&](ValueId value) { return pattern.found_in(graph.value(value).name); };
    const bool of_input = std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) {
      const ValueKind kind = graph.value(input).kind;
      return (kind == ValueKind::kWeight || kind == ValueKind::kState) && fits(input);
    });
    if (!of_input && !fits(node.output)) continue;
    if (get_op<ops::Custom>(node) != nullptr && !device.supports(graph, node)) {
      own_op = static_cast<NodeId>(n);  // A custom op stays on the host, wherever its neighbours go.
      continue;
    }
    pinned[n] = true;
    if (!device.supports(graph, node))
      throw Error(ErrorCode::kUnsupported, line_text(node.source.where) + pin.device + " cannot compute " +
                                               std::string(to_string(node.op)) + " (" +
                                               graph.value(node.output).name + "), which is pinned to it");
  }
  if (std::find(pinned.begin(), pinned.end(), true) != pinned.end()) return pinned;
  if (own_op != kNoNode) {
    const Node& node = graph.node(own_op);
    throw Error(ErrorCode::kUnsupported, line_text(node.source.where) + graph.value(node.output).name +
                                             " = " + std::string(to_string(node.op)) +
                                             " is a function that runs on the host, and the pin '" +
                                             pin.pattern + "' matches no other node for " + pin.device);
  }
  throw Error(ErrorCode::kInvalidArgument,
              "the pin '" + pin.pattern + "' matches no tensor: no weight, state or result has such a name");
}

}  // namespace weft::exec
