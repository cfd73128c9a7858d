#pragma once
// Places the nodes that no rule places, so that a step of one token costs least (exec/placement.h).
//
// Costs come from figures of the devices' speed and not from measurements. Devices differ in the last bits of
// results. If placement followed a measurement, a model could respond differently to the same prompt after a
// restart. Measuring also takes a fraction of a second per device. A backend gives the figures that it knows
// (DeviceInfo::speed); others are taken as usual for a device of its kind. CPUs of other processes are the
// exception. The speed of their memory, relative to this one's, is measured when they are connected, and
// rounded to powers of two. If all have the same instruction set, results have the same bits. Only ratios
// matter. `weft devices --measure` shows how near they are.
#include <span>
#include <vector>

#include "exec/device_set.h"
#include "weft/device.h"
#include "weft/graph.h"

namespace weft::exec {

/// DeviceInfo::speed, with zeros replaced by the usual figures for its kind.
DeviceSpeed expected_speed(const DeviceInfo& info);

/// The device of each node: `fixed` where that is not negative. Throws Error kUnsupported that names a node
/// with no place.
std::vector<int> place_cheapest(const Graph& graph, const DeviceSet& set, std::span<const int> fixed);

}  // namespace weft::exec
