#include "backend/cpu/launches/reduce.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/to_size.h"

namespace weft::cpu {
namespace {

constexpr std::int64_t kReduceLeastElements = 16384;
/// Elements that are gathered at a time, and results that are made together.
constexpr std::int64_t kBlock = 512;
/// Elements that a column adds up in a float before they join the sum in double.
constexpr std::int64_t kFloatSum = 32;

constexpr float kInf = std::numeric_limits<float>::infinity();

/// Whether a goes before b in an argmax: larger, or the first NaN.
bool goes_before(float a, float b) { return a > b || (std::isnan(a) && !std::isnan(b)); }

/// Sums and products are made in double.
bool in_double(ReduceKind kind) {
  return kind == ReduceKind::kSum || kind == ReduceKind::kMean || kind == ReduceKind::kProd;
}

}  // namespace

/// What results next to each other have of their elements so far.
struct ReduceLaunch::Columns {
  double sums[kBlock];
  std::int64_t places[kBlock];
  float best[kBlock];  // Or the sum of the last few.
  float gathered[kBlock];
};

ReduceLaunch::ReduceLaunch(const Node& node, const View& x)
    : op_(*get_op<ops::Reduce>(node)), output_(node.output) {
  kept_.base = reduced_.base = x.base;
  kept_.offset = x.offset;
  std::vector<Dim> kept, reduced;
  for (int i = 0; i < x.shape.rank(); ++i) {
    const bool is_reduced = (op_.axes >> i & 1) != 0;
    std::vector<Dim>& sizes = is_reduced ? reduced : kept;
    (is_reduced ? reduced_ : kept_).strides[sizes.size()] = x.strides[to_size(i)];
    sizes.push_back(x.shape[i]);
  }
  kept_.shape = Shape(kept);
  reduced_.shape = Shape(reduced);
}

void ReduceLaunch::bind(const Addresses& addresses) {
  x_ = addresses.plain<const float>(kept_.base);
  out_ = addresses.plain<std::byte>(output_);
}

std::int32_t ReduceLaunch::prepare(const StepInfo& step) {
  StridedView views[2] = {at_step(kept_, step.symbols), {}};
  // The results lie one after another.
  views[1] = views[0];
  views[1].offset = 0;
  std::int64_t stride = 1;
  for (int i = views[1].rank; i-- > 0;) {
    views[1].strides[to_size(i)] = stride;
    stride *= views[1].sizes[to_size(i)];
  }
  results_.set(views);
  const StridedView elements = at_step(reduced_, step.symbols);
  elements_.set({&elements, 1});
  // Whichever lies closer together is read next to each other.
  by_columns_ = results_.run_length() > 1 && results_.run_stride(0) < elements_.run_stride(0);
  const std::int64_t of_each = std::max<std::int64_t>(elements_.n_elements(), 1);
  shares_.set(results_.n_elements(), (kReduceLeastElements + of_each - 1) / of_each, step.n_threads);
  return shares_.n_tasks;
}

std::size_t ReduceLaunch::scratch_bytes() const { return sizeof(Columns); }

void ReduceLaunch::run(std::int32_t task, const TaskContext& context) {
  const std::int64_t begin = task * shares_.per_task;
  const std::int64_t end = std::min(begin + shares_.per_task, results_.n_elements());
  const std::int64_t stride = results_.run_stride(0);
  results_.for_each_run(begin, end, [&](const StridedLoops::Offsets& at, std::int64_t n) {
    if (by_columns_) {
      for (std::int64_t i = 0; i < n; i += kBlock)
        reduce_columns(at[0] + i * stride, at[1] + i, std::min(kBlock, n - i), context);
    } else {
      for (std::int64_t i = 0; i < n; ++i) reduce_one(at[0] + i * stride, at[1] + i, context);
    }
  });
}

void ReduceLaunch::reduce_one(std::int64_t x, std::int64_t result, const TaskContext& context) const {
  const Kernels& kernels = context.kernels;
  auto* const gathered = reinterpret_cast<float*>(context.scratch);
  const std::int64_t stride = elements_.run_stride(0);
  const bool gathers = stride != 1;
  const bool smallest = op_.kind == ReduceKind::kMin;
  double sum = op_.kind == ReduceKind::kProd ? 1.0 : 0.0;
  float best = smallest ? kInf : -kInf;
  std::int64_t place = 0, n_seen = 0;
  elements_.for_each_run(
      0, elements_.n_elements(), [&](const StridedLoops::Offsets& at, std::int64_t length) {
        for (std::int64_t first = 0; first < length;) {
          const std::int64_t n = gathers ? std::min(length - first, kBlock) : length;
          const float* from = x_ + x + at[0] + first * stride;
          if (gathers) {
            kernels.copy_block(from, stride, 1, n, 1, 1, gathered, 1);
            from = gathered;
          }
          if (op_.kind == ReduceKind::kSum || op_.kind == ReduceKind::kMean) {
            sum += kernels.sum_row(from, n);
          } else if (op_.kind == ReduceKind::kProd) {
            for (std::int64_t i = 0; i < n; ++i) sum *= static_cast<double>(from[i]);
          } else {
            const float own = smallest ? kernels.min_row(from, n) : kernels.max_row(from, n);
            if (op_.kind == ReduceKind::kArgmax && goes_before(own, best)) {
              const auto is_best = [own](float value) {
                return std::isnan(own) ? std::isnan(value) : value == own;
              };
              place = n_seen + (std::find_if(from, from + n, is_best) - from);
            }
            if (std::isnan(own) || (smallest ? own < best : own > best)) best = own;
          }
          n_seen += n;
          first += n;
        }
      });
  finish(result, sum, best, place);
}

void ReduceLaunch::reduce_columns(std::int64_t x, std::int64_t result, std::int64_t n,
                                  const TaskContext& context) const {
  const Kernels& kernels = context.kernels;
  Columns& columns = *reinterpret_cast<Columns*>(context.scratch);
  const std::int64_t stride = results_.run_stride(0), element_stride = elements_.run_stride(0);
  const bool sums = op_.kind == ReduceKind::kSum || op_.kind == ReduceKind::kMean;
  std::fill_n(columns.sums, n, op_.kind == ReduceKind::kProd ? 1.0 : 0.0);
  std::fill_n(columns.places, n, 0);
  std::fill_n(columns.best, n, sums ? 0.0f : op_.kind == ReduceKind::kMin ? kInf : -kInf);
  std::int64_t n_seen = 0;
  const auto add_up = [&] {
    for (std::int64_t i = 0; i < n; ++i) columns.sums[i] += static_cast<double>(columns.best[i]);
    std::fill_n(columns.best, n, 0.0f);
  };
  elements_.for_each_run(0, elements_.n_elements(),
                         [&](const StridedLoops::Offsets& at, std::int64_t length) {
                           for (std::int64_t e = 0; e < length; ++e, ++n_seen) {
                             const float* row = x_ + x + at[0] + e * element_stride;
                             if (stride != 1) {
                               kernels.copy_block(row, stride, 1, n, 1, 1, columns.gathered, 1);
                               row = columns.gathered;
                             }
                             if (sums) {
                               kernels.add_row(columns.best, row, n, columns.best);
                               if (n_seen % kFloatSum == kFloatSum - 1) add_up();
                             } else if (op_.kind == ReduceKind::kProd) {
                               for (std::int64_t i = 0; i < n; ++i)
                                 columns.sums[i] *= static_cast<double>(row[i]);
                             } else if (op_.kind == ReduceKind::kArgmax) {
                               for (std::int64_t i = 0; i < n; ++i) {
                                 if (!goes_before(row[i], columns.best[i])) continue;
                                 columns.best[i] = row[i];
                                 columns.places[i] = n_seen;
                               }
                             } else {
                               const BinaryKind kind =
                                   op_.kind == ReduceKind::kMax ? BinaryKind::kMaximum : BinaryKind::kMinimum;
                               kernels.binary_row(kind, {columns.best, false}, {row, false}, n, columns.best);
                             }
                           }
                         });
  if (sums) add_up();
  for (std::int64_t i = 0; i < n; ++i)
    finish(result + i, columns.sums[i], columns.best[i], columns.places[i]);
}

void ReduceLaunch::finish(std::int64_t result, double sum, float best, std::int64_t place) const {
  if (op_.kind == ReduceKind::kArgmax) {
    reinterpret_cast<std::int32_t*>(out_)[result] = static_cast<std::int32_t>(place);
    return;
  }
  if (op_.kind == ReduceKind::kMean) sum /= static_cast<double>(elements_.n_elements());
  reinterpret_cast<float*>(out_)[result] = in_double(op_.kind) ? static_cast<float>(sum) : best;
}

std::string ReduceLaunch::describe(const Graph& graph) const { return "reduce " + graph.value(output_).name; }

}  // namespace weft::cpu
