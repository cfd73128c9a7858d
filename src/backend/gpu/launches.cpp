#include "backend/gpu/launches.h"

#include <algorithm>
#include <bit>

#include "backend/gpu/grids.h"
#include "backend/gpu/kernel.h"
#include "backend/gpu/launch_builder.h"
#include "backend/gpu/launches_attention.h"
#include "backend/gpu/launches_general.h"
#include "backend/gpu/launches_products.h"
#include "base/check.h"
#include "base/to_size.h"
#include "graph/indices.h"

namespace weft::gpu {
namespace {

template <class... Fs>
struct Overloaded : Fs... {
  using Fs::operator()...;
};
template <class... Fs>
Overloaded(Fs...) -> Overloaded<Fs...>;

constexpr std::uint32_t kBestPart = 4096;  // Columns of a row that a workgroup chooses from ...
constexpr int kBestOfParts = 64;           // ... if at most this many are wanted.
constexpr std::int64_t kMaxBroughtWords = 1 << 18;

/// Ops that have a launch whatever their inputs are, as far as graph rules allow them.
template <typename T, typename... Ops>
inline constexpr bool kIsOneOf = (std::is_same_v<T, Ops> || ...);
template <typename T>
inline constexpr bool kAlways = kIsOneOf<T, ops::Norm, ops::Hadamard, ops::DeltaRule, ops::TopK, ops::Best,
                                         ops::LogSumExp, ops::ExpertWeights, ops::SumExperts>;

class Builder {
 public:
  Builder(const Graph& graph, const Target& target) : builder_(graph, target) {}

  Program build() {
    for (NodeId id{0}; to_size(id) < graph_.nodes().size(); ++id)
      if (builder_.is_live(id) && !is_left_to_another(id)) add(id);
    launch_fillers(builder_);
    place_scratch();
    if (builder_.target().far_from_host) bring_inputs();
    std::stable_sort(program_.launches.begin(), program_.launches.end(),
                     [](const Launch& a, const Launch& b) { return a.phase < b.phase; });
    return std::move(program_);
  }

 private:
  bool is_left_to_another(NodeId id) const { return fusion_.is_added_to(id) || fusion_.is_stored(id); }
  void add(NodeId id) {
    const Node& node = graph_.node(id);
    if (is_view(node.op)) return add_view(builder_, id);
    if (const NodeId product = fusion_.product_of(id); product != kNoNode)
      return launch_product_and_sum(builder_, id, product);
    if (const NodeId rope = fusion_.rope_of(id); rope != kNoNode)
      return launch_turned_store(builder_, id, rope);
    const bool from_rows = !reads_strides(node.op) || fusion_.makes_codes(node.output);
    const std::size_t first_copy = program_.launches.size();
    if (from_rows) make_inputs_plain(builder_, node);
    if (get_op<ops::MoveCells>(node) != nullptr)  // A move runs in a cancelled step, too.
      for (std::size_t i = first_copy; i < program_.launches.size(); ++i)
        program_.launches[i].must_run = true;
    const int n_before = n_phases_before(builder_, node) + (chooses_by_parts(node) ? 1 : 0);
    builder_.enter(id, first_phase(builder_, node) + n_before);
    const std::size_t first = program_.launches.size();
    launch_node(node);
    if (fusion_.is_in_tail(id)) leave_one_row_out(node, first);
  }
  void launch_node(const Node& node) {
    if (const auto* const glu = get_op<ops::Glu>(node); glu != nullptr && fusion_.makes_codes(node.output))
      return activate_to_codes(node, 2, glu->kind);
    if (const auto* const op = get_op<ops::Activate>(node); op != nullptr && fusion_.makes_codes(node.output))
      return activate_to_codes(node, 1, op->kind);
    if (launch_general(builder_, node) || launch_product(builder_, node) || launch_attention(builder_, node))
      return;
    std::visit([&](const auto& op) { launch(op, node); }, node.op);
  }

  const Shape& shape(ValueId value) const { return builder_.shape(value); }
  DType dtype(ValueId value) const { return builder_.dtype(value); }
  std::uint32_t type(ValueId value) const { return builder_.type(value); }
  std::uint32_t columns(ValueId value) const { return builder_.columns(value); }
  Launch& add(Kernel kernel, std::vector<std::uint32_t> constants, const Dim& rows,
              std::initializer_list<ValueId> tensors, std::initializer_list<std::uint32_t> params) {
    return builder_.add(kernel, std::move(constants), rows, tensors, params);
  }

  void launch(const ops::Norm& op, const Node& node) {
    const ValueId x = node.inputs[0];
    const std::int64_t group = op.group == 0 ? shape(x).columns() : op.group;
    Dim groups = shape(x).row_dim();
    groups = groups * (shape(x).columns() / group);
    const ValueId weight = optional(node, 1), bias = optional(node, 2);
    const bool floats = fusion_.makes_floats(node.output), codes = fusion_.makes_codes(node.output);
    Launch& launch = add(Kernel::kNorm, {word(op.kind), floats, codes}, groups,
                         {x, weight, bias, floats ? node.output : kNoValue},
                         {word(group), word(op.eps), weight != kNoValue, bias != kNoValue});
    launch.groups = groups_for(1, 1);
    if (codes) builder_.make_codes(node, launch, 4);
  }

  void launch(const ops::Hadamard& op, const Node& node) {
    const ValueId x = node.inputs[0];
    Dim blocks = shape(x).row_dim();
    blocks = blocks * (shape(x).columns() / op.block);
    add(Kernel::kHadamard, {word(std::int64_t{op.block})}, blocks, {x, node.output}, {}).groups =
        groups_for(1, 1);
  }

  /// The launches from `first` on, of a node in another's tail, sit a step of one row out.
  void leave_one_row_out(const Node& node, std::size_t first) {
    for (std::size_t i = first; i < program_.launches.size(); ++i) {
      Launch& launch = program_.launches[i];
      WEFT_CHECK(launch.kernel == Kernel::kNorm || launch.kernel == Kernel::kElementwise);
      const std::uint32_t one_row =
          launch.kernel == Kernel::kNorm ? 1 : columns(node.output);  // Or elements.
      launch.groups = [one_row, all = std::move(launch.groups)](const StepSizes& step) -> Groups {
        return step.rows <= one_row ? Groups{0, 0, 0} : all(step);
      };
    }
  }

  void activate_to_codes(const Node& node, std::uint32_t op, Activation kind) {
    const std::uint32_t n = columns(node.output);
    Launch& launch = add(Kernel::kQuantise, {op, word(kind)}, shape(node.output).row_dim(),
                         {node.inputs[0], kNoValue, optional(node, 1)}, {n});
    launch.groups = groups_for(n / kBlock, 64);
    builder_.make_codes(node, launch, 1);
  }

  void launch(const ops::GetRows&, const Node& node) {
    const std::uint32_t n = columns(node.output);
    const std::size_t bytes = row_bytes(dtype(node.inputs[0]), n);
    Launch& launch = add(
        Kernel::kGetRows, {type(node.inputs[0])}, shape(node.output)[0],
        {node.inputs[0], node.inputs[1], node.output},
        {n, word(static_cast<std::int64_t>(bytes)), word(shape(node.inputs[0])[0].value(graph_.bounds()))});
    launch.grids = has_grid(dtype(node.inputs[0]));
    launch.groups = groups_for((n + 15) / 16, 64);
  }

  /// The places of scratch memory, now that the number of frequencies is known.
  void place_scratch() {
    const auto first = static_cast<std::uint32_t>(program_.storage.size() + program_.frequencies.size());
    for (Launch& launch : program_.launches)
      for (std::uint32_t t = 0; t < std::size(launch.push.tensors); ++t)
        if ((launch.scratch >> t & 1u) != 0) launch.push.tensors[t] += first;
  }

  /// Small inputs are read many times, by threads that wait for each: a phase before all others fetches them
  /// once.
  void bring_inputs() {
    std::vector<bool> is_read(graph_.values().size());
    for (const Launch& launch : program_.launches)
      for (const std::uint32_t tensor : launch.push.tensors)
        if (tensor < is_read.size()) is_read[tensor] = true;
    std::uint32_t source = word(static_cast<std::int64_t>(
        program_.storage.size() + program_.frequencies.size() + program_.scratch.size()));
    for (std::size_t v = 0; v < is_read.size(); ++v) {
      const ValueInfo& value = graph_.values()[v];
      const bool words = value.dtype == DType::kF32 || value.dtype == DType::kI32;
      if (!is_read[v] || value.kind != ValueKind::kInput || !words) continue;
      if (elements(value.shape).value(graph_.bounds()) > kMaxBroughtWords) continue;
      program_.brought.push_back({static_cast<ValueId>(v), source++});
    }
    if (program_.brought.empty()) return;
    for (Launch& launch : program_.launches) ++launch.phase;
    for (Scratch& one : program_.scratch) ++one.first_phase, ++one.last_phase;
    ++program_.n_phases;
    constexpr std::size_t kPerLaunch = std::size(Push().tensors) / 2;
    for (std::size_t i = 0; i < program_.brought.size(); i += kPerLaunch) {
      Launch& launch = program_.launches.emplace_back();
      launch.kernel = Kernel::kBringInputs;
      launch.node = NodeId{0};
      launch.rows = 1;
      const std::size_t n = std::min(kPerLaunch, program_.brought.size() - i);
      for (std::size_t j = 0; j < n; ++j) {
        const Brought& one = program_.brought[i + j];
        launch.push.tensors[2 * j] = one.source;
        launch.push.tensors[2 * j + 1] = word(std::int64_t{one.input});
        launch.words.push_back(elements(graph_.value(one.input).shape));
      }
      launch.must_run = true;  // Moves read their cells from inputs.
      launch.groups = [](const StepSizes& step) -> Groups {
        const std::uint32_t most = *std::max_element(step.words.begin(), step.words.end());
        return {groups_of(most, 128), static_cast<std::uint32_t>(step.words.size()), 1};
      };
    }
  }

  void launch(const ops::ShortConv&, const Node& node) {
    const auto in = named_inputs<ops::ShortConv>(node);
    const std::uint32_t n = columns(node.output), taps = word(shape(in.weight)[1].constant());
    Launch& launch = add(
        Kernel::kShortConv, {type(in.weight)}, shape(node.output)[0],
        {in.state, in.x, in.weight, in.from, in.to, in.bias, node.output},
        {n, taps, in.bias != kNoValue, word(static_cast<std::int64_t>(row_bytes(dtype(in.weight), taps)))});
    launch.groups = [n](const StepSizes&) -> Groups { return {groups_of(n, 64), 1, 1}; };
  }

  void launch(const ops::SelectiveScan&, const Node& node) {
    const auto in = named_inputs<ops::SelectiveScan>(node);
    const std::uint32_t n = columns(node.output), n_state = word(shape(in.state)[1].constant());
    const bool heads = shape(in.a).rank() == 1;
    Launch& launch = add(Kernel::kSelectiveScan, {type(in.a)}, shape(node.output)[0],
                         {in.state, in.x, in.dt, in.b, in.c, in.a, in.skip, in.from, in.to, node.output},
                         {n, n_state, heads ? columns(in.a) : 0u, columns(in.b) / n_state,
                          word(static_cast<std::int64_t>(row_bytes(dtype(in.a), columns(in.a))))});
    launch.groups = [n](const StepSizes&) -> Groups { return {groups_of(n, 64), 1, 1}; };
  }

  void launch(const ops::DeltaRule& op, const Node& node) {
    const auto in = named_inputs<ops::DeltaRule>(node);
    const std::uint32_t n = columns(node.output), n_columns = columns(in.state), heads = n / n_columns;
    const std::uint32_t n_keys = word(shape(in.state)[1].constant()) / heads;
    Launch& launch =
        add(Kernel::kDeltaRule, {}, shape(node.output)[0],
            {in.state, in.q, in.k, in.v, in.decay, in.beta, in.from, in.to, in.removed, node.output},
            {n_columns, heads, columns(in.k) / n_keys, n_keys, op.tiled, columns(in.decay) / heads,
             in.removed != kNoValue});
    launch.groups = [n](const StepSizes&) -> Groups { return {groups_of(n, 64), 1, 1}; };
  }

  void experts(std::uint32_t op, const Node& node, ValueId b, std::int64_t k, bool normalise, float scale,
               std::uint32_t per_row) {
    Launch& launch = add(Kernel::kExperts, {op}, shape(node.output)[0], {node.inputs[0], b, node.output},
                         {columns(node.inputs[0]), word(k), normalise, word(scale)});
    launch.groups = groups_for(per_row, 64);
  }
  /// Whether a row is one of many columns, which several workgroups choose from first.
  bool chooses_by_parts(const Node& node) const {
    const auto* const op = get_op<ops::Best>(node);
    return op != nullptr && op->n <= kBestOfParts && columns(node.inputs[0]) > kBestPart;
  }
  /// For rows of `n_columns`, in parts of this size or from the results of parts.
  Launch& choose(const Node& node, std::uint32_t n_columns, std::uint32_t part, bool from_parts, int n) {
    const std::uint32_t threads = std::clamp(std::bit_ceil((part > 0 ? part : n_columns) / 4), 32u,
                                             builder_.target().sizes.best_threads);
    const bool ids_only = get_op<ops::TopK>(node) != nullptr;
    const ValueId counts = optional(node, 1);
    return add(Kernel::kBest, {threads, part, from_parts, ids_only}, shape(node.output)[0],
               {node.inputs[0], counts, node.output}, {n_columns, word(std::int64_t{n}), counts != kNoValue});
  }
  void launch(const ops::Best& op, const Node& node) {
    const std::uint32_t n_columns = columns(node.inputs[0]);
    if (!chooses_by_parts(node)) {
      choose(node, n_columns, 0, false, op.n).groups = groups_for(1, 1);
      return;
    }
    const int phase = builder_.phase();
    builder_.enter(builder_.node(), phase - 1);
    const std::uint32_t n_parts = (n_columns + kBestPart - 1) / kBestPart;
    const std::uint32_t part_columns = n_parts * columns(node.output);
    const std::uint32_t best =
        builder_.known_scratch({Scratch::Kind::kBest, node.output, builder_.node(), shape(node.output)[0],
                                part_columns * sizeof(float), phase - 1, phase});
    Launch& parts = choose(node, n_columns, kBestPart, false, op.n);
    use_scratch(parts, 2, best);
    parts.groups = [n_parts](const StepSizes& step) -> Groups {
      return {groups_of(step.rows, 1), n_parts, 1};
    };
    builder_.enter(builder_.node(), phase);
    Launch& merge = choose(node, part_columns, 0, true, op.n);
    use_scratch(merge, 0, best);
    merge.groups = groups_for(1, 1);
  }
  void launch(const ops::TopK& op, const Node& node) {
    choose(node, columns(node.inputs[0]), 0, false, op.k).groups = groups_for(1, 1);
  }
  void launch(const ops::LogSumExp&, const Node& node) {
    add(Kernel::kLogSumExp, {}, shape(node.output)[0], {node.inputs[0], node.inputs[1], node.output},
        {columns(node.inputs[0])})
        .groups = groups_for(1, 1);
  }
  void launch(const ops::ExpertWeights& op, const Node& node) {
    experts(0, node, node.inputs[1], shape(node.inputs[1]).columns(), op.normalise, op.scale, 1);
  }
  void launch(const ops::SumExperts&, const Node& node) {
    experts(1, node, node.inputs[1], shape(node.inputs[1]).columns(), false, 1.0f, columns(node.inputs[0]));
  }
  template <typename T>
  void launch(const T&, const Node&) {
    WEFT_CHECK(false);  // can_launch says so.
  }

  LaunchBuilder builder_;
  const Graph& graph_ = builder_.graph();
  const Fusion& fusion_ = builder_.fusion();
  Program& program_ = builder_.program();
};

}  // namespace

bool can_launch(const Graph& graph, const Node& node) {
  const std::vector<std::int64_t> bounds = graph.bounds();
  const auto value = [&](std::size_t i) -> const ValueInfo& { return graph.value(node.inputs[i]); };
  // Indices within a step's activations are 32 bits.
  for (const ValueId id : node.inputs)
    if (graph.value(id).kind != ValueKind::kWeight && graph.value(id).kind != ValueKind::kState &&
        !can_index(graph.value(id).shape, bounds))
      return false;
  if (!changes_cache(node) && !can_index(graph.value(node.output).shape, bounds)) return false;
  for (auto* const can : {can_launch_general, can_launch_product, can_launch_attention})
    if (const std::optional<bool> answer = can(graph, node)) return *answer;
  return std::visit(Overloaded{
                        [&](const ops::GetRows&) {
                          const bool given =
                              graph.value(viewed(graph, node.inputs[1])).kind == ValueKind::kInput;
                          return stored_type(value(0).dtype).has_value() &&
                                 (given || is_known_below(graph, node.inputs[1], value(0).shape[0]));
                        },
                        [&](const ops::ShortConv&) {
                          return is_float(graph.value(named_inputs<ops::ShortConv>(node).weight).dtype);
                        },
                        [&](const ops::SelectiveScan&) {
                          return is_float(graph.value(named_inputs<ops::SelectiveScan>(node).a).dtype);
                        },
                        [](const auto& op) { return kAlways<std::decay_t<decltype(op)>>; },
                    },
                    node.op);
}

Program make_program(const Graph& graph, const Target& target) { return Builder(graph, target).build(); }

}  // namespace weft::gpu
