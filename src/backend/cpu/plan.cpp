#include "backend/cpu/plan.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>

#include "backend/arena.h"
#include "backend/cpu/fuse.h"
#include "backend/cpu/recorder.h"
#include "backend/cpu/schedule.h"
#include "base/check.h"
#include "base/pool.h"
#include "base/to_size.h"

namespace weft::cpu {
namespace {

/// A line of the cache, and what the kernels' vectors need.
constexpr std::size_t aligned(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

/// Bytes of its next weights that a thread prefetches while it waits: few waits are long enough for more.
constexpr std::size_t kAheadBytes = std::size_t{64} << 10;

/// The host's memory, one for all devices that compute there.
class HostWorkspace final : public Workspace {
 public:
  std::byte* data() const { return memory_.data(); }

 private:
  void grow(std::size_t bytes) override { memory_ = base::Memory(bytes); }
  base::Memory memory_;
};

std::shared_ptr<HostWorkspace> workspace_of(const CompileOptions& options) {
  if (options.workspaces == nullptr) return std::make_shared<HostWorkspace>();
  return options.workspaces->find<HostWorkspace>([](const HostWorkspace&) { return true; },
                                                 [] { return std::make_shared<HostWorkspace>(); });
}

/// The places of a program's temporaries in its workspace, followed by the threads' scratch.
struct Layout {
  std::vector<std::pair<ValueId, Form>> temporaries;
  std::vector<std::size_t> offsets;
  std::size_t scratch = 0;  // Its offset.
  std::size_t scratch_per_thread = 0;
  std::size_t bytes = 0;
};

Layout lay_out_program(const Graph& graph, const Program& program, int n_threads) {
  Layout layout;
  const std::vector<std::int64_t> bounds = graph.bounds();
  std::vector<Lifetime> lifetimes;
  const auto add = [&](ValueId value, Form form, const FormLife& life, std::size_t bytes) {
    if (!life.used()) return;
    layout.temporaries.emplace_back(value, form);
    lifetimes.push_back({life.first, life.last, bytes});
  };
  for (std::size_t v = 0; v < graph.values().size(); ++v) {
    const ValueInfo& info = graph.values()[v];
    const auto value = static_cast<ValueId>(v);
    // A stored cache, and an output, are in memory that is bound from outside.
    const bool external = state_behind(graph, value) != kNoValue || graph.is_output(value);
    if (info.producer != kNoNode && !external)
      add(value, Form::kPlain, program.lives[v][Form::kPlain],
          to_size(info.shape.elements(bounds)) * sizeof(float));
    for (const Form form : {Form::kQ8, Form::kQ8Wide})
      if (const FormLife& life = program.lives[v][form]; life.used())
        add(value, form, life,
            to_size(info.shape.rows(bounds)) * activation_row_bytes(form, info.shape.columns()));
  }
  ArenaLayout arena = lay_out(lifetimes);
  layout.offsets = std::move(arena.offsets);
  layout.scratch = aligned(arena.bytes);
  for (const Program::Entry& entry : program.launches)
    layout.scratch_per_thread = std::max(layout.scratch_per_thread, aligned(entry.launch->scratch_bytes()));
  layout.bytes = layout.scratch + layout.scratch_per_thread * to_size(n_threads);
  return layout;
}

PlanMemory memory_of(const Program& program, const Layout& layout, const CompileOptions& options) {
  PlanMemory memory;
  for (const Program::Entry& entry : program.launches) memory.own += entry.launch->held_bytes();
  (options.workspaces != nullptr ? memory.shared : memory.own) += layout.bytes;
  return memory;
}

/// The given pool; null: none.
std::shared_ptr<base::Pool> pool_of(const CompileOptions& options) {
  return std::dynamic_pointer_cast<base::Pool>(options.pool);
}

/// Workers of the given pool, or of the plan's own.
int n_workers(int n_threads, int n_helpers, const CompileOptions& options) {
  const int own = n_threads > 1 ? n_threads + n_helpers : n_threads;
  const auto pool = pool_of(options);
  return pool != nullptr ? std::max(own, pool->n_workers()) : own;
}

/// The given pool if the program fits it, otherwise a new one.
std::shared_ptr<base::Pool> pool_for(const Program& program, int n_threads, int n_helpers,
                                     const CompileOptions& options) {
  auto pool = pool_of(options);
  if (pool != nullptr && pool->max_phases() >= program.n_phases) return pool;
  return std::make_shared<base::Pool>(n_threads, std::max(program.n_phases, 1), n_helpers);
}

class CpuPlan final : public DevicePlan {
 public:
  CpuPlan(const Graph& graph, const Bindings& bindings, const Kernels& kernels, int n_threads, int n_helpers,
          const CompileOptions& options)
      : graph_(graph),
        kernels_(kernels),
        cancelled_(options.cancelled),
        program_(fuse(graph_, n_workers(n_threads, n_helpers, options))),
        addresses_(graph_.values().size()),
        pool_(pool_for(program_, n_threads, n_helpers, options)),
        workspace_(workspace_of(options)),
        layout_(lay_out_program(graph_, program_, pool_->n_workers())),
        memory_(memory_of(program_, layout_, options)),
        schedule_(program_),
        next_(program_.launches.size()),
        ahead_(to_size(program_.n_phases) * to_size(pool_->n_threads())) {
    workspace_->reserve(layout_.bytes);
    bind(bindings);
  }

  /// The host is the device: the step is done when this returns.
  void submit(std::span<const std::int64_t> symbols, const Bindings& bindings,
              const Changes& actual) override {
    if (actual.tensors || bound_at_move_ != workspace_->n_moves()) bind(bindings);
    const bool other_tasks = schedule_.begin_step({symbols, ++step_number_, pool_->n_threads()});
    if (other_tasks && pool_->n_threads() > 1) look_ahead();
    if (recorder_) recorder_->begin_step();
    const auto start = std::chrono::steady_clock::now();
    if (pool_->n_threads() == 1) {
      recorder_ ? run_alone<true>() : run_alone<false>();
    } else {
      pool_->run(schedule_.n_tasks(), recorder_ ? run_tasks<true> : run_tasks<false>, this, ahead(),
                 schedule_.helped());
    }
    kernel_seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (recorder_) {
      recorder_->end_step(schedule_.n_tasks().size());
      for (std::size_t i = 0; i < program_.launches.size(); ++i)
        if (schedule_.tasks_of(i) > 0) recorder_->count(i, program_.launches[i].launch->work());
    }
    failure_.rethrow();
    // What was computed of changed weights is wrong.
    for (const base::FileWatch* const watch : watches_) watch->check();
  }

  void set_profile(Profile* profile) override {
    recorder_.reset();
    if (profile == nullptr) return;
    std::vector<std::string> names;
    for (const Program::Entry& entry : program_.launches)
      names.push_back(kind_of(entry.launch->describe(graph_), entry.layer));
    recorder_.emplace(*profile, names, pool_->n_workers());
  }

  void wait() override {}

  PlanMemory memory() const override { return memory_; }
  double kernel_seconds() const override { return kernel_seconds_; }
  int n_launches() const override { return static_cast<int>(program_.launches.size()); }
  int n_phases() const override { return program_.n_phases; }

  std::string describe() const override {
    std::string text;
    for (const Program::Entry& entry : program_.launches) {
      text += std::to_string(entry.phase) + " " + entry.launch->describe(graph_);
      if (entry.may_follow) text += ", may follow in " + std::to_string(entry.first_phase);
      text += "\n";
    }
    return text;
  }

 private:
  static constexpr std::size_t kNone = SIZE_MAX;

  TaskContext context_of(int thread) {
    return {kernels_, scratch_ + to_size(thread) * layout_.scratch_per_thread, thread, failure_};
  }

  /// Without a pool, for a single thread.
  template <bool kRecorded>
  void run_alone() {
    const TaskContext context = context_of(0);
    schedule_.for_each_launch(
        [&](std::size_t launch) { run_launch<kRecorded>(launch, 0, schedule_.tasks_of(launch), context); });
  }

  template <bool kRecorded>
  static void run_tasks(void* plan, int phase, std::int32_t begin, std::int32_t end, int thread) {
    CpuPlan& self = *static_cast<CpuPlan*>(plan);
    const TaskContext context = self.context_of(thread);
    self.schedule_.for_each_launch(phase, begin, end,
                                   [&](std::size_t launch, std::int32_t own_begin, std::int32_t own_end) {
                                     self.run_launch<kRecorded>(launch, own_begin, own_end, context);
                                   });
  }

  /// Runs tasks, and their followers if these tasks were the last: one after another, as they may be
  /// thousands.
  template <bool kRecorded>
  void run_launch(std::size_t i, std::int32_t begin, std::int32_t end, const TaskContext& context) {
    std::size_t first = kNone, last = kNone;
    for (;;) {
      Launch& launch = *program_.launches[i].launch;
      // After a failure too: values that were not computed must not be read, nor kept in states.
      if (launch.must_run() || !(is_cancelled(cancelled_) || failure_.happened())) {
        if constexpr (kRecorded) recorder_->tasks_begin(context.thread);
        launch.run_all(begin, end, context);
        if constexpr (kRecorded) recorder_->tasks_end(context.thread, i);
      }
      schedule_.done(i, end - begin, [&](std::size_t follower) {
        (first == kNone ? first : next_[last]) = follower;
        last = follower;
      });
      if (first == kNone) return;
      i = first;
      begin = 0;
      end = schedule_.tasks_of(i);
      first = i == last ? kNone : next_[i];
    }
  }

  /// The weights that a thread's share of a phase begins with, as much as it should ask for while it waits.
  std::span<const std::byte> first_weights(std::size_t phase, int thread) const {
    const std::int32_t task = pool_->first_task(schedule_.n_tasks()[phase], thread);
    std::span<const std::byte> weights;
    schedule_.for_each_launch(static_cast<int>(phase), task, task + 1,
                              [&](std::size_t launch, std::int32_t own_task, std::int32_t) {
                                weights = program_.launches[launch].launch->weights_from(own_task);
                              });
    return weights.first(std::min(weights.size(), kAheadBytes));
  }

  /// By phase of the step and thread.
  std::span<std::span<const std::byte>> ahead() {
    return {ahead_.data(), schedule_.n_tasks().size() * to_size(pool_->n_threads())};
  }

  /// Behind each phase, threads ask for the weights of the next one that has any.
  void look_ahead() {
    const auto n_threads = to_size(pool_->n_threads());
    std::fill_n(ahead().rbegin(), std::min(n_threads, ahead().size()), std::span<const std::byte>());
    for (std::size_t phase = schedule_.n_tasks().size(); phase-- > 1;)
      for (std::size_t thread = 0; thread < n_threads; ++thread) {
        const std::size_t next = phase * n_threads + thread;
        const std::span<const std::byte> weights = first_weights(phase, static_cast<int>(thread));
        ahead_[next - n_threads] = weights.empty() ? ahead_[next] : weights;
      }
  }

  void bind(const Bindings& bindings) {
    bound_at_move_ = workspace_->n_moves();
    scratch_ = workspace_->data() + layout_.scratch;
    for (std::size_t i = 0; i < layout_.temporaries.size(); ++i) {
      const auto& [value, form] = layout_.temporaries[i];
      addresses_.set(value, form, workspace_->data() + layout_.offsets[i]);
    }
    watches_.clear();
    for (std::size_t v = 0; v < bindings.size(); ++v) {
      if (bindings[v] == nullptr) continue;
      const auto value = static_cast<ValueId>(v);
      if (auto* matrix = dynamic_cast<MatrixTensor*>(bindings[v])) {
        addresses_.set_matrix(value, matrix);
        if (matrix->watch() != nullptr && std::ranges::find(watches_, matrix->watch()) == watches_.end())
          watches_.push_back(matrix->watch());
      } else {
        auto* plain = dynamic_cast<PlainTensor*>(bindings[v]);
        WEFT_CHECK(plain != nullptr);
        addresses_.set(value, Form::kPlain, plain->data());
      }
    }
    for (const Node& node : graph_.nodes()) {
      const ValueId state = state_behind(graph_, node.output);
      if (state != kNoValue) addresses_.set(node.output, Form::kPlain, addresses_.plain<std::byte>(state));
    }
    for (const auto& [value, base] : program_.aliases)
      addresses_.set(value, Form::kPlain, addresses_.plain<std::byte>(base));
    for (Program::Entry& entry : program_.launches) entry.launch->bind(addresses_);
    schedule_.forget();
  }

  const Graph graph_;  // Its own copy: the caller's may go.
  const Kernels& kernels_;
  const std::atomic<bool>* const cancelled_;
  Program program_;
  Addresses addresses_;
  const std::shared_ptr<base::Pool> pool_;
  const std::shared_ptr<HostWorkspace> workspace_;
  const Layout layout_;
  const PlanMemory memory_;
  std::uint64_t bound_at_move_ = 0;  // The workspace's move count for which the addresses are valid.
  std::byte* scratch_ = nullptr;
  Schedule schedule_;
  std::vector<std::size_t> next_;                  // By launch: the launch that its thread runs next.
  std::vector<const base::FileWatch*> watches_;    // Of the files that bound weights are mapped from.
  StepFailure failure_;                            // Of the step.
  std::vector<std::span<const std::byte>> ahead_;  // See Pool::run.
  std::optional<Recorder> recorder_;               // While steps are profiled.
  std::uint64_t step_number_ = 0;
  double kernel_seconds_ = 0.0;
};

}  // namespace

PlanMemory plan_memory(const Graph& graph, int n_threads, int n_helpers, const CompileOptions& options) {
  const int n = n_workers(n_threads, n_helpers, options);
  const Program program = fuse(graph, n);
  return memory_of(program, lay_out_program(graph, program, n), options);
}

std::unique_ptr<DevicePlan> compile_plan(const Graph& graph, const Bindings& bindings, const Kernels& kernels,
                                         int n_threads, int n_helpers, const CompileOptions& options) {
  return std::make_unique<CpuPlan>(graph, bindings, kernels, n_threads, n_helpers, options);
}

}  // namespace weft::cpu
