#pragma once
// Where nodes go that no rule says a place for: where a step of one token costs least (exec/placement.h).
//
// Costs come from figures of the devices' speed and not from measurements. Devices differ in the last bits of
// results, so a placement that followed a measurement would let a model answer the same prompt differently
// from one start to the next; and measuring takes a fraction of a second for each device. A backend gives the
// figures that it knows (DeviceInfo::speed), what it leaves open is taken as usual for a device of its kind.
// CPUs of other processes are the exception: how fast they read memory, beside this one, is measured when
// they are met, and rounded to powers of two. Where all have the same instruction set so have results the
// same bits. Only ratios matter. `weft devices --measure` shows how near they are.
#include <span>
#include <vector>

#include "exec/device_set.h"
#include "weft/device.h"
#include "weft/graph.h"

namespace weft::exec {

/// DeviceInfo::speed with usual figures of its kind in place of what is 0.
DeviceSpeed expected_speed(const DeviceInfo& info);

/// The device of each node: `fixed` where that is not negative. Throws Error kUnsupported that names a node
/// with no place.
std::vector<int> place_cheapest(const Graph& graph, const DeviceSet& set, std::span<const int> fixed);

}  // namespace weft::exec
