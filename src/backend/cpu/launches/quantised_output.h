#pragma once
// The output of a product or of attention in the form that other products read, made by the tasks that make
// the output. The task that completes a group of columns quantises it.
#include <atomic>
#include <cstdint>
#include <vector>

#include "backend/cpu/launches/launch.h"

namespace weft::cpu {

/// Columns of a row that share a scale; 1 for plain rows.
std::int64_t group_columns(Form form);

class QuantisedOutput {
 public:
  /// None.
  QuantisedOutput() = default;
  /// Tasks make blocks of rows, at most max_blocks; 0 if they only make whole groups.
  QuantisedOutput(Form form, std::int64_t n_columns, std::int64_t max_blocks);

  bool used() const { return form_ != Form::kPlain; }
  std::size_t held_bytes() const { return made_.size() * sizeof(made_[0]); }
  /// `plain` are the rows as floats.
  void bind(const Addresses& addresses, ValueId output, const float* plain);
  /// Runs before any task of a step.
  void begin_step(const StepInfo& step) { step_ = step.number; }

  /// To be called when columns of a block are made: those whose groups are now whole, for the caller to
  /// quantise.
  Range whole_groups(std::int64_t block, Range columns);
  /// Quantises these columns, whole groups, of rows: those with the numbers rows[all], or `all` themselves.
  void write(const Kernels& kernels, const std::int32_t* rows, Range all, Range columns) const;

 private:
  bool is_whole(std::int64_t block, std::int64_t group, Range columns);

  Form form_ = Form::kPlain;
  std::int64_t n_columns_ = 0;
  std::int64_t n_groups_ = 0;
  std::vector<std::atomic<std::uint64_t>>
      made_;  // [block][group]: the step, and the number of columns made in it.
  std::uint64_t step_ = 0;
  const float* plain_ = nullptr;
  std::byte* to_ = nullptr;
};

}  // namespace weft::cpu
