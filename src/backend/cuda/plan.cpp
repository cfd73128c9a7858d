#include "backend/cuda/plan.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "backend/gpu/grids.h"
#include "backend/gpu/step_table.h"
#include "base/check.h"
#include "weft/error.h"

namespace weft::cuda {
namespace {

/// Kinds of steps that are kept: reading, generating, both, with moves and without.
constexpr std::size_t kMaxGraphs = 8;
/// A launch of a graph may have this many blocks without work, plus one for each block with work. They end at
/// once.
constexpr std::uint64_t kSpareBlocks = 64;
/// How often a wait for a step looks whether it was cancelled.
constexpr std::chrono::nanoseconds kLook = std::chrono::milliseconds(1);

gpu::Target target() {
  gpu::Sizes sizes = gpu::sizes_of({.subgroup = 32, .shared_bytes = 48u << 10, .threads = 1024});
  return {.byte_dots = true, .tails = false, .sizes = sizes, .far_from_host = true};
}

std::shared_ptr<gpu::GpuWorkspace> workspace_of(const std::shared_ptr<Runtime>& runtime, Workspaces* shared) {
  return gpu::GpuWorkspace::of(runtime.get(), shared, [runtime](std::size_t bytes) {
    auto buffer = std::make_unique<Buffer>(runtime, Place::kDevice, bytes);
    runtime->wait_idle();
    return buffer;
  });
}

class CudaPlan final : public DevicePlan {
 public:
  CudaPlan(std::shared_ptr<Runtime> runtime, const Graph& graph, const Bindings& bindings,
           const CompileOptions& options)
      : runtime_(std::move(runtime)),
        shares_workspace_(options.workspaces != nullptr),
        cancelled_(options.cancelled),
        table_(graph, target()),
        host_table_(runtime_, Place::kHost, table_.bytes()),
        device_table_(runtime_, Place::kDevice, table_.bytes()),
        frequencies_(runtime_, Place::kDevice, table_.frequency_bytes()),
        workspace_(workspace_of(runtime_, options.workspaces.get())),
        begin_(runtime_->make_event()),
        end_(runtime_->make_event()) {
    if (table_.needs_grids()) {
      const std::vector<std::uint16_t> grids = gpu::grid_table();
      grids_.emplace(runtime_, Place::kDevice, grids.size() * sizeof grids[0]);
      grids_->write(0, std::as_bytes(std::span(grids)));
    }
    table_.place({.host = host_table_.mapped(),
                  .address = device_table_.address(),
                  .frequencies = &frequencies_,
                  .grids = grids_.has_value() ? grids_->address() : 0});
    workspace_->reserve(table_.workspace_bytes());
    table_.bind(bindings, *workspace_);
  }
  ~CudaPlan() override { runtime_->wait_idle(); }

  void submit(std::span<const std::int64_t> symbols, const Bindings& bindings,
              const Changes& actual) override {
    WEFT_CHECK(!running_);
    if (actual.tensors || !table_.is_bound(*workspace_)) table_.bind(bindings, *workspace_);
    if (actual.shapes || actual.topology || is_first_ || table_.is_cut()) table_.set_sizes(symbols);
    is_first_ = false;
    if (is_cancelled(cancelled_)) table_.cut();
    const std::vector<GridLaunch> launches = launches_of_step();
    const Graphs::iterator known = find_graph(launches);
    try {
      start(launches, known != graphs_.end() ? known->graph.get() : nullptr);
    } catch (...) {
      runtime_->wait_idle();  // No event marks the end of the launches before the error.
      throw;
    }
    running_ = true;
    // The GPU works now.
    remember(launches, known);
  }

  void wait() override {
    if (!running_) return;
    try {
      while (
          !end_->wait_for(table_.is_cut() || cancelled_ == nullptr ? std::chrono::nanoseconds::max() : kLook))
        if (!table_.is_cut() && is_cancelled(cancelled_)) cut();
      kernel_seconds_ += end_->seconds_since(*begin_);
    } catch (...) {
      runtime_->wait_idle();  // The step may still run.
      running_ = false;
      throw;
    }
    running_ = false;
  }

  PlanMemory memory() const override { return table_.memory(shares_workspace_); }
  double kernel_seconds() const override { return kernel_seconds_; }
  int n_launches() const override { return static_cast<int>(table_.n_launches()); }
  int n_phases() const override { return table_.program().n_phases; }
  std::string describe() const override { return gpu::describe(table_.graph(), table_.program()); }

 private:
  /// Adds a step to the stream: by the graph, where there is one.
  void start(std::span<const GridLaunch> launches, const LaunchGraph* graph) {
    begin_->record();
    runtime_->copy_in_order(device_table_.address(), {host_table_.mapped(), host_table_.size()});
    if (graph != nullptr) {
      runtime_->launch(*graph);
    } else {
      for (const GridLaunch& one : launches) runtime_->launch(one);
    }
    end_->record();
  }
  /// Launches of a step that came before, and their graph, once it came twice.
  struct Known {
    std::vector<GridLaunch> launches;
    std::unique_ptr<LaunchGraph> graph;
  };
  using Graphs = std::vector<Known>;

  /// A kind of step that comes again gets a graph. Without memory for one its launches are started one by
  /// one.
  void remember(const std::vector<GridLaunch>& launches, Graphs::iterator known) noexcept {
    try {
      if (known == graphs_.end()) {
        if (graphs_.size() == kMaxGraphs) graphs_.erase(graphs_.begin());
        graphs_.push_back({launches, nullptr});
      } else if (known->graph == nullptr) {
        known->graph = runtime_->make_graph(known->launches);
      }
    } catch (const std::exception&) {
      // An error of the GPU itself comes again when the step is waited for.
    }
  }

  std::vector<GridLaunch> launches_of_step() const {
    std::vector<GridLaunch> launches;
    for (std::size_t i = 0; i < table_.n_launches(); ++i)
      if (table_.active()[i] && (!table_.is_cut() || table_.launch(i).must_run))
        launches.push_back({&table_.launch(i), table_.groups(i)});
    return launches;
  }
  /// Whether a graph of these launches can do a step of those: its grids have the step's groups, and not many
  /// more.
  static bool covers(std::span<const GridLaunch> graph, std::span<const GridLaunch> step) {
    if (graph.size() != step.size()) return false;
    const auto blocks = [](const gpu::Groups& g) { return std::uint64_t{g[0]} * g[1] * g[2]; };
    for (std::size_t i = 0; i < graph.size(); ++i) {
      const gpu::Groups &large = graph[i].grid, &small = step[i].grid;
      if (graph[i].launch != step[i].launch || large[0] < small[0] || large[1] < small[1] ||
          large[2] < small[2] || blocks(large) > 2 * blocks(small) + kSpareBlocks)
        return false;
    }
    return true;
  }
  /// The graph for a step, which is the last one then.
  Graphs::iterator find_graph(std::span<const GridLaunch> step) {
    const auto found = std::find_if(graphs_.begin(), graphs_.end(),
                                    [&](const Known& one) { return covers(one.launches, step); });
    if (found == graphs_.end()) return found;
    std::rotate(found, found + 1, graphs_.end());
    return graphs_.end() - 1;
  }
  /// Launches that have not begun find no groups on the device.
  void cut() {
    table_.cut();
    device_table_.write(0, {host_table_.mapped(), host_table_.size()});
  }

  std::shared_ptr<Runtime> runtime_;
  const bool shares_workspace_;
  const std::atomic<bool>* const cancelled_;
  gpu::StepTable table_;
  Buffer host_table_, device_table_;
  Buffer frequencies_;
  std::optional<Buffer> grids_;
  const std::shared_ptr<gpu::GpuWorkspace> workspace_;
  std::unique_ptr<Event> begin_, end_;  // Of the step.
  Graphs graphs_;                       // The latest last.
  bool is_first_ = true;
  bool running_ = false;
  double kernel_seconds_ = 0.0;
};

}  // namespace

std::unique_ptr<DevicePlan> make_plan(std::shared_ptr<Runtime> runtime, const Graph& graph,
                                      const Bindings& bindings, const CompileOptions& options) {
  return std::make_unique<CudaPlan>(std::move(runtime), graph, bindings, options);
}

PlanMemory plan_memory(const Graph& graph, bool shares_workspace) {
  return gpu::StepTable(graph, target()).memory(shares_workspace);
}

}  // namespace weft::cuda
