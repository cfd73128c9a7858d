#include "backend/cpu/launches/row.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <unordered_map>

#include "backend/cpu/launches/best.h"
#include "backend/cpu/launches/elementwise.h"
#include "backend/rope.h"
#include "base/check.h"
#include "base/to_size.h"

namespace weft::cpu {
namespace {

constexpr std::int64_t kMaxRowsPerTask = 16;
/// Rows of images have few columns: this many elements are computed by one call of a kernel.
constexpr std::int64_t kElementsAtOnce = 512;

std::size_t row_aligned(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

std::int64_t n_log_sum_parts(std::int64_t columns) { return (columns + kLogSumPart - 1) / kLogSumPart; }
std::size_t log_sum_part_bytes(std::int64_t columns) {
  return to_size(n_log_sum_parts(columns)) * sizeof(float);
}

}  // namespace

RopeTableLaunch::RopeTableLaunch(const ops::Rope& op, ValueId positions, ValueId factors, Dim rows,
                                 std::int64_t max_rows)
    : op_(op),
      positions_id_(positions),
      factors_id_(factors),
      rows_(rows),
      table_(to_size(max_rows * op.n_rot) * sizeof(float)) {}

bool RopeTableLaunch::serves(const ops::Rope& op, ValueId positions, ValueId factors) const {
  ops::Rope same = op_;
  same.head_dim = op.head_dim;  // The table does not depend on it.
  same.neox = op.neox;
  return same == op && positions_id_ == positions && factors_id_ == factors;
}

RopeTable RopeTableLaunch::row(std::int64_t r) const {
  const float* cos = reinterpret_cast<const float*>(table_.data()) + r * op_.n_rot;
  return {cos, cos + op_.n_rot / 2, op_.n_rot, false};
}

void RopeTableLaunch::bind(const Addresses& addresses) {
  positions_ = addresses.plain<const std::int32_t>(positions_id_);
  const float* factors = factors_id_ == kNoValue ? nullptr : addresses.plain<const float>(factors_id_);
  if (!frequencies_.empty() && factors == factors_) return;
  factors_ = factors;
  frequencies_ = rope_frequencies(op_, factors);
  magnitude_ = rope_magnitude(op_);
}

std::int32_t RopeTableLaunch::prepare(const StepInfo& step) {
  n_rows_ = rows_.value(step.symbols);
  return static_cast<std::int32_t>((n_rows_ + kMaxRowsPerTask - 1) / kMaxRowsPerTask);
}

void RopeTableLaunch::run(std::int32_t task, const TaskContext&) {
  const std::int64_t begin = task * kMaxRowsPerTask;
  const std::int64_t end = std::min(begin + kMaxRowsPerTask, n_rows_);
  for (std::int64_t r = begin; r < end; ++r) {
    float* cos = reinterpret_cast<float*>(table_.data()) + r * op_.n_rot;
    float* sin = cos + op_.n_rot / 2;
    for (std::size_t i = 0; i < frequencies_.size(); ++i) {
      const double angle = positions_[r] * frequencies_[i];
      cos[i] = static_cast<float>(std::cos(angle) * magnitude_);
      sin[i] = static_cast<float>(std::sin(angle) * magnitude_);
    }
  }
}

std::string RopeTableLaunch::describe(const Graph& graph) const {
  return "rope_table(" + graph.value(positions_id_).name + ")";
}

namespace {

bool has_constant_columns(const Shape& shape) { return shape.rank() >= 2 && shape.back().is_constant(); }

/// Whether the operands of an elementwise node are rows of its result's shape, or one row for all.
bool has_row_operands(const Graph& graph, const Node& node) {
  const Shape& out = graph.value(node.output).shape;
  return has_constant_columns(out) && std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) {
           const Shape& shape = graph.value(input).shape;
           return shape == out || (shape.rank() == 1 && shape[0] == out.back());
         });
}

/// Whether values are joined within their rows.
bool joins_rows(const Graph& graph, const Node& node, const ops::Concat& op) {
  const Shape& out = graph.value(node.output).shape;
  return out.rank() == 2 && has_constant_columns(out) && (op.axis == ops::Concat::kColumns || op.axis == 1);
}

}  // namespace

std::optional<RowOp> as_row_op(const Graph& graph, const Node& node) {
  if (as_elementwise(node.op) && !has_row_operands(graph, node)) return std::nullopt;
  if (const auto* concat = get_op<ops::Concat>(node); concat != nullptr && !joins_rows(graph, node, *concat))
    return std::nullopt;
  if (get_op<ops::Softmax>(node) != nullptr && !has_constant_columns(graph.value(node.output).shape))
    return std::nullopt;
  return std::visit(
      [](const auto& o) -> std::optional<RowOp> {
        if constexpr (std::is_constructible_v<RowOp, decltype(o)>) {
          return RowOp(o);
        } else {
          return std::nullopt;
        }
      },
      node.op);
}

Dim row_domain(const Graph& graph, const Node& node) {
  if (get_op<ops::StoreCache>(node) != nullptr) return graph.value(node.inputs[1]).shape.row_dim();
  const Shape& shape = graph.value(node.output).shape;
  return shape.row_dim();
}

void RowLaunch::add(RowOp op, std::vector<ValueId> inputs, ValueId output, const RopeTableLaunch* rope) {
  Instruction instruction;
  instruction.op = std::move(op);
  for (const ValueId input : inputs) instruction.in.push_back({.value = input});
  instruction.out.value = output;
  instruction.rope = rope;
  const bool by_output = std::holds_alternative<ops::GetRows>(instruction.op) ||
                         std::holds_alternative<ops::SumExperts>(instruction.op);
  const ValueId measured =
      by_output ? output : inputs[std::holds_alternative<ops::StoreCache>(instruction.op) ? 1 : 0];
  instruction.columns = graph_.value(measured).shape.columns();
  if (std::holds_alternative<ops::ExpertWeights>(instruction.op) ||
      std::holds_alternative<ops::SumExperts>(instruction.op))
    instruction.n_experts_used = static_cast<int>(graph_.value(inputs[1]).shape.columns());
  if (std::holds_alternative<ops::StoreCache>(instruction.op)) {
    const ValueInfo& cache = graph_.value(inputs[0]);
    const int n_heads = static_cast<int>(cache.shape[1].constant());
    const int head_dim = static_cast<int>(cache.shape[2].constant());
    instruction.cache = {cache.dtype, cache.dtype, n_heads, head_dim, head_dim};
  }
  instructions_.push_back(std::move(instruction));
}

std::size_t RowLaunch::row_stride(ValueId value) const {
  const ValueInfo& info = graph_.value(value);
  if (info.shape.rank() < 2) return 0;
  // What all rows read (a table, a cache) has no stride.
  const std::int64_t per_row = info.shape.row_dim().multiple_of(rows_).value_or(0) * info.shape.columns();
  return to_size(per_row) * sizeof(float);
}

std::int64_t RowLaunch::rows_at_once() const {
  const std::int64_t columns = instructions_.front().columns;
  const auto bytes = to_size(columns) * sizeof(float);
  const auto is_plain = [&](ValueId value) { return row_stride(value) == bytes; };
  const auto is_of_elements = [](const auto& op) {
    return std::is_constructible_v<ElementwiseOp, decltype(op)>;
  };
  for (const Instruction& instruction : instructions_)
    if (!std::visit(is_of_elements, instruction.op) || !is_plain(instruction.out.value) ||
        !std::all_of(instruction.in.begin(), instruction.in.end(),
                     [&](const Operand& operand) { return is_plain(operand.value); }))
      return 1;
  return std::max<std::int64_t>(kElementsAtOnce / std::max<std::int64_t>(columns, 1), 1);
}

void RowLaunch::settle(const std::vector<bool>& needed_outside) {
  rows_at_once_ = rows_at_once();
  std::unordered_map<ValueId, std::size_t> scratch_of;  // Few of the graph's values.
  for (Instruction& instruction : instructions_) {
    const auto* quantise = std::get_if<Quantise>(&instruction.op);
    for (Operand& operand : instruction.in) {
      operand.stride = row_stride(operand.value);
      if (const auto found = scratch_of.find(operand.value); found != scratch_of.end()) {
        operand.scratch = true;
        operand.offset = found->second;
      }
    }
    if (std::holds_alternative<ops::ExpertWeights>(instruction.op)) {
      instruction.scratch_offset = scratch_bytes_;
      scratch_bytes_ += row_aligned(to_size(instruction.columns) * sizeof(float));
    }
    if (const auto* best = std::get_if<ops::Best>(&instruction.op)) {
      instruction.scratch_offset = scratch_bytes_;
      scratch_bytes_ += row_aligned(to_size(best->n) * sizeof(BestEntry));
    }
    if (std::holds_alternative<ops::LogSumExp>(instruction.op)) {
      instruction.scratch_offset = scratch_bytes_;
      scratch_bytes_ += 2 * row_aligned(log_sum_part_bytes(instruction.columns));
    }
    Operand& out = instruction.out;
    if (quantise != nullptr) {
      out.stride = activation_row_bytes(quantise->form, instruction.columns);
    } else {
      out.stride = row_stride(out.value);
      if (!needed_outside[to_size(out.value)]) {
        out.scratch = true;
        out.offset = scratch_of[out.value] = scratch_bytes_;
        const Shape& shape = graph_.value(out.value).shape;  // A vector is one row, without a stride.
        const std::int64_t alone = shape.rank() == 1 && shape[0].is_constant() ? shape.columns() : 1;
        const std::size_t bytes = std::max(out.stride, to_size(alone) * sizeof(float));
        scratch_bytes_ += row_aligned(bytes * to_size(rows_at_once_));
      }
    }
  }
}

void RowLaunch::bind(const Addresses& addresses) {
  for (Instruction& instruction : instructions_) {
    for (Operand& operand : instruction.in)
      if (!operand.scratch) operand.base = addresses.plain<std::byte>(operand.value);
    Operand& out = instruction.out;
    if (const auto* quantise = std::get_if<Quantise>(&instruction.op)) {
      out.base = addresses.in_form(out.value, quantise->form);
    } else if (!out.scratch) {
      out.base = addresses.plain<std::byte>(out.value);
    }
    if (std::holds_alternative<ops::GetRows>(instruction.op))
      instruction.table = addresses.matrix(instruction.in[0].value);
  }
}

std::int32_t RowLaunch::prepare(const StepInfo& step) {
  n_rows_ = rows_.value(step.symbols);
  for (Instruction& instruction : instructions_)
    if (std::holds_alternative<ops::Unfold>(instruction.op) ||
        std::holds_alternative<ops::GetRows>(instruction.op))
      instruction.n_in_rows = graph_.value(instruction.in[0].value).shape.rows(step.symbols);
  rows_per_task_ =
      std::clamp<std::int64_t>(n_rows_ / (4 * step.n_threads), 1, kMaxRowsPerTask * rows_at_once_);
  return static_cast<std::int32_t>((n_rows_ + rows_per_task_ - 1) / rows_per_task_);
}

void RowLaunch::run(std::int32_t task, const TaskContext& context) {
  const std::int64_t begin = task * rows_per_task_;
  const std::int64_t end = std::min(begin + rows_per_task_, n_rows_);
  for (std::int64_t row = begin; row < end; row += rows_at_once_)
    for (const Instruction& instruction : instructions_)
      execute(instruction, row, std::min(rows_at_once_, end - row), context);
}

namespace {

template <typename... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <typename... F>
Overloaded(F...) -> Overloaded<F...>;

void top_k_row(const float* x, std::int64_t n, int k, std::int32_t* out) {
  const auto value = [&](std::int32_t i) {
    return std::isnan(x[i]) ? -std::numeric_limits<float>::infinity() : x[i];
  };
  const auto better = [&](std::int32_t a, std::int32_t b) {
    return value(a) > value(b) || (value(a) == value(b) && a < b);
  };
  // A heap of the best so far, the worst of them on top.
  std::iota(out, out + k, 0);
  std::make_heap(out, out + k, better);
  for (auto i = static_cast<std::int32_t>(k); i < n; ++i) {
    if (!better(i, out[0])) continue;
    std::pop_heap(out, out + k, better);
    out[k - 1] = i;
    std::push_heap(out, out + k, better);
  }
  std::sort_heap(out, out + k, better);
}

}  // namespace

void RowLaunch::execute(const Instruction& instruction, std::int64_t row, std::int64_t n_rows,
                        const TaskContext& context) const {
  const Kernels& kernels = context.kernels;
  const auto at = [&](const Operand& operand) {
    return operand.scratch ? context.scratch + operand.offset : operand.base + to_size(row) * operand.stride;
  };
  const auto in = [&](std::size_t i) { return reinterpret_cast<const float*>(at(instruction.in[i])); };
  // What all rows share and each row picks its own entry of: ids, cells.
  const auto index = [&](std::size_t i) {
    return reinterpret_cast<const std::int32_t*>(instruction.in[i].base)[row];
  };
  float* const out = reinterpret_cast<float*>(at(instruction.out));
  const std::int64_t n = instruction.columns * n_rows;

  std::visit(
      Overloaded{
          [&](const ops::GetRows&) {
            // A step may compute them.
            const std::int64_t id =
                std::clamp<std::int64_t>(index(1), 0, std::max<std::int64_t>(instruction.n_in_rows - 1, 0));
            if (instruction.n_in_rows == 0) {
              std::memset(out, 0, to_size(n) * sizeof(float));
            } else if (instruction.table != nullptr) {
              unpack_packed_row(instruction.table->matrices()[0], id, out);
            } else {
              const auto* table = reinterpret_cast<const float*>(instruction.in[0].base);
              std::memcpy(out, table + id * n, to_size(n) * sizeof(float));
            }
          },
          [&](const ops::Override&) {
            std::memcpy(out, index(2) != 0 ? in(1) : in(0), to_size(n) * sizeof(float));
          },
          [&](const ops::Norm& op) {
            const std::int64_t group = op.group == 0 ? n : op.group;
            const float* weight = instruction.in.size() > 1 ? in(1) : nullptr;
            const float* bias = instruction.in.size() > 2 ? in(2) : nullptr;
            for (std::int64_t i = 0; i < n; i += group)
              kernels.norm_row(op.kind, in(0) + i, group, op.eps, weight, bias, out + i);
          },
          [&](const ops::Add&) { kernels.add_row(in(0), in(1), n, out); },
          [&](const ops::Mul&) { kernels.mul_row(in(0), in(1), n, out); },
          [&](const ops::Scale& op) { kernels.scale_row(in(0), op.factor, n, out); },
          [&](const ops::Concat&) {
            std::byte* to = reinterpret_cast<std::byte*>(out);
            for (const Operand& part : instruction.in) {
              std::memcpy(to, at(part), part.stride);
              to += part.stride;
            }
          },
          [&](const ops::Softcap& op) { kernels.softcap_row(in(0), op.cap, n, out); },
          [&](const ops::Activate& op) { kernels.activation_row(op.kind, in(0), n, out); },
          [&](const ops::Softmax&) { kernels.softmax_row(in(0), n, out); },
          [&](const ops::Glu& op) { kernels.glu_row(op.kind, in(0), in(1), n, out); },
          [&](const ops::Rope& op) {
            RopeTable table = instruction.rope->row(row);
            table.neox = op.neox;
            for (std::int64_t i = 0; i < n; i += op.head_dim)
              kernels.rope_head(table, in(0) + i, op.head_dim, out + i);
          },
          [&](const ops::Hadamard& op) { kernels.hadamard_row(in(0), n, op.block, out); },
          [&](const ops::StoreCache& op) {
            if (op.role == CacheRole::kSlots) {
              const auto bytes = to_size(n) * sizeof(float);
              std::memcpy(instruction.in[0].base + to_size(index(2)) * bytes, in(1), bytes);
              return;
            }
            const auto store = op.role == CacheRole::kKeys ? kernels.store_k : kernels.store_v;
            store(instruction.cache, in(1), index(2), instruction.in[0].base);
          },
          [&](const ops::TopK& op) { top_k_row(in(0), n, op.k, reinterpret_cast<std::int32_t*>(out)); },
          [&](const ops::Best& op) {
            auto* const list = reinterpret_cast<BestEntry*>(context.scratch + instruction.scratch_offset);
            const auto* counts = instruction.in.size() > 1
                                     ? reinterpret_cast<const std::int32_t*>(instruction.in[1].base)
                                     : nullptr;
            const int wanted = wanted_best(counts, row, op.n);
            std::fill_n(list, wanted, kNoBest);
            kernels.best_row(in(0), n, wanted, list);
            write_best(list, wanted, op.n, out);
          },
          [&](const ops::LogSumExp&) {
            constexpr float kLowest = -std::numeric_limits<float>::infinity();
            const std::int32_t id = index(1);
            if (id == ops::LogSumExp::kNoRow) return write_log_sum(kLowest, kLowest, out);
            std::byte* const parts = context.scratch + instruction.scratch_offset;
            auto* const largest = reinterpret_cast<float*>(parts);
            auto* const sums = reinterpret_cast<float*>(parts + row_aligned(log_sum_part_bytes(n)));
            kernels.log_sum_parts(in(0), n, largest, sums);
            write_log_sum(kernels.merge_log_sums(largest, sums, n_log_sum_parts(n)),
                          id >= 0 ? in(0)[id] : kLowest, out);
          },
          [&](const ops::ExpertWeights& op) {
            const auto* ids = reinterpret_cast<const std::int32_t*>(in(1));
            const int k = instruction.n_experts_used;
            if (op.normalise) {
              for (int j = 0; j < k; ++j) out[j] = in(0)[ids[j]];
              kernels.softmax_row(out, k, out);
            } else {
              auto* all = reinterpret_cast<float*>(context.scratch + instruction.scratch_offset);
              kernels.softmax_row(in(0), n, all);
              for (int j = 0; j < k; ++j) out[j] = all[ids[j]];
            }
            if (op.scale != 1.0f) kernels.scale_row(out, op.scale, k, out);
          },
          [&](const ops::SumExperts&) {
            kernels.scale_row(in(0), in(1)[0], n, out);
            for (int j = 1; j < instruction.n_experts_used; ++j)
              kernels.axpy_row(in(0) + j * n, in(1)[j], n, out);
          },
          [&](const ops::Unfold& op) {
            const auto* const x = reinterpret_cast<const float*>(instruction.in[0].base);
            for (std::int64_t j = 0; j < op.kernel; ++j) {
              const std::int64_t from = row * op.stride - op.padding + j;
              const auto bytes = to_size(n) * sizeof(float);
              if (from >= 0 && from < instruction.n_in_rows) {
                std::memcpy(out + j * n, x + from * n, bytes);
              } else {
                std::memset(out + j * n, 0, bytes);
              }
            }
          },
          [&](const auto& op) {  // Unary, Clamp, Binary, Where.
            std::array<ElementRun, 3> operands;
            for (std::size_t i = 0; i < instruction.in.size(); ++i) operands[i].at = at(instruction.in[i]);
            compute_elements(op, kernels, std::span(operands).first(instruction.in.size()), n,
                             at(instruction.out));
          },
          [&](const ops::Compare& op) {
            const ElementRun operands[] = {{at(instruction.in[0])}, {at(instruction.in.back())}};
            compare_elements(op, graph_.value(instruction.in[0].value).dtype, kernels,
                             std::span(operands).first(instruction.in.size()), n, at(instruction.out));
          },
          [&](const Quantise& op) {
            kernels.quantise_row(op.form, in(0), n, reinterpret_cast<std::byte*>(out));
          },
      },
      instruction.op);
}

std::string RowLaunch::describe(const Graph& graph) const {
  std::string text = "rows";
  for (const Instruction& instruction : instructions_) {
    text += " " + std::string(std::visit([](const auto& op) { return op.kName; }, instruction.op));
    text += ":" + graph.value(instruction.out.value).name;
    if (instruction.out.scratch) text += "*";
  }
  return text;
}

}  // namespace weft::cpu
