#pragma once
// What all that makes launches of nodes shares: the program so far, where values lie and when they are there.
// Inside this layer only.
#include <initializer_list>
#include <span>
#include <vector>

#include "backend/gpu/fusion.h"
#include "backend/gpu/launches.h"
#include "backend/views.h"

namespace weft::gpu {

inline constexpr std::uint32_t kMaxGroups = 65535;  ///< That every driver takes, in each dimension.
inline constexpr std::uint32_t kFewRows = 4;        ///< Up to here a row at a time is as good as a tile.
inline constexpr std::int64_t kMaxElements = std::int64_t{1} << 31;  ///< Shaders' indices have 32 bits.
inline constexpr std::int64_t kMaxHeadDim = 1024;
inline constexpr std::uint32_t kBlock = 32;       ///< Columns with a scale of their own, as in blocks.glsl.
inline constexpr std::uint32_t kRowsOfLanes = 8;  ///< Up to here a thread is a lane (lanes.glsl).

std::uint32_t word(std::int64_t n);
std::uint32_t word(float x);
template <typename T>
  requires std::is_enum_v<T>
std::uint32_t word(T kind) {
  return static_cast<std::uint32_t>(kind);
}
/// Workgroups for n, each of which takes `per_group`, up to the device's limit: shaders loop.
std::uint32_t groups_of(std::uint64_t n, std::uint32_t per_group);
/// Launch::groups for rows of per_row elements, `per_group` to a workgroup.
std::function<Groups(const StepSizes&)> groups_for(std::uint32_t per_row, std::uint32_t per_group);
/// Whether a node's result is the cache that it changes.
bool changes_cache(const Node& node);
/// Whether a shape has fewer than kMaxElements at the symbols' bounds.
bool can_index(const Shape& shape, std::span<const std::int64_t> bounds);
/// The product of all sizes.
Dim elements(const Shape& shape);
/// An input that a node may do without; kNoValue where it does.
ValueId optional(const Node& node, std::size_t i);
/// Bytes of a row as codes, as in blocks.glsl.
std::size_t code_row_bytes(std::uint32_t columns);
/// That tensor of a launch is scratch memory, by its number.
void use_scratch(Launch& launch, std::uint32_t tensor, std::uint32_t scratch);

class LaunchBuilder {
 public:
  LaunchBuilder(const Graph& graph, const Target& target);

  const Graph& graph() const { return graph_; }
  const Target& target() const { return target_; }
  const Fusion& fusion() const { return fusion_; }
  bool is_live(NodeId node) const { return live_[index(node)]; }
  const Shape& shape(ValueId value) const { return graph_.value(value).shape; }
  DType dtype(ValueId value) const { return graph_.value(value).dtype; }
  std::uint32_t columns(ValueId value) const { return word(shape(value).columns()); }
  std::uint32_t type(ValueId value) const;  ///< The shaders' name of it, which there is.

  /// The value itself, or the value whose elements it views.
  const View& view(ValueId value) const { return views_[index(value)]; }
  /// Whether a value's elements do not lie row after row from where its memory begins.
  bool is_strided(ValueId value) const { return view(value).base != value && !is_alias(value); }
  /// A value is from now on elements of another, and has no memory.
  void set_view(ValueId value, const View& view);

  /// What is added next makes this node's result, in that phase.
  void enter(NodeId node, int phase);
  NodeId node() const { return node_; }
  int phase() const { return phases_[index(graph_.node(node_).output)]; }
  /// The first phase that can read a value.
  int ready(ValueId value) const { return phases_[index(value)] + 1; }
  int ready(std::span<const ValueId> values) const;
  /// Whether a node multiplies codes instead of floats, and the first phase that can read a value's codes.
  bool by_codes(const Node& node) const;
  int codes_ready(ValueId value) const;

  /// Of the node that was entered. Tensors that are kNoValue are never read.
  Launch& add(Kernel kernel, std::vector<std::uint32_t> constants, Dim rows,
              std::initializer_list<ValueId> tensors, std::initializer_list<std::uint32_t> params);
  /// To fill scratch memory in its first phase.
  Launch& add_for(const Scratch& scratch, Kernel kernel, std::vector<std::uint32_t> constants, Dim rows,
                  std::initializer_list<ValueId> tensors, std::initializer_list<std::uint32_t> params);

  /// The number of the scratch memory that the phase after it makes from a value, used in this node's phase.
  std::uint32_t scratch(Scratch::Kind kind, ValueId of, const Dim& rows, std::size_t row_bytes,
                        std::uint32_t n_experts = 0);
  /// The number of that kind of scratch memory of that value, which is this where there was none before. It
  /// lasts as long as its last user.
  std::uint32_t known_scratch(const Scratch& wanted);
  /// A launch fills codes of a node's result, which are that tensor of it.
  void make_codes(const Node& node, Launch& launch, std::uint32_t tensor);
  /// Frequencies have places after the values.
  ValueId frequencies(const ops::Rope& rope, ValueId factors);

  /// In the table of addresses.
  ValueId place(ValueId value) const {
    return index(value) < program_.storage.size() ? program_.storage[index(value)] : value;
  }

  Program& program() { return program_; }
  const Program& program() const { return program_; }

 private:
  bool is_alias(ValueId value) const { return program_.storage[index(value)] != value; }

  const Graph& graph_;
  const Target target_;
  const std::vector<bool> live_;
  const Fusion fusion_;
  Program program_;
  std::vector<View> views_;  // By value.
  std::vector<int> phases_;  // By value: the phase that makes it, -1 from outside.
  NodeId node_ = kNoNode;
};

}  // namespace weft::gpu
