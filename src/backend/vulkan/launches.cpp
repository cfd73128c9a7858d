#include "backend/vulkan/launches.h"

#include <algorithm>
#include <bit>

#include "backend/rope.h"
#include "backend/vulkan/tensors.h"
#include "base/check.h"

namespace weft::vulkan {
namespace {

template <class... Fs>
struct Overloaded : Fs... {
  using Fs::operator()...;
};
template <class... Fs>
Overloaded(Fs...) -> Overloaded<Fs...>;

constexpr std::uint32_t kMaxGroups = 65535;     // That every driver takes, in each dimension.
constexpr std::uint32_t kOutputsPerGroup = 16;  // As in matmul.comp.
constexpr std::uint32_t kTileRows = 16;
constexpr std::uint32_t kFewRows = 4;  // Up to here a row at a time is as good as a tile.
constexpr std::int64_t kMaxElements = std::int64_t{1} << 31;

constexpr std::int64_t kMaxHeadDim = 1024;
constexpr std::uint32_t kPair = 64;  // Elements of two blocks of a quantised cache, as in pack.glsl.
constexpr std::uint32_t kMaxTurnedUnit = 512;
constexpr std::uint32_t kBlock = 32;  // Columns with a scale of their own, as in blocks.glsl.

/// As in elementwise.comp.
enum class Elementwise : std::uint32_t { kAdd, kMul, kScale, kSoftcap, kActivate, kGlu, kOverride, kPlace };

std::uint32_t word(std::int64_t n) { return static_cast<std::uint32_t>(n); }
std::uint32_t word(float x) { return std::bit_cast<std::uint32_t>(x); }
std::uint32_t word(Activation kind) { return static_cast<std::uint32_t>(kind); }

std::uint32_t groups_of(std::uint64_t n, std::uint32_t per_group) {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>((n + per_group - 1) / per_group, kMaxGroups));
}

bool changes_cache(const Node& node) {
  return get_op<ops::MoveCells>(node) != nullptr || get_op<ops::StoreCache>(node) != nullptr;
}

/// As in blocks.glsl.
std::size_t code_row_bytes(std::uint32_t columns) { return (columns + columns / kBlock * 4 + 15) / 16 * 16; }

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

/// Ops that no shader computes.
template <typename T, typename... Ops>
inline constexpr bool kIsOneOf = (std::is_same_v<T, Ops> || ...);
template <typename T>
inline constexpr bool kLacksShader =
    kIsOneOf<T, ops::Best, ops::LogSumExp, ops::Softmax, ops::Unary, ops::Clamp, ops::Binary, ops::Compare,
             ops::Where, ops::Reduce, ops::BatchMatmul, ops::Pad, ops::Reshape, ops::Permute, ops::Slice,
             ops::BroadcastTo, ops::RaggedAttention, ops::RaggedMean, ops::Unfold>;

class Builder {
 public:
  Builder(const Graph& graph, bool byte_dots)
      : graph_(graph), byte_dots_(byte_dots), phases_(graph.values().size(), -1) {
    for (std::size_t v = 0; v < graph.values().size(); ++v)
      program_.storage.push_back(static_cast<ValueId>(v));
    for (const Node& node : graph.nodes())
      if (changes_cache(node)) program_.storage[index(node.output)] = program_.storage[index(node.inputs[0])];
  }

  Program build() {
    const std::vector<bool> live = live_nodes(graph_);
    for (std::size_t n = 0; n < live.size(); ++n) {
      if (!live[n]) continue;
      const Node& node = graph_.nodes()[n];
      int phase = 0;
      for (const ValueId input : node.inputs) phase = std::max(phase, phases_[index(input)] + 1);
      if (by_codes(node)) phase = std::max(phase, phases_[index(node.inputs[1])] + 2);
      phases_[index(node.output)] = phase;
      program_.n_phases = std::max(program_.n_phases, phase + 1);
      node_ = static_cast<NodeId>(n);
      std::visit([&](const auto& op) { launch(op, node); }, node.op);
    }
    place_codes();
    std::stable_sort(program_.launches.begin(), program_.launches.end(),
                     [](const Launch& a, const Launch& b) { return a.phase < b.phase; });
    return std::move(program_);
  }

 private:
  const Shape& shape(ValueId value) const { return graph_.value(value).shape; }
  DType dtype(ValueId value) const { return graph_.value(value).dtype; }
  std::uint32_t type(ValueId value) const { return stored_type(dtype(value)).value(); }
  std::uint32_t columns(ValueId value) const { return word(shape(value).columns()); }

  Launch& add(Shader shader, std::vector<std::uint32_t> constants, Dim rows,
              std::initializer_list<ValueId> tensors, std::initializer_list<std::uint32_t> params) {
    Launch& launch = program_.launches.emplace_back();
    launch.shader = shader;
    launch.constants = std::move(constants);
    launch.rows = rows;
    launch.node = node_;
    launch.phase = phases_[index(graph_.node(node_).output)];
    WEFT_CHECK(tensors.size() <= std::size(launch.push.tensors) &&
               params.size() <= std::size(launch.push.params));
    std::size_t i = 0;
    // A tensor that is left out is never read; the table has a place 0.
    for (const ValueId tensor : tensors)
      launch.push.tensors[i++] = tensor == kNoValue ? 0 : word(std::int64_t{place(tensor)});
    std::copy(params.begin(), params.end(), launch.push.params);
    return launch;
  }
  /// Frequencies have places behind those of the values.
  ValueId place(ValueId value) const {
    return index(value) < program_.storage.size() ? program_.storage[index(value)] : value;
  }
  static ValueId optional(const Node& node, std::size_t i) {
    return i < node.inputs.size() ? node.inputs[i] : kNoValue;
  }

  void elementwise(Elementwise op, Activation activation, const Node& node, ValueId b, ValueId use,
                   float factor) {
    const ValueId x = node.inputs[0];
    const std::uint32_t n = columns(x);
    const bool vector = b != kNoValue && shape(b).rank() == 1;
    Launch& launch = add(Shader::kElementwise, {static_cast<std::uint32_t>(op), word(activation)},
                         shape(x).row_dim(), {x, b, use, node.output}, {n, vector, word(factor)});
    launch.groups = [n](std::uint32_t rows) -> Groups {
      return {groups_of(std::uint64_t{rows} * n, 256), 1, 1};
    };
  }
  void launch(const ops::Add&, const Node& node) {
    elementwise(Elementwise::kAdd, Activation::kNone, node, node.inputs[1], kNoValue, 0.0f);
  }
  void launch(const ops::Mul&, const Node& node) {
    elementwise(Elementwise::kMul, Activation::kNone, node, node.inputs[1], kNoValue, 0.0f);
  }
  void launch(const ops::Scale& op, const Node& node) {
    elementwise(Elementwise::kScale, Activation::kNone, node, kNoValue, kNoValue, op.factor);
  }
  void launch(const ops::Softcap& op, const Node& node) {
    elementwise(Elementwise::kSoftcap, Activation::kNone, node, kNoValue, kNoValue, op.cap);
  }
  void launch(const ops::Activate& op, const Node& node) {
    elementwise(Elementwise::kActivate, op.kind, node, kNoValue, kNoValue, 0.0f);
  }
  void launch(const ops::Glu& op, const Node& node) {
    elementwise(Elementwise::kGlu, op.kind, node, node.inputs[1], kNoValue, 0.0f);
  }
  void launch(const ops::Override&, const Node& node) {
    elementwise(Elementwise::kOverride, Activation::kNone, node, node.inputs[1], node.inputs[2], 0.0f);
  }

  void launch(const ops::Concat&, const Node& node) {
    const std::uint32_t width = columns(node.output);
    std::uint32_t first = 0;
    for (const ValueId x : node.inputs) {
      const std::uint32_t n = columns(x);
      Launch& launch = add(Shader::kElementwise, {static_cast<std::uint32_t>(Elementwise::kPlace), 0},
                           shape(x).row_dim(), {x, kNoValue, kNoValue, node.output}, {n, 0, 0, width, first});
      launch.groups = [n](std::uint32_t rows) -> Groups {
        return {groups_of(std::uint64_t{rows} * n, 256), 1, 1};
      };
      first += n;
    }
  }

  void launch(const ops::Norm& op, const Node& node) {
    const ValueId x = node.inputs[0];
    const std::int64_t group = op.group == 0 ? shape(x).columns() : op.group;
    Dim groups = shape(x).row_dim();
    groups = groups * (shape(x).columns() / group);
    const ValueId weight = optional(node, 1), bias = optional(node, 2);
    Launch& launch = add(Shader::kNorm, {op.kind == NormKind::kLayer}, groups, {x, weight, bias, node.output},
                         {word(group), word(op.eps), weight != kNoValue, bias != kNoValue});
    launch.groups = [](std::uint32_t rows) -> Groups { return {groups_of(rows, 1), 1, 1}; };
  }

  void launch(const ops::GetRows&, const Node& node) {
    const std::uint32_t n = columns(node.output);
    const std::size_t bytes = row_bytes(dtype(node.inputs[0]), n);
    Launch& launch =
        add(Shader::kGetRows, {type(node.inputs[0])}, shape(node.output)[0],
            {node.inputs[0], node.inputs[1], node.output}, {n, word(static_cast<std::int64_t>(bytes))});
    launch.groups = [n](std::uint32_t rows) -> Groups {
      return {groups_of(std::uint64_t{rows} * ((n + 15) / 16), 64), 1, 1};
    };
  }

  /// Whether a product is one of codes: both of the weight and of x.
  bool by_codes(const Node& node) const {
    if (get_op<ops::Matmul>(node) == nullptr && get_op<ops::MatmulExperts>(node) == nullptr) return false;
    return byte_dots_ && !is_float(dtype(node.inputs[0]));
  }

  /// The codes of a value, made in the phase behind it; used in this node's phase.
  std::size_t codes_of(ValueId x) {
    const int phase = phases_[index(graph_.node(node_).output)];
    auto& known = program_.codes;
    auto found = std::find_if(known.begin(), known.end(), [&](const Codes& codes) { return codes.of == x; });
    if (found == known.end())
      found = known.insert(known.end(), {x, node_, shape(x).row_dim(), code_row_bytes(columns(x)),
                                         phases_[index(x)] + 1, phase});
    found->last_phase = std::max(found->last_phase, phase);
    return static_cast<std::size_t>(found - known.begin());
  }

  /// Launches that make codes, and the places of all codes, now that the number of frequencies is known.
  void place_codes() {
    const std::size_t first = program_.storage.size() + program_.frequencies.size();
    for (Launch& launch : program_.launches)
      if (launch.shader == Shader::kMatmulCodes)
        launch.push.tensors[1] = static_cast<std::uint32_t>(first + launch.push.tensors[1]);
    for (std::size_t i = 0; i < program_.codes.size(); ++i) {
      const Codes& codes = program_.codes[i];
      Launch& launch = program_.launches.emplace_back();
      launch.shader = Shader::kQuantise;
      launch.rows = codes.rows;
      launch.node = codes.user;
      launch.phase = codes.first_phase;
      launch.push.tensors[0] = word(std::int64_t{place(codes.of)});
      launch.push.tensors[1] = static_cast<std::uint32_t>(first + i);
      const std::uint32_t n = columns(codes.of);
      launch.push.params[0] = n;
      launch.groups = [n](std::uint32_t rows) -> Groups {
        return {groups_of(std::uint64_t{rows} * (n / kBlock), 64), 1, 1};
      };
    }
  }

  /// Few rows one by one, many in tiles: both are recorded, and a step gives groups to one of them.
  void matmul(const Node& node, ValueId bias, ValueId ids, std::uint32_t n_ids, bool row_for_each, Dim rows) {
    const ValueId weight = node.inputs[0];
    const Shape& s = shape(weight);
    const std::uint32_t inputs = word(s.columns()), outputs = word(s[s.rank() - 2].constant());
    const auto bytes = word(static_cast<std::int64_t>(row_bytes(dtype(weight), s.columns())));
    const std::uint32_t x_groups = (outputs + kOutputsPerGroup - 1) / kOutputsPerGroup;
    const bool tiles = n_ids == 0 && rows.value(graph_.bounds()) > kFewRows;
    const bool codes = by_codes(node);
    for (const std::uint32_t tile : {std::uint32_t{1}, kTileRows}) {
      if (tile > 1 && !tiles) continue;
      Launch& launch = add(codes ? Shader::kMatmulCodes : Shader::kMatmul, {type(weight), tile}, rows,
                           {weight, node.inputs[1], bias, ids, node.output},
                           {outputs, inputs, bytes, bias != kNoValue, n_ids, row_for_each});
      if (codes) launch.push.tensors[1] = static_cast<std::uint32_t>(codes_of(node.inputs[1]));
      launch.groups = [=](std::uint32_t n) -> Groups {
        if (tiles && (n > kFewRows) != (tile > 1)) return {0, 0, 0};
        return {x_groups, groups_of(n, tile), 1};
      };
    }
  }
  void launch(const ops::Matmul&, const Node& node) {
    matmul(node, optional(node, 2), kNoValue, 0, false, shape(node.output)[0]);
  }
  void launch(const ops::MatmulExperts&, const Node& node) {
    matmul(node, kNoValue, node.inputs[2], columns(node.inputs[2]), shape(node.inputs[1]).rank() == 3,
           shape(node.inputs[2]).rank() == 2 ? shape(node.output).row_dim() : Dim(0));
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
    launch.groups = [per_row](std::uint32_t rows) -> Groups {
      return {groups_of(std::uint64_t{rows} * per_row, 128), 1, 1};
    };
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
    launch.groups = [threads](std::uint32_t) -> Groups { return {groups_of(threads, 64), 1, 1}; };
  }
  void launch(const ops::StoreCache&, const Node& node) {
    const std::uint32_t n = columns(node.inputs[1]);
    const std::uint32_t per_thread = is_float(dtype(node.inputs[0])) ? 2 : kPair;
    Launch& launch = add(Shader::kStoreCache, {type(node.inputs[0])}, shape(node.inputs[1]).row_dim(),
                         {node.inputs[0], node.inputs[1], node.inputs[2]}, {n, cell_bytes(node.inputs[0])});
    launch.groups = [n, per_thread](std::uint32_t rows) -> Groups {
      return {groups_of(std::uint64_t{rows} * n / per_thread, 128), 1, 1};
    };
  }

  void launch(const ops::Attention& op, const Node& node) {
    const auto in = named_inputs<ops::Attention>(node);
    const std::uint32_t heads = word(std::int64_t{op.n_heads});
    const std::uint32_t k_dim = word(shape(in.k)[2].constant()), v_dim = word(shape(in.v)[2].constant());
    Launch& launch =
        add(Shader::kAttention, {type(in.k), type(in.v), (v_dim + 63) / 64, k_dim}, shape(node.output)[0],
            {in.q, in.k, in.v, in.positions, in.sequences, in.extents, in.counts, in.ends, in.hidden_first,
             in.hidden, node.output},
            {heads, word(shape(in.k)[1].constant()), k_dim, v_dim, word(op.scale), word(op.softcap),
             word(std::int64_t{op.window}), word(shape(in.extents)[1].constant()), cell_bytes(in.k),
             cell_bytes(in.v)});
    launch.groups = [heads](std::uint32_t rows) -> Groups { return {heads, groups_of(rows, 1), 1}; };
  }

  void launch(const ops::ShortConv&, const Node& node) {
    const auto in = named_inputs<ops::ShortConv>(node);
    const std::uint32_t n = columns(node.output), taps = word(shape(in.weight)[1].constant());
    Launch& launch = add(
        Shader::kShortConv, {type(in.weight)}, shape(node.output)[0],
        {in.state, in.x, in.weight, in.from, in.to, in.bias, node.output},
        {n, taps, in.bias != kNoValue, word(static_cast<std::int64_t>(row_bytes(dtype(in.weight), taps)))});
    launch.groups = [n](std::uint32_t) -> Groups { return {groups_of(n, 64), 1, 1}; };
  }

  void launch(const ops::SelectiveScan&, const Node& node) {
    const auto in = named_inputs<ops::SelectiveScan>(node);
    const std::uint32_t n = columns(node.output), n_state = word(shape(in.state)[1].constant());
    const bool heads = shape(in.a).rank() == 1;
    Launch& launch = add(Shader::kSelectiveScan, {type(in.a)}, shape(node.output)[0],
                         {in.state, in.x, in.dt, in.b, in.c, in.a, in.skip, in.from, in.to, node.output},
                         {n, n_state, heads ? columns(in.a) : 0u, columns(in.b) / n_state,
                          word(static_cast<std::int64_t>(row_bytes(dtype(in.a), columns(in.a))))});
    launch.groups = [n](std::uint32_t) -> Groups { return {groups_of(n, 64), 1, 1}; };
  }

  void experts(std::uint32_t op, const Node& node, ValueId b, std::int64_t k, bool normalise, float scale,
               std::uint32_t per_row) {
    Launch& launch = add(Shader::kExperts, {op}, shape(node.output)[0], {node.inputs[0], b, node.output},
                         {columns(node.inputs[0]), word(k), normalise, word(scale)});
    launch.groups = [per_row](std::uint32_t rows) -> Groups {
      return {groups_of(std::uint64_t{rows} * per_row, 64), 1, 1};
    };
  }
  void launch(const ops::TopK& op, const Node& node) { experts(0, node, kNoValue, op.k, false, 1.0f, 1); }
  template <typename T>
    requires kLacksShader<T>
  void launch(const T&, const Node&) {
    WEFT_CHECK(false);  // can_launch says so.
  }
  void launch(const ops::ExpertWeights& op, const Node& node) {
    experts(1, node, node.inputs[1], shape(node.inputs[1]).columns(), op.normalise, op.scale, 1);
  }
  void launch(const ops::SumExperts&, const Node& node) {
    experts(2, node, node.inputs[1], shape(node.inputs[1]).columns(), false, 1.0f, columns(node.inputs[0]));
  }

  const Graph& graph_;
  const bool byte_dots_;
  Program program_;
  std::vector<int> phases_;  // By value: the phase that makes it, -1 from outside.
  NodeId node_ = kNoNode;
};

}  // namespace

bool can_launch(const Graph& graph, const Node& node) {
  const std::vector<std::int64_t> bounds = graph.bounds();
  const auto value = [&](std::size_t i) -> const ValueInfo& { return graph.value(node.inputs[i]); };
  // Indices within a step's activations are 32 bits.
  for (const ValueId id : node.inputs)
    if (graph.value(id).kind != ValueKind::kWeight && graph.value(id).kind != ValueKind::kState &&
        graph.value(id).shape.elements(bounds) >= kMaxElements)
      return false;
  if (!changes_cache(node) && graph.value(node.output).shape.elements(bounds) >= kMaxElements) return false;
  const auto weight = [&](const ValueInfo& w) {
    const Shape& s = w.shape;
    return stored_type(w.dtype).has_value() &&
           s[s.rank() - 2].constant() <= std::int64_t{kMaxGroups} * kOutputsPerGroup &&
           row_bytes(w.dtype, s.columns()) < std::size_t{kMaxElements};
  };
  const auto has_columns = [&] {
    const Shape& out = graph.value(node.output).shape;
    return out.rank() >= 1 && out.back().is_constant();
  };
  // Of the ways to broadcast, one row for all others.
  const auto repeats_rows = [&] {
    const Shape &out = graph.value(node.output).shape, &b = value(1).shape;
    return out.rank() >= 2 && out.back().is_constant() && value(0).shape == out &&
           (b == out || (b.rank() == 1 && b[0] == out.back()));
  };
  return std::visit(
      Overloaded{
          [&](const ops::GetRows&) { return stored_type(value(0).dtype).has_value(); },
          [&](const ops::Matmul&) { return weight(value(0)); },
          [&](const ops::MatmulExperts&) { return weight(value(0)); },
          [&](const ops::StoreCache& op) { return op.role != CacheRole::kSlots && can_cache(value(0)); },
          [&](const ops::Norm& op) { return op.kind != NormKind::kL2; },
          [&](const ops::Add&) { return repeats_rows(); },
          [&](const ops::Mul&) { return repeats_rows(); },
          [&](const ops::Scale&) { return has_columns(); },
          [&](const ops::Softcap&) { return has_columns(); },
          [&](const ops::Activate&) { return has_columns(); },
          [&](const ops::Concat& op) {
            const Shape& out = graph.value(node.output).shape;
            return out.rank() == 2 && out.back().is_constant() &&
                   (op.axis == ops::Concat::kColumns || op.axis == 1);
          },
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
          []<typename T>(const T&) { return !kLacksShader<T>; },
      },
      node.op);
}

Program make_program(const Graph& graph, bool byte_dots) { return Builder(graph, byte_dots).build(); }

}  // namespace weft::vulkan
