#include "backend/cpu/lone_launches.h"

#include <vector>

#include "backend/cpu/launches/batch_matmul.h"
#include "backend/cpu/launches/copy.h"
#include "backend/cpu/launches/custom.h"
#include "backend/cpu/launches/delta_rule.h"
#include "backend/cpu/launches/elementwise.h"
#include "backend/cpu/launches/images.h"
#include "backend/cpu/launches/move.h"
#include "backend/cpu/launches/ragged.h"
#include "backend/cpu/launches/recurrent.h"
#include "backend/cpu/launches/reduce.h"
#include "backend/cpu/launches/softmax.h"

namespace weft::cpu {

std::unique_ptr<Launch> make_plain_launch(const Graph& graph, const Node& node) {
  if (get_op<ops::Softmax>(node) != nullptr) return std::make_unique<SoftmaxLaunch>(graph, node);
  if (get_op<ops::MoveCells>(node) != nullptr) return std::make_unique<MoveLaunch>(graph, node);
  if (get_op<ops::ShortConv>(node) != nullptr) return std::make_unique<ConvLaunch>(graph, node);
  if (get_op<ops::SelectiveScan>(node) != nullptr) return std::make_unique<ScanLaunch>(graph, node);
  if (get_op<ops::DeltaRule>(node) != nullptr) return std::make_unique<DeltaLaunch>(graph, node);
  if (get_op<ops::RaggedAttention>(node) != nullptr)
    return std::make_unique<RaggedAttentionLaunch>(graph, node);
  if (get_op<ops::RaggedMean>(node) != nullptr) return std::make_unique<RaggedMeanLaunch>(graph, node);
  if (get_op<ops::Pool2d>(node) != nullptr) return std::make_unique<PoolLaunch>(graph, node);
  if (get_op<ops::Resize2d>(node) != nullptr) return std::make_unique<ResizeLaunch>(graph, node);
  if (get_op<ops::Custom>(node) != nullptr) return std::make_unique<CustomLaunch>(graph, node);
  return nullptr;
}

bool reads_strides(const Node& node) {
  return as_elementwise(node.op) || get_op<ops::Concat>(node) != nullptr ||
         get_op<ops::Pad>(node) != nullptr || get_op<ops::Reduce>(node) != nullptr ||
         get_op<ops::BatchMatmul>(node) != nullptr;
}

std::unique_ptr<Launch> make_strided_launch(const Graph& graph, const Node& node,
                                            std::span<const View> inputs) {
  if (as_elementwise(node.op)) return std::make_unique<ElementwiseLaunch>(graph, node, inputs);
  if (get_op<ops::Reduce>(node) != nullptr) return std::make_unique<ReduceLaunch>(node, inputs[0]);
  if (get_op<ops::BatchMatmul>(node) != nullptr)
    return std::make_unique<BatchMatmulLaunch>(graph, node, inputs[0], inputs[1]);
  return std::make_unique<JoinLaunch>(graph, node, inputs);
}

}  // namespace weft::cpu
