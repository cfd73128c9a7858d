#pragma once
// A launch: what remains of one or several nodes after fusion, as independent tasks that threads share.
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/layout/packed.h"
#include "backend/cpu/step_failure.h"
#include "backend/cpu/tensors.h"
#include "base/to_size.h"
#include "weft/graph.h"
#include "weft/profile.h"

namespace weft::cpu {

/// One T for each form.
template <typename T>
class ByForm {
 public:
  T& operator[](Form form) { return of_[static_cast<std::size_t>(form)]; }
  const T& operator[](Form form) const { return of_[static_cast<std::size_t>(form)]; }

 private:
  std::array<T, std::size(kForms)> of_{};
};

/// The addresses of values. Set when a plan is compiled, and again when external tensors are rebound.
class Addresses {
 public:
  explicit Addresses(std::size_t n_values) : values_(n_values), matrices_(n_values) {}

  template <typename T>
  T* plain(ValueId value) const {
    return reinterpret_cast<T*>(in_form(value, Form::kPlain));
  }
  std::byte* in_form(ValueId value, Form form) const { return values_[to_size(value)][form]; }
  const MatrixTensor* matrix(ValueId value) const { return matrices_[to_size(value)]; }

  void set(ValueId value, Form form, std::byte* address) { values_[to_size(value)][form] = address; }
  void set_matrix(ValueId value, const MatrixTensor* matrix) { matrices_[to_size(value)] = matrix; }

 private:
  std::vector<ByForm<std::byte*>> values_;
  std::vector<const MatrixTensor*> matrices_;
};

/// What a launch may know of a step before it runs.
struct StepInfo {
  std::span<const std::int64_t> symbols;
  std::uint64_t number = 0;  ///< Counts steps: what several launches share is prepared once for each.
  int n_threads = 1;         ///< That have a share of the tasks each.
};

/// What a task works with.
struct TaskContext {
  const Kernels& kernels;
  std::byte* scratch;  ///< This thread's memory, of the plan's largest scratch_bytes().
  int thread;          ///< Which one, below the plan's number of workers (base::Pool).
  StepFailure& failure;
};

/// What has to be read of weights and caches, and multiplied, at least; see Profile::Work.
struct Work {
  double bytes = 0.0;
  MultiplyAdds multiply_adds = {};

  Work& operator+=(const Work& other) {
    bytes += other.bytes;
    multiply_adds += other.multiply_adds;
    return *this;
  }
};

/// Of a product with weights of this type.
inline MultiplyAdds multiply_adds_of(DType weight, double n) {
  return activation_form(weight) == Form::kPlain ? MultiplyAdds{.f32 = n} : MultiplyAdds{.int8 = n};
}

class Launch {
 public:
  virtual ~Launch() = default;
  /// Before it is bound: to make its output in this form as well. False: its tasks cannot.
  virtual bool make_form(Form /*form*/) { return false; }
  virtual void bind(const Addresses& addresses) = 0;
  /// The number of tasks in this step and in steps of the same kind. Runs on the caller's thread, before any
  /// task of the step.
  virtual std::int32_t prepare(const StepInfo& step) = 0;
  /// Whether prepare looks at more than symbols and addresses, or sets what tasks use up. Otherwise it is
  /// called where those changed.
  virtual bool prepares_each_step() const { return false; }
  /// Whether tasks of this step compute for longer than they wait for memory, so that slow cores are of use.
  virtual bool computes() const { return false; }
  virtual void run(std::int32_t task, const TaskContext& context) = 0;
  /// Neighbouring tasks, for launches that do them better together.
  virtual void run_all(std::int32_t begin, std::int32_t end, const TaskContext& context) {
    for (std::int32_t task = begin; task < end; ++task) run(task, context);
  }
  virtual std::size_t scratch_bytes() const { return 0; }
  /// Memory of its own, as known when it is made; what launches share, one of them names. (Partials of
  /// attention come as texts grow, and are not in it.)
  virtual std::size_t held_bytes() const { return 0; }
  /// The weights that tasks of this step read from `task` on, as far as they are contiguous in the order of
  /// reading. Empty where the step does not wait for them.
  virtual std::span<const std::byte> weights_from(std::int32_t /*task*/) const { return {}; }
  /// Whether it changes what outlives the step in a way that cannot be left half done: then it runs in a
  /// cancelled step.
  virtual bool must_run() const { return false; }
  /// The work of the last step, when its tasks are done. Only profiles ask, so it may take its time.
  virtual Work work() const { return {}; }
  virtual std::string describe(const Graph& graph) const = 0;
};

}  // namespace weft::cpu
