#include "backend/cpu/launches/cells.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "base/to_size.h"
#include "base/waiter.h"

namespace weft::cpu {
namespace {

/// Texts of a piece.
constexpr std::int64_t kTextsOfPiece = 48;
}  // namespace

CellsLaunch::CellsLaunch(const Graph& graph, const Node& node)
    : gru_(get_op<ops::Gru>(node) != nullptr), n_gates_(gru_ ? 3 : 4), output_(node.output) {
  if (gru_) {
    const auto in = named_inputs<ops::Gru>(node);
    std::tie(x_id_, weight_id_, h0_id_, bias_id_) = std::tie(in.x, in.weight, in.h0, in.bias);
  } else {
    const auto in = named_inputs<ops::Lstm>(node);
    std::tie(x_id_, weight_id_, h0_id_, c0_id_) = std::tie(in.x, in.weight, in.h0, in.c0);
  }
  const Shape& x = graph.value(x_id_).shape;
  n_times_dim_ = x[0];
  n_texts_dim_ = x[1];
  n_hidden_ = x.columns() / n_gates_;
  n_unit_blocks_ = (n_hidden_ + kCellUnits - 1) / kCellUnits;
}

void CellsLaunch::pack_weight(const MatrixTensor& matrix) {
  if (std::exchange(packed_, &matrix) == &matrix) return;
  const PackedMatrix& packed = matrix.matrices()[0];
  WEFT_CHECK(packed.rows == n_gates_ * n_hidden_ && packed.columns == n_hidden_);
  weight_.assign(to_size(n_unit_blocks_ * n_hidden_ * n_gates_ * kCellUnits), 0.0f);
  std::vector<float> row(to_size(n_hidden_));
  for (std::int64_t r = 0; r < packed.rows; ++r) {
    unpack_packed_row(packed, r, row.data());
    const std::int64_t gate = r / n_hidden_, unit = r % n_hidden_;
    for (std::int64_t k = 0; k < n_hidden_; ++k)
      weight_[to_size(((unit / kCellUnits * n_hidden_ + k) * n_gates_ + gate) * kCellUnits +
                      unit % kCellUnits)] = row[to_size(k)];
  }
}

void CellsLaunch::bind(const Addresses& addresses) {
  pack_weight(*addresses.matrix(weight_id_));
  x_ = addresses.plain<const float>(x_id_);
  h0_ = h0_id_ != kNoValue ? addresses.plain<const float>(h0_id_) : nullptr;
  c0_ = c0_id_ != kNoValue ? addresses.plain<const float>(c0_id_) : nullptr;
  out_ = addresses.plain<float>(output_);
  bias_ = bias_id_ != kNoValue ? addresses.plain<const float>(bias_id_) : nullptr;
}

std::size_t CellsLaunch::held_bytes() const {  // weight_, which binding makes.
  return to_size(n_unit_blocks_ * n_hidden_ * n_gates_ * kCellUnits) * sizeof(float);
}

std::int32_t CellsLaunch::prepare(const StepInfo& step) {
  n_times_ = n_times_dim_.value(step.symbols);
  n_texts_ = n_texts_dim_.value(step.symbols);
  n_pieces_ = n_unit_blocks_ * ((n_texts_ + kTextsOfPiece - 1) / kTextsOfPiece);
  next_.store(0);
  done_.store(0);
  return static_cast<std::int32_t>(n_times_ > 0 ? std::min<std::int64_t>(n_pieces_, step.n_threads) : 0);
}

void CellsLaunch::run(std::int32_t, const TaskContext& context) {
  for (;;) {
    const std::int64_t mine = next_.fetch_add(1, std::memory_order_relaxed);
    if (mine >= n_times_ * n_pieces_) return;
    const std::int64_t time = mine / n_pieces_;
    for (base::Waiter wait; done_.load(std::memory_order_acquire) < time * n_pieces_;) wait();
    run_piece(time, mine % n_pieces_, context.kernels);
    done_.fetch_add(1, std::memory_order_release);
  }
}

void CellsLaunch::run_piece(std::int64_t time, std::int64_t piece, const Kernels& kernels) const {
  const std::int64_t block = piece % n_unit_blocks_, unit = block * kCellUnits;
  const std::int64_t text = piece / n_unit_blocks_ * kTextsOfPiece;
  const std::int64_t of_time = n_texts_ * n_hidden_, own = text * n_hidden_;
  const float* const h = time > 0 ? out_ + (time - 1) * of_time : h0_;
  float* const cells = out_ + n_times_ * of_time;
  const float* const c = time > 0 ? cells + (time - 1) * of_time : c0_;
  CellArgs args;
  args.gru = gru_;
  args.weight = weight_.data() + block * n_hidden_ * n_gates_ * kCellUnits;
  args.x = x_ + (time * n_texts_ + text) * n_gates_ * n_hidden_ + unit;
  args.x_stride = n_gates_ * n_hidden_;
  args.n_hidden = n_hidden_;
  args.unit = unit;
  args.n_units = static_cast<int>(std::min<std::int64_t>(kCellUnits, n_hidden_ - unit));
  args.n_rows = static_cast<int>(std::min(kTextsOfPiece, n_texts_ - text));
  args.h_from = h != nullptr ? h + own : nullptr;
  args.h_to = out_ + time * of_time + own;
  if (gru_) {
    args.bias = bias_ != nullptr ? bias_ + unit : nullptr;
  } else {
    args.c_from = c != nullptr ? c + own : nullptr;
    args.c_to = cells + time * of_time + own;
  }
  kernels.cells(args);
}

Work CellsLaunch::work() const {
  const auto weights = static_cast<double>(n_gates_ * n_hidden_ * n_hidden_);
  return {.bytes = weights * sizeof(float) * static_cast<double>(n_times_),
          .multiply_adds = {.f32 = weights * static_cast<double>(n_times_ * n_texts_)}};
}

std::string CellsLaunch::describe(const Graph& graph) const {
  return (gru_ ? "gru " : "lstm ") + graph.value(output_).name;
}

}  // namespace weft::cpu
