#include "backend/cpu/launches/low_rank.h"

#include <algorithm>
#include <optional>

#include "backend/cpu/launches/matmul.h"
#include "base/to_size.h"

namespace weft::cpu {
namespace {

/// Bytes of an expert's matrix, per task.
constexpr std::size_t kBytesPerTask = std::size_t{48} << 10;

using Users = std::function<std::span<const NodeId>(ValueId)>;

/// The chain after one product, backwards from its end.
class Finder {
 public:
  Finder(const Graph& graph, const Users& users) : graph_(graph), users_(users) {}

  std::optional<LowRank> find(NodeId product) {
    const Node& node = graph_.node(product);
    const ValueId y = node.output;
    NodeId add = kNoNode, last = kNoNode;
    if (users_(y).size() != 2 || graph_.is_output(y)) return std::nullopt;
    for (const NodeId user : users_(y)) {
      if (get_op<ops::Add>(graph_.node(user)) != nullptr) add = user;
      if (get_op<ops::Override>(graph_.node(user)) != nullptr) last = user;
    }
    if (add == kNoNode || last == kNoNode) return std::nullopt;
    const Node &override_node = graph_.node(last), &add_node = graph_.node(add);
    if (override_node.inputs[0] != y || override_node.inputs[1] != add_node.output ||
        add_node.inputs[0] != y || !is_read_by(add_node.output, last))
      return std::nullopt;
    found_ = {};
    found_.out = override_node.output;
    found_.nodes = {last, add};
    user_ = add;
    LowRankValues& values = found_.values;
    values.flags = override_node.inputs[2];
    const Node* const mean = made_by<ops::RaggedMean>(add_node.inputs[1]);
    if (mean == nullptr || !(graph_.value(mean->output).shape == graph_.value(y).shape)) return std::nullopt;
    values.begins = mean->inputs[1];
    values.ends = mean->inputs[2];
    const Node* const each = made_by<ops::Reshape>(mean->inputs[0]);
    const Node* const up = each != nullptr ? made_by<ops::MatmulExperts>(each->inputs[0]) : nullptr;
    const Node* const weighted = up != nullptr ? made_by<ops::SumExperts>(up->inputs[1]) : nullptr;
    if (weighted == nullptr) return std::nullopt;
    values.b = up->inputs[0];
    values.ids = up->inputs[2];
    values.factors = weighted->inputs[1];
    values.low = weighted->output;
    const Node* const down = made_by<ops::MatmulExperts>(weighted->inputs[0]);
    if (down == nullptr || down->inputs[2] != values.ids) return std::nullopt;
    values.a = down->inputs[0];
    // Several products may read the gathered rows.
    found_.gathered = down->inputs[1];
    const NodeId gather = graph_.value(found_.gathered).producer;
    if (gather == kNoNode || get_op<ops::GetRows>(graph_.node(gather)) == nullptr) return std::nullopt;
    values.x = graph_.node(gather).inputs[0];
    values.rows = graph_.node(gather).inputs[1];
    return values.are_made_before(graph_, product) && fits(node) ? std::optional(found_) : std::nullopt;
  }

 private:
  bool is_read_by(ValueId value, NodeId user) const {
    return users_(value).size() == 1 && users_(value)[0] == user && !graph_.is_output(value);
  }
  /// The node that makes a value for the one before alone.
  template <typename T>
  const Node* made_by(ValueId value) {
    const NodeId producer = graph_.value(value).producer;
    if (producer == kNoNode || !is_read_by(value, user_) || get_op<T>(graph_.node(producer)) == nullptr)
      return nullptr;
    found_.nodes.push_back(producer);
    user_ = producer;
    return &graph_.node(producer);
  }
  bool fits(const Node& product) const {
    const LowRankValues& v = found_.values;
    const Shape& ids = graph_.value(v.ids).shape;
    const auto is_plain = [&](ValueId weight) {
      return activation_form(graph_.value(weight).dtype) == Form::kPlain;
    };
    return v.x == product.inputs[1] && graph_.value(v.x).shape.rank() == 2 && ids[1] == Dim(1) &&
           graph_.value(v.rows).shape[0] == ids[0] && is_plain(v.a) && is_plain(v.b);
  }

  const Graph& graph_;
  const Users& users_;
  LowRank found_;
  NodeId user_ = kNoNode;
};

}  // namespace

bool is_made_before(const Graph& graph, ValueId value, NodeId node) {
  static_assert(kNoNode < 0);  // Inputs and weights are before all nodes.
  return value == kNoValue || graph.value(value).producer < node;
}

bool LowRankValues::are_made_before(const Graph& graph, NodeId node) const {
  const ValueId read[] = {x, rows, ids, factors, begins, ends, flags};
  return std::ranges::all_of(read, [&](ValueId value) { return is_made_before(graph, value, node); });
}

std::map<ValueId, LowRank> find_low_ranks(const Graph& graph, const Users& users) {
  std::map<ValueId, LowRank> all;
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    const auto id = static_cast<NodeId>(i);
    if (get_op<ops::Matmul>(graph.node(id)) == nullptr) continue;
    if (auto found = Finder(graph, users).find(id)) all.emplace(graph.node(id).output, std::move(*found));
  }
  return all;
}

UsesLaunch::UsesLaunch(const Graph& graph, const LowRankValues& values, const ExpertGroupsLaunch* groups)
    : groups_(groups),
      values_(values),
      rows_dim_(graph.value(values.begins).shape[0]),
      uses_dim_(graph.value(values.ids).shape[0]),
      of_rows_(to_size(rows_dim_.value(graph.bounds()))),
      order_(of_rows_.size()),
      x_rows_(to_size(uses_dim_.value(graph.bounds()))),
      experts_(to_size(groups->n_experts())),
      begin_(experts_.size() + 2) {}

bool UsesLaunch::serves(const LowRankValues& values, const ExpertGroupsLaunch* groups) const {
  return groups == groups_ && values.choices() == values_.choices();
}

std::span<const std::int32_t> UsesLaunch::rows(std::int64_t expert) const {
  const std::span<const std::int32_t> slots = groups_->slots(expert);
  return {x_rows_.data() + (slots.data() - groups_->slots(0).data()), slots.size()};
}

void UsesLaunch::bind(const Addresses& addresses) {
  x_row_of_ = addresses.plain<const std::int32_t>(values_.rows);
  ids_ = addresses.plain<const std::int32_t>(values_.ids);
  begins_ = addresses.plain<const std::int32_t>(values_.begins);
  ends_ = addresses.plain<const std::int32_t>(values_.ends);
  flags_ = addresses.plain<const std::int32_t>(values_.flags);
}

std::int32_t UsesLaunch::prepare(const StepInfo& step) {
  n_rows_ = rows_dim_.value(step.symbols);
  n_uses_ = uses_dim_.value(step.symbols);
  return n_uses_ > 0 ? 1 : 0;
}

void UsesLaunch::run(std::int32_t, const TaskContext&) {
  n_experts_used_ = 0;
  std::size_t at = 0;
  // Rows that a step computes may be any, and take the nearest (ops::GetRows).
  const auto last_row = static_cast<std::int32_t>(std::max<std::int64_t>(n_rows_ - 1, 0));
  for (std::int64_t expert = 0; expert < groups_->n_experts(); ++expert) {
    const std::span<const std::int32_t> slots = groups_->slots(expert);
    if (!slots.empty()) experts_[n_experts_used_++] = static_cast<std::int32_t>(expert);
    for (const std::int32_t use : slots) x_rows_[at++] = std::clamp(x_row_of_[use], 0, last_row);
  }
  // Sorted by the expert of the first use; unchanged rows follow.
  const auto key = [&](std::int64_t row) {
    const UseRange uses = of_rows_[to_size(row)];
    return uses.begin == uses.end ? experts_.size() : to_size(ids_[uses.begin]);
  };
  std::fill(begin_.begin(), begin_.end(), 0);
  const auto n_uses = static_cast<std::int32_t>(n_uses_);
  for (std::int64_t row = 0; row < n_rows_; ++row) {
    UseRange uses;
    if (flags_[row] != 0) {
      uses.begin = std::clamp(begins_[row], 0, n_uses);
      uses.end = std::clamp(ends_[row], uses.begin, n_uses);
    }
    of_rows_[to_size(row)] = uses;
    ++begin_[key(row) + 1];
  }
  for (std::size_t i = 1; i < begin_.size(); ++i) begin_[i] += begin_[i - 1];
  for (std::int64_t row = 0; row < n_rows_; ++row)
    order_[to_size(begin_[key(row)]++)] = static_cast<std::int32_t>(row);
}

std::size_t UsesLaunch::held_bytes() const {
  return of_rows_.size() * sizeof(UseRange) +
         (order_.size() + x_rows_.size() + experts_.size() + begin_.size()) * sizeof(std::int32_t);
}

std::string UsesLaunch::describe(const Graph& graph) const {
  return "uses " + graph.value(values_.begins).name;
}

LowRankLaunch::LowRankLaunch(const Graph& graph, const LowRankValues& values, const UsesLaunch* uses)
    : values_(values),
      uses_(uses),
      uses_dim_(graph.value(values.ids).shape[0]),
      rank_(graph.value(values.a).shape[1].constant()),
      scratch_bytes_(multiply_scratch_bytes(graph, values.a)) {}

void LowRankLaunch::bind(const Addresses& addresses) {
  experts_ = addresses.matrix(values_.a)->matrices();
  x_ = addresses.plain<const float>(values_.x);
  factors_ = addresses.plain<const float>(values_.factors);
  low_ = addresses.plain<float>(values_.low);
}

std::int32_t LowRankLaunch::prepare(const StepInfo& step) {
  const std::int64_t n_uses = uses_dim_.value(step.symbols);
  const PackedMatrix& a = experts_[0];
  const std::size_t panel_bytes = packed_bytes(a.dtype, kPanelRows, a.columns);
  panels_per_task_ = std::max<std::int64_t>(1, static_cast<std::int64_t>(kBytesPerTask / panel_bytes));
  panel_tasks_ = (a.n_panels() + panels_per_task_ - 1) / panels_per_task_;
  return static_cast<std::int32_t>(panel_tasks_ *
                                   std::min(n_uses, static_cast<std::int64_t>(experts_.size())));
}

void LowRankLaunch::run(std::int32_t task, const TaskContext& context) {
  const auto which = to_size(task / panel_tasks_);
  if (which >= uses_->experts().size()) return;
  const std::int32_t expert = uses_->experts()[which];
  const std::span<const std::int32_t> slots = uses_->groups().slots(expert);
  const PackedMatrix& a = experts_[to_size(expert)];
  MatmulArgs args;
  args.weight = &a;
  args.x = reinterpret_cast<const std::byte*>(x_);
  args.x_row_bytes = to_size(a.columns) * sizeof(float);
  args.x_rows = uses_->rows(expert).data();
  args.out = low_;
  args.out_stride = rank_;
  args.out_rows = slots.data();
  const std::int64_t first = task % panel_tasks_ * panels_per_task_;
  const Range panels = {first, std::min(first + panels_per_task_, a.n_panels())};
  multiply(context, args, panels, {0, static_cast<std::int64_t>(slots.size())});
  const std::int64_t begin = panels.begin * kPanelRows, end = std::min(panels.end * kPanelRows, rank_);
  for (const std::int32_t use : slots) {
    float* const row = low_ + use * rank_ + begin;
    context.kernels.scale_row(row, factors_[use], end - begin, row);
  }
}

Work LowRankLaunch::work() const {
  Work sum;
  const PackedMatrix& a = experts_[0];
  for (const std::int32_t expert : uses_->experts()) {
    sum.bytes += static_cast<double>(matrix_bytes(a));
    const auto n_rows = static_cast<double>(uses_->groups().slots(expert).size());
    sum.multiply_adds += multiply_adds_of(a.dtype, static_cast<double>(a.rows * a.columns) * n_rows);
  }
  return sum;
}

std::string LowRankLaunch::describe(const Graph& graph) const {
  return "low_rank " + graph.value(values_.a).name + " -> " + graph.value(values_.low).name;
}

}  // namespace weft::cpu
