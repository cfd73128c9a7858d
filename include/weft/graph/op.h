// Since 0.1
#pragma once
// The op table. Each op is a struct (in graph/ops/) with its parameters, its name and its number of inputs.
// `Op` is a variant of all of them. To add an op, add a struct and list it in Op.
//
// A node stores its inputs as a list. Ops with more than three inputs also have a struct Inputs. It has one
// ValueId per input, in the list's order, optional ones last. The functions input_list, named_inputs and
// input_places convert between the two.
#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <variant>

#include "weft/dtype.h"
#include "weft/graph/ops/cells.h"
#include "weft/graph/ops/custom.h"
#include "weft/graph/ops/dense_attention.h"
#include "weft/graph/ops/general.h"
#include "weft/graph/ops/order.h"
#include "weft/graph/ops/ragged.h"
#include "weft/graph/ops/text.h"
#include "weft/graph/ops/views.h"
#include "weft/graph/ops/windows.h"
#include "weft/graph/shape.h"
#include "weft/graph/value_id.h"

#pragma GCC visibility push(default)

namespace weft {

/// The element type and shape of a value.
struct ValueType {
  DType dtype = DType::kF32;
  Shape shape;
};

// clang-format off
using Op = std::variant<
    // ops/text.h
    ops::GetRows, ops::Override, ops::Norm, ops::Add, ops::Mul, ops::Scale, ops::Concat, ops::Softcap,
    ops::Activate, ops::Softmax, ops::Glu, ops::Matmul, ops::Rope, ops::Hadamard, ops::MoveCells,
    ops::StoreCache, ops::Attention, ops::ShortConv, ops::SelectiveScan, ops::DeltaRule, ops::TopK, ops::Best,
    ops::LogSumExp, ops::ExpertWeights, ops::MatmulExperts, ops::SumExperts,
    // ops/ragged.h
    ops::RaggedAttention, ops::RaggedMean,
    // ops/windows.h
    ops::Unfold, ops::Conv2d, ops::ConvTranspose2d, ops::Pool2d, ops::Resize2d,
    // ops/general.h
    ops::Unary, ops::Clamp, ops::Binary, ops::Compare, ops::Where, ops::Reduce, ops::BatchMatmul, ops::Pad,
    // ops/order.h
    ops::Arange, ops::Cast, ops::IntBinary, ops::TakeAlong, ops::Scatter, ops::Cumsum, ops::Argsort, ops::Random,
    // ops/dense_attention.h
    ops::DenseAttention,
    // ops/cells.h
    ops::Lstm, ops::Gru,
    // ops/custom.h
    ops::Custom,
    // ops/views.h, the last ones
    ops::Reshape, ops::Permute, ops::Slice, ops::BroadcastTo, ops::Flip>;
// clang-format on

/// The op's name. A custom op's name is stored in the op.
std::string_view to_string(const Op& op);
[[deprecated("use to_string")]] inline std::string_view name(const Op& op) { return to_string(op); }
/// Whether the result is a view of its input: Reshape, Permute, Slice, BroadcastTo, Flip.
bool is_view(const Op& op);

/// An op whose inputs have names.
template <typename T>
concept HasNamedInputs = requires { typename T::Inputs; };

/// The named inputs of an op as the list that a node stores.
template <HasNamedInputs T>
constexpr auto input_list(const typename T::Inputs& inputs) {
  constexpr std::size_t kCount = sizeof(typename T::Inputs) / sizeof(ValueId);
  static_assert(kCount == static_cast<std::size_t>(T::kMaxInputs));
  return std::bit_cast<std::array<ValueId, kCount>>(inputs);
}
/// The list as named inputs. Missing optional inputs are kNoValue.
template <HasNamedInputs T>
constexpr typename T::Inputs named_inputs(std::span<const ValueId> list) {
  std::array<ValueId, static_cast<std::size_t>(T::kMaxInputs)> all;
  all.fill(kNoValue);
  std::copy(list.begin(), list.end(), all.begin());
  return std::bit_cast<typename T::Inputs>(all);
}
/// The index of each named input in the list.
template <HasNamedInputs T>
constexpr typename T::Inputs input_places() {
  std::array<ValueId, static_cast<std::size_t>(T::kMaxInputs)> places;
  for (std::size_t i = 0; i < places.size(); ++i) places[i] = static_cast<ValueId>(i);
  return std::bit_cast<typename T::Inputs>(places);
}

/// The type and shape of an op's result. Throws Error kInvalidArgument that names the wrong input.
ValueType infer(const Op& op, std::span<const ValueType> inputs);

}  // namespace weft

#pragma GCC visibility pop
