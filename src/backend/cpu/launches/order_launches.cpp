#include "backend/cpu/launches/order_launches.h"

#include "backend/cpu/launches/cells.h"
#include "backend/cpu/launches/cumsum.h"
#include "backend/cpu/launches/dense_attention.h"
#include "backend/cpu/launches/gather.h"
#include "backend/cpu/launches/made.h"
#include "backend/cpu/launches/sort.h"
#include "base/check.h"

namespace weft::cpu {

bool is_order_op(const Op& op) {
  return std::holds_alternative<ops::Arange>(op) || std::holds_alternative<ops::TakeAlong>(op) ||
         std::holds_alternative<ops::Scatter>(op) || std::holds_alternative<ops::Cumsum>(op) ||
         std::holds_alternative<ops::Argsort>(op) || std::holds_alternative<ops::Random>(op) ||
         std::holds_alternative<ops::DenseAttention>(op) || std::holds_alternative<ops::Lstm>(op) ||
         std::holds_alternative<ops::Gru>(op);
}

bool can_read(const Op& op, std::size_t input, const View& view) {
  if (std::holds_alternative<ops::TakeAlong>(op) || std::holds_alternative<ops::Scatter>(op)) return true;
  constexpr auto at = input_places<ops::DenseAttention>();
  if (!std::holds_alternative<ops::DenseAttention>(op) || static_cast<ValueId>(input) == at.sinks)
    return false;
  return static_cast<ValueId>(input) == at.bias || view.strides[3] == Dim(1);
}

std::vector<std::unique_ptr<Launch>> order_launches(const Graph& graph, const Node& node,
                                                    std::span<const View> inputs) {
  std::vector<std::unique_ptr<Launch>> made;
  if (get_op<ops::Arange>(node) != nullptr) {
    made.push_back(std::make_unique<ArangeLaunch>(node));
  } else if (get_op<ops::Random>(node) != nullptr) {
    made.push_back(std::make_unique<RandomLaunch>(node));
  } else if (get_op<ops::TakeAlong>(node) != nullptr) {
    made.push_back(std::make_unique<TakeAlongLaunch>(graph, node, inputs));
  } else if (get_op<ops::Scatter>(node) != nullptr) {
    made.push_back(std::make_unique<ScatterLaunch>(graph, node, inputs));
  } else if (get_op<ops::Argsort>(node) != nullptr) {
    made.push_back(std::make_unique<ArgsortLaunch>(graph, node));
  } else if (get_op<ops::Cumsum>(node) != nullptr) {
    const auto lines = std::make_shared<CumsumLines>(graph, node);
    if (!lines->totals.empty()) made.push_back(std::make_unique<CumsumLaunch>(lines, true));
    made.push_back(std::make_unique<CumsumLaunch>(lines, false));
  } else if (get_op<ops::DenseAttention>(node) != nullptr) {
    made.push_back(std::make_unique<DenseAttentionLaunch>(*get_op<ops::DenseAttention>(node),
                                                          dense_attention_views(graph, node, inputs)));
  } else {
    WEFT_CHECK(get_op<ops::Lstm>(node) != nullptr || get_op<ops::Gru>(node) != nullptr);
    made.push_back(std::make_unique<CellsLaunch>(graph, node));
  }
  return made;
}

}  // namespace weft::cpu
