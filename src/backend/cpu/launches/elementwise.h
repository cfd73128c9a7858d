#pragma once
// Elementwise ops whose operands broadcast, have strides, or are not rows. Ops on rows of one shape go into
// chains instead (row.h).
#include <optional>
#include <variant>
#include <vector>

#include "backend/cpu/launches/launch.h"
#include "backend/cpu/launches/strided.h"

namespace weft::cpu {

using ElementwiseOp =
    std::variant<ops::Add, ops::Mul, ops::Scale, ops::Softcap, ops::Activate, ops::Unary, ops::Clamp,
                 ops::Binary, ops::Compare, ops::Where, ops::Cast, ops::IntBinary>;
std::optional<ElementwiseOp> as_elementwise(const Op& op);

/// Elements of an operand: one for each result, or one for all.
struct ElementRun {
  const std::byte* at = nullptr;
  bool one = false;
};
/// n results of an op.
void compute_elements(const ops::Unary& op, const Kernels& kernels, std::span<const ElementRun> in,
                      std::int64_t n, std::byte* out);
void compute_elements(const ops::Clamp& op, const Kernels& kernels, std::span<const ElementRun> in,
                      std::int64_t n, std::byte* out);
void compute_elements(const ops::Binary& op, const Kernels& kernels, std::span<const ElementRun> in,
                      std::int64_t n, std::byte* out);
void compute_elements(const ops::Where& op, const Kernels& kernels, std::span<const ElementRun> in,
                      std::int64_t n, std::byte* out);
void compute_elements(const ops::Cast& op, const Kernels& kernels, std::span<const ElementRun> in,
                      std::int64_t n, std::byte* out);
void compute_elements(const ops::IntBinary& op, const Kernels& kernels, std::span<const ElementRun> in,
                      std::int64_t n, std::byte* out);
/// `type` is the operands' type.
void compare_elements(const ops::Compare& op, DType type, const Kernels& kernels,
                      std::span<const ElementRun> in, std::int64_t n, std::byte* out);

class ElementwiseLaunch final : public Launch {
 public:
  /// Operands are the node's, as views that need not be contiguous.
  ElementwiseLaunch(const Graph& graph, const Node& node, std::span<const View> operands);
  void bind(const Addresses& addresses) override;
  std::int32_t prepare(const StepInfo& step) override;
  void run(std::int32_t task, const TaskContext& context) override;
  std::size_t scratch_bytes() const override;
  std::string describe(const Graph& graph) const override;

 private:
  void compute(const Kernels& kernels, std::span<const ElementRun> in, std::int64_t n, std::byte* out) const;

  ElementwiseOp op_;
  std::string_view name_;
  ValueId output_;
  DType operand_type_;
  std::vector<View> views_;  // The output, and the operands.
  std::vector<StridedView> in_step_;
  std::vector<std::byte*> bases_;
  StridedLoops loops_;
  Shares shares_;
};

}  // namespace weft::cpu
