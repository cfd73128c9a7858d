#pragma once
// A graph as recorded commands.
//
// A GPU's commands are recorded once for each kind of step. Steps of a kind have work for the same launches
// (one row, few, many; with moves of cells and without). Shaders reach memory by addresses from a table, and
// dispatches read their sizes from a buffer. For a step of another size or with other tensors, the host
// writes a few words there and submits the same commands. Launches without work are not among the commands of
// a kind.
#include <memory>
#include <vector>

#include "backend/vulkan/device.h"
#include "weft/backend/device.h"

namespace weft::vulkan {

class Gpu;
class Pipelines;

struct PlanOptions {
  /// Launches of the first piece, which is submitted while the next, twice as long, is recorded. 0: all in
  /// one piece.
  int first_piece = 16;
  bool record_each_step = false;  ///< As other engines do; to compare with.
  /// See CompileOptions: the device has one queue, and each plan's commands begin with a barrier.
  std::shared_ptr<Workspaces> workspaces = nullptr;
  const std::atomic<bool>* cancelled = nullptr;  ///< See CompileOptions.
};

/// What a plan did so far; times are of the calling thread.
struct PlanStats {
  int times_recorded = 0;
  int step_phases = 0;  ///< Of the kind of step that was recorded last: how often launches wait for others.
  std::int64_t steps = 0;
  double submit_seconds = 0.0;         ///< Of all steps: from the call to the work on its way.
  double first_recording_seconds = 0;  ///< Of the first step's submit ...
  double first_work_seconds = 0;       ///< ... of which until the device had something to do.
};
/// Of a plan that was compiled by a Vulkan device.
const PlanStats& stats(const DevicePlan& plan);

/// Of each shader that such a plan has; see device.h.
std::vector<ShaderStatistics> shader_statistics(const Gpu& gpu, Pipelines& pipelines, const Graph& graph);

std::unique_ptr<DevicePlan> make_plan(std::shared_ptr<Gpu> gpu, std::shared_ptr<Pipelines> pipelines,
                                      const Graph& graph, const Bindings& bindings,
                                      const PlanOptions& options);

/// What such a plan takes.
PlanMemory plan_memory(const Gpu& gpu, const Graph& graph, bool shares_workspace);

}  // namespace weft::vulkan
