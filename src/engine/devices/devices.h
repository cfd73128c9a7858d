#pragma once
// A model's devices, where the nodes of its graph run, and the tensors of one context on them.
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/registry.h"
#include "exec/placement.h"
#include "exec/plan.h"
#include "model/builder.h"
#include "weft/model.h"

namespace weft::engine {

struct ModelImpl;

/// Opened devices; the CPU, which takes what no other does, is one of them.
struct DeviceSet {
  std::vector<std::shared_ptr<Device>> devices;
  int host = 0;            ///< The CPU's place.
  std::vector<int> named;  ///< Those that layers go to, in the user's order: all but the CPU.

  int size() const { return static_cast<int>(devices.size()); }
  std::vector<Device*> pointers() const;
  std::vector<bool> beside_host() const;  ///< By device.
  /// The device with that name. Throws Error kNotFound.
  int find(const std::string& name) const;
};

/// The CPU's name in every registry.
inline constexpr std::string_view kHostDevice = "cpu";

/// `params` with the devices that it leaves open, by the rules of PlacementParams (and layers and shares, so
/// that they mean those devices); what names devices comes back as it is.
PlacementParams choose_devices(const Registry& registry, PlacementParams params);

/// Opens what `params` names. Throws Error.
DeviceSet open_devices(const Registry& registry, const PlacementParams& params, const OpenOptions& options);

/// The shares of the devices in matrices that are cut by rows; empty where they are not.
std::vector<double> row_shares(const PlacementParams& params);

/// The bounds that contexts are expected to give the graph: what memory is fitted to.
model::GraphSizes expected_sizes(const PlacementParams& params, const ModelInfo& info);

/// The device of each node of the graph. Throws Error where pins cannot be kept or memory is too small.
std::vector<int> place_model(const Graph& graph, int n_layers, const DeviceSet& set,
                             const PlacementParams& params);

/// The devices that need a weight of the graph; all where none of its nodes reads it.
std::vector<int> devices_of_weight(const Graph& graph, std::span<const int> device_of, ValueId weight,
                                   int n_devices);

/// The external tensors of a graph: the model's weights, and states, inputs and outputs of their own.
class BoundGraph {
 public:
  BoundGraph(const ModelImpl& model, const Graph& graph);

  /// By value: the tensor that the host knows (on its home).
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
