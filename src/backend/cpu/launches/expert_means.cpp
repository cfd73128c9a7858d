#include "backend/cpu/launches/expert_means.h"

#include <algorithm>

#include "backend/cpu/launches/ragged.h"

namespace weft::cpu {
namespace {

/// Of an expert's matrix, for a task: tasks follow one another as the experts lie in memory, so that they are
/// one stream.
constexpr std::size_t kBytesPerTask = std::size_t{48} << 10;
/// Products that are kept until means are made of them.
constexpr std::int64_t kProductBytes = 128 * 1024;
constexpr std::int64_t kPanelRowBytes = kPanelRows * static_cast<std::int64_t>(sizeof(float));

std::size_t in_lines(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

std::int64_t most_panels(std::int64_t n_uses) {
  return std::max<std::int64_t>(1, kProductBytes / (std::max<std::int64_t>(n_uses, 1) * kPanelRowBytes));
}

}  // namespace

std::optional<ExpertMeans> expert_means(const Graph& graph, ValueId y,
                                        const std::function<std::span<const NodeId>(ValueId)>& users) {
  const auto is_read_by = [&](ValueId value, NodeId user) {
    return users(value).size() == 1 && users(value)[0] == user && !graph.is_output(value);
  };
  ExpertMeans means;
  NodeId add = kNoNode;
  if (users(y).size() != 2 || graph.is_output(y)) return std::nullopt;
  for (const NodeId user : users(y)) {
    if (get_op<ops::Add>(graph.node(user)) != nullptr) add = user;
    if (get_op<ops::Override>(graph.node(user)) != nullptr) means.last = user;
  }
  if (add == kNoNode || means.last == kNoNode) return std::nullopt;
  const Node& override_node = graph.node(means.last);
  const Node& add_node = graph.node(add);
  if (override_node.inputs[0] != y || override_node.inputs[1] != add_node.output || add_node.inputs[0] != y ||
      !is_read_by(add_node.output, means.last))
    return std::nullopt;
  means.out = override_node.output;
  means.flags = override_node.inputs[2];
  means.between.push_back(add);
  // Backwards: each is made by a node of that kind, for the one before alone.
  NodeId user = add;
  const auto made_by = [&]<typename T>(T, ValueId value) -> const Node* {
    const NodeId producer = graph.value(value).producer;
    if (producer == kNoNode || !is_read_by(value, user) || get_op<T>(graph.node(producer)) == nullptr)
      return nullptr;
    means.between.push_back(producer);
    user = producer;
    return &graph.node(producer);
  };
  const Node* const mean = made_by(ops::RaggedMean{}, add_node.inputs[1]);
  if (mean == nullptr || !(graph.value(mean->output).shape == graph.value(y).shape)) return std::nullopt;
  means.begins = mean->inputs[1];
  means.ends = mean->inputs[2];
  const Node* const each = made_by(ops::Reshape{}, mean->inputs[0]);
  const Node* const product = each != nullptr ? made_by(ops::MatmulExperts{}, each->inputs[0]) : nullptr;
  if (product == nullptr) return std::nullopt;
  means.weight = product->inputs[0];
  means.ids = product->inputs[2];
  const Node* const weighted = made_by(ops::SumExperts{}, product->inputs[1]);
  if (weighted == nullptr) return std::nullopt;
  means.x = weighted->inputs[0];
  means.factors = weighted->inputs[1];
  const Shape &ids = graph.value(means.ids).shape, &rows = graph.value(mean->inputs[0]).shape;
  const bool of_one = ids[1] == Dim(1) && graph.value(means.x).shape[1] == Dim(1);
  if (!of_one || rows.rank() != 2 || !(rows[0] == ids[0]) ||
      activation_form(graph.value(means.weight).dtype) != Form::kPlain)
    return std::nullopt;
  return means;
}

UseRowsLaunch::UseRowsLaunch(const Graph& graph, const ExpertMeans& values, const ExpertGroupsLaunch* groups)
    : groups_(groups),
      begins_id_(values.begins),
      ends_id_(values.ends),
      flags_id_(values.flags),
      rows_dim_(graph.value(values.begins).shape[0]),
      uses_dim_(graph.value(values.ids).shape[0]),
      rows_(static_cast<std::size_t>(uses_dim_.value(graph.bounds()))),
      of_uses_(rows_.size()) {}

bool UseRowsLaunch::serves(const ExpertMeans& values, const ExpertGroupsLaunch* groups) const {
  return groups == groups_ && values.begins == begins_id_ && values.ends == ends_id_ &&
         values.flags == flags_id_;
}

std::span<const std::int32_t> UseRowsLaunch::rows(std::int64_t expert) const {
  const std::span<const std::int32_t> slots = groups_->slots(expert);
  const std::int64_t first = slots.data() - groups_->slots(0).data();
  return {rows_.data() + first, slots.size()};
}

void UseRowsLaunch::bind(const Addresses& addresses) {
  begins_ = addresses.plain<const std::int32_t>(begins_id_);
  ends_ = addresses.plain<const std::int32_t>(ends_id_);
  flags_ = addresses.plain<const std::int32_t>(flags_id_);
}

std::int32_t UseRowsLaunch::prepare(const StepInfo& step) {
  n_rows_ = rows_dim_.value(step.symbols);
  n_uses_ = uses_dim_.value(step.symbols);
  return n_uses_ > 0 ? 1 : 0;
}

void UseRowsLaunch::run(std::int32_t, const TaskContext&) {
  one_each_ = find_rows();
  if (!one_each_) return;
  std::size_t at = 0;
  for (std::int64_t expert = 0; expert < groups_->n_experts(); ++expert)
    for (const std::int32_t use : groups_->slots(expert))
      rows_[at++] = of_uses_[static_cast<std::size_t>(use)];
}

bool UseRowsLaunch::find_rows() {
  constexpr std::int32_t kNoRow = -1;
  std::fill_n(of_uses_.begin(), n_uses_, kNoRow);
  std::int64_t n_found = 0;
  for (std::int64_t r = 0; r < n_rows_; ++r) {
    if (flags_[r] == 0 || begins_[r] >= ends_[r]) continue;
    const std::int32_t use = begins_[r];
    if (std::int64_t{ends_[r]} - use != 1 || use < 0 || use >= n_uses_) return false;
    std::int32_t& row = of_uses_[static_cast<std::size_t>(use)];
    if (row != kNoRow) return false;
    row = static_cast<std::int32_t>(r);
    ++n_found;
  }
  return n_found == n_uses_;
}

std::string UseRowsLaunch::describe(const Graph& graph) const {
  return "use_rows " + graph.value(begins_id_).name;
}

ExpertMeansLaunch::ExpertMeansLaunch(const Graph& graph, const ExpertMeans& values,
                                     const ExpertGroupsLaunch* groups, const UseRowsLaunch* rows)
    : values_(values),
      groups_(groups),
      use_rows_(rows),
      rows_(graph.value(values.out).shape[0]),
      uses_(graph.value(values.ids).shape[0]),
      n_inputs_(graph.value(values.weight).shape[2].constant()),
      n_outputs_(graph.value(values.weight).shape[1].constant()) {
  const std::int64_t n_uses = uses_.value(graph.bounds());
  const auto bytes_of = [](std::int64_t floats) {
    return in_lines(static_cast<std::size_t>(floats) * sizeof(float));
  };
  weighted_at_ = in_lines(multiply_scratch_bytes(graph, values.weight));
  products_at_ = weighted_at_ + bytes_of(n_uses * n_inputs_);
  // With few uses, products of more columns.
  mean_at_ = products_at_ + std::max<std::size_t>(kProductBytes, bytes_of(n_uses * kPanelRows));
  end_ = mean_at_ + std::max<std::size_t>(kProductBytes, kPanelRowBytes);
}

void ExpertMeansLaunch::bind(const Addresses& addresses) {
  weights_ = addresses.matrix(values_.weight)->matrices();
  x_ = addresses.plain<const float>(values_.x);
  factors_ = addresses.plain<const float>(values_.factors);
  begins_ = addresses.plain<const std::int32_t>(values_.begins);
  ends_ = addresses.plain<const std::int32_t>(values_.ends);
  flags_ = addresses.plain<const std::int32_t>(values_.flags);
  out_ = addresses.plain<float>(values_.out);
}

std::int32_t ExpertMeansLaunch::prepare(const StepInfo& step) {
  n_rows_ = rows_.value(step.symbols);
  n_uses_ = uses_.value(step.symbols);
  if (n_rows_ == 0 || n_uses_ == 0) return 0;
  const PackedMatrix& weight = weights_[0];
  const std::size_t panel_bytes = packed_bytes(weight.dtype, kPanelRows, weight.columns);
  panels_per_task_ = std::max<std::int64_t>(1, static_cast<std::int64_t>(kBytesPerTask / panel_bytes));
  tasks_of_expert_ = (weight.n_panels() + panels_per_task_ - 1) / panels_per_task_;
  return static_cast<std::int32_t>(tasks_of_expert_ * static_cast<std::int64_t>(weights_.size()));
}

ExpertMeansLaunch::Part ExpertMeansLaunch::part_of(std::int64_t begin, std::int64_t end) const {
  end = std::min(end, weights_[0].n_panels());
  const std::int64_t column = begin * kPanelRows;
  return {begin, end - begin, column, std::min(end * kPanelRows, n_outputs_) - column};
}

// A task is a part of an expert's matrix; where means are made, a part of the columns for all experts.
void ExpertMeansLaunch::run(std::int32_t task, const TaskContext& context) {
  if (use_rows_->one_each()) {
    const std::int64_t begin = task % tasks_of_expert_ * panels_per_task_;
    return add_products(static_cast<std::size_t>(task / tasks_of_expert_),
                        part_of(begin, begin + panels_per_task_), context);
  }
  const std::int64_t n_tasks = tasks_of_expert_ * static_cast<std::int64_t>(weights_.size());
  const std::int64_t n_panels = weights_[0].n_panels();
  const std::int64_t end = (task + 1) * n_panels / n_tasks;
  for (std::int64_t begin = task * n_panels / n_tasks; begin < end; begin += most_panels(n_uses_))
    add_means(part_of(begin, std::min(begin + most_panels(n_uses_), end)), context);
}

/// Of the expert's uses.
void ExpertMeansLaunch::multiply_expert(std::size_t expert, const Part& part, MatmulArgs args,
                                        const TaskContext& context) const {
  const std::span<const std::int32_t> uses = groups_->slots(static_cast<std::int64_t>(expert));
  if (uses.empty()) return;
  auto* const weighted = reinterpret_cast<float*>(context.scratch + weighted_at_);
  for (const std::int32_t use : uses)
    context.kernels.scale_row(x_ + use * n_inputs_, factors_[use], n_inputs_, weighted + use * n_inputs_);
  PackedMatrix weight = weights_[expert];
  weight.rows = part.n_columns;
  if (weight.canonical != nullptr)
    weight.canonical += static_cast<std::size_t>(part.column) * row_bytes(weight.dtype, weight.columns);
  else
    weight.data += static_cast<std::size_t>(part.panel) * weight.panel_bytes;
  args.weight = &weight;
  args.x = reinterpret_cast<const std::byte*>(weighted);
  args.x_row_bytes = static_cast<std::size_t>(n_inputs_) * sizeof(float);
  args.x_rows = uses.data();
  multiply(context, args, {0, part.n_panels}, {0, static_cast<std::int64_t>(uses.size())});
}

void ExpertMeansLaunch::add_products(std::size_t expert, const Part& part, const TaskContext& context) const {
  MatmulArgs args;
  args.out = out_ + part.column;
  args.residual = args.out;
  args.out_stride = n_outputs_;
  args.out_rows = use_rows_->rows(static_cast<std::int64_t>(expert)).data();
  multiply_expert(expert, part, args, context);
}

void ExpertMeansLaunch::add_means(const Part& part, const TaskContext& context) const {
  auto* const products = reinterpret_cast<float*>(context.scratch + products_at_);
  auto* const mean = reinterpret_cast<float*>(context.scratch + mean_at_);
  const std::int64_t stride = part.n_panels * kPanelRows;
  MatmulArgs args;
  args.out = products;
  args.out_stride = stride;
  for (std::size_t expert = 0; expert < weights_.size(); ++expert) {
    args.out_rows = groups_->slots(static_cast<std::int64_t>(expert)).data();
    multiply_expert(expert, part, args, context);
  }
  for (std::int64_t r = 0; r < n_rows_; ++r) {
    const std::int64_t begin = begins_[r], end = ends_[r];
    if (flags_[r] == 0 || begin >= end) continue;
    const float* added = mean;
    if (end - begin == 1 && begin >= 0 && end <= n_uses_)
      added = products + begin * stride;  // The same bits as where every row has one.
    else
      ragged_mean(context.kernels, products, n_uses_, stride, begin, end, part.n_columns, mean);
    float* const y = out_ + r * n_outputs_ + part.column;
    context.kernels.add_row(y, added, part.n_columns, y);
  }
}

Work ExpertMeansLaunch::work() const {
  Work sum;
  for (std::size_t e = 0; e < weights_.size(); ++e) {
    const std::size_t n = groups_->slots(static_cast<std::int64_t>(e)).size();
    if (n == 0) continue;
    sum.bytes += static_cast<double>(packed_bytes(weights_[e].dtype, n_outputs_, n_inputs_));
    sum.multiply_adds += static_cast<double>(n_outputs_ * n_inputs_) * static_cast<double>(n);
  }
  return sum;
}

std::string ExpertMeansLaunch::describe(const Graph& graph) const {
  return "expert_means " + graph.value(values_.weight).name + " + " + graph.value(values_.out).name;
}

}  // namespace weft::cpu
