#include "backend/gpu/launches_products.h"

#include <algorithm>

#include "backend/gpu/grids.h"
#include "backend/gpu/kernel.h"
#include "backend/gpu/launches_general.h"

namespace weft::gpu {
namespace {

constexpr std::uint32_t kOutputsPerGroup = 16;  // As in lanes.glsl.
constexpr std::uint32_t kFewOutputs = 1024;  // Up to here tiles are smaller, so that there are more of them.
constexpr std::uint32_t kMaxSortedExperts = 1024;  // As in sort_experts.comp.

// Which of a launch's tensors, and of its numbers: as in rows.glsl, and of a tail in lanes.glsl.
enum : std::uint32_t { kX = 1, kPairs = 5, kTiles = 6, kAddend = 7 };
enum : std::uint32_t {
  kTailSum = 3,
  kAddedWeight = 5,  // Followed by its bias.
  kTailAddend = 7,
  kNormWeight = 8,  // Followed by its bias.
  kNormFloats = 10,
  kNormCodes = 11,
};
// Whether weights and a bias follow an eps.
enum : std::uint32_t { kNormEps = 7, kAddedEps = 10, kExperts = 13 };

/// The inputs of a product other than the weight and the rows.
struct Product {
  ValueId bias = kNoValue, ids = kNoValue;
  std::uint32_t n_ids = 0;    ///< Experts of a row; 0: there are none.
  bool row_for_each = false;  ///< x has a row for each of them.
  ValueId addend = kNoValue;  ///< Rows that it is added to ...
  const Node* sum = nullptr;  ///< ... for that node.
  Dim rows;
};

std::uint32_t n_experts(const LaunchBuilder& builder, const Node& node) {
  return word(builder.shape(node.inputs[0])[0].constant());
}
/// Whether this number of rows is sorted by expert, so that each expert's weights are unpacked once for
/// several.
bool sorts(std::uint32_t rows, std::uint32_t experts) {
  return experts <= kMaxSortedExperts && rows > std::max(kRowsOfLanes, experts);
}
bool may_sort(const LaunchBuilder& builder, const Node& node) {
  if (get_op<ops::MatmulExperts>(node) == nullptr || builder.shape(node.inputs[2]).rank() != 2) return false;
  const Dim rows = builder.shape(node.output).row_dim();
  return sorts(word(rows.value(builder.graph().bounds())), n_experts(builder, node));
}

ValueId other_input(const Node& sum, ValueId one) { return sum.inputs[sum.inputs[0] == one ? 1 : 0]; }
/// The other row of a tail's sum.
ValueId tail_addend(const Graph& graph, const RowTail& tail) {
  if (tail.sum == kNoNode) return kNoValue;
  return other_input(graph.node(tail.sum), graph.node(tail.own_norm).output);
}

class ProductLaunches {
 public:
  explicit ProductLaunches(LaunchBuilder& builder) : builder_(builder) {}

  /// A thread a lane for few rows, tiles for many: a launch for each, of which a step has one.
  void matmul(const Node& node, const Product& p) {
    const ValueId weight = node.inputs[0];
    const Shape& s = builder_.shape(weight);
    const std::uint32_t kind = builder_.type(weight), outputs = word(s[s.rank() - 2].constant());
    const std::uint32_t most = word(p.rows.value(graph_.bounds()));
    const std::uint32_t across = (outputs + kOutputsPerGroup - 1) / kOutputsPerGroup;
    const Sizes& sizes = target_.sizes;
    const std::uint32_t tile_outputs = outputs > kFewOutputs ? sizes.many_tile.outputs : sizes.narrow_outputs;
    const std::uint32_t tiles_across = (outputs + tile_outputs - 1) / tile_outputs;
    const auto constants = [&](std::uint32_t tile_rows, bool sorted) -> std::vector<std::uint32_t> {
      return {kind, tile_outputs, tile_rows, tile_threads({tile_outputs, tile_rows}), sorted};
    };
    if (p.n_ids > 0) {
      const std::uint32_t experts = n_experts(builder_, node);
      product(node, p, false, {kind, 1}).groups = [=](const StepSizes& step) -> Groups {
        return sorts(step.rows, experts) ? Groups{0, 0, 0} : Groups{across, groups_of(step.rows, 1), 1};
      };
      if (!may_sort(builder_, node)) return;
      const std::uint32_t sorted_rows = sizes.few_tile.rows;
      const std::uint32_t pairs =
          builder_.scratch(Scratch::Kind::kPairs, p.ids, p.rows, sizeof(std::uint32_t), experts);
      const std::uint32_t tiles =
          builder_.scratch(Scratch::Kind::kTiles, p.ids, p.rows + Dim(1), 4 * sizeof(std::uint32_t), experts);
      Launch& launch = product(node, p, true, constants(sorted_rows, true));
      use_scratch(launch, kPairs, pairs);
      use_scratch(launch, kTiles, tiles);
      launch.groups = [=](const StepSizes& step) -> Groups {
        if (!sorts(step.rows, experts)) return {0, 0, 0};
        return {groups_of(std::min(step.rows, experts) + step.rows / sorted_rows, 1), tiles_across, 1};
      };
      return;
    }
    const auto add_lanes = [&](std::uint32_t rows, std::uint32_t from) {
      if (most < from) return;
      Launch& launch = product(node, p, false, {kind, rows});
      launch.groups = [=](const StepSizes& step) -> Groups {
        return step.rows < from || step.rows > rows ? Groups{0, 0, 0} : Groups{across, 1, 1};
      };
      const RowTail& tail = fusion_.tail(builder_.node());
      if (rows == 1 && !tail.is_empty()) add_tail(tail, launch);
    };
    const auto add_tiles = [&](std::uint32_t rows, std::uint32_t from, std::uint32_t to) {
      if (most < from) return;
      product(node, p, true, constants(rows, false)).groups = [=](const StepSizes& step) -> Groups {
        return step.rows < from || step.rows > to ? Groups{0, 0, 0}
                                                  : Groups{groups_of(step.rows, rows), tiles_across, 1};
      };
    };
    const std::uint32_t few = sizes.few_tile.rows, many = sizes.many_tile.rows;
    add_lanes(1, 1);
    add_lanes(kRowsOfLanes, 2);
    add_tiles(few, kRowsOfLanes + 1, many > few ? few : ~0u);
    if (many > few) add_tiles(many, few + 1, ~0u);
  }

 private:
  Launch& product(const Node& node, const Product& p, bool tiles, std::vector<std::uint32_t> constants) {
    const ValueId weight = node.inputs[0], x = node.inputs[1];
    const Shape& s = builder_.shape(weight);
    const auto bytes = word(static_cast<std::int64_t>(row_bytes(builder_.dtype(weight), s.columns())));
    const bool codes = builder_.by_codes(node);
    Kernel kernel = tiles ? (codes ? Kernel::kMatmulTilesCodes : Kernel::kMatmulTiles)
                          : (codes ? Kernel::kMatmulCodes : Kernel::kMatmul);
    if (const auto& matrix = target_.sizes.matrix; tiles && codes && matrix.has_value()) {
      kernel = Kernel::kMatmulCooperative;
      const std::uint32_t subgroup = target_.sizes.subgroup;
      constants[3] = matrix_threads({constants[1], constants[2]}, *matrix, subgroup);
      constants.insert(constants.end(), {matrix->outputs, matrix->rows, matrix->columns, subgroup});
    }
    Launch& launch = builder_.add(kernel, std::move(constants), p.rows,
                                  {weight, x, p.bias, p.ids, p.sum != nullptr ? p.sum->output : node.output},
                                  {word(s[s.rank() - 2].constant()), word(s.columns()), bytes,
                                   p.bias != kNoValue, p.n_ids, p.row_for_each, p.addend != kNoValue});
    launch.push.params[kExperts] = p.n_ids > 0 ? n_experts(builder_, node) : 1;
    if (p.addend != kNoValue) {
      launch.node = graph_.value(node.output).producer;  // That is whose work it is.
      launch.push.tensors[kAddend] = word(std::int64_t{builder_.place(p.addend)});
    }
    launch.grids = has_grid(builder_.dtype(weight));
    if (codes) {
      use_scratch(launch, kX,
                  builder_.scratch(Scratch::Kind::kCodes, x, builder_.shape(x).row_dim(),
                                   code_row_bytes(builder_.columns(x))));
    }
    return launch;
  }

  /// The continuation of the last workgroup of a product of one row: the work of these nodes' launches, in
  /// lanes.glsl.
  void add_tail(const RowTail& tail, Launch& launch) {
    const auto set = [&](std::size_t i, ValueId tensor) {
      if (tensor != kNoValue) launch.push.tensors[i] = word(std::int64_t{builder_.place(tensor)});
    };
    const auto set_norm = [&](const Node& norm, std::size_t tensors, std::size_t params) {
      const ValueId weight = optional(norm, 1), bias = optional(norm, 2);
      set(tensors, weight);
      set(tensors + 1, bias);
      const std::uint32_t numbers[] = {word(get_op<ops::Norm>(norm)->eps), weight != kNoValue,
                                       bias != kNoValue};
      std::copy(std::begin(numbers), std::end(numbers), launch.push.params + params);
    };
    std::vector<std::uint32_t> constants(6);  // Of lanes.glsl, from kAddsNorm on.
    if (tail.own_norm != kNoNode) {
      const Node& norm = graph_.node(tail.own_norm);
      constants[0] = 1, constants[1] = word(get_op<ops::Norm>(norm)->kind);
      set_norm(norm, kAddedWeight, kAddedEps);
      set(kTailSum, graph_.node(tail.sum).output);
      set(kTailAddend, tail_addend(graph_, tail));
    }
    if (tail.norm != kNoNode) {
      const Node& norm = graph_.node(tail.norm);
      const bool floats = fusion_.makes_floats(norm.output), codes = fusion_.makes_codes(norm.output);
      constants[2] = 1, constants[3] = word(get_op<ops::Norm>(norm)->kind);
      constants[4] = floats, constants[5] = codes;
      set_norm(norm, kNormWeight, kNormEps);
      if (floats) set(kNormFloats, norm.output);
      if (codes) builder_.make_codes(norm, launch, kNormCodes);
    }
    launch.constants.insert(launch.constants.end(), constants.begin(), constants.end());
    launch.counts_groups = true;
  }

  LaunchBuilder& builder_;
  const Graph& graph_ = builder_.graph();
  const Target& target_ = builder_.target();
  const Fusion& fusion_ = builder_.fusion();
};

}  // namespace

std::optional<bool> can_launch_product(const Graph& graph, const Node& node) {
  if (get_op<ops::Matmul>(node) == nullptr && get_op<ops::MatmulExperts>(node) == nullptr)
    return std::nullopt;
  const ValueInfo& weight = graph.value(node.inputs[0]);
  const Shape& s = weight.shape;
  return stored_type(weight.dtype).has_value() &&
         s[s.rank() - 2].constant() <= std::int64_t{kMaxGroups} * kOutputsPerGroup &&
         row_bytes(weight.dtype, s.columns()) < std::size_t{kMaxElements};
}

int first_phase(const LaunchBuilder& builder, const Node& node) {
  int phase = builder.ready(node.inputs);
  if (builder.by_codes(node)) phase = std::max(phase, builder.codes_ready(node.inputs[1]));
  if (may_sort(builder, node)) phase = std::max(phase, builder.ready(node.inputs[2]) + 1);
  const NodeId id = builder.graph().value(node.output).producer;
  const ValueId addend = tail_addend(builder.graph(), builder.fusion().tail(id));
  return addend == kNoValue ? phase : std::max(phase, builder.ready(addend));
}

bool launch_product(LaunchBuilder& builder, const Node& node) {
  if (get_op<ops::Matmul>(node) != nullptr) {
    ProductLaunches(builder).matmul(node, {.bias = optional(node, 2), .rows = builder.shape(node.output)[0]});
    return true;
  }
  if (get_op<ops::MatmulExperts>(node) == nullptr) return false;
  const Shape& ids = builder.shape(node.inputs[2]);
  ProductLaunches(builder).matmul(node,
                                  {.ids = node.inputs[2],
                                   .n_ids = builder.columns(node.inputs[2]),
                                   .row_for_each = builder.shape(node.inputs[1]).rank() == 3,
                                   .rows = ids.rank() == 2 ? builder.shape(node.output).row_dim() : Dim(0)});
  return true;
}

void launch_product_and_sum(LaunchBuilder& builder, NodeId id, NodeId product_id) {
  const Node &sum = builder.graph().node(id), &product = builder.graph().node(product_id);
  make_inputs_plain(builder, product);
  make_inputs_plain(builder, sum);
  const ValueId rows = other_input(sum, product.output);
  builder.enter(id, std::max(first_phase(builder, product), builder.ready(rows)));
  ProductLaunches(builder).matmul(
      product,
      {.bias = optional(product, 2), .addend = rows, .sum = &sum, .rows = builder.shape(sum.output)[0]});
}

void launch_fillers(LaunchBuilder& builder) {
  const std::vector<Scratch>& scratch = builder.program().scratch;
  for (std::uint32_t i = 0; i < scratch.size(); ++i) {
    const Scratch& one = scratch[i];
    if (one.kind == Scratch::Kind::kCodes && !one.is_made) {
      const std::uint32_t n = builder.columns(one.of);
      Launch& launch = builder.add_for(one, Kernel::kQuantise, {0, 0}, one.rows, {one.of}, {n});
      use_scratch(launch, 1, i);
      launch.groups = groups_for(n / kBlock, 64);
    } else if (one.kind == Scratch::Kind::kTiles) {
      const std::uint32_t experts = one.n_experts;
      const Shape& ids = builder.shape(one.of);
      Launch& launch = builder.add_for(one, Kernel::kSortExperts, {builder.target().sizes.few_tile.rows},
                                       ids.row_dim() * ids.columns(), {one.of}, {experts});
      use_scratch(launch, 1, i - 1);
      use_scratch(launch, 2, i);
      launch.groups = [experts](const StepSizes& step) -> Groups {
        return sorts(step.rows, experts) ? Groups{1, 1, 1} : Groups{0, 0, 0};
      };
    }
  }
}

}  // namespace weft::gpu
