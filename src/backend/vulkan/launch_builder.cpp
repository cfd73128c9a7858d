#include "backend/vulkan/launch_builder.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace weft::vulkan {

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

LaunchBuilder::LaunchBuilder(const Graph& graph) : graph_(graph), phases_(graph.values().size(), -1) {
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

Launch& LaunchBuilder::add(Shader shader, std::vector<std::uint32_t> constants, Dim rows,
                           std::initializer_list<ValueId> tensors,
                           std::initializer_list<std::uint32_t> params) {
  Launch& launch = program_.launches.emplace_back();
  launch.shader = shader;
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

}  // namespace weft::vulkan
