#include "backend/gpu/launches_general.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "backend/gpu/elementwise.h"
#include "base/check.h"
#include "base/to_size.h"

namespace weft::gpu {
namespace {

enum class Scalar : std::uint32_t { kNone, kSecond, kFirst };

constexpr std::uint32_t kElementThreads = 256;  // As in elementwise.comp, pad.comp, unfold.comp.
constexpr std::uint32_t kReduceThreads = 128;   // As in reduce.comp.
constexpr std::uint32_t kNeighbours = 16;       // Results side by side that a workgroup of reduce.comp makes.
constexpr std::int64_t kFewElements = 16;       // Elements of a result that a single thread reads.
constexpr std::uint32_t kProductColumns = 64, kProductRows = 16,
                        kRowsPerThread = 4;  // As in batch_matmul.comp.
constexpr std::int64_t kSquareSide = 32;     // As in transpose.comp.
constexpr std::uint32_t kAttentionThreads = 64, kAttentionRows = 16, kWideAttentionRows = 4;
constexpr std::uint32_t kColumnsOfManyRows = 4;  // Of v, per thread, up to which many rows stay in registers.

constexpr std::size_t at(int axis) { return to_size(axis); }

/// What operands of one shape walk: its axes, those merged that all of them walk as one.
struct Walk {
  std::vector<Dim> sizes;
  struct Operand {
    Dim offset;
    std::vector<Dim> strides;
  };
  std::vector<Operand> operands;

  std::uint32_t n_axes() const { return static_cast<std::uint32_t>(sizes.size()); }
  /// Whether all of them are elements one after another from the beginning of memory.
  bool is_plain() const {
    return std::all_of(operands.begin(), operands.end(), [](const Operand& operand) {
      return operand.offset == Dim(0) && (operand.strides.empty() || operand.strides == std::vector<Dim>{1});
    });
  }
  void add_axis_of_one() {
    sizes.emplace_back(1);
    for (Operand& operand : operands) operand.strides.emplace_back(0);
  }
  /// As in strided.glsl.
  void append_to(std::vector<Dim>& words) const {
    words.insert(words.end(), sizes.begin(), sizes.end());
    for (const Operand& operand : operands) {
      words.push_back(operand.offset);
      words.insert(words.end(), operand.strides.begin(), operand.strides.end());
    }
  }
};

/// Of the axes of the views' one shape whose bits are set.
Walk walk_of(std::span<const View> views, std::uint32_t axes = ~0u) {
  Walk walk;
  for (const View& view : views) walk.operands.push_back({view.offset, {}});
  const Shape& shape = views[0].shape;
  for (int i = 0; i < shape.rank(); ++i) {
    if ((axes >> i & 1) == 0 || shape[i] == Dim(1)) continue;
    const auto is_whole = [&](std::size_t o) {  // One stride of the axis before is all of this one.
      return walk.operands[o].strides.back() == views[o].strides[at(i)] * shape[i];
    };
    bool merges = !walk.sizes.empty();
    for (std::size_t o = 0; o < views.size(); ++o) merges = merges && is_whole(o);
    if (merges) {
      walk.sizes.back() = walk.sizes.back() * shape[i];
    } else {
      walk.sizes.push_back(shape[i]);
    }
    for (std::size_t o = 0; o < views.size(); ++o) {
      auto& strides = walk.operands[o].strides;
      if (merges) strides.pop_back();
      strides.push_back(views[o].strides[at(i)]);
    }
  }
  return walk;
}

class GeneralLaunches {
 public:
  explicit GeneralLaunches(LaunchBuilder& builder) : builder_(builder) {}

  /// `to` and `from` have one shape.
  void copy(const View& to, const View& from) {
    if (!transpose(to, from)) elementwise(Elementwise::kCopy, 0u, {to, from});
  }

  void add(const ops::Unary& op, const Node& node) { of_one(Elementwise::kUnary, op.kind, node); }
  void add(const ops::Activate& op, const Node& node) { of_one(Elementwise::kActivate, op.kind, node); }
  void add(const ops::Clamp& op, const Node& node) { of_one(Elementwise::kClamp, 0, node, op.low, op.high); }
  void add(const ops::Softcap& op, const Node& node) { of_one(Elementwise::kSoftcap, 0, node, op.cap); }
  void add(const ops::Scale& op, const Node& node) {
    of_one(Elementwise::kBinary, BinaryKind::kMul, node, op.factor, 0.0f, Scalar::kSecond);
  }
  void add(const ops::Add&, const Node& node) { of_two(Elementwise::kBinary, BinaryKind::kAdd, node); }
  void add(const ops::Mul&, const Node& node) { of_two(Elementwise::kBinary, BinaryKind::kMul, node); }
  void add(const ops::Glu& op, const Node& node) { of_two(Elementwise::kGlu, op.kind, node); }
  void add(const ops::Binary& op, const Node& node) {
    if (node.inputs.size() > 1) return of_two(Elementwise::kBinary, op.kind, node);
    of_one(Elementwise::kBinary, op.kind, node, op.scalar, 0.0f,
           op.scalar_first ? Scalar::kFirst : Scalar::kSecond);
  }
  void add(const ops::Compare& op, const Node& node) {
    const bool ints = builder_.dtype(node.inputs[0]) == DType::kI32;
    const Elementwise compare = ints ? Elementwise::kCompareInts : Elementwise::kCompareFloats;
    if (node.inputs.size() > 1) return of_two(compare, op.kind, node);
    const auto whole = static_cast<std::int64_t>(ints ? op.scalar : 0.0f);
    elementwise(compare, word(op.kind), operands(node, {0}), ints ? word(whole) : word(op.scalar), 0,
                Scalar::kSecond);
  }
  void add(const ops::Where& op, const Node& node) {
    if (node.inputs.size() > 2) return elementwise(Elementwise::kChoose, 0, operands(node, {0, 1, 2}));
    elementwise(Elementwise::kChoose, 0, operands(node, {0, 1}), word(op.otherwise), 0, Scalar::kSecond);
  }
  /// A choice between rows, where each column of a row asks the same.
  void add(const ops::Override&, const Node& node) {
    std::vector<View> views = operands(node, {1, 0});
    const View& use = builder_.view(node.inputs[2]);
    View each = {use.base, views[0].shape, use.offset, {}};
    Dim stride = use.strides[0];
    for (int i = each.shape.rank() - 1; i-- > 0;) {
      each.strides[at(i)] = stride;
      stride = stride * each.shape[i];
    }
    each.strides[at(each.shape.rank() - 1)] = 0;
    views.insert(views.begin() + 1, each);
    elementwise(Elementwise::kChoose, 0, views);
  }

  /// Each input to its place in the result.
  void add(const ops::Concat& op, const Node& node) {
    View place = builder_.view(node.output);
    const int axis = op.axis == ops::Concat::kColumns ? place.shape.rank() - 1 : op.axis;
    for (const ValueId input : node.inputs) {
      const View& from = builder_.view(input);
      place.shape = from.shape;
      copy(place, from);
      place.offset = place.offset + from.shape[axis] * place.strides[at(axis)];
    }
  }

  void add(const ops::Pad& op, const Node& node) {
    const View& x = builder_.view(node.inputs[0]);
    const Shape& shape = builder_.shape(node.output);
    Launch& launch = builder_.add(Kernel::kPad, {word(std::int64_t{shape.rank()})}, elements(shape),
                                  {x.base, node.output}, {word(op.value)});
    for (int i = 0; i < shape.rank(); ++i) launch.words.push_back(shape[i]);
    launch.words.push_back(x.offset);
    for (int i = 0; i < shape.rank(); ++i) launch.words.push_back(x.strides[at(i)]);
    for (int i = 0; i < shape.rank(); ++i) launch.words.push_back(x.shape[i]);
    for (int i = 0; i < shape.rank(); ++i) launch.words.emplace_back(op.before[at(i)]);
    launch.groups = groups_for(1, kElementThreads);
  }

  void add(const ops::Reduce& op, const Node& node) {
    const View& x = builder_.view(node.inputs[0]);
    const Walk kept = walk_of({&x, 1}, ~op.axes);
    Walk over = walk_of({&x, 1}, op.axes);
    over.operands[0].offset = 0;  // That of the first walk counts.
    Dim n_over = 1;
    for (const Dim& size : over.sizes) n_over = n_over * size;
    const std::vector<Dim>& strides = over.operands[0].strides;
    const bool few = n_over.is_constant() && n_over.constant() <= kFewElements;
    const std::uint32_t outputs = few                                       ? kReduceThreads
                                  : !strides.empty() && strides.back() == 1 ? 1
                                                                            : kNeighbours;
    Launch& launch = builder_.add(Kernel::kReduce, {word(op.kind), kept.n_axes(), over.n_axes(), outputs},
                                  elements(builder_.shape(node.output)), {x.base, node.output}, {});
    kept.append_to(launch.words);
    over.append_to(launch.words);
    launch.words.push_back(n_over);
    launch.groups = groups_for(1, outputs);
  }

  void add(const ops::Softmax&, const Node& node) {
    const Shape& shape = builder_.shape(node.output);
    Dim rows = 1;
    for (int i = 0; i + 1 < shape.rank(); ++i) rows = rows * shape[i];
    Launch& launch = builder_.add(Kernel::kSoftmax, {}, rows, {node.inputs[0], node.output}, {});
    launch.words = {shape.back()};
    launch.groups = groups_for(1, 1);
  }

  /// Tiles of few rows and of many: both are recorded, and a step gives groups to one of them.
  void add(const ops::BatchMatmul&, const Node& node) {
    batch_matmul(node, 1);
    batch_matmul(node, kRowsPerThread);
  }

  void add(const ops::Unfold& op, const Node& node) {
    const std::uint32_t width = builder_.columns(node.output);
    Launch& launch =
        builder_.add(Kernel::kUnfold, {}, builder_.shape(node.output)[0], {node.inputs[0], node.output},
                     {builder_.columns(node.inputs[0]), width, word(op.stride), word(op.padding)});
    launch.words = {builder_.shape(node.inputs[0])[0]};
    launch.groups = groups_for(width, kElementThreads);
  }

  void add(const ops::RaggedMean&, const Node& node) {
    const std::uint32_t n = builder_.columns(node.output);
    Launch& launch = builder_.add(Kernel::kRaggedMean, {}, builder_.shape(node.output)[0],
                                  {node.inputs[0], node.inputs[1], node.inputs[2], node.output}, {n});
    launch.words = {builder_.shape(node.inputs[0])[0]};
    launch.groups = groups_for(n, 64);
  }

  /// One row at a time and several, as products.
  void add(const ops::RaggedAttention& op, const Node& node) {
    const auto in = named_inputs<ops::RaggedAttention>(node);
    const std::int64_t heads = op.n_heads, k_dim = builder_.shape(in.q).columns() / heads,
                       v_dim = builder_.shape(node.output).columns() / heads;
    // A state has its heads as a dimension of their own.
    const Shape& k = builder_.shape(in.k);
    const std::int64_t kv_heads = (k.rank() == 3 ? k[1].constant() * k[2].constant() : k.columns()) / k_dim;
    const float scale = op.scale != 0.0f ? op.scale : 1.0f / std::sqrt(static_cast<float>(k_dim));
    const std::uint32_t per_thread = (word(v_dim) + kAttentionThreads - 1) / kAttentionThreads;
    const std::uint32_t many = per_thread <= kColumnsOfManyRows ? kAttentionRows : kWideAttentionRows;
    for (const std::uint32_t tile : {std::uint32_t{1}, many}) {
      Launch& launch = builder_.add(Kernel::kRaggedAttention, {tile, per_thread}, builder_.shape(in.q)[0],
                                    {in.q, in.k, in.v, in.begins, in.ends, node.output},
                                    {word(heads), word(kv_heads), word(k_dim), word(v_dim), word(scale)});
      launch.words = {k[0]};
      launch.groups = [=](const StepSizes& step) -> Groups {
        if ((step.rows > kFewRows) != (tile > 1)) return {0, 0, 0};
        return {word(heads), groups_of(step.rows, tile), 1};
      };
    }
  }

 private:
  /// The output, then these inputs of the node, all of the output's shape.
  std::vector<View> operands(const Node& node, std::initializer_list<std::size_t> inputs) const {
    std::vector<View> views = {builder_.view(node.output)};
    for (const std::size_t input : inputs)
      views.push_back(broadcast_view(builder_.view(node.inputs[input]), views[0].shape));
    return views;
  }

  void elementwise(Elementwise op, std::uint32_t kind, const std::vector<View>& views,
                   std::uint32_t first_number = 0, std::uint32_t second_number = 0,
                   Scalar scalar = Scalar::kNone) {
    Walk walk = walk_of(views);
    const bool plain = walk.is_plain();
    if (!plain && walk.sizes.empty()) walk.add_axis_of_one();
    const auto base = [&](std::size_t i) { return i < views.size() ? views[i].base : kNoValue; };
    Launch& launch = builder_.add(
        Kernel::kElementwise, {word(op), kind, plain ? 0 : walk.n_axes(), word(scalar)},
        elements(views[0].shape), {base(0), base(1), base(2), base(3)}, {first_number, second_number});
    if (!plain) walk.append_to(launch.words);
    launch.groups = groups_for(1, kElementThreads);
  }
  /// A copy whose neighbours are other ones there; false where it is none, or of few elements.
  bool transpose(const View& to, const View& from) {
    const View views[] = {to, from};
    const Walk walk = walk_of(views);
    const std::vector<Dim>&in_to = walk.operands[0].strides, &in_from = walk.operands[1].strides;
    const auto last = walk.sizes.size() - 1,
               found = to_size(std::find(in_from.begin(), in_from.end(), Dim(1)) - in_from.begin());
    const auto is_long = [&](const Dim& size) {
      return !size.is_constant() || size.constant() > kFewElements;
    };
    if (walk.sizes.size() < 2 || found >= last || !(in_to[last] == Dim(1)) || !is_long(walk.sizes[last]) ||
        !is_long(walk.sizes[found]))
      return false;
    // The other axes, or such that have one element.
    std::array<Dim, 2> sizes = {1, 1}, strides_to = {0, 0}, strides_from = {0, 0};
    std::size_t n = sizes.size();
    for (std::size_t axis = last; axis-- > 0;) {
      if (axis == found) continue;
      sizes[--n] = walk.sizes[axis];
      strides_to[n] = in_to[axis];
      strides_from[n] = in_from[axis];
    }
    const Dim across = (walk.sizes[last] + (kSquareSide - 1)) / kSquareSide,
              down = (walk.sizes[found] + (kSquareSide - 1)) / kSquareSide;
    Launch& launch =
        builder_.add(Kernel::kTranspose, {}, across * down * sizes[0] * sizes[1], {to.base, from.base}, {});
    launch.words = {walk.sizes[last], walk.sizes[found],       across,        down,
                    sizes[1],         walk.operands[0].offset, in_to[found],  strides_to[0],
                    strides_to[1],    walk.operands[1].offset, in_from[last], strides_from[0],
                    strides_from[1]};
    launch.groups = groups_for(1, 1);
    return true;
  }

  template <typename Kind>
  void of_one(Elementwise op, Kind kind, const Node& node, float first = 0.0f, float second = 0.0f,
              Scalar scalar = Scalar::kNone) {
    elementwise(op, static_cast<std::uint32_t>(kind), operands(node, {0}), word(first), word(second), scalar);
  }
  template <typename Kind>
  void of_two(Elementwise op, Kind kind, const Node& node) {
    elementwise(op, static_cast<std::uint32_t>(kind), operands(node, {0, 1}));
  }

  void batch_matmul(const Node& node, std::uint32_t rows_per_thread) {
    const Shape& shape = builder_.shape(node.output);
    const int rank = shape.rank();
    const Dim &rows = shape[rank - 2], &columns = shape[rank - 1];
    const std::int64_t tile_rows = std::int64_t{kProductRows} * rows_per_thread;
    const Dim across = (columns + (kProductColumns - 1)) / kProductColumns,
              down = (rows + (tile_rows - 1)) / tile_rows;
    Dim matrices = 1;
    for (int i = 0; i + 2 < rank; ++i) matrices = matrices * shape[i];
    const View &a = builder_.view(node.inputs[0]), &b = builder_.view(node.inputs[1]);
    const Dim& n_k = a.shape.back();
    // For an operand: offset, strides of the axes of matrices, then of its own two, the stride along k last.
    const auto strides_of = [&](const View& view, int along, int k) {
      std::vector<Dim> result = {view.offset};
      for (const int outer : {rank - 4, rank - 3}) {
        const int axis = outer - (rank - view.shape.rank());
        const bool repeats = axis < 0 || view.shape[axis] == Dim(1);
        result.push_back(repeats ? Dim(0) : view.strides[at(axis)]);
      }
      result.push_back(view.strides[at(view.shape.rank() - along)]);
      result.push_back(view.strides[at(view.shape.rank() - k)]);
      return result;
    };
    const std::vector<Dim> of_a = strides_of(a, 2, 1), of_b = strides_of(b, 1, 2);
    const auto is_along_k = [](const std::vector<Dim>& strides) {
      return static_cast<std::uint32_t>(strides.back() == Dim(1));
    };
    Launch& launch = builder_.add(Kernel::kBatchMatmul, {rows_per_thread, is_along_k(of_a), is_along_k(of_b)},
                                  matrices * across * down, {a.base, b.base, node.output}, {});
    launch.words = {rows, columns, n_k, across, down, rank > 2 ? shape[rank - 3] : Dim(1)};
    launch.words.insert(launch.words.end(), of_a.begin(), of_a.end());
    launch.words.insert(launch.words.end(), of_b.begin(), of_b.end());
    launch.groups = [=](const StepSizes& step) -> Groups {
      if ((step.words[0] > kProductRows) != (rows_per_thread > 1)) return {0, 0, 0};
      return {groups_of(step.rows, 1), 1, 1};
    };
  }

  LaunchBuilder& builder_;
};

template <typename T>
concept General =
    requires(GeneralLaunches& launches, const T& op, const Node& node) { launches.add(op, node); };

}  // namespace

std::optional<bool> can_launch_general(const Graph& graph, const Node& node) {
  if (get_op<ops::RaggedAttention>(node) != nullptr) {
    const auto in = named_inputs<ops::RaggedAttention>(node);
    const std::int64_t heads = get_op<ops::RaggedAttention>(node)->n_heads;
    return heads <= kMaxGroups && graph.value(in.q).shape.columns() / heads <= kMaxHeadDim &&
           graph.value(node.output).shape.columns() / heads <= kMaxHeadDim;
  }
  if (!is_view(node.op) && !std::visit([]<typename T>(const T&) { return General<T>; }, node.op))
    return std::nullopt;
  // Weights and states, too.
  return std::all_of(node.inputs.begin(), node.inputs.end(),
                     [&](ValueId input) { return can_index(graph.value(input).shape, graph.bounds()); });
}

bool reads_strides(const Op& op) {
  return std::visit(
      []<typename T>(const T&) {
        // The others read rows one after another.
        return General<T> && !std::is_same_v<T, ops::Softmax> && !std::is_same_v<T, ops::Unfold> &&
               !std::is_same_v<T, ops::RaggedMean> && !std::is_same_v<T, ops::RaggedAttention>;
      },
      op);
}

bool launch_general(LaunchBuilder& builder, const Node& node) {
  return std::visit(
      [&]<typename T>(const T& op) {
        if constexpr (General<T>) GeneralLaunches(builder).add(op, node);
        return General<T>;
      },
      node.op);
}

void add_view(LaunchBuilder& builder, NodeId id) {
  const Graph& graph = builder.graph();
  const Node& node = graph.node(id);
  const View& input = builder.view(node.inputs[0]);
  const Shape& shape = builder.shape(node.output);
  const auto view = apply_view(node.op, input, shape);
  if (view && !graph.is_output(node.output)) return builder.set_view(node.output, *view);
  builder.enter(id, builder.ready(input.base));
  // Where a reshape has no strides its input's elements are copied, in their order.
  const View from = view ? *view : input;
  GeneralLaunches(builder).copy(plain_view(node.output, from.shape), from);
}

void make_plain(LaunchBuilder& builder, ValueId value) {
  if (!builder.is_strided(value)) return;
  const View from = builder.view(value);
  builder.enter(builder.graph().value(value).producer, builder.ready(from.base));
  builder.set_view(value, plain_view(value, from.shape));
  GeneralLaunches(builder).copy(builder.view(value), from);
}

void make_inputs_plain(LaunchBuilder& builder, const Node& node) {
  for (const ValueId input : node.inputs) make_plain(builder, input);
}

}  // namespace weft::gpu
