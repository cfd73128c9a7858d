// Steps on their way through the splits of a plan: one that is run, or two that overlap.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "backend/host_tensor.h"
#include "base/check.h"
#include "exec/plan.h"
#include "weft/error.h"

namespace weft::exec {

void Plan::run(const Step& step) {
  WEFT_CHECK(in_flight_ == nullptr);
  check(step);
  if (step.actual.topology) {
    // Compile first: if that fails, the plan still stands for the old graph.
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
  Flight& flight = flights_[0];
  begin(flight, step, 0);
  work(&flight, nullptr);
}

void Plan::start(const Step& step) {
  WEFT_CHECK(pipelined());
  if (step.actual.tensors || step.actual.topology)
    throw Error(ErrorCode::kInvalidArgument,
                "step refused: only shapes may change in a step that overlaps with others; run it instead");
  check(step);
  Flight* const older = in_flight_;
  // Not where the step before has its outputs, which are read meanwhile. Those of run lie in the first set.
  const std::size_t before = older != nullptr ? older->set : done_set_;
  const std::size_t own = before == 2 ? 1 : 2;
  Flight& flight = flights_[own - 1];
  begin(flight, step, own);
  for (const auto& [device, value] : now_.inputs) {
    const auto d = static_cast<std::size_t>(device), v = static_cast<std::size_t>(value);
    copy_value(flight, value, *set(0)[d][v], *set(flight.set)[d][v]);
  }
  in_flight_ = &flight;
  work(older, &flight);
}

void Plan::finish() {
  if (in_flight_ != nullptr) work(std::exchange(in_flight_, nullptr), nullptr);
}

void Plan::begin(Flight& flight, const Step& step, std::size_t set) {
  flight.symbols.assign(step.symbols.begin(), step.symbols.end());
  flight.parts.assign(step.parts.begin(), step.parts.end());
  symbols_.assign(step.symbols.begin(), step.symbols.end());  // Last: what throws has changed nothing.
  flight.is_cut = false;
  const bool catch_up = std::exchange(cut_short_, false);
  flight.changes = step.actual;
  flight.changes.shapes = step.actual.shapes || (options_.allowed.shapes && catch_up);
  flight.set = set;
  flight.next = 0;

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
}

/// What stands before the flight's next part or, when all are submitted, before its end.
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
  const bool in_order = devices_[static_cast<std::size_t>(next.device)]->in_order();
  const auto is_behind = [&](const Part& part) {  // Its device sees to that.
    return in_order && part.device == next.device && &part != &next;
  };
  if (before != nullptr)
    for (const int p : next.after_before) {
      if (before->next <= static_cast<std::size_t>(p)) return {};
      if (Part& part = now_.parts[static_cast<std::size_t>(p)]; !is_behind(part)) must_end(part, *before);
    }
  for (const int p : next.after)
    if (Part& part = now_.parts[static_cast<std::size_t>(p)]; !is_behind(part)) must_end(part, flight);
  result.ready = result.waits == nullptr;
  return result;
}

/// Goes on with both steps until the older is done, and then with the newer as far as nothing must be waited
/// for. Either may be null.
void Plan::work(Flight* older, Flight* newer) {
  const auto is_beside = [&](const Flight& flight) {
    return devices_[static_cast<std::size_t>(now_.parts[flight.next].device)]->info().beside_host;
  };
  try {
    for (;;) {
      const Outlook now = older != nullptr ? outlook(*older, nullptr) : Outlook{};
      const Outlook then = newer != nullptr ? outlook(*newer, older) : Outlook{};
      // What works beside the host gets work before the host does.
      if (then.ready && (!now.ready || (is_beside(*newer) && !is_beside(*older)))) {
        submit_next(*newer);
      } else if (now.ready) {
        submit_next(*older);
      } else if (older == nullptr) {
        // What the host computes is done by now: others can go on with it.
        const bool is_hosts = then.waits != nullptr &&
                              !devices_[static_cast<std::size_t>(then.waits->device)]->info().beside_host;
        if (!is_hosts || newer->next == now_.parts.size()) return;
        wait(*then.waits);
      } else if (now.waits == nullptr) {
        done_set_ = std::exchange(older, nullptr)->set;
      } else {
        // The earlier one is done earlier.
        if (older->next < now_.parts.size()) ++counters_.waits;
        const bool of_newer = then.waits != nullptr && then.waits->submitted < now.waits->submitted;
        wait(of_newer ? *then.waits : *now.waits);
      }
    }
  } catch (...) {
    abandon();
    throw;
  }
}

void Plan::submit_next(Flight& flight) {
  Part& part = now_.parts[flight.next++];
  // A device that was not at it yet when the step was cancelled moves cells and does no more.
  if (now_.parts.size() > 1 && options_.allowed.shapes && is_cancelled(options_.cancelled)) {
    if (!std::exchange(flight.is_cut, true)) {
      flight.cut_symbols = flight.symbols;
      for (std::size_t i = 0; i < flight.symbols.size(); ++i)
        if (!now_.of_moves[i]) flight.cut_symbols[i] = now_.placed.graph.symbols()[i].min;
    }
    cut_short_ = true;
  }
  const std::span<const std::int64_t> symbols = flight.is_cut ? flight.cut_symbols : flight.symbols;
  for (const Copy& copy : part.copies) {
    const auto value = static_cast<std::size_t>(copy.value);
    ++counters_.copies;
    counters_.copied_bytes += static_cast<std::int64_t>(
        copy_value(flight, copy.value, *set(flight.set)[static_cast<std::size_t>(copy.from)][value],
                   *set(flight.set)[static_cast<std::size_t>(copy.to)][value]));
  }
  const bool other_set = std::exchange(part.bound_set, flight.set) != flight.set;
  Changes changes = flight.changes;
  changes.shapes = changes.shapes || flight.is_cut;
  changes.tensors = std::exchange(part.rebound, false) || other_set;
  part.running_for = &flight;
  part.submitted = ++n_submitted_;
  part.plan->submit(symbols, part.bindings[flight.set], changes);
}

/// What the step uses of a value; returns the number of bytes.
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
    const std::span<const std::int64_t> symbols = flight.is_cut ? flight.cut_symbols : flight.symbols;
    return copy(0, value_bytes(now_.placed.graph.value(value), symbols));
  }
  return std::accumulate(
      parts.first, parts.second, std::size_t{0},
      [&](std::size_t n, const InputPart& part) { return n + copy(part.begin, part.bytes); });
}

void Plan::wait(Part& part) {
  if (std::exchange(part.running_for, nullptr) != nullptr) part.plan->wait();
}

/// Devices beside the host must not write to any step's values any more once the caller goes on.
void Plan::abandon() noexcept {
  in_flight_ = nullptr;
  done_set_ = 0;
  cut_short_ = true;
  symbols_.clear();  // Whatever the next step's are, they are new to those that did not get so far ...
  for (Part& part : now_.parts) {
    part.rebound = options_.allowed.tensors;  // ... and so may be what they are bound to.
    try {
      wait(part);
    } catch (...) {  // The first error is the one to tell.
    }
  }
}

}  // namespace weft::exec
