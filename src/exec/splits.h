#pragma once
// Splits: a graph whose nodes are placed on several devices, cut into runs of nodes of one device.
//
// The graph is cut, never changed. A split is a graph of its own with the same symbols. A value that crosses
// splits is an output of one split and an input of another. It is copied once for each device that reads it,
// and only the rows in use. A split ends where another device reads from it. It also ends where it would have
// to wait for a device that could work at the same time.
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "weft/backend/device.h"
#include "weft/graph.h"

namespace weft::exec {

struct Split {
  int device = 0;
  Graph graph;                       ///< With all symbols of the whole graph, under the same ids.
  std::vector<ValueId> whole_value;  ///< By the split's value: the value of the whole graph that it is.
  std::vector<int> after;            ///< The splits whose results or states it uses; all stand before it.
};

/// A value that device `to` reads and device `from` has. Inputs of the host are on a device too, their home.
struct Copy {
  ValueId value = kNoValue;
  int from = 0, to = 0;  ///< Devices.
  int before = 0;        ///< The first split that reads it.
};

struct Splits {
  std::vector<Split> splits;  ///< In an order in which they can run.
  std::vector<Copy> copies;   ///< Once for each value and device, in the order of the splits that read them.
  std::vector<int> home;      ///< By value: the device that makes it or, of inputs, that the host writes to;
                              ///< -1 where nothing reads it, and for weights and states.
};

/// `device_of` has the device of each node, in [0, n_devices). The nodes of a state must be on one device
/// (Error kInvalidArgument names it otherwise). Unused nodes are left out. `is_async` says by device
/// whether it works asynchronously to the host. The splits of such a device come before others that could run
/// as early, so that the host's own work overlaps with theirs.
Splits split(const Graph& graph, std::span<const int> device_of, const std::vector<bool>& is_async);

/// By device: DeviceInfo::is_async.
std::vector<bool> is_async(std::span<Device* const> devices);

/// A tensor that steps need on a device for the host or for another split.
struct StepTensor {
  ValueId value = kNoValue;
  int device = 0;
  bool from_host = false;  ///< An input, at home: the host writes it.
};

/// All of them, once for each value and device.
std::vector<StepTensor> step_tensors(const Graph& graph, const Splits& splits);

/// More steps at once are not made use of.
inline constexpr int kMostAtOnce = 8;

/// The number of steps that gives all devices work. In a chain it is the number of devices, where devices
/// that work while the host waits count as one. Devices that work side by side share a step. It is 1 if no
/// device works asynchronously to the host, so that steps cannot overlap, or if one step keeps nearly all
/// devices busy. At most `most`, otherwise at least 2.
int steps_at_once(const Splits& splits, const std::vector<bool>& is_async, int most = kMostAtOnce);

/// The number of copies of a tensor where `n_at_once` steps overlap: one per step, and one more of inputs,
/// which the host writes.
constexpr int sets_of(const StepTensor& tensor, int n_at_once) {
  return n_at_once > 1 && tensor.from_host ? n_at_once + 1 : n_at_once;
}

/// A Graphviz graph of the splits and the copies between them, with the bytes of a step with these symbols.
std::string to_dot(const Graph& graph, const Splits& splits, std::span<const std::string> device_names,
                   std::span<const std::int64_t> symbols);

}  // namespace weft::exec
