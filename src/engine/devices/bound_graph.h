#pragma once
// The graph of one context, bound to memory: the model's weights, and caches, inputs and outputs of its own.
#include <memory>
#include <span>
#include <vector>

#include "exec/plan.h"
#include "weft/backend/device.h"
#include "weft/graph.h"

namespace weft::engine {

struct ModelImpl;

/// Owns the tensors of caches, inputs and outputs; the model owns its weights. Each tensor is on the device
/// of the nodes that use it. An input is on the device of the first split that reads it (exec::Splits::home);
/// unused ones are on the CPU. The model must outlive it. Immutable after construction.
class BoundGraph {
 public:
  /// Allocates for the upper bounds of the graph's symbols. Throws Error kUnsupported if a device cannot
  /// compute a node for this context, because the model was placed with other sizes and types of caches. Also
  /// throws errors of devices.
  BoundGraph(const ModelImpl& model, const Graph& graph);

  /// By value: the tensor that the host writes to or reads from. Null for values inside the graph.
  const Bindings& home() const { return home_; }
  /// The device that an input, output or state is on.
  Device& device_of(ValueId value) const;
  exec::Plan compile(const Graph& graph, const CompileOptions& options) const;

 private:
  const ModelImpl& model_;
  std::vector<int> device_of_node_;
  std::vector<int> device_of_;      // By value.
  std::vector<Bindings> bindings_;  // By device.
  Bindings home_;
  std::vector<std::unique_ptr<DeviceTensor>> tensors_;
};

}  // namespace weft::engine
