#include "backend/cpu/launches/matmul.h"

#include <algorithm>

#include "backend/cpu/launches/screen.h"
#include "base/to_size.h"

namespace weft::cpu {
namespace {

// A task streams this much of a weight at least: less, and the stream stops and starts too often. With few
// columns more is better, as long as every thread has a task. Beyond that, tasks grow with the weight up to
// the most, as long as each thread has enough tasks that none waits long for another.
constexpr std::size_t kLeastBytesPerTask = std::size_t{48} << 10;
constexpr std::size_t kLeastBytesOfFewColumns = std::size_t{96} << 10;
constexpr std::size_t kMostBytesPerTask = std::size_t{256} << 10;
constexpr std::size_t kMatmulTasksPerThread = 32;
// Columns of one task: their activations stay in the second-level cache while panels pass by.
constexpr std::int64_t kColumnsPerTask = 128;
// More columns, and a product computes longer than it waits for memory.
constexpr std::int64_t kFewColumns = 8;

/// `panel_bytes` includes the gate's panel.
std::int64_t panels_per_task(std::size_t panel_bytes, std::int64_t n_panels, int n_threads,
                             bool few_columns) {
  const std::size_t share = panel_bytes * to_size(n_panels) / to_size(n_threads);
  const std::size_t least =
      few_columns ? std::clamp(share, kLeastBytesPerTask, kLeastBytesOfFewColumns) : kLeastBytesPerTask;
  const std::size_t bytes = std::clamp(share / kMatmulTasksPerThread, least, kMostBytesPerTask);
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(bytes / std::max<std::size_t>(panel_bytes, 1)));
}

std::string describe_product(const Graph& graph, const MatmulValues& values, const char* name, bool best,
                             bool quantised) {
  std::string text = std::string(name) + " " + graph.value(values.weight).name;
  if (values.gate != kNoValue) text += " gated by " + graph.value(values.gate).name;
  if (values.bias != kNoValue) text += " + bias";
  if (values.low_rank.used() || values.gate_low_rank.used()) text += " + adapters";
  if (values.activation != Activation::kNone) text += " + activation";
  if (values.residual != kNoValue) text += " + " + graph.value(values.residual).name;
  if (best) text += " best";
  text += " -> " + graph.value(values.out).name;
  return quantised ? text + " quantised" : text;
}

/// The work of a product with n columns, and with a gate or null.
Work work_of(const PackedMatrix& weight, const PackedMatrix* gate, std::int64_t n) {
  const double size = static_cast<double>(weight.rows) * static_cast<double>(weight.columns);
  Work work = {static_cast<double>(matrix_bytes(weight)),
               multiply_adds_of(weight.dtype, size * static_cast<double>(n))};
  if (gate != nullptr) work += work_of(*gate, nullptr, n);
  return work;
}

/// Binds all but what depends on the expert. `x_columns` is the length of a row of x.
void bind_args(MatmulArgs& args, const MatmulValues& values, const Addresses& addresses,
               std::int64_t x_columns) {
  const PackedMatrix& weight = addresses.matrix(values.weight)->matrices()[0];
  const Form form = activation_form(weight.dtype);
  args.activation = values.activation;
  if (values.bias != kNoValue) args.bias = addresses.plain<const float>(values.bias);
  if (values.gate_bias != kNoValue) args.gate_bias = addresses.plain<const float>(values.gate_bias);
  if (values.residual != kNoValue) args.residual = addresses.plain<const float>(values.residual);
  args.x = addresses.in_form(values.x, form);
  args.x_row_bytes =
      form == Form::kPlain ? to_size(x_columns) * sizeof(float) : activation_row_bytes(form, x_columns);
  args.out = addresses.plain<float>(values.out);
  args.out_stride = weight.rows;
}

LowRankArgs bind_low_rank(const LowRankValues& values, const Addresses& addresses, const UsesLaunch& uses) {
  const std::span<const PackedMatrix> experts = addresses.matrix(values.b)->matrices();
  return {.experts = experts.data(),
          .n_experts = static_cast<std::int32_t>(experts.size()),
          .low = addresses.plain<const float>(values.low),
          .ids = addresses.plain<const std::int32_t>(values.ids),
          .uses = uses.of_rows()};
}

/// The weight's rows in its panels: columns of the output.
Range rows_of(Range panels, const PackedMatrix& weight) {
  return {panels.begin * kPanelRows, std::min<std::int64_t>(panels.end * kPanelRows, weight.rows)};
}

/// One panel of a canonical matrix, packed into `to`, as a matrix of its own.
PackedMatrix pack_one(const PackedMatrix& matrix, std::int64_t panel, std::byte* to) {
  const std::int64_t row = panel * kPanelRows;
  const std::size_t stride = row_bytes(matrix.dtype, matrix.columns);
  PackedMatrix one =
      packed_shape(matrix.dtype, std::min<std::int64_t>(kPanelRows, matrix.rows - row), matrix.columns);
  one.data = to;
  pack_panels(one.dtype, one.rows, one.columns, matrix.canonical + to_size(row) * stride, 0, 1, to);
  return one;
}

constexpr std::size_t in_lines(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

/// Packs one panel of the experts that columns use, after a table of all experts.
LowRankArgs pack_used(const LowRankArgs& args, const std::int32_t* out_rows, Range columns,
                      std::int64_t panel, std::byte* to) {
  LowRankArgs packed = args;
  auto* const experts = reinterpret_cast<PackedMatrix*>(to);
  std::byte* next = to + in_lines(to_size(args.n_experts) * sizeof(PackedMatrix));
  std::uninitialized_fill_n(experts, args.n_experts,
                            packed_shape(args.experts[0].dtype, kPanelRows, args.experts[0].columns));
  for (std::int64_t c = columns.begin; c < columns.end; ++c) {
    const UseRange uses = args.uses[out_rows[c]];
    for (std::int32_t use = uses.begin; use < uses.end; ++use) {
      PackedMatrix& expert = experts[args.ids[use]];
      if (expert.data != nullptr) continue;
      expert = pack_one(args.experts[args.ids[use]], panel, next);
      next += expert.panel_bytes;
    }
  }
  packed.experts = experts;
  return packed;
}
std::size_t pack_used_bytes(const Graph& graph, const LowRankValues& values) {
  if (!values.used()) return 0;
  const ValueInfo& b = graph.value(values.b);
  const auto n_experts = to_size(b.shape[0].constant());
  return in_lines(n_experts * sizeof(PackedMatrix)) +
         n_experts * packed_shape(b.dtype, kPanelRows, b.shape[2].constant()).panel_bytes;
}

}  // namespace

void multiply(const TaskContext& context, const MatmulArgs& args, Range panels, Range columns) {
  if (args.weight->canonical == nullptr) return context.kernels.matmul(args, panels, columns);
  for (std::int64_t p = panels.begin; p < panels.end; ++p) {
    const PackedMatrix weight = pack_one(*args.weight, p, context.scratch);
    PackedMatrix gate;
    MatmulArgs one = args;
    one.weight = &weight;
    if (args.gate != nullptr) {
      gate = pack_one(*args.gate, p, context.scratch + weight.panel_bytes);
      one.gate = &gate;
    }
    const std::int64_t row = p * kPanelRows;
    if (one.bias != nullptr) one.bias += row;
    if (one.gate_bias != nullptr) one.gate_bias += row;
    if (one.residual != nullptr) one.residual += row;
    one.out += row;
    one.best.first_index = static_cast<std::int32_t>(row);
    context.kernels.matmul(one, {0, 1}, columns);
  }
}

std::size_t multiply_scratch_bytes(const Graph& graph, ValueId weight) {
  // A panel of it, and one of its gate.
  const ValueInfo& info = graph.value(weight);
  return 2 * packed_shape(info.dtype, kPanelRows, info.shape.columns()).panel_bytes;
}

MatmulLaunch::MatmulLaunch(const Graph& graph, const MatmulValues& values, std::shared_ptr<Taken> taken,
                           const UsesLaunch* uses)
    : values_(values),
      taken_(std::move(taken)),
      uses_(uses),
      rows_(graph.value(values.x).shape.row_dim()),
      uses_dim_(uses != nullptr ? graph.value(uses->values().ids).shape[0] : Dim(0)),
      max_rows_(rows_.value(graph.bounds())),
      n_outputs_(graph.value(values.weight).shape[0].constant()),
      experts_at_(in_lines(multiply_scratch_bytes(graph, values.weight))),
      gate_experts_at_(experts_at_ + in_lines(pack_used_bytes(graph, values.low_rank))),
      scratch_bytes_(gate_experts_at_ + pack_used_bytes(graph, values.gate_low_rank)),
      can_screen_(taken_ != nullptr && can_screen(graph, values)) {}

bool MatmulLaunch::make_form(Form form) {
  if (quantised_.used() || taken_ != nullptr) return false;
  quantised_ = QuantisedOutput(form, n_outputs_, (max_rows_ + kColumnsPerTask - 1) / kColumnsPerTask);
  return true;
}

void MatmulLaunch::bind(const Addresses& addresses) {
  args_ = {};
  args_.weight = &addresses.matrix(values_.weight)->matrices()[0];
  if (values_.gate != kNoValue) args_.gate = &addresses.matrix(values_.gate)->matrices()[0];
  bind_args(args_, values_, addresses, args_.weight->columns);
  if (values_.low_rank.used()) bound_low_rank_ = bind_low_rank(values_.low_rank, addresses, *uses_);
  if (values_.gate_low_rank.used())
    bound_gate_low_rank_ = bind_low_rank(values_.gate_low_rank, addresses, *uses_);
  if (quantised_.used()) quantised_.bind(addresses, values_.out, args_.out);
  if (taken_ == nullptr) return;
  taken_->bind(addresses);
  args_.best = {.n = taken_->best.n(), .counts = taken_->best.counts(), .softcap = values_.softcap};
}

std::int32_t MatmulLaunch::prepare(const StepInfo& step) {
  n_columns_ = rows_.value(step.symbols);
  n_uses_ = uses_dim_.value(step.symbols);
  if (taken_ != nullptr) taken_->begin_step(step, n_columns_);
  if (n_columns_ == 0 || (can_screen_ && screens(*args_.weight, n_columns_, *taken_))) return 0;
  const std::int64_t n_panels = args_.weight->n_panels();
  columns_per_task_ = std::min(n_columns_, kColumnsPerTask);
  panels_per_task_ = panels_per_task(args_.weight->panel_bytes * (args_.gate != nullptr ? 2 : 1), n_panels,
                                     step.n_threads, n_columns_ <= kFewColumns);
  panel_tasks_ = (n_panels + panels_per_task_ - 1) / panels_per_task_;
  const std::int64_t n_blocks = (n_columns_ + columns_per_task_ - 1) / columns_per_task_;
  quantised_.begin_step(step);
  return static_cast<std::int32_t>(panel_tasks_ * n_blocks);
}

void MatmulLaunch::run(std::int32_t task, const TaskContext& context) { run_all(task, task + 1, context); }

void MatmulLaunch::run_all(std::int32_t begin, std::int32_t end, const TaskContext& context) {
  MatmulArgs args = args_;
  if (taken_ != nullptr) {
    args.best.lists = taken_->best.of_thread(context.thread);
    taken_->copies.ask(args);
    taken_->log_sums.ask(args);
  }
  const std::int32_t* const order = n_uses_ > 0 ? uses_->order() : nullptr;
  if (order != nullptr) {
    args.x_rows = args.out_rows = order;
    if (values_.low_rank.used()) args.low_rank = bound_low_rank_;
    if (values_.gate_low_rank.used()) args.gate_low_rank = bound_gate_low_rank_;
  }
  while (begin < end) {
    const std::int64_t block = begin / panel_tasks_;
    const std::int64_t first = begin % panel_tasks_;
    const std::int64_t n = std::min<std::int64_t>(end - begin, panel_tasks_ - first);
    const std::int64_t column = block * columns_per_task_;
    const Range panels = {first * panels_per_task_,
                          std::min((first + n) * panels_per_task_, args_.weight->n_panels())};
    const Range columns = {column, std::min(column + columns_per_task_, n_columns_)};
    multiply_panels(args, panels, columns, context);
    if (quantised_.used()) {
      const Range whole = quantised_.whole_groups(block, rows_of(panels, *args_.weight));
      quantised_.write(context.kernels, order, columns, whole);
    }
    begin += static_cast<std::int32_t>(n);
  }
}

void MatmulLaunch::multiply_panels(const MatmulArgs& args, Range panels, Range columns,
                                   const TaskContext& context) const {
  const bool is_packed = args.weight->canonical == nullptr;
  if (is_packed || (args.low_rank.experts == nullptr && args.gate_low_rank.experts == nullptr))
    return multiply(context, args, panels, columns);
  for (std::int64_t panel = panels.begin; panel < panels.end; ++panel) {
    MatmulArgs one = args;
    const auto pack = [&](LowRankArgs& added, std::size_t at) {
      if (added.experts != nullptr)
        added = pack_used(added, args.out_rows, columns, panel, context.scratch + at);
    };
    pack(one.low_rank, experts_at_);
    pack(one.gate_low_rank, gate_experts_at_);
    multiply(context, one, {panel, panel + 1}, columns);
  }
}

bool MatmulLaunch::computes() const { return n_columns_ > kFewColumns; }

std::span<const std::byte> MatmulLaunch::weights_from(std::int32_t task) const {
  const PackedMatrix& weight = *args_.weight;
  if (n_columns_ > kFewColumns || weight.canonical != nullptr) return {};
  const auto begin = to_size(task * panels_per_task_) * weight.panel_bytes;
  return {weight.data + begin, to_size(weight.n_panels()) * weight.panel_bytes - begin};
}

Work MatmulLaunch::work() const {
  Work sum = work_of(*args_.weight, args_.gate, n_columns_);
  for (const LowRankArgs* added : {&bound_low_rank_, &bound_gate_low_rank_}) {
    if (added->experts == nullptr || n_uses_ == 0) continue;
    for (const std::int32_t expert : uses_->experts())
      sum += work_of(added->experts[expert], nullptr,
                     static_cast<std::int64_t>(uses_->groups().slots(expert).size()));
  }
  return sum;
}

std::string MatmulLaunch::describe(const Graph& graph) const {
  return describe_product(graph, values_, "matmul", taken_ != nullptr, quantised_.used());
}

ExpertGroupsLaunch::ExpertGroupsLaunch(const Graph& graph, ValueId ids, std::int64_t n_experts)
    : ids_id_(ids),
      rows_(graph.value(ids).shape[0]),
      n_used_(static_cast<std::int32_t>(graph.value(ids).shape[1].constant())),
      begin_(to_size(n_experts) + 1) {
  const auto slots = to_size(rows_.value(graph.bounds()) * n_used_);
  slots_.resize(slots);
  slot_rows_.resize(slots);
  active_.reserve(std::min(slots, to_size(n_experts)));
}

void ExpertGroupsLaunch::bind(const Addresses& addresses) {
  ids_ = addresses.plain<const std::int32_t>(ids_id_);
}

std::int32_t ExpertGroupsLaunch::prepare(const StepInfo& step) {
  n_rows_ = rows_.value(step.symbols);
  return 1;
}

void ExpertGroupsLaunch::run(std::int32_t, const TaskContext&) {
  const std::int64_t n_slots = n_rows_ * n_used_;
  std::fill(begin_.begin(), begin_.end(), 0);
  for (std::int64_t s = 0; s < n_slots; ++s) ++begin_[to_size(ids_[s]) + 1];
  for (std::size_t e = 1; e < begin_.size(); ++e) begin_[e] += begin_[e - 1];
  for (std::int64_t s = 0; s < n_slots; ++s) {
    auto& next = begin_[to_size(ids_[s])];
    slots_[to_size(next)] = static_cast<std::int32_t>(s);
    slot_rows_[to_size(next)] = static_cast<std::int32_t>(s / n_used_);
    ++next;
  }
  // Each begin_[e] has moved to the end of e, which is the beginning of e + 1.
  for (std::size_t e = begin_.size() - 1; e > 0; --e) begin_[e] = begin_[e - 1];
  begin_[0] = 0;
  active_.clear();
  for (std::size_t e = 0; e + 1 < begin_.size(); ++e)
    if (begin_[e] < begin_[e + 1]) active_.push_back(static_cast<std::int32_t>(e));
}

std::string ExpertGroupsLaunch::describe(const Graph& graph) const {
  return "expert_groups " + graph.value(ids_id_).name;
}

MatmulExpertsLaunch::MatmulExpertsLaunch(const Graph& graph, const MatmulValues& values,
                                         const ExpertGroupsLaunch* groups)
    : values_(values),
      groups_(groups),
      x_per_slot_(graph.value(values.x).shape.rank() == 3),
      rows_(graph.value(values.x).shape[0]),
      n_experts_(graph.value(values.weight).shape[0].constant()),
      n_outputs_(graph.value(values.weight).shape[1].constant()),
      scratch_bytes_(multiply_scratch_bytes(graph, values.weight)) {}

bool MatmulExpertsLaunch::make_form(Form form) {
  if (quantised_.used()) return false;
  quantised_ = QuantisedOutput(form, n_outputs_, n_experts_);
  return true;
}

void MatmulExpertsLaunch::bind(const Addresses& addresses) {
  args_ = {};
  weights_ = addresses.matrix(values_.weight)->matrices();
  if (values_.gate != kNoValue) gates_ = addresses.matrix(values_.gate)->matrices();
  bind_args(args_, values_, addresses, weights_[0].columns);
  if (quantised_.used()) quantised_.bind(addresses, values_.out, args_.out);
}

std::int32_t MatmulExpertsLaunch::prepare(const StepInfo& step) {
  const std::int64_t n_rows = rows_.value(step.symbols);
  if (n_rows == 0) return 0;
  // Which experts are active is known when the rows before have run; not that they are more than these.
  const std::int64_t most_active = groups_->most_active(n_rows);
  const PackedMatrix& weight = weights_[0];
  panels_per_task_ = panels_per_task(weight.panel_bytes * (gates_.empty() ? 1 : 2), weight.n_panels(),
                                     step.n_threads, n_rows <= kFewColumns);
  panel_tasks_ = (weight.n_panels() + panels_per_task_ - 1) / panels_per_task_;
  computes_ = n_rows * groups_->n_used() > kFewColumns * groups_->n_experts();
  quantised_.begin_step(step);
  return static_cast<std::int32_t>(panel_tasks_ * most_active);
}

void MatmulExpertsLaunch::run(std::int32_t task, const TaskContext& context) {
  run_all(task, task + 1, context);
}

void MatmulExpertsLaunch::run_all(std::int32_t begin, std::int32_t end, const TaskContext& context) {
  const std::span<const std::int32_t> active = groups_->active();
  while (begin < end) {
    const auto place = to_size(begin / panel_tasks_);
    if (place >= active.size()) return;
    const std::int64_t first = begin % panel_tasks_;
    const std::int64_t n = std::min<std::int64_t>(end - begin, panel_tasks_ - first);
    multiply_expert(
        active[place],
        {first * panels_per_task_, std::min((first + n) * panels_per_task_, weights_[0].n_panels())},
        context);
    begin += static_cast<std::int32_t>(n);
  }
}

void MatmulExpertsLaunch::multiply_expert(std::int64_t expert, Range panels, const TaskContext& context) {
  const std::span<const std::int32_t> slots = groups_->slots(expert);
  const auto e = to_size(expert);
  MatmulArgs args = args_;
  args.weight = &weights_[e];
  args.gate = gates_.empty() ? nullptr : &gates_[e];
  args.x_rows = x_per_slot_ ? slots.data() : groups_->rows(expert).data();
  args.out_rows = slots.data();
  multiply(context, args, panels, {0, static_cast<std::int64_t>(slots.size())});
  if (!quantised_.used()) return;
  const Range whole = quantised_.whole_groups(expert, rows_of(panels, *args.weight));
  quantised_.write(context.kernels, slots.data(), {0, static_cast<std::int64_t>(slots.size())}, whole);
}

Work MatmulExpertsLaunch::work() const {
  Work sum;
  for (const std::int32_t e : groups_->active())
    sum += work_of(weights_[to_size(e)], gates_.empty() ? nullptr : &gates_[to_size(e)],
                   static_cast<std::int64_t>(groups_->slots(e).size()));
  return sum;
}

std::string MatmulExpertsLaunch::describe(const Graph& graph) const {
  return describe_product(graph, values_, "matmul_experts", false, quantised_.used());
}

}  // namespace weft::cpu
