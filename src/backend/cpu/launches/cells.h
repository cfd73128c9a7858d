#pragma once
// Recurrent cells over a sequence (ops::Lstm, ops::Gru). A time needs all outputs of the one before, so tasks
// have no fixed part of the work. Each takes the next piece (units of a time, for some sequences) until none
// is left, and waits for the time before to be complete. Every awaited piece is already being computed. So no
// thread waits for a task that has not begun, and one thread alone can do everything. A piece's bits do not
// depend on who makes it.
#include <atomic>
#include <vector>

#include "backend/cpu/launches/launch.h"

namespace weft::cpu {

class CellsLaunch final : public Launch {
 public:
  /// A node of Lstm or Gru.
  CellsLaunch(const Graph& graph, const Node& node);
  void bind(const Addresses& addresses) override;
  std::int32_t prepare(const StepInfo& step) override;
  bool prepares_each_step() const override { return true; }  // Pieces are counted again.
  void run(std::int32_t task, const TaskContext& context) override;
  std::size_t held_bytes() const override;
  Work work() const override;
  std::string describe(const Graph& graph) const override;

 private:
  void pack_weight(const MatrixTensor& matrix);
  void run_piece(std::int64_t time, std::int64_t piece, const Kernels& kernels) const;

  bool gru_;
  std::int64_t n_gates_, n_hidden_, n_unit_blocks_;
  ValueId x_id_, weight_id_, h0_id_, c0_id_ = kNoValue, bias_id_ = kNoValue, output_;
  Dim n_times_dim_, n_texts_dim_;
  const MatrixTensor* packed_ = nullptr;  // Binding other tensors does it no second time.
  std::vector<float> weight_;             // [block of units][input][gate][unit]
  const float *x_ = nullptr, *h0_ = nullptr, *c0_ = nullptr, *bias_ = nullptr;
  float* out_ = nullptr;
  std::int64_t n_times_ = 0, n_texts_ = 0, n_pieces_ = 0;  // Pieces of a time.
  std::atomic<std::int64_t> next_ = 0, done_ = 0;          // Pieces of all times.
};

}  // namespace weft::cpu
