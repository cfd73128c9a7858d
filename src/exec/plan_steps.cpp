// Steps on their way through the splits of a plan: one that is run, or several that overlap.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "backend/host_tensor.h"
#include "base/check.h"
#include "base/to_size.h"
#include "exec/plan.h"
#include "weft/error.h"

namespace weft::exec {

void Plan::run(const Step& step) {
  WEFT_CHECK(n_in_flight_ == 0);
  check(step);
  if (step.actual.topology) {
    // Compile first: if that fails, the plan keeps the old graph.
    Compiled next = compile(*step.graph);
    adopt_plans(next);
    now_ = std::move(next);
    symbols_.clear();
    done_set_ = 0;
    cut_short_ = true;  // Plans that were adopted know other symbols.
    set_profile(profile_);
    ++counters_.compiled;
  }
  for (const Rebinding& rebinding : step.rebindings) rebind(rebinding);
  next_flight_ = 0;  // Outputs are in the tensors of this set.
  begin(step, 0);
  work(0);
}

bool Plan::start(const Step& step) {
  WEFT_CHECK(pipelined());
  if (step.actual.tensors || step.actual.topology)
    throw Error(ErrorCode::kInvalidArgument,
                "step refused: only shapes may change in a step that overlaps with others; run it instead");
  check(step);
  const Flight& flight = begin(step, next_flight_ + 1);
  for (const auto& [device, value] : now_.inputs) {
    const auto d = to_size(device), v = to_size(value);
    copy_value(flight, value, *set(0)[d][v], *set(flight.set)[d][v]);
  }
  const bool any_done = n_in_flight_ == now_.flights.size();
  work(now_.flights.size() - 1);
  return any_done;
}

bool Plan::finish_oldest() {
  if (n_in_flight_ == 0) return false;
  work(n_in_flight_ - 1);
  return true;
}

void Plan::finish() { work(0); }

/// The step is in flight then.
Plan::Flight& Plan::begin(const Step& step, std::size_t set) {
  Flight& flight = now_.flights[next_flight_];
  flight.symbols.assign(step.symbols.begin(), step.symbols.end());
  flight.parts.assign(step.parts.begin(), step.parts.end());
  flight.transfers.resize(now_.n_direct);
  symbols_.assign(step.symbols.begin(), step.symbols.end());  // Last: what throws has changed nothing.
  flight.is_cut = false;
  const bool catch_up = std::exchange(cut_short_, false);
  flight.changes = step.actual;
  flight.changes.shapes = step.actual.shapes || (options_.allowed.shapes && catch_up);
  flight.set = set;
  flight.next = 0;
  next_flight_ = (next_flight_ + 1) % now_.flights.size();
  ++n_in_flight_;

  ++counters_.steps;
  if (step.actual.topology) {
    ++counters_.topology;
  } else if (step.actual.tensors) {
    ++counters_.tensors;
  } else if (step.actual.shapes) {
    ++counters_.shapes;
  } else {
    ++counters_.unchanged;
  }
  return flight;
}

/// The conditions for the flight's next part or, when all are submitted, for its end.
Plan::Outlook Plan::outlook(const Flight& flight, const Flight* before) {
  Outlook result;
  const auto must_end = [&](Part& part, const Flight& of) {
    if (part.running_for == &of && (result.waits == nullptr || part.submitted < result.waits->submitted))
      result.waits = &part;
  };
  if (flight.next == now_.parts.size()) {
    for (Part& part : now_.parts) must_end(part, flight);
    return result;
  }
  const Part& next = now_.parts[flight.next];
  const bool in_order = device_at(next.device).in_order();
  const auto is_behind = [&](const Part& part) {  // Its device sees to that.
    return in_order && &part != &next &&
           (part.device == next.device || copies_directly(part.device, next.device));
  };
  if (before != nullptr)
    for (const int p : next.after_before) {
      if (before->next <= to_size(p)) return {};
      if (Part& part = now_.parts[to_size(p)]; !is_behind(part)) must_end(part, *before);
    }
  for (const int p : next.after)
    if (Part& part = now_.parts[to_size(p)]; !is_behind(part)) must_end(part, flight);
  result.ready = result.waits == nullptr;
  return result;
}

/// Continues all steps until `n_left` are left. After that it continues as long as it waits only for parts
/// that were submitted before the call.
void Plan::work(std::size_t n_left) {
  const std::uint64_t n_before = n_submitted_;
  const auto is_beside = [&](const Flight& flight) {
    return device_at(now_.parts[flight.next].device).info().is_async;
  };
  try {
    while (n_in_flight_ > 0) {
      Flight* ready = nullptr;
      Part* first = nullptr;  // Of those to wait for: the earlier one is done earlier.
      bool is_done = false;   // The oldest.
      for (std::size_t i = 0; i < n_in_flight_; ++i) {
        const Outlook of = outlook(flight(i), i > 0 ? &flight(i - 1) : nullptr);
        if (i == 0) is_done = !of.ready && of.waits == nullptr;
        // Devices that are asynchronous to the host get work before the host.
        if (of.ready && (ready == nullptr || (is_beside(flight(i)) && !is_beside(*ready))))
          ready = &flight(i);
        if (of.waits != nullptr && (first == nullptr || of.waits->submitted < first->submitted))
          first = of.waits;
      }
      if (ready != nullptr) {
        submit_next(*ready);
      } else if (n_in_flight_ > n_left && is_done) {
        done_set_ = flight(0).set;
        --n_in_flight_;
      } else if (first != nullptr && (n_in_flight_ > n_left || first->submitted <= n_before)) {
        if (n_in_flight_ > n_left && flight(0).next < now_.parts.size()) ++counters_.waits;
        wait(*first);
      } else {
        return;
      }
    }
  } catch (...) {
    abandon();
    throw;
  }
}

void Plan::submit_next(Flight& flight) {
  Part& part = now_.parts[flight.next++];
  // Parts that were not yet submitted when the step was cancelled only move cells.
  if (now_.parts.size() > 1 && options_.allowed.shapes && is_cancelled(options_.cancelled)) {
    if (!std::exchange(flight.is_cut, true)) {
      flight.cut_symbols = flight.symbols;
      for (std::size_t i = 0; i < flight.symbols.size(); ++i)
        if (!now_.of_moves[i]) flight.cut_symbols[i] = now_.placed.graph.symbols()[i].min;
    }
    cut_short_ = true;
  }
  fill_inputs(flight, part);
  const bool other_set = std::exchange(part.bound_set, flight.set) != flight.set;
  const bool was_cut = std::exchange(part.was_cut, flight.is_cut);
  Changes changes = flight.changes;
  changes.shapes = changes.shapes || flight.is_cut || was_cut;
  changes.tensors = std::exchange(part.rebound, false) || other_set;
  part.running_for = &flight;
  part.submitted = ++n_submitted_;
  part.plan->submit(symbols_of(flight), part.bindings[flight.set], changes);
  send_outputs(flight, part);
  if (!device_at(part.device).info().is_async) wait(part);
}

void Plan::fill_inputs(Flight& flight, const Part& part) {
  std::size_t bytes = 0;
  for (const Copy& copy : part.copies)
    bytes += copy_value(flight, copy.value, tensor_of(flight, copy.from, copy.value),
                        tensor_of(flight, copy.to, copy.value));
  for (const auto& [copy, slot] : part.receives) {
    const Device::Transfer transfer = flight.transfers[slot];
    device_at(copy.to).receive_from(device_at(copy.from), transfer, &tensor_of(flight, copy.to, copy.value));
    flight.transfers[slot] = {};  // Only now: a transfer that could not be started must be dropped.
    bytes += transfer.bytes;
  }
  counters_.copies += static_cast<std::int64_t>(part.copies.size() + part.receives.size());
  counters_.copied_bytes += static_cast<std::int64_t>(bytes);
}

/// At once, so that they precede all later work of the device.
void Plan::send_outputs(Flight& flight, const Part& part) {
  for (const auto& [copy, slot] : part.sends)
    flight.transfers[slot] =
        device_at(copy.from).send_to(device_at(copy.to), tensor_of(flight, copy.from, copy.value),
                                     value_bytes(now_.placed.graph.value(copy.value), symbols_of(flight)));
}

/// Drops the transfers of an abandoned step.
void Plan::drop_transfers(Flight& flight) noexcept {
  for (const Part& part : now_.parts)
    for (const auto& [copy, slot] : part.receives) {
      if (slot >= flight.transfers.size()) continue;
      const Device::Transfer transfer = std::exchange(flight.transfers[slot], {});
      if (transfer.from == nullptr) continue;
      try {
        device_at(copy.to).receive_from(device_at(copy.from), transfer, nullptr);
      } catch (...) {  // A device that is lost has no use for it.
      }
    }
}

/// Copies the part of a value that the step uses. Returns the number of bytes.
std::size_t Plan::copy_value(const Flight& flight, ValueId value, DeviceTensor& from_tensor,
                             DeviceTensor& to_tensor) const {
  const std::span<std::byte> from = from_tensor.host(), to = to_tensor.host();
  const auto copy = [&](std::size_t begin, std::size_t bytes) {
    if (bytes > 0) std::memcpy(to.data() + begin, from.data() + begin, bytes);
    return bytes;
  };
  const auto parts =
      std::equal_range(flight.parts.begin(), flight.parts.end(), InputPart{value},
                       [](const InputPart& a, const InputPart& b) { return a.value < b.value; });
  if (parts.first == parts.second) {
    return copy(0, value_bytes(now_.placed.graph.value(value), symbols_of(flight)));
  }
  return std::accumulate(
      parts.first, parts.second, std::size_t{0},
      [&](std::size_t n, const InputPart& part) { return n + copy(part.begin, part.bytes); });
}

void Plan::wait(Part& part) {
  if (std::exchange(part.running_for, nullptr) != nullptr) part.plan->wait();
}

/// Asynchronous devices must not write to any step's values after the caller continues.
void Plan::abandon() noexcept {
  for (Flight& flight : now_.flights) drop_transfers(flight);
  n_in_flight_ = 0;
  done_set_ = 0;
  cut_short_ = true;
  symbols_.clear();  // The next step's symbols are new to parts that were not run ...
  for (Part& part : now_.parts) {
    part.rebound = options_.allowed.tensors;  // ... and so may be their bindings.
    try {
      wait(part);
    } catch (...) {  // The first error is reported.
    }
  }
}

}  // namespace weft::exec
