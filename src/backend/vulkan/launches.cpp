#include "backend/vulkan/launches.h"

#include <algorithm>
#include <bit>

#include "backend/rope.h"
#include "backend/vulkan/fusion.h"
#include "backend/vulkan/grids.h"
#include "backend/vulkan/launch_builder.h"
#include "backend/vulkan/launches_general.h"
#include "backend/vulkan/tensors.h"
#include "base/check.h"
#include "graph/indices.h"

namespace weft::vulkan {
namespace {

template <class... Fs>
struct Overloaded : Fs... {
  using Fs::operator()...;
};
template <class... Fs>
Overloaded(Fs...) -> Overloaded<Fs...>;

constexpr std::uint32_t kOutputsPerGroup = 16;  // As in lanes.glsl.
constexpr std::uint32_t kRowsOfLanes =
    8;  // Up to here a thread is a lane (lanes.glsl), beyond there are tiles.
constexpr std::uint32_t kAttentionThreads = 128;  // As in attention.comp.
constexpr std::uint32_t kMaxSplits = 64;
constexpr std::size_t kPartBytes = std::size_t{64} << 20;
constexpr std::uint32_t kFewOutputs = 1024;  // Up to here tiles are smaller, so that there are more of them.
constexpr std::uint32_t kMaxSortedExperts = 1024;  // As in sort_experts.comp.
constexpr std::uint32_t kBestPart = 4096;          // Columns of a row that a workgroup chooses from ...
constexpr int kBestOfParts = 64;                   // ... where so many are wanted at most.
constexpr std::uint32_t kPair = 64;  // Elements of two blocks of a quantised cache, as in pack.glsl.
constexpr std::uint32_t kMaxTurnedUnit = 512;
constexpr std::int64_t kMaxBroughtWords = 1 << 18;
constexpr std::uint32_t kBlock = 32;  // Columns with a scale of their own, as in blocks.glsl.

/// As in blocks.glsl.
std::size_t code_row_bytes(std::uint32_t columns) { return (columns + columns / kBlock * 8 + 15) / 16 * 16; }

/// Elements of a cell that one thread turns: two pairs, or heads that make whole pairs of blocks.
std::uint32_t turned_unit(DType dtype, std::uint32_t head_dim) {
  return is_float(dtype) ? 4 : head_dim % kPair == 0 ? head_dim : 2 * head_dim;
}

/// Whether cells of a cache are whole words and, of a quantised one, pairs of blocks that end with heads.
bool can_cache(const ValueInfo& cache) {
  const Shape& s = cache.shape;
  const std::int64_t head_dim = s[2].constant(), n = s[1].constant() * head_dim;
  if (is_float(cache.dtype)) return row_bytes(cache.dtype, n) % 4 == 0;
  return (cache.dtype == DType::kQ8_0 || cache.dtype == DType::kQ4_0) && head_dim % 32 == 0 && n % kPair == 0;
}

/// Ops that have a launch whatever their inputs are, as far as graph rules allow them.
template <typename T, typename... Ops>
inline constexpr bool kIsOneOf = (std::is_same_v<T, Ops> || ...);
template <typename T>
inline constexpr bool kAlways = kIsOneOf<T, ops::Norm, ops::Rope, ops::TopK, ops::Best, ops::LogSumExp,
                                         ops::ExpertWeights, ops::SumExperts>;

class Builder {
 public:
  Builder(const Graph& graph, const Target& target)
      : graph_(graph),
        target_(target),
        live_(live_nodes(graph)),
        fusion_(graph, live_, target.byte_dots),
        builder_(graph) {}

  Program build() {
    for (std::size_t n = 0; n < live_.size(); ++n)
      if (live_[n] && !is_left_to_another(static_cast<NodeId>(n))) add(static_cast<NodeId>(n));
    place_scratch();
    if (target_.far_from_host) bring_inputs();
    std::stable_sort(program_.launches.begin(), program_.launches.end(),
                     [](const Launch& a, const Launch& b) { return a.phase < b.phase; });
    return std::move(program_);
  }

 private:
  bool is_left_to_another(NodeId id) const { return fusion_.is_added_to(id) || fusion_.is_stored(id); }
  void add(NodeId id) {
    const Node& node = graph_.node(id);
    if (is_view(node.op)) return add_view(builder_, id);
    if (fusion_.product_of(id) != kNoNode) return add_sum(id, fusion_.product_of(id));
    if (fusion_.rope_of(id) != kNoNode) return store_turned(id, fusion_.rope_of(id));
    const bool from_rows = !reads_strides(node.op) || fusion_.makes_codes(node.output);
    if (from_rows) make_all_plain(node);
    int phase = builder_.ready(node.inputs);
    if (by_codes(node)) phase = std::max(phase, codes_ready(node.inputs[1]));
    if (splits_pages(node) || chooses_by_parts(node)) ++phase;
    if (may_sort(node)) phase = std::max(phase, builder_.ready(node.inputs[2]) + 1);
    if (const ValueId addend = tail_addend(fusion_.tail(id)); addend != kNoValue)
      phase = std::max(phase, builder_.ready(addend));
    builder_.enter(id, phase);
    const std::size_t first = program_.launches.size();
    launch_node(node);
    if (fusion_.is_in_tail(id)) leave_one_row_out(node, first);
  }
  void launch_node(const Node& node) {
    if (const auto* const glu = get_op<ops::Glu>(node); glu != nullptr && fusion_.makes_codes(node.output))
      return activate_to_codes(node, 2, glu->kind);
    if (const auto* const op = get_op<ops::Activate>(node); op != nullptr && fusion_.makes_codes(node.output))
      return activate_to_codes(node, 1, op->kind);
    if (!launch_general(builder_, node)) std::visit([&](const auto& op) { launch(op, node); }, node.op);
  }
  /// An addition to a product's rows, by the product's launch.
  void add_sum(NodeId id, NodeId product_id) {
    const Node &sum = graph_.node(id), &product = graph_.node(product_id);
    make_all_plain(product);
    make_all_plain(sum);
    const ValueId rows = other_input(sum, product.output);
    int phase = std::max(builder_.ready(product.inputs), builder_.ready(rows));
    if (by_codes(product)) phase = std::max(phase, codes_ready(product.inputs[1]));
    builder_.enter(id, phase);
    matmul(product,
           {.bias = optional(product, 2), .addend = rows, .sum = &sum, .rows = shape(sum.output)[0]});
  }
  void make_all_plain(const Node& node) {
    for (const ValueId input : node.inputs) make_plain(builder_, input);
  }
  /// The first phase that can read codes of a value.
  int codes_ready(ValueId value) const {
    return builder_.ready(value) + (fusion_.makes_codes(value) ? 0 : 1);
  }

  const Shape& shape(ValueId value) const { return builder_.shape(value); }
  DType dtype(ValueId value) const { return builder_.dtype(value); }
  std::uint32_t type(ValueId value) const { return stored_type(dtype(value)).value(); }
  std::uint32_t columns(ValueId value) const { return builder_.columns(value); }
  static ValueId optional(const Node& node, std::size_t i) {
    return i < node.inputs.size() ? node.inputs[i] : kNoValue;
  }
  Launch& add(Shader shader, std::vector<std::uint32_t> constants, const Dim& rows,
              std::initializer_list<ValueId> tensors, std::initializer_list<std::uint32_t> params) {
    return builder_.add(shader, std::move(constants), rows, tensors, params);
  }

  void launch(const ops::Norm& op, const Node& node) {
    const ValueId x = node.inputs[0];
    const std::int64_t group = op.group == 0 ? shape(x).columns() : op.group;
    Dim groups = shape(x).row_dim();
    groups = groups * (shape(x).columns() / group);
    const ValueId weight = optional(node, 1), bias = optional(node, 2);
    const bool floats = fusion_.makes_floats(node.output), codes = fusion_.makes_codes(node.output);
    Launch& launch = add(Shader::kNorm, {word(op.kind), floats, codes}, groups,
                         {x, weight, bias, floats ? node.output : kNoValue},
                         {word(group), word(op.eps), weight != kNoValue, bias != kNoValue});
    launch.groups = groups_for(1, 1);
    if (codes) make_codes(node, launch, 4);
  }

  /// What the last workgroup of a product of one row goes on with: what launches of these nodes would do, in
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
    std::vector<std::uint32_t> constants(6);
    if (tail.own_norm != kNoNode) {
      const Node& norm = graph_.node(tail.own_norm);
      constants[0] = 1, constants[1] = word(get_op<ops::Norm>(norm)->kind);
      set_norm(norm, 5, 10);
      set(3, graph_.node(tail.sum).output);
      set(7, tail_addend(tail));
    }
    if (tail.norm != kNoNode) {
      const Node& norm = graph_.node(tail.norm);
      const bool floats = fusion_.makes_floats(norm.output), codes = fusion_.makes_codes(norm.output);
      constants[2] = 1, constants[3] = word(get_op<ops::Norm>(norm)->kind);
      constants[4] = floats, constants[5] = codes;
      set_norm(norm, 8, 7);
      if (floats) set(10, norm.output);
      if (codes) make_codes(norm, launch, 11);
    }
    launch.constants.insert(launch.constants.end(), constants.begin(), constants.end());
    launch.counts_groups = true;
  }
  /// The other row of a tail's sum.
  ValueId tail_addend(const RowTail& tail) const {
    if (tail.sum == kNoNode) return kNoValue;
    return other_input(graph_.node(tail.sum), graph_.node(tail.own_norm).output);
  }
  static ValueId other_input(const Node& sum, ValueId one) {
    return sum.inputs[sum.inputs[0] == one ? 1 : 0];
  }
  /// The launches from `first` on, of a node in another's tail, sit a step of one row out.
  void leave_one_row_out(const Node& node, std::size_t first) {
    for (std::size_t i = first; i < program_.launches.size(); ++i) {
      Launch& launch = program_.launches[i];
      WEFT_CHECK(launch.shader == Shader::kNorm || launch.shader == Shader::kElementwise);
      const std::uint32_t one_row =
          launch.shader == Shader::kNorm ? 1 : columns(node.output);  // Or elements.
      launch.groups = [one_row, all = std::move(launch.groups)](const StepSizes& step) -> Groups {
        return step.rows <= one_row ? Groups{0, 0, 0} : all(step);
      };
    }
  }

  /// A launch fills codes of a node's result, which are its tensor `place`.
  void make_codes(const Node& node, Launch& launch, std::uint32_t place) {
    launch.push.tensors[place] =
        known_scratch({Scratch::Kind::kCodes, node.output, builder_.node(), shape(node.output).row_dim(),
                       code_row_bytes(columns(node.output)), launch.phase, launch.phase, true});
    launch.scratch |= 1u << place;
  }
  void activate_to_codes(const Node& node, std::uint32_t op, Activation kind) {
    const std::uint32_t n = columns(node.output);
    Launch& launch = add(Shader::kQuantise, {op, word(kind)}, shape(node.output).row_dim(),
                         {node.inputs[0], kNoValue, optional(node, 1)}, {n});
    launch.groups = groups_for(n / kBlock, 64);
    make_codes(node, launch, 1);
  }

  void launch(const ops::GetRows&, const Node& node) {
    const std::uint32_t n = columns(node.output);
    const std::size_t bytes = row_bytes(dtype(node.inputs[0]), n);
    Launch& launch =
        add(Shader::kGetRows, {type(node.inputs[0])}, shape(node.output)[0],
            {node.inputs[0], node.inputs[1], node.output}, {n, word(static_cast<std::int64_t>(bytes))});
    launch.grids = has_grid(dtype(node.inputs[0]));
    launch.groups = groups_for((n + 15) / 16, 64);
  }

  bool by_codes(const Node& node) const { return multiplies_codes(graph_, node, target_.byte_dots); }

  /// Scratch memory made of a value in the phase behind it, used in this node's phase.
  std::uint32_t scratch(Scratch::Kind kind, ValueId of, const Dim& rows, std::size_t row_bytes) {
    return known_scratch({kind, of, builder_.node(), rows, row_bytes, builder_.ready(of), builder_.phase()});
  }
  /// The number of that kind of scratch memory of that value, which is this where there was none before. It
  /// lasts as long as its last user.
  std::uint32_t known_scratch(const Scratch& wanted) {
    auto& known = program_.scratch;
    auto found = std::find_if(known.begin(), known.end(), [&](const Scratch& one) {
      return one.kind == wanted.kind && one.of == wanted.of;
    });
    if (found == known.end()) found = known.insert(known.end(), wanted);
    found->last_phase = std::max(found->last_phase, wanted.last_phase);
    return word(static_cast<std::int64_t>(found - known.begin()));
  }

  /// Launches that fill scratch memory, and the places of all of it, now that the number of frequencies is
  /// known.
  void place_scratch() {
    const auto first = static_cast<std::uint32_t>(program_.storage.size() + program_.frequencies.size());
    for (std::uint32_t i = 0; i < program_.scratch.size(); ++i) {
      const Scratch& one = program_.scratch[i];
      if (one.is_made || (one.kind != Scratch::Kind::kCodes && one.kind != Scratch::Kind::kTiles)) continue;
      Launch& launch = program_.launches.emplace_back();
      launch.node = one.user;
      launch.phase = one.first_phase;
      launch.push.tensors[0] = word(std::int64_t{builder_.place(one.of)});
      if (one.kind == Scratch::Kind::kCodes) {
        const std::uint32_t n = columns(one.of);
        launch.shader = Shader::kQuantise;
        launch.constants = {0, 0};
        launch.rows = one.rows;
        launch.push.tensors[1] = i;
        launch.push.params[0] = n;
        launch.scratch = 0b10;
        launch.groups = groups_for(n / kBlock, 64);
      } else {
        const std::uint32_t experts = n_experts(graph_.node(one.user).inputs[0]);
        launch.shader = Shader::kSortExperts;
        launch.constants = {target_.sizes.few_tile.rows};
        launch.rows = shape(one.of).row_dim() * shape(one.of).columns();
        launch.push.tensors[1] = i - 1;
        launch.push.tensors[2] = i;
        launch.push.params[0] = experts;
        launch.scratch = 0b110;
        launch.groups = [experts](const StepSizes& step) -> Groups {
          return sorts(step.rows, experts) ? Groups{1, 1, 1} : Groups{0, 0, 0};
        };
      }
    }
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
      launch.shader = Shader::kBringInputs;
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

  std::uint32_t n_experts(ValueId weight) const { return word(shape(weight)[0].constant()); }
  /// Whether so many rows are sorted by expert, so that each expert's weights are unpacked once for several.
  static bool sorts(std::uint32_t rows, std::uint32_t experts) {
    return experts <= kMaxSortedExperts && rows > std::max(kRowsOfLanes, experts);
  }
  bool may_sort(const Node& node) const {
    if (get_op<ops::MatmulExperts>(node) == nullptr || shape(node.inputs[2]).rank() != 2) return false;
    return sorts(word(shape(node.output).row_dim().value(graph_.bounds())), n_experts(node.inputs[0]));
  }

  struct Product {
    ValueId bias = kNoValue, ids = kNoValue;
    std::uint32_t n_ids = 0;    ///< Experts of a row; 0: there are none.
    bool row_for_each = false;  ///< x has a row for each of them.
    ValueId addend = kNoValue;  ///< Rows that it is added to ...
    const Node* sum = nullptr;  ///< ... for that node.
    Dim rows;
  };

  Launch& product(const Node& node, const Product& p, bool tiles, std::vector<std::uint32_t> constants) {
    const ValueId weight = node.inputs[0], x = node.inputs[1];
    const Shape& s = shape(weight);
    const auto bytes = word(static_cast<std::int64_t>(row_bytes(dtype(weight), s.columns())));
    const bool codes = by_codes(node);
    Shader shader = tiles ? (codes ? Shader::kMatmulTilesCodes : Shader::kMatmulTiles)
                          : (codes ? Shader::kMatmulCodes : Shader::kMatmul);
    if (const auto& matrix = target_.sizes.matrix; tiles && codes && matrix.has_value()) {
      shader = Shader::kMatmulCooperative;
      const std::uint32_t subgroup = target_.sizes.subgroup;
      constants[3] = matrix_threads({constants[1], constants[2]}, *matrix, subgroup);
      constants.insert(constants.end(), {matrix->outputs, matrix->rows, matrix->columns, subgroup});
    }
    Launch& launch = add(shader, std::move(constants), p.rows,
                         {weight, x, p.bias, p.ids, p.sum != nullptr ? p.sum->output : node.output},
                         {word(s[s.rank() - 2].constant()), word(s.columns()), bytes, p.bias != kNoValue,
                          p.n_ids, p.row_for_each, p.addend != kNoValue});
    if (p.addend != kNoValue) {
      launch.node = graph_.value(node.output).producer;  // That is whose work it is.
      launch.push.tensors[7] = word(std::int64_t{builder_.place(p.addend)});
    }
    launch.grids = has_grid(dtype(weight));
    if (codes) {
      launch.push.tensors[1] =
          scratch(Scratch::Kind::kCodes, x, shape(x).row_dim(), code_row_bytes(columns(x)));
      launch.scratch |= 0b10;
    }
    return launch;
  }

  /// A thread a lane for few rows, tiles for many: a launch for each, of which a step has one.
  void matmul(const Node& node, const Product& p) {
    const ValueId weight = node.inputs[0];
    const Shape& s = shape(weight);
    const std::uint32_t kind = type(weight), outputs = word(s[s.rank() - 2].constant());
    const std::uint32_t most = word(p.rows.value(graph_.bounds()));
    const std::uint32_t across = (outputs + kOutputsPerGroup - 1) / kOutputsPerGroup;
    const Sizes& sizes = target_.sizes;
    const std::uint32_t tile_outputs = outputs > kFewOutputs ? sizes.many_tile.outputs : sizes.narrow_outputs;
    const std::uint32_t tiles_across = (outputs + tile_outputs - 1) / tile_outputs;
    const auto constants = [&](std::uint32_t tile_rows, bool sorted) -> std::vector<std::uint32_t> {
      return {kind, tile_outputs, tile_rows, tile_threads({tile_outputs, tile_rows}), sorted};
    };
    if (p.n_ids > 0) {
      const std::uint32_t experts = n_experts(weight);
      product(node, p, false, {kind, 1}).groups = [=](const StepSizes& step) -> Groups {
        return sorts(step.rows, experts) ? Groups{0, 0, 0} : Groups{across, groups_of(step.rows, 1), 1};
      };
      if (!may_sort(node)) return;
      const std::uint32_t sorted_rows = sizes.few_tile.rows;
      const std::uint32_t pairs = scratch(Scratch::Kind::kPairs, p.ids, p.rows, sizeof(std::uint32_t));
      const std::uint32_t tiles =
          scratch(Scratch::Kind::kTiles, p.ids, p.rows + Dim(1), 4 * sizeof(std::uint32_t));
      Launch& launch = product(node, p, true, constants(sorted_rows, true));
      launch.push.tensors[5] = pairs;
      launch.push.tensors[6] = tiles;
      launch.scratch |= 0b1100000;
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
  void launch(const ops::Matmul&, const Node& node) {
    matmul(node, {.bias = optional(node, 2), .rows = shape(node.output)[0]});
  }
  void launch(const ops::MatmulExperts&, const Node& node) {
    matmul(node, {.ids = node.inputs[2],
                  .n_ids = columns(node.inputs[2]),
                  .row_for_each = shape(node.inputs[1]).rank() == 3,
                  .rows = shape(node.inputs[2]).rank() == 2 ? shape(node.output).row_dim() : Dim(0)});
  }

  ValueId frequencies(const ops::Rope& rope, ValueId factors) {
    auto& known = program_.frequencies;
    const auto found = std::find_if(known.begin(), known.end(), [&](const Frequencies& f) {
      return f.rope == rope && f.factors == factors;
    });
    const auto at = found - known.begin();
    if (found == known.end()) known.push_back({rope, factors});
    return static_cast<ValueId>(program_.storage.size() + static_cast<std::size_t>(at));
  }

  void launch(const ops::Rope& op, const Node& node) {
    const std::uint32_t n = columns(node.output);
    const std::uint32_t per_row =
        n / word(std::int64_t{op.head_dim}) * word(std::int64_t{op.head_dim - op.n_rot / 2});
    const float magnitude = static_cast<float>(rope_magnitude(op));
    Launch& launch =
        add(Shader::kRope, {}, shape(node.output).row_dim(),
            {node.inputs[0], node.inputs[1], frequencies(op, optional(node, 2)), node.output},
            {n, word(std::int64_t{op.head_dim}), word(std::int64_t{op.n_rot}), op.neox, word(magnitude)});
    launch.groups = groups_for(per_row, 128);
  }

  std::uint32_t cell_bytes(ValueId cache) const {
    const Shape& s = shape(cache);
    return word(static_cast<std::int64_t>(row_bytes(dtype(cache), s[1].constant() * s[2].constant())));
  }

  void launch(const ops::MoveCells& op, const Node& node) {
    const auto in = named_inputs<ops::MoveCells>(node);
    const ValueId cache = in.cache;
    const Shape& s = shape(cache);
    const bool turns = op.role == CacheRole::kKeys && op.rope.n_rot > 0;
    const std::uint32_t heads = word(s[1].constant()), head_dim = word(s[2].constant()),
                        bytes = cell_bytes(cache);
    const std::uint32_t unit = turned_unit(dtype(cache), head_dim);
    const std::uint32_t threads = turns ? heads * head_dim / unit : bytes / 4;
    const ValueId table = turns ? frequencies(op.rope, in.factors) : kNoValue;
    Launch& launch = add(
        Shader::kMoveCells, {type(cache), turns, unit}, shape(in.from)[0],
        {cache, in.from, in.to, in.deltas, table},
        {head_dim, heads, bytes, turns ? word(std::int64_t{op.rope.n_rot}) : 0u, op.rope.neox, bytes / 4});
    launch.must_run = true;
    launch.groups = [threads](const StepSizes&) -> Groups { return {groups_of(threads, 64), 1, 1}; };
  }
  void launch(const ops::StoreCache& op, const Node& node) {
    const std::uint32_t n = columns(node.inputs[1]);
    const bool plain = op.role == CacheRole::kSlots;
    const std::uint32_t per_thread = plain ? 1 : is_float(dtype(node.inputs[0])) ? 2 : kPair;
    Launch& launch = add(Shader::kStoreCache, {type(node.inputs[0]), plain}, shape(node.inputs[1]).row_dim(),
                         {node.inputs[0], node.inputs[1], node.inputs[2]}, {n, cell_bytes(node.inputs[0])});
    launch.groups = groups_for(n / per_thread, 128);
  }

  /// Rows that are turned on the way to their cells.
  void store_turned(NodeId id, NodeId rope_id) {
    const Node &store = graph_.node(id), &rope = graph_.node(rope_id);
    make_all_plain(rope);
    const ValueId cache = store.inputs[0], cells = store.inputs[2];
    make_plain(builder_, cells);
    builder_.enter(id, std::max({builder_.ready(rope.inputs), builder_.ready(cache), builder_.ready(cells)}));
    const auto& op = *get_op<ops::Rope>(rope);
    const std::uint32_t n = columns(rope.output);
    Launch& launch = add(Shader::kStoreTurned, {type(cache)}, shape(rope.output).row_dim(),
                         {rope.inputs[0], rope.inputs[1], frequencies(op, optional(rope, 2)), cache, cells},
                         {n, word(std::int64_t{op.head_dim}), word(std::int64_t{op.n_rot}), op.neox,
                          word(static_cast<float>(rope_magnitude(op))), cell_bytes(cache)});
    launch.groups = groups_for(n / 4, 128);
  }

  /// Few rows have their pages spread over workgroups and merged behind; many are tiles that merge as they
  /// go.
  void launch(const ops::Attention& op, const Node& node) {
    const auto in = named_inputs<ops::Attention>(node);
    const std::uint32_t heads = word(std::int64_t{op.n_heads}), kv_heads = word(shape(in.k)[1].constant());
    const std::uint32_t k_dim = word(shape(in.k)[2].constant()), v_dim = word(shape(in.v)[2].constant());
    const std::uint32_t n_extents = word(shape(in.extents)[1].constant());
    const bool biased = in.head_terms != kNoValue && shape(in.head_terms).rank() == 2;
    const bool sinks = in.head_terms != kNoValue && !biased;
    const Dim rows = shape(node.output)[0];
    // Queries that a workgroup has, as far as they fit into shared memory.
    std::uint32_t queries = target_.sizes.queries;
    const std::uint32_t most = target_.sizes.query_floats;
    while (queries > 1 && queries * k_dim > most) queries /= 2;
    const std::uint32_t shared_heads = std::min(heads / kv_heads, queries);
    const std::uint32_t blocks = (heads / kv_heads + shared_heads - 1) / shared_heads;
    const std::uint32_t across = std::bit_ceil(std::min((v_dim + 3) / 4, kAttentionThreads));
    const auto attend = [&](std::uint32_t tile, bool split) -> Launch& {
      return add(Shader::kAttention,
                 {type(in.k), type(in.v), k_dim, v_dim, tile, shared_heads, across, split}, rows,
                 {in.q, in.k, in.v, in.positions, in.sequences, in.extents, in.counts, in.ends,
                  in.hidden_first, in.hidden, in.head_terms, node.output},
                 {heads, kv_heads, k_dim, v_dim, word(op.scale), word(op.softcap),
                  word(std::int64_t{op.window}), n_extents, cell_bytes(in.k), cell_bytes(in.v), sinks,
                  op.chunked, word(op.alibi), biased ? word(shape(in.head_terms)[1].constant()) : 0u});
    };
    const std::uint32_t groups = kv_heads * blocks;
    // Rows whose parts of pages fit into the memory that is meant for them: at least one.
    const std::size_t part_bytes = (v_dim + 2) * sizeof(float), row_parts = std::size_t{heads} * n_extents;
    const auto few = static_cast<std::uint32_t>(
        std::clamp<std::size_t>(kPartBytes / (part_bytes * row_parts), 1, kRowsOfLanes));
    const bool can_split = splits_pages(node);
    const bool has_many = rows.value(graph_.bounds()) > (can_split ? std::int64_t{few} : 0);
    if (has_many) {
      attend(std::max(1u, queries / shared_heads), false).groups = [=](const StepSizes& step) -> Groups {
        if (can_split && step.rows <= few) return {0, 0, 0};
        return {groups, groups_of(step.rows, 1), 1};
      };
    }
    if (!can_split) return;
    const int phase = builder_.phase();
    builder_.enter(builder_.node(), phase - 1);
    Scratch& parts = program_.scratch.emplace_back();
    parts = {Scratch::Kind::kPages,
             node.output,
             builder_.node(),
             Dim(static_cast<std::int64_t>(few * row_parts)),
             part_bytes,
             phase - 1,
             phase};
    const auto place = static_cast<std::uint32_t>(program_.scratch.size() - 1);
    Launch& split = attend(1, true);
    split.push.tensors[11] = place;
    split.scratch = 1u << 11;
    split.groups = [=](const StepSizes& step) -> Groups {
      if (step.rows > few) return {0, 0, 0};
      return {groups, step.rows, std::min(n_extents, kMaxSplits)};
    };
    builder_.enter(builder_.node(), phase);
    const bool floats = fusion_.makes_floats(node.output), codes = fusion_.makes_codes(node.output);
    Launch& merge = add(Shader::kMergePages, {(v_dim + 63) / 64, floats, codes}, rows,
                        {kNoValue, in.sequences, in.counts, in.head_terms, floats ? node.output : kNoValue},
                        {heads, v_dim, n_extents, sinks});
    merge.push.tensors[0] = place;
    merge.scratch = 1;
    merge.groups = [=](const StepSizes& step) -> Groups {
      return step.rows > few ? Groups{0, 0, 0} : Groups{heads, step.rows, 1};
    };
    if (!codes) return;
    make_codes(node, merge, 5);
    if (!has_many) return;
    // Tiles leave floats, of which a launch in a phase behind makes codes; few rows have no such phase.
    builder_.enter(builder_.node(), phase + 1);
    Launch& quantise =
        add(Shader::kQuantise, {0, 0}, shape(node.output).row_dim(), {node.output}, {columns(node.output)});
    make_codes(node, quantise, 1);
    quantise.groups = [few,
                       all = groups_for(columns(node.output) / kBlock, 64)](const StepSizes& step) -> Groups {
      return step.rows > few ? all(step) : Groups{0, 0, 0};
    };
  }
  /// Whether few rows of attention are merged in a phase of their own: where there are several pages.
  bool splits_pages(const Node& node) const {
    if (get_op<ops::Attention>(node) == nullptr) return false;
    return shape(named_inputs<ops::Attention>(node).extents)[1].constant() > 1;
  }

  void launch(const ops::ShortConv&, const Node& node) {
    const auto in = named_inputs<ops::ShortConv>(node);
    const std::uint32_t n = columns(node.output), taps = word(shape(in.weight)[1].constant());
    Launch& launch = add(
        Shader::kShortConv, {type(in.weight)}, shape(node.output)[0],
        {in.state, in.x, in.weight, in.from, in.to, in.bias, node.output},
        {n, taps, in.bias != kNoValue, word(static_cast<std::int64_t>(row_bytes(dtype(in.weight), taps)))});
    launch.groups = [n](const StepSizes&) -> Groups { return {groups_of(n, 64), 1, 1}; };
  }

  void launch(const ops::SelectiveScan&, const Node& node) {
    const auto in = named_inputs<ops::SelectiveScan>(node);
    const std::uint32_t n = columns(node.output), n_state = word(shape(in.state)[1].constant());
    const bool heads = shape(in.a).rank() == 1;
    Launch& launch = add(Shader::kSelectiveScan, {type(in.a)}, shape(node.output)[0],
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
        add(Shader::kDeltaRule, {}, shape(node.output)[0],
            {in.state, in.q, in.k, in.v, in.decay, in.beta, in.from, in.to, in.removed, node.output},
            {n_columns, heads, columns(in.k) / n_keys, n_keys, op.tiled, columns(in.decay) / heads,
             in.removed != kNoValue});
    launch.groups = [n](const StepSizes&) -> Groups { return {groups_of(n, 64), 1, 1}; };
  }

  void experts(std::uint32_t op, const Node& node, ValueId b, std::int64_t k, bool normalise, float scale,
               std::uint32_t per_row) {
    Launch& launch = add(Shader::kExperts, {op}, shape(node.output)[0], {node.inputs[0], b, node.output},
                         {columns(node.inputs[0]), word(k), normalise, word(scale)});
    launch.groups = groups_for(per_row, 64);
  }
  /// Whether a row is one of many columns, which several workgroups choose from first.
  bool chooses_by_parts(const Node& node) const {
    const auto* const op = get_op<ops::Best>(node);
    return op != nullptr && op->n <= kBestOfParts && columns(node.inputs[0]) > kBestPart;
  }
  /// Of rows of `n_columns`, in parts of so many or from what parts gave.
  Launch& choose(const Node& node, std::uint32_t n_columns, std::uint32_t part, bool from_parts, int n) {
    const std::uint32_t threads =
        std::clamp(std::bit_ceil((part > 0 ? part : n_columns) / 4), 32u, target_.sizes.best_threads);
    const bool ids_only = get_op<ops::TopK>(node) != nullptr;
    const ValueId counts = optional(node, 1);
    return add(Shader::kBest, {threads, part, from_parts, ids_only}, shape(node.output)[0],
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
    program_.scratch.push_back({Scratch::Kind::kBest, node.output, builder_.node(), shape(node.output)[0],
                                part_columns * sizeof(float), phase - 1, phase});
    const auto place = static_cast<std::uint32_t>(program_.scratch.size() - 1);
    Launch& parts = choose(node, n_columns, kBestPart, false, op.n);
    parts.push.tensors[2] = place;
    parts.scratch = 0b100;
    parts.groups = [n_parts](const StepSizes& step) -> Groups {
      return {groups_of(step.rows, 1), n_parts, 1};
    };
    builder_.enter(builder_.node(), phase);
    Launch& merge = choose(node, part_columns, 0, true, op.n);
    merge.push.tensors[0] = place;
    merge.scratch = 0b1;
    merge.groups = groups_for(1, 1);
  }
  void launch(const ops::TopK& op, const Node& node) {
    choose(node, columns(node.inputs[0]), 0, false, op.k).groups = groups_for(1, 1);
  }
  void launch(const ops::LogSumExp&, const Node& node) {
    add(Shader::kLogSumExp, {}, shape(node.output)[0], {node.inputs[0], node.inputs[1], node.output},
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

  const Graph& graph_;
  const Target target_;
  const std::vector<bool> live_;
  const Fusion fusion_;
  LaunchBuilder builder_;
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
  const auto weight = [&](const ValueInfo& w) {
    const Shape& s = w.shape;
    return stored_type(w.dtype).has_value() &&
           s[s.rank() - 2].constant() <= std::int64_t{kMaxGroups} * kOutputsPerGroup &&
           row_bytes(w.dtype, s.columns()) < std::size_t{kMaxElements};
  };
  if (const auto general = can_launch_general(graph, node)) return *general;
  return std::visit(
      Overloaded{
          [&](const ops::GetRows&) {
            const bool given = graph.value(viewed(graph, node.inputs[1])).kind == ValueKind::kInput;
            return stored_type(value(0).dtype).has_value() &&
                   (given || is_known_below(graph, node.inputs[1], value(0).shape[0]));
          },
          [&](const ops::Matmul&) { return weight(value(0)); },
          [&](const ops::MatmulExperts&) { return weight(value(0)); },
          [&](const ops::StoreCache& op) { return op.role == CacheRole::kSlots || can_cache(value(0)); },
          [&](const ops::MoveCells& op) {
            const ValueInfo& cache = graph.value(named_inputs<ops::MoveCells>(node).cache);
            if (!can_cache(cache)) return false;
            if (op.role != CacheRole::kKeys || op.rope.n_rot == 0) return true;
            const std::int64_t head_dim = cache.shape[2].constant();
            if (is_float(cache.dtype)) return op.rope.n_rot % 4 == 0 && head_dim % 4 == 0;
            return turned_unit(cache.dtype, word(head_dim)) <= kMaxTurnedUnit;
          },
          [&](const ops::Attention&) {
            const auto in = named_inputs<ops::Attention>(node);
            const ValueInfo &k = graph.value(in.k), &v = graph.value(in.v);
            return can_cache(k) && can_cache(v) && k.shape[2].constant() <= kMaxHeadDim &&
                   v.shape[2].constant() <= kMaxHeadDim;
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

}  // namespace weft::vulkan
