#include "model/shard.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <map>
#include <utility>

#include "base/check.h"
#include "base/to_size.h"
#include "model/shard_cuts.h"
#include "weft/dtype.h"

namespace weft::model {
namespace {

/// Tables of at most this many elements are read on each device.
constexpr std::int64_t kSmallTable = 1 << 16;

/// How a value of the whole graph is there.
struct Made {
  enum class How : std::uint8_t {
    kAnywhere,  ///< Made by each device that needs it.
    kOnce,      ///< On one device.
    kCut,       ///< In pieces: columns, or heads of a cache.
    kLater,     ///< A product of which only slices are read: they are products of their own.
  };
  How how = How::kAnywhere;
  ValueId once = kNoValue;
  Bounds bounds;
  std::vector<ValueId> pieces;  // By device; kNoValue where it has no columns.
  std::vector<ValueId> whole;   // By device, as far as it was needed.
};

/// Calls f with the members of a struct that has nothing but ValueIds.
template <typename T, typename F>
void for_each_member(T& values, F f) {
  auto all = std::bit_cast<std::array<ValueId, sizeof(T) / sizeof(ValueId)>>(values);
  for (ValueId& value : all) f(value);
  values = std::bit_cast<T>(all);
}

/// Calls f with every input and result that a model's graph names.
template <typename F>
void for_each_value(ModelGraph& m, F f) {
  for_each_member(m.texts, f);
  for_each_member(m.full, f);
  for_each_member(m.windowed, f);
  for_each_member(m.axes, f);
  SourceInputs& s = m.source;
  for (ValueId* const value :
       {&s.tokens, &s.positions, &s.cells, &s.extents, &s.extent_counts, &s.ends, &s.hidden_first, &s.hidden})
    f(*value);
  for (AdapterInputs* const a :
       {&m.adapters_of_tokens, &m.adapters_of_wanted, &m.adapters_of_outputs, &m.adapters_of_source})
    for (ValueId* const value : {&a->rows, &a->ids, &a->weights, &a->begins, &a->ends, &a->is_adapted})
      f(*value);
  for (ValueId* const value :
       {&m.vectors,     &m.scores,         &m.tokens,      &m.embeddings,   &m.use_embeddings,
        &m.positions,   &m.sequences,      &m.ends,        &m.hidden_first, &m.wanted_rows,
        &m.output_rows, &m.embedding_rows, &m.state_from,  &m.state_to,     &m.row_embeddings,
        &m.logits,      &m.logit_rows,     &m.best_counts, &m.best,         &m.log_sum_ids,
        &m.log_sums})
    f(*value);
}

class Sharder {
 public:
  Sharder(const ModelGraph& whole, const std::vector<double>& shares)
      : model_(whole),
        from_(whole.graph),
        shares_(shares),
        first_(first_with_share(shares)),
        made_(from_.values().size()),
        cuts_(find_cuts(whole.graph)),
        external_(from_.values().size(), kNoValue),
        use_of_(from_.values().size(), nullptr) {
    for (const WeightUse& use : whole.weights) use_of_[index(use.value)] = &use;
  }

  ModelGraph run() {
    result_ = model_;
    result_.graph = Graph();
    result_.weights.clear();
    for (const Symbol& symbol : from_.symbols()) to_.add_symbol(symbol.name, symbol.min, symbol.max);
    for (std::size_t v = 0; v < from_.values().size(); ++v)
      if (const ValueInfo& value = from_.values()[v]; value.kind == ValueKind::kInput)
        external_[v] = to_.add_input(value.name, value.dtype, value.shape);
    add_states();
    for (const Node& node : from_.nodes()) add(node);
    for (const ValueId output : from_.outputs()) to_.add_output(on(first_, output));
    // Some may be for graphs of other sizes.
    for (const WeightUse& use : model_.weights)
      if (!read_.contains(use.value)) weight(use.value);
    for_each_value(result_, [&](ValueId& value) {
      if (value != kNoValue)
        value = from_.value(value).kind == ValueKind::kInput ? external_[index(value)] : on(first_, value);
    });
    return std::move(result_);
  }

 private:
  Made& made(ValueId value) { return made_[index(value)]; }
  bool is_cut(ValueId value) const { return made_[index(value)].how == Made::How::kCut; }
  std::size_t n_devices() const { return shares_.size(); }

  // --- Values there

  ValueId weight(ValueId value) {
    read_.insert(value);
    ValueId& known = external_[index(value)];
    if (known != kNoValue) return known;
    const ValueInfo& info = from_.value(value);
    known = to_.add_weight(info.name, info.dtype, info.shape);
    WeightUse use = *use_of_[index(value)];
    use.value = known;
    result_.weights.push_back(std::move(use));
    return known;
  }

  /// Rows of a matrix or of each of several, or elements of a vector.
  ValueId weight_rows(ValueId value, std::int64_t begin, std::int64_t n) {
    read_.insert(value);
    const ValueInfo& info = from_.value(value);
    const int axis = info.shape.rank() == 3 ? 1 : 0;
    if (begin == 0 && n == info.shape[axis].constant()) return weight(value);
    const WeightUse& of = *use_of_[index(value)];
    const std::int64_t first = axis == 0 ? of.row_begin + begin : begin;
    const std::string name = (of.tensor != nullptr ? of.tensor->name : info.name) + "[" +
                             std::to_string(first) + ":" + std::to_string(first + n) + "]";
    if (const ValueId known = to_.find(name); known != kNoValue) return known;
    std::vector<Dim> dims;
    for (int i = 0; i < info.shape.rank(); ++i) dims.push_back(i == axis ? Dim(n) : info.shape[i]);
    WeightUse use{.value = to_.add_weight(name, info.dtype, Shape(std::span<const Dim>(dims))),
                  .tensor = of.tensor,
                  .row_begin = first,
                  .n_rows = n,
                  .of_each = axis == 1};
    if (of.make)
      use.make = [make = of.make, dtype = info.dtype, shape = info.shape, axis, begin, n] {
        return rows_of_each(make(), dtype, shape, axis, begin, n);
      };
    result_.weights.push_back(use);
    return use.value;
  }

  static std::vector<std::byte> rows_of_each(const std::vector<std::byte>& all, DType dtype,
                                             const Shape& shape, int axis, std::int64_t begin,
                                             std::int64_t n) {
    const std::int64_t columns = shape.rank() == 1 ? 1 : shape.back().constant();
    const auto row = to_size(row_bytes(dtype, columns));
    const std::size_t n_rows = to_size(shape[axis].constant());
    std::vector<std::byte> part;
    for (std::size_t at = to_size(begin) * row; at < all.size(); at += n_rows * row)
      part.insert(part.end(), all.begin() + static_cast<std::ptrdiff_t>(at),
                  all.begin() + static_cast<std::ptrdiff_t>(at + to_size(n) * row));
    return part;
  }

  std::string name_on(std::size_t d, const std::string& name) const { return name + "#" + std::to_string(d); }
  NodeTag tag_on(std::size_t d, NodeTag tag) const {
    tag.shard = static_cast<int>(d);
    return tag;
  }

  /// The whole value where device d can read it, made there if it can be.
  ValueId on(std::size_t d, ValueId value) {
    const ValueInfo& info = from_.value(value);
    if (info.kind == ValueKind::kInput) return external_[index(value)];
    if (info.kind == ValueKind::kWeight) return weight(value);
    WEFT_CHECK(info.kind == ValueKind::kResult);
    if (made(value).how == Made::How::kOnce) return made(value).once;
    if (made(value).whole.empty()) made(value).whole.assign(n_devices(), kNoValue);
    if (const ValueId known = made(value).whole[d]; known != kNoValue) return known;
    const Node& node = from_.node(info.producer);
    ValueId here = kNoValue;
    if (is_cut(value)) {
      here = gather(d, value, node.tag);
    } else {
      std::vector<ValueId> inputs;
      for (const ValueId input : node.inputs) inputs.push_back(on(d, input));
      here = to_.add(node.op, inputs, name_on(d, info.name), tag_on(d, node.tag));
    }
    return made(value).whole[d] = here;
  }

  /// All pieces side by side, in several steps where they are many.
  ValueId gather(std::size_t d, ValueId value, const NodeTag& tag) {
    std::vector<ValueId> parts;
    for (const ValueId piece : made(value).pieces)
      if (piece != kNoValue) parts.push_back(piece);
    constexpr std::size_t kMost = ops::Concat::kMaxInputs;
    const int axis = shape_of(from_, value).rank() - 1;
    for (int round = 0; parts.size() > 1; ++round) {
      std::vector<ValueId> fewer;
      for (std::size_t i = 0; i < parts.size(); i += kMost) {
        const auto some = std::span(parts).subspan(i, std::min(kMost, parts.size() - i));
        const bool last = parts.size() <= kMost;
        const std::string name = from_.value(value).name + "_gathered" +
                                 (last ? "" : "_" + std::to_string(round) + "_" + std::to_string(i));
        fewer.push_back(some.size() == 1 ? some[0]
                                         : to_.add(Op(ops::Concat{axis == 1 ? ops::Concat::kColumns : axis}),
                                                   some, name_on(d, name), tag_on(d, tag)));
      }
      parts = std::move(fewer);
    }
    return parts.front();
  }

  /// Elements [begin, end) of an axis on device d.
  ValueId slice(std::size_t d, ValueId value, int axis, std::int64_t begin, std::int64_t end,
                const NodeTag& tag) {
    const ValueInfo& info = from_.value(value);
    const WeightUse* const use = use_of_[index(value)];
    const bool in_file_order = use != nullptr && (use->tensor == nullptr || use->tensor->shape.size() < 3);
    if (use != nullptr && axis == 0 && info.shape.rank() <= 2 && in_file_order)
      return weight_rows(value, begin, end - begin);
    const std::string name = name_on(
        d, info.name + "[" + std::to_string(begin) + ":" + std::to_string(end) + "]@" + std::to_string(axis));
    if (const ValueId known = to_.find(name); known != kNoValue) return known;
    return to_.add(Op(ops::Slice{.axis = axis, .begin = begin, .end = end}), std::array{on(d, value)}, name,
                   tag_on(d, tag));
  }

  /// Device d's columns of an operand of a result that is cut, or all of one that has no such columns.
  ValueId columns(std::size_t d, ValueId value, const Bounds& bounds, const NodeTag& tag) {
    if (is_cut(value) && made(value).bounds == bounds) return made(value).pieces[d];
    const Shape& shape = shape_of(from_, value);
    if (columns_of(shape) != bounds.back()) return on(d, value);
    return slice(d, value, shape.rank() - 1, begin_of(bounds, d), bounds[d], tag);
  }

  // --- Nodes

  void add(const Node& node) {
    if (is_product(from_, node)) return add_product(node);
    if (get_op<ops::Attention>(node) != nullptr && cuts_.n_heads[index(cache_of(node))] > 0)
      return add_attention(node);
    if (get_op<ops::RaggedAttention>(node) != nullptr) {
      if (!add_ragged(node)) add_once(node);
      return;
    }
    const ValueId state = node.inputs.empty() ? kNoValue : state_behind(from_, node.inputs[0]);
    if (state != kNoValue && cuts_.n_heads[index(state)] > 0) return add_cache(node, state);
    if (is_slice_of_columns(from_, node) && made(node.inputs[0]).how == Made::How::kLater)
      return add_slice(node);
    if (add_cut(node)) return;
    const bool has_state = std::any_of(node.inputs.begin(), node.inputs.end(),
                                       [&](ValueId input) { return state_behind(from_, input) != kNoValue; });
    const bool reads_table = get_op<ops::GetRows>(node) != nullptr && is_weight(from_, node.inputs[0]) &&
                             shape_of(from_, node.inputs[0]).elements({}) > kSmallTable;
    // The rows that the first layer reads are looked up once.
    if (has_state || reads_table || node.tag.part == Part::kEmbedding) add_once(node);
  }
  ValueId cache_of(const Node& attention) const {
    return state_behind(from_, named_inputs<ops::Attention>(attention).k);
  }

  void add_once(const Node& node) {
    std::vector<ValueId> inputs;
    for (const ValueId input : node.inputs) {
      const bool is_state = from_.value(input).kind == ValueKind::kState;
      inputs.push_back(is_state ? external_[index(input)] : on(first_, input));
    }
    Made& m = made(node.output);
    m.how = Made::How::kOnce;
    m.once = to_.add(node.op, inputs, from_.value(node.output).name, node.tag);
  }

  /// Adds a piece to each device that has columns: `f(d)` gives its op and inputs.
  template <typename F>
  void add_pieces(const Node& node, const Bounds& bounds, F f) {
    std::vector<ValueId> pieces(n_devices(), kNoValue);
    for (std::size_t d = 0; d < n_devices(); ++d) {
      if (size_of(bounds, d) == 0) continue;
      const auto [op, inputs] = f(d);
      pieces[d] = to_.add(op, inputs, name_on(d, from_.value(node.output).name), tag_on(d, node.tag));
    }
    Made& m = made(node.output);
    m.how = Made::How::kCut;
    m.bounds = bounds;
    m.pieces = std::move(pieces);
  }

  void add_product(const Node& node) {
    if (cuts_.slices_only[index(node.output)]) {
      made(node.output).how = Made::How::kLater;
      return;
    }
    add_product_rows(node, node, 0, columns_of(shape_of(from_, node.output)));
  }
  void add_slice(const Node& node) {
    const auto& slice = *get_op<ops::Slice>(node);
    const Node& product = from_.node(from_.value(node.inputs[0]).producer);
    add_product_rows(node, product, slice.begin.constant(), slice.end.constant());
  }
  /// Adds the output of `node`: columns [begin, end) of a product.
  void add_product_rows(const Node& node, const Node& product, std::int64_t begin, std::int64_t end) {
    Bounds bounds = cut(end - begin, cuts_.units[index(node.output)], shares_);
    const bool whole = &node == &product;
    if (bounds.empty()) {
      // Few rows: each device multiplies with them itself, unless it would have to read a slice.
      if (whole && !is_of_experts(node)) return;
      bounds.assign(n_devices(), 0);
      std::fill(bounds.begin() + static_cast<std::ptrdiff_t>(first_), bounds.end(), end - begin);
    }
    add_pieces(node, bounds, [&](std::size_t d) {
      const std::int64_t at = begin + begin_of(bounds, d), n = size_of(bounds, d);
      std::vector<ValueId> inputs = {weight_rows(product.inputs[0], at, n)};
      for (std::size_t i = 1; i < product.inputs.size(); ++i) {
        const bool is_bias = i == 2 && !is_of_experts(product);
        inputs.push_back(is_bias ? slice(d, product.inputs[i], 0, at, at + n, node.tag)
                                 : on(d, product.inputs[i]));
      }
      return std::pair(product.op, std::move(inputs));
    });
  }

  /// A node whose columns are made of columns of its inputs; false where they are not, or none is cut.
  bool add_cut(const Node& node) {
    const std::vector<std::size_t> inputs = cut_inputs(from_, node);
    const std::int64_t n = columns_of(shape_of(from_, node.output));
    const auto first = std::find_if(inputs.begin(), inputs.end(), [&](std::size_t i) {
      return is_cut(node.inputs[i]) && made(node.inputs[i]).bounds.back() == n;
    });
    if (first == inputs.end()) return false;
    const Bounds bounds = made(node.inputs[*first]).bounds;
    if (const auto* norm = get_op<ops::Norm>(node);
        norm != nullptr && (norm->group == 0 || !between(bounds, norm->group)))
      return false;
    if (const auto* rope = get_op<ops::Rope>(node); rope != nullptr && !between(bounds, rope->head_dim))
      return false;
    if (const auto* hadamard = get_op<ops::Hadamard>(node);
        hadamard != nullptr && !between(bounds, hadamard->block))
      return false;
    add_pieces(node, bounds, [&](std::size_t d) {
      std::vector<ValueId> own;
      for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        const bool cut_here = std::find(inputs.begin(), inputs.end(), i) != inputs.end();
        own.push_back(cut_here ? columns(d, node.inputs[i], bounds, node.tag) : on(d, node.inputs[i]));
      }
      Op op = node.op;
      if (auto* const reshape = std::get_if<ops::Reshape>(&op)) {
        std::vector<Dim> dims;
        for (int i = 0; i + 1 < reshape->shape.rank(); ++i) dims.push_back(reshape->shape[i]);
        dims.emplace_back(size_of(bounds, d));
        reshape->shape = Shape(std::span<const Dim>(dims));
      }
      return std::pair(std::move(op), std::move(own));
    });
    return true;
  }

  void add_states() {
    const auto parts_of = [&](std::vector<ValueId>& states) {
      std::vector<ValueId> all;
      for (const ValueId state : states) {
        const ValueInfo& info = from_.value(state);
        const std::int64_t n_heads = cuts_.n_heads[index(state)];
        if (n_heads == 0) {
          all.push_back(external_[index(state)] = to_.add_state(info.name, info.dtype, info.shape));
          continue;
        }
        Made& m = made(state);
        m.how = Made::How::kCut;
        m.bounds = cut(n_heads, n_heads, shares_);
        m.pieces.assign(n_devices(), kNoValue);
        for (std::size_t d = 0; d < n_devices(); ++d)
          if (const std::int64_t n = size_of(m.bounds, d); n > 0)
            all.push_back(m.pieces[d] = to_.add_state(name_on(d, info.name), info.dtype,
                                                      {info.shape[0], n, info.shape[2]}));
      }
      states = std::move(all);
    };
    for (auto* const states : {&result_.states, &result_.running_states, &result_.source_states})
      parts_of(*states);
  }

  /// Moves and stores of a cache that is cut.
  void add_cache(const Node& node, ValueId state) {
    const Bounds heads = made(state).bounds;
    add_pieces(node, heads, [&](std::size_t d) {
      std::vector<ValueId> inputs = {made(node.inputs[0]).pieces[d]};
      for (std::size_t i = 1; i < node.inputs.size(); ++i) {
        const ValueId input = node.inputs[i];
        const bool is_rows = get_op<ops::StoreCache>(node) != nullptr && i == 1;
        inputs.push_back(is_rows
                             ? columns(d, input, scaled(heads, columns_of(shape_of(from_, input))), node.tag)
                             : on(d, input));
      }
      return std::pair(node.op, std::move(inputs));
    });
  }

  void add_attention(const Node& node) {
    const auto in = named_inputs<ops::Attention>(node);
    const Bounds heads = made(cache_of(node)).bounds;
    const Bounds q = scaled(heads, columns_of(shape_of(from_, in.q)));
    const Bounds terms = scaled(heads, get_op<ops::Attention>(node)->n_heads);
    const Bounds out = scaled(heads, columns_of(shape_of(from_, node.output)));
    add_pieces(node, out, [&](std::size_t d) {
      ops::Attention op = *get_op<ops::Attention>(node);
      op.n_heads = static_cast<int>(size_of(terms, d));
      ops::Attention::Inputs own = in;
      own.q = columns(d, in.q, q, node.tag);
      own.k = made(in.k).pieces[d];
      own.v = made(in.v).pieces[d];
      if (in.head_terms != kNoValue)
        own.head_terms = slice(d, in.head_terms, 0, begin_of(terms, d), terms[d], node.tag);
      for (ValueId* const value : {&own.positions, &own.sequences, &own.extents, &own.counts, &own.ends,
                                   &own.hidden_first, &own.hidden})
        *value = on(d, *value);
      std::vector<ValueId> inputs;
      for (const ValueId input : input_list<ops::Attention>(own))
        if (input != kNoValue) inputs.push_back(input);
      return std::pair(Op(op), std::move(inputs));
    });
  }

  bool add_ragged(const Node& node) {
    const auto in = named_inputs<ops::RaggedAttention>(node);
    const std::int64_t n_kv = ragged_heads(from_, node);
    const Bounds heads = n_kv > 1 ? cut(n_kv, n_kv, shares_) : Bounds();
    if (heads.empty()) return false;
    const auto of = [&](ValueId value) { return scaled(heads, columns_of(shape_of(from_, value))); };
    add_pieces(node, of(node.output), [&](std::size_t d) {
      ops::RaggedAttention op = *get_op<ops::RaggedAttention>(node);
      op.n_heads = static_cast<int>(size_of(scaled(heads, op.n_heads), d));
      std::vector<ValueId> inputs;
      for (const ValueId value : {in.q, in.k, in.v}) inputs.push_back(columns(d, value, of(value), node.tag));
      inputs.push_back(on(d, in.begins));
      inputs.push_back(on(d, in.ends));
      return std::pair(Op(op), std::move(inputs));
    });
    return true;
  }

  const ModelGraph& model_;
  const Graph& from_;
  const std::vector<double>& shares_;
  const std::size_t first_;
  ModelGraph result_;
  Graph& to_ = result_.graph;
  // By value of the whole graph:
  std::vector<Made> made_;
  const Cuts cuts_;
  std::vector<ValueId> external_;  // Inputs, weights and states that are whole, there.
  std::vector<const WeightUse*> use_of_;
  std::set<ValueId> read_;  // Weights.
};

}  // namespace

std::string_view whole_name(std::string_view name) { return name.substr(0, name.rfind('#')); }

std::size_t first_with_share(const std::vector<double>& shares) {
  const auto first = std::find_if(shares.begin(), shares.end(), [](double share) { return share > 0.0; });
  return first == shares.end() ? 0 : to_size(first - shares.begin());
}

ModelGraph shard(const ModelGraph& whole, const std::vector<double>& shares) {
  return Sharder(whole, shares).run();
}

}  // namespace weft::model
