#include "backend/gpu/launch_builder.h"

#include <algorithm>
#include <bit>

#include "backend/gpu/kernel.h"
#include "base/check.h"
#include "base/to_size.h"

namespace weft::gpu {

std::uint32_t word(std::int64_t n) { return static_cast<std::uint32_t>(n); }
std::uint32_t word(float x) { return std::bit_cast<std::uint32_t>(x); }

std::uint32_t groups_of(std::uint64_t n, std::uint32_t per_group) {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>((n + per_group - 1) / per_group, kMaxGroups));
}

std::function<Groups(const StepSizes&)> groups_for(std::uint32_t per_row, std::uint32_t per_group) {
  return [=](const StepSizes& step) -> Groups {
    return {groups_of(std::uint64_t{step.rows} * per_row, per_group), 1, 1};
  };
}

bool can_index(const Shape& shape, std::span<const std::int64_t> bounds) {
  const std::vector<std::int64_t> sizes = shape.dims(bounds);
  if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) return true;
  std::int64_t n = 1;
  for (const std::int64_t size : sizes) {
    if (size > (kMaxElements - 1) / n) return false;
    n *= size;
  }
  return true;
}

Dim elements(const Shape& shape) {
  Dim all = 1;
  for (int i = 0; i < shape.rank(); ++i) all = all * shape[i];
  return all;
}

bool changes_cache(const Node& node) {
  return get_op<ops::MoveCells>(node) != nullptr || get_op<ops::StoreCache>(node) != nullptr;
}

ValueId optional(const Node& node, std::size_t i) {
  return i < node.inputs.size() ? node.inputs[i] : kNoValue;
}

std::size_t code_row_bytes(std::uint32_t columns) { return (columns + columns / kBlock * 8 + 15) / 16 * 16; }

void use_scratch(Launch& launch, std::uint32_t tensor, std::uint32_t scratch) {
  launch.push.tensors[tensor] = scratch;
  launch.scratch |= 1u << tensor;
}

LaunchBuilder::LaunchBuilder(const Graph& graph, const Target& target)
    : graph_(graph),
      target_(target),
      live_(live_nodes(graph)),
      fusion_(graph, live_, target.byte_dots, target.tails),
      phases_(graph.values().size(), -1) {
  for (std::size_t v = 0; v < graph.values().size(); ++v) {
    program_.storage.push_back(static_cast<ValueId>(v));
    views_.push_back(plain_view(static_cast<ValueId>(v), graph.values()[v].shape));
  }
  for (const Node& node : graph.nodes())
    if (changes_cache(node)) program_.storage[index(node.output)] = program_.storage[index(node.inputs[0])];
}

void LaunchBuilder::set_view(ValueId value, const View& view) {
  views_[index(value)] = view;
  phases_[index(value)] = phases_[index(view.base)];
  if (view.base != value && is_contiguous(view)) program_.storage[index(value)] = place(view.base);
}

void LaunchBuilder::enter(NodeId node, int phase) {
  node_ = node;
  phases_[index(graph_.node(node).output)] = phase;
  program_.n_phases = std::max(program_.n_phases, phase + 1);
}

int LaunchBuilder::ready(std::span<const ValueId> values) const {
  int phase = 0;
  for (const ValueId value : values) phase = std::max(phase, ready(value));
  return phase;
}

std::uint32_t LaunchBuilder::type(ValueId value) const { return stored_type(dtype(value)).value(); }

bool LaunchBuilder::by_codes(const Node& node) const {
  return multiplies_codes(graph_, node, target_.byte_dots);
}

int LaunchBuilder::codes_ready(ValueId value) const {
  return ready(value) + (fusion_.makes_codes(value) ? 0 : 1);
}

Launch& LaunchBuilder::add(Kernel kernel, std::vector<std::uint32_t> constants, Dim rows,
                           std::initializer_list<ValueId> tensors,
                           std::initializer_list<std::uint32_t> params) {
  Launch& launch = program_.launches.emplace_back();
  launch.kernel = kernel;
  launch.constants = std::move(constants);
  launch.rows = std::move(rows);
  launch.node = node_;
  launch.phase = phase();
  WEFT_CHECK(tensors.size() <= std::size(launch.push.tensors) &&
             params.size() <= std::size(launch.push.params));
  std::size_t i = 0;
  // A tensor that is left out is never read; the table has a place 0.
  for (const ValueId tensor : tensors)
    launch.push.tensors[i++] = tensor == kNoValue ? 0 : word(std::int64_t{place(tensor)});
  std::copy(params.begin(), params.end(), launch.push.params);
  return launch;
}

Launch& LaunchBuilder::add_for(const Scratch& scratch, Kernel kernel, std::vector<std::uint32_t> constants,
                               Dim rows, std::initializer_list<ValueId> tensors,
                               std::initializer_list<std::uint32_t> params) {
  node_ = scratch.user;
  Launch& launch = add(kernel, std::move(constants), std::move(rows), tensors, params);
  launch.phase = scratch.first_phase;
  return launch;
}

std::uint32_t LaunchBuilder::scratch(Scratch::Kind kind, ValueId of, const Dim& rows, std::size_t row_bytes,
                                     std::uint32_t n_experts) {
  return known_scratch({kind, of, node_, rows, row_bytes, ready(of), phase(), false, n_experts});
}

std::uint32_t LaunchBuilder::known_scratch(const Scratch& wanted) {
  auto& known = program_.scratch;
  auto found = std::find_if(known.begin(), known.end(), [&](const Scratch& one) {
    return one.kind == wanted.kind && one.of == wanted.of && one.n_experts == wanted.n_experts;
  });
  if (found == known.end()) found = known.insert(known.end(), wanted);
  found->last_phase = std::max(found->last_phase, wanted.last_phase);
  return word(static_cast<std::int64_t>(found - known.begin()));
}

void LaunchBuilder::make_codes(const Node& node, Launch& launch, std::uint32_t tensor) {
  use_scratch(launch, tensor,
              known_scratch({Scratch::Kind::kCodes, node.output, node_, shape(node.output).row_dim(),
                             code_row_bytes(columns(node.output)), launch.phase, launch.phase, true}));
}

ValueId LaunchBuilder::frequencies(const ops::Rope& rope, ValueId factors) {
  auto& known = program_.frequencies;
  const auto found = std::find_if(known.begin(), known.end(), [&](const Frequencies& f) {
    return f.rope == rope && f.factors == factors;
  });
  const auto at = found - known.begin();
  if (found == known.end()) known.push_back({rope, factors});
  return static_cast<ValueId>(program_.storage.size() + to_size(at));
}

}  // namespace weft::gpu
