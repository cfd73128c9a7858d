#include "backend/gpu/launches_attention.h"

#include <algorithm>
#include <bit>

#include "backend/gpu/kernel.h"
#include "backend/gpu/launches_general.h"
#include "backend/rope.h"

namespace weft::gpu {
namespace {

constexpr std::uint32_t kWideAttentionThreads = 128;  // As in attention.comp.
constexpr std::uint32_t kMaxSplits = 64;
constexpr std::size_t kPartBytes = std::size_t{64} << 20;
constexpr std::uint32_t kPair = 64;  // Elements of two blocks of a quantised cache, as in pack.glsl.
constexpr std::uint32_t kMaxTurnedUnit = 512;

/// Elements of a cell that one thread turns: two pairs, or heads that make whole pairs of blocks.
std::uint32_t turned_unit(DType dtype, std::uint32_t head_dim) {
  return is_float(dtype) ? 4 : head_dim % kPair == 0 ? head_dim : 2 * head_dim;
}

/// Whether cells of a cache are whole words (of 16 bits, pairs) and, of a quantised one, pairs of blocks that
/// end with heads.
bool can_cache(const ValueInfo& cache) {
  const Shape& s = cache.shape;
  const std::int64_t head_dim = s[2].constant(), n = s[1].constant() * head_dim;
  if (is_float(cache.dtype)) return row_bytes(cache.dtype, n) % 4 == 0;
  constexpr DType kQuantised[] = {DType::kQ8_0, DType::kQ4_0, DType::kQ4_1,
                                  DType::kQ5_0, DType::kQ5_1, DType::kIQ4_NL};
  return std::ranges::find(kQuantised, cache.dtype) != std::end(kQuantised) && head_dim % 32 == 0 &&
         n % kPair == 0;
}

/// Whether few rows of attention are merged in a phase of their own: where there are several pages.
bool splits_pages(const LaunchBuilder& builder, const Node& node) {
  if (get_op<ops::Attention>(node) == nullptr) return false;
  return builder.shape(named_inputs<ops::Attention>(node).extents)[1].constant() > 1;
}

class AttentionLaunches {
 public:
  explicit AttentionLaunches(LaunchBuilder& builder) : builder_(builder) {}

  void add(const ops::Rope& op, const Node& node) {
    const std::uint32_t n = builder_.columns(node.output);
    const std::uint32_t per_row =
        n / word(std::int64_t{op.head_dim}) * word(std::int64_t{op.head_dim - op.n_rot / 2});
    const float magnitude = static_cast<float>(rope_magnitude(op));
    Launch& launch = builder_.add(
        Kernel::kRope, {}, builder_.shape(node.output).row_dim(),
        {node.inputs[0], node.inputs[1], builder_.frequencies(op, optional(node, 2)), node.output},
        {n, word(std::int64_t{op.head_dim}), word(std::int64_t{op.n_rot}), op.neox, word(magnitude)});
    launch.groups = groups_for(per_row, 128);
  }

  void add(const ops::MoveCells& op, const Node& node) {
    const auto in = named_inputs<ops::MoveCells>(node);
    const ValueId cache = in.cache;
    const Shape& s = builder_.shape(cache);
    const bool turns = op.role == CacheRole::kKeys && op.rope.n_rot > 0;
    const std::uint32_t heads = word(s[1].constant()), head_dim = word(s[2].constant()),
                        bytes = cell_bytes(cache);
    const std::uint32_t unit = turned_unit(builder_.dtype(cache), head_dim);
    const std::uint32_t threads = turns ? heads * head_dim / unit : bytes / 4;
    const ValueId table = turns ? builder_.frequencies(op.rope, in.factors) : kNoValue;
    Launch& launch = builder_.add(
        Kernel::kMoveCells, {builder_.type(cache), turns, unit, word(std::int64_t{op.hadamard})},
        builder_.shape(in.from)[0], {cache, in.from, in.to, in.deltas, table},
        {head_dim, heads, bytes, turns ? word(std::int64_t{op.rope.n_rot}) : 0u, op.rope.neox, bytes / 4});
    launch.must_run = true;
    launch.groups = [threads](const StepSizes&) -> Groups { return {groups_of(threads, 64), 1, 1}; };
  }

  void add(const ops::StoreCache& op, const Node& node) {
    const std::uint32_t n = builder_.columns(node.inputs[1]);
    const DType type = builder_.dtype(node.inputs[0]);
    const bool plain = op.role == CacheRole::kSlots || type == DType::kF32;  // A row of any number of floats.
    const std::uint32_t per_thread = plain ? 1 : is_float(type) ? 2 : kPair;
    Launch& launch = builder_.add(
        Kernel::kStoreCache, {builder_.type(node.inputs[0]), plain}, builder_.shape(node.inputs[1]).row_dim(),
        {node.inputs[0], node.inputs[1], node.inputs[2]}, {n, cell_bytes(node.inputs[0])});
    launch.groups = groups_for(n / per_thread, 128);
  }

  /// Rows that are turned on the way to their cells.
  void store_turned(NodeId id, NodeId rope_id) {
    const Node &store = graph_.node(id), &rope = graph_.node(rope_id);
    make_inputs_plain(builder_, rope);
    const ValueId cache = store.inputs[0], cells = store.inputs[2];
    make_plain(builder_, cells);
    builder_.enter(id, std::max({builder_.ready(rope.inputs), builder_.ready(cache), builder_.ready(cells)}));
    const auto& op = *get_op<ops::Rope>(rope);
    const std::uint32_t n = builder_.columns(rope.output);
    Launch& launch = builder_.add(
        Kernel::kStoreTurned, {builder_.type(cache)}, builder_.shape(rope.output).row_dim(),
        {rope.inputs[0], rope.inputs[1], builder_.frequencies(op, optional(rope, 2)), cache, cells},
        {n, word(std::int64_t{op.head_dim}), word(std::int64_t{op.n_rot}), op.neox,
         word(static_cast<float>(rope_magnitude(op))), cell_bytes(cache)});
    launch.groups = groups_for(n / 4, 128);
  }

  /// Few rows have their pages spread over workgroups and merged afterwards; many are tiles that merge as
  /// they go.
  void add(const ops::Attention& op, const Node& node) {
    const auto in = named_inputs<ops::Attention>(node);
    const std::uint32_t heads = word(std::int64_t{op.n_heads}),
                        kv_heads = word(builder_.shape(in.k)[1].constant());
    const std::uint32_t k_dim = word(builder_.shape(in.k)[2].constant()),
                        v_dim = word(builder_.shape(in.v)[2].constant());
    const std::uint32_t n_extents = word(builder_.shape(in.extents)[1].constant());
    const bool biased = in.head_terms != kNoValue && builder_.shape(in.head_terms).rank() == 2;
    const bool sinks = in.head_terms != kNoValue && !biased;
    const Dim rows = builder_.shape(node.output)[0];
    // Queries that a workgroup has, as far as they fit into shared memory.
    std::uint32_t queries = target_.sizes.queries;
    const std::uint32_t most = target_.sizes.query_floats;
    while (queries > 1 && queries * std::max(k_dim, v_dim) > most) queries /= 2;
    const std::uint32_t shared_heads = std::min(heads / kv_heads, queries);
    const std::uint32_t blocks = (heads / kv_heads + shared_heads - 1) / shared_heads;
    const std::uint32_t across = std::bit_ceil(std::min((v_dim + 3) / 4, kWideAttentionThreads));
    const auto attend = [&](std::uint32_t tile, bool split) -> Launch& {
      return builder_.add(
          Kernel::kAttention,
          {builder_.type(in.k), builder_.type(in.v), k_dim, v_dim, tile, shared_heads, across, split}, rows,
          {in.q, in.k, in.v, in.positions, in.sequences, in.extents, in.counts, in.ends, in.hidden_first,
           in.hidden, in.head_terms, node.output},
          {heads, kv_heads, k_dim, v_dim, word(op.scale), word(op.softcap), word(std::int64_t{op.window}),
           n_extents, cell_bytes(in.k), cell_bytes(in.v), sinks, op.chunked, word(op.alibi),
           biased ? word(builder_.shape(in.head_terms)[1].constant()) : 0u});
    };
    const std::uint32_t groups = kv_heads * blocks;
    // Rows whose parts of pages fit into the memory that is meant for them: at least one.
    const std::size_t part_bytes = (v_dim + 2) * sizeof(float), row_parts = std::size_t{heads} * n_extents;
    const auto few = static_cast<std::uint32_t>(
        std::clamp<std::size_t>(kPartBytes / (part_bytes * row_parts), 1, kRowsOfLanes));
    const bool can_split = splits_pages(builder_, node);
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
    const std::uint32_t parts = builder_.known_scratch({Scratch::Kind::kPages, node.output, builder_.node(),
                                                        Dim(static_cast<std::int64_t>(few * row_parts)),
                                                        part_bytes, phase - 1, phase});
    Launch& split = attend(1, true);
    use_scratch(split, 11, parts);
    split.groups = [=](const StepSizes& step) -> Groups {
      if (step.rows > few) return {0, 0, 0};
      return {groups, step.rows, std::min(n_extents, kMaxSplits)};
    };
    builder_.enter(builder_.node(), phase);
    const bool floats = fusion_.makes_floats(node.output), codes = fusion_.makes_codes(node.output);
    Launch& merge =
        builder_.add(Kernel::kMergePages, {(v_dim + 63) / 64, floats, codes}, rows,
                     {kNoValue, in.sequences, in.counts, in.head_terms, floats ? node.output : kNoValue},
                     {heads, v_dim, n_extents, sinks});
    use_scratch(merge, 0, parts);
    merge.groups = [=](const StepSizes& step) -> Groups {
      return step.rows > few ? Groups{0, 0, 0} : Groups{heads, step.rows, 1};
    };
    if (!codes) return;
    builder_.make_codes(node, merge, 5);
    if (!has_many) return;
    // Tiles give floats, which a launch in a later phase turns into codes; few rows have no such phase.
    builder_.enter(builder_.node(), phase + 1);
    Launch& quantise = builder_.add(Kernel::kQuantise, {0, 0}, builder_.shape(node.output).row_dim(),
                                    {node.output}, {builder_.columns(node.output)});
    builder_.make_codes(node, quantise, 1);
    quantise.groups =
        [few, all = groups_for(builder_.columns(node.output) / kBlock, 64)](const StepSizes& step) -> Groups {
      return step.rows > few ? all(step) : Groups{0, 0, 0};
    };
  }

 private:
  std::uint32_t cell_bytes(ValueId cache) const {
    const Shape& s = builder_.shape(cache);
    return word(
        static_cast<std::int64_t>(row_bytes(builder_.dtype(cache), s[1].constant() * s[2].constant())));
  }

  LaunchBuilder& builder_;
  const Graph& graph_ = builder_.graph();
  const Target& target_ = builder_.target();
  const Fusion& fusion_ = builder_.fusion();
};

}  // namespace

std::optional<bool> can_launch_attention(const Graph& graph, const Node& node) {
  if (get_op<ops::Rope>(node) != nullptr) return true;
  if (const auto* const op = get_op<ops::StoreCache>(node))
    return op->role == CacheRole::kSlots || can_cache(graph.value(node.inputs[0]));
  if (const auto* const op = get_op<ops::MoveCells>(node)) {
    const ValueInfo& cache = graph.value(named_inputs<ops::MoveCells>(node).cache);
    if (!can_cache(cache)) return false;
    if (op->role != CacheRole::kKeys || op->rope.n_rot == 0) return true;
    const std::int64_t head_dim = cache.shape[2].constant();
    if (is_float(cache.dtype)) return op->hadamard == 0 && op->rope.n_rot % 4 == 0 && head_dim % 4 == 0;
    return turned_unit(cache.dtype, word(head_dim)) <= kMaxTurnedUnit;
  }
  if (get_op<ops::Attention>(node) == nullptr) return std::nullopt;
  const auto in = named_inputs<ops::Attention>(node);
  const ValueInfo &k = graph.value(in.k), &v = graph.value(in.v);
  return can_cache(k) && can_cache(v) && k.shape[2].constant() <= kMaxHeadDim &&
         v.shape[2].constant() <= kMaxHeadDim;
}

int n_phases_before(const LaunchBuilder& builder, const Node& node) {
  return splits_pages(builder, node) ? 1 : 0;
}

bool launch_attention(LaunchBuilder& builder, const Node& node) {
  return std::visit(
      [&]<typename T>(const T& op) {
        constexpr bool is_one = requires(AttentionLaunches& launches) { launches.add(op, node); };
        if constexpr (is_one) AttentionLaunches(builder).add(op, node);
        return is_one;
      },
      node.op);
}

void launch_turned_store(LaunchBuilder& builder, NodeId store, NodeId rope) {
  AttentionLaunches(builder).store_turned(store, rope);
}

}  // namespace weft::gpu
