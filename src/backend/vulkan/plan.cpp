#include "backend/vulkan/plan.h"

#include <atomic>
#include <chrono>
#include <optional>
#include <set>

#include "backend/gpu/step_table.h"
#include "backend/vulkan/launch_times.h"
#include "base/check.h"
#include "base/to_size.h"
#include "weft/error.h"

namespace weft::vulkan {
namespace {

using gpu::Launch;

/// Kinds of steps (Recording) that are kept: reading, generating, both, with moves and without.
constexpr std::size_t kMaxRecordings = 8;

/// How often a wait for a step looks whether it was cancelled.
constexpr std::chrono::nanoseconds kLook = std::chrono::milliseconds(1);

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

gpu::Target target_of(const Gpu& gpu) {
  return {.byte_dots = gpu.abilities().byte_dots, .sizes = gpu.sizes(), .far_from_host = gpu.far_from_host()};
}

std::shared_ptr<gpu::GpuWorkspace> workspace_of(const std::shared_ptr<Gpu>& gpu, Workspaces* shared) {
  return gpu::GpuWorkspace::of(gpu.get(), shared, [gpu](std::size_t bytes) {
    auto buffer = std::make_unique<Buffer>(*gpu, Place::kDevice, bytes);
    gpu->wait_idle();  // A submit that failed may have left pieces on their way.
    return buffer;
  });
}

/// The commands read all that may differ from step to step from one buffer: a table of addresses (bound
/// tensors), then an entry per launch (sizes). So they are recorded once for each kind of step. The buffer is
/// in device memory, which every thread reads. If the host cannot write there, each piece of the commands
/// begins with a copy of its entries.
class VulkanPlan final : public DevicePlan {
 public:
  VulkanPlan(std::shared_ptr<Gpu> gpu, std::shared_ptr<Pipelines> pipelines, const Graph& graph,
             const Bindings& bindings, const PlanOptions& options)
      : gpu_(std::move(gpu)),
        pipelines_(std::move(pipelines)),
        options_(options),
        table_(graph, target_of(*gpu_)),
        step_(*gpu_, Place::kDevice, table_.bytes()),
        workspace_(workspace_of(gpu_, options.workspaces.get())),
        frequencies_(*gpu_, Place::kDevice, table_.frequency_bytes()) {
    if (step_.mapped() == nullptr) staged_.emplace(*gpu_, Place::kHost, step_.size());
    for (const Launch& launch : table_.program().launches)
      pipeline_of_.push_back(pipelines_->get(launch.kernel, launch.constants));
    pipelines_->save();
    table_.place({.host = staged_.has_value() ? staged_->mapped() : step_.mapped(),
                  .address = step_.address(),
                  .frequencies = &frequencies_,
                  .grids = table_.needs_grids() ? pipelines_->grids() : 0});
    workspace_->reserve(table_.workspace_bytes());
    table_.bind(bindings, *workspace_);
    VkCommandPoolCreateInfo pool = {VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO};
    pool.queueFamilyIndex = gpu_->queue_family();
    check(vkCreateCommandPool(gpu_->handle(), &pool, nullptr, &pool_), "making a command pool");
    VkFenceCreateInfo fence = {VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
    const VkResult result = vkCreateFence(gpu_->handle(), &fence, nullptr, &done_);
    if (result != VK_SUCCESS) vkDestroyCommandPool(gpu_->handle(), pool_, nullptr);
    check(result, "making a fence");
  }

  ~VulkanPlan() override {
    // Also when not running: a submit that failed may have left pieces on their way.
    gpu_->wait_idle();
    vkDestroyFence(gpu_->handle(), done_, nullptr);
    vkDestroyCommandPool(gpu_->handle(), pool_, nullptr);
  }

  void submit(std::span<const std::int64_t> symbols, const Bindings& bindings,
              const Changes& actual) override {
    WEFT_CHECK(!running_);
    const auto start = Clock::now();
    if (actual.tensors || !table_.is_bound(*workspace_)) table_.bind(bindings, *workspace_);
    if (actual.shapes || actual.topology || stats_.steps == 0 || table_.is_cut()) table_.set_sizes(symbols);
    if (is_cancelled(options_.cancelled)) table_.cut();
    check(vkResetFences(gpu_->handle(), 1, &done_), "submitting a step");
    submitted_ = start;
    if (times_.has_value() || options_.record_each_step) forget_recordings(0);
    if (const Recording* known = find_recording()) {
      gpu_->submit(known->pieces, done_);
    } else {
      record_and_submit(start);
    }
    running_ = true;
    ++stats_.steps;
    stats_.submit_seconds += seconds_since(start);
  }

  void wait() override {
    if (!std::exchange(running_, false)) return;
    VkResult result = VK_TIMEOUT;
    while (result == VK_TIMEOUT) {
      if (!table_.is_cut() && is_cancelled(options_.cancelled)) table_.cut();
      result = vkWaitForFences(gpu_->handle(), 1, &done_, VK_TRUE,
                               table_.is_cut() ? UINT64_MAX : static_cast<std::uint64_t>(kLook.count()));
    }
    if (result != VK_SUCCESS) gpu_->wait_idle();  // No part of a failed step continues.
    check(result, "waiting for a step");
    kernel_seconds_ += gpu_->seconds_of_step(submitted_);
    if (times_.has_value()) times_->add();
  }

  PlanMemory memory() const override { return table_.memory(options_.workspaces != nullptr); }
  double kernel_seconds() const override { return kernel_seconds_; }
  void set_profile(Profile* profile) override {
    forget_recordings(0);  // They may ask for times.
    times_.reset();
    if (profile == nullptr || !gpu_->has_timestamps()) return;
    std::vector<std::string> names;
    for (const Launch& launch : table_.program().launches)
      names.push_back(gpu::work_name(table_.graph(), launch));
    times_.emplace(*gpu_, *profile, names);
  }
  int n_launches() const override { return static_cast<int>(table_.n_launches()); }
  int n_phases() const override { return table_.program().n_phases; }
  const PlanStats& stats() const { return stats_; }

  std::string describe() const override { return gpu::describe(table_.graph(), table_.program()); }

 private:
  VkCommandBuffer begin_piece() {
    VkCommandBufferAllocateInfo allocate = {VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO};
    allocate.commandPool = pool_;
    allocate.commandBufferCount = 1;
    VkCommandBuffer& commands = recordings_.back().pieces.emplace_back(VK_NULL_HANDLE);
    check(vkAllocateCommandBuffers(gpu_->handle(), &allocate, &commands), "making a command buffer");
    VkCommandBufferBeginInfo begin = {VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    check(vkBeginCommandBuffer(commands, &begin), "recording a plan");
    return commands;
  }

  static void barrier(VkCommandBuffer commands, VkPipelineStageFlags to, VkAccessFlags access,
                      VkPipelineStageFlags from = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                      VkAccessFlags written = VK_ACCESS_SHADER_WRITE_BIT) {
    VkMemoryBarrier memory = {VK_STRUCTURE_TYPE_MEMORY_BARRIER};
    memory.srcAccessMask = written;
    memory.dstAccessMask = access;
    vkCmdPipelineBarrier(commands, from, to, 0, 1, &memory, 0, nullptr, 0, nullptr);
  }

  /// A piece's part of the table, where the host could not write it in place.
  void copy_table(VkCommandBuffer commands, std::size_t first_launch, std::size_t end_launch) {
    if (!staged_.has_value() || first_launch == end_launch) return;
    const std::size_t begin = first_launch == 0 ? 0 : table_.entry(first_launch);
    const std::size_t end = end_launch < table_.n_launches() ? table_.entry(end_launch) : step_.size();
    constexpr VkPipelineStageFlags kReaders =
        VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_DRAW_INDIRECT_BIT;
    // The step before may still read it.
    barrier(commands, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_WRITE_BIT, kReaders);
    const VkBufferCopy copy = {begin, begin, end - begin};
    vkCmdCopyBuffer(commands, staged_->handle(), step_.handle(), 1, &copy);
    barrier(commands, kReaders,
            VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_INDIRECT_COMMAND_READ_BIT,
            VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_WRITE_BIT);
  }

  /// Steps of one kind: they have work for the same launches.
  struct Recording {
    std::vector<bool> active;  // By launch.
    std::vector<VkCommandBuffer> pieces;
  };
  /// Which is the last one then.
  const Recording* find_recording() {
    const auto found = std::find_if(recordings_.begin(), recordings_.end(),
                                    [&](const Recording& one) { return one.active == table_.active(); });
    if (found == recordings_.end()) return nullptr;
    std::rotate(found, found + 1, recordings_.end());
    return &recordings_.back();
  }
  /// Drops all but the `kept` last used ones. None is running.
  void forget_recordings(std::size_t kept) {
    while (recordings_.size() > kept) {
      const auto& pieces = recordings_.front().pieces;
      if (!pieces.empty())
        vkFreeCommandBuffers(gpu_->handle(), pool_, static_cast<std::uint32_t>(pieces.size()), pieces.data());
      recordings_.erase(recordings_.begin());
    }
  }

  void record_and_submit(Clock::time_point start) {
    forget_recordings(kMaxRecordings - 1);
    recordings_.push_back({table_.active(), {}});
    try {
      record_and_submit_pieces(start);
    } catch (...) {
      // No fence signals the end of the pieces before, and the recording is incomplete.
      gpu_->wait_idle();
      forget_recordings(0);
      throw;
    }
  }

  /// Where the table is copied piece by piece, a cancelled step runs to the end of a piece.
  std::size_t largest_piece() const {
    return staged_.has_value() && options_.cancelled != nullptr ? 64 : table_.n_launches() + 1;
  }

  /// Each piece is on its way while the next is recorded.
  void record_and_submit_pieces(Clock::time_point start) {
    std::vector<std::size_t> launches;
    for (std::size_t i = 0; i < table_.n_launches(); ++i)
      if (table_.active()[i]) launches.push_back(i);
    const std::size_t n = launches.size();
    std::size_t piece =
        std::min(largest_piece(), options_.first_piece > 0 ? to_size(options_.first_piece) : n);
    std::size_t i = 0;
    int n_phases = 0;
    do {
      const VkCommandBuffer commands = begin_piece();
      VkPipeline current = VK_NULL_HANDLE;
      const std::size_t end = std::min(n, i + piece);
      copy_table(commands, i == 0 ? 0 : launches[i], end < n ? launches[end] : table_.n_launches());
      if (times_.has_value() && i == 0) times_->begin(commands, launches);
      for (; i < end; ++i) {
        const std::size_t at = launches[i];
        const Launch& launch = table_.launch(at);
        // Also before the first: the step before may still be read or written.
        const bool begins_phase = i == 0 || launch.phase != table_.launch(launches[i - 1]).phase;
        if (begins_phase) ++n_phases;
        if (begins_phase || times_.has_value())
          barrier(commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                  VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT);
        if (pipeline_of_[at] != current)
          vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, current = pipeline_of_[at]);
        vkCmdPushConstants(commands, pipelines_->layout(), VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof(Push),
                           &launch.push);
        vkCmdDispatchIndirect(commands, step_.handle(), table_.entry(at));
        if (times_.has_value()) times_->stamp(commands, i + 1);
      }
      if (i == n) barrier(commands, VK_PIPELINE_STAGE_HOST_BIT, VK_ACCESS_HOST_READ_BIT);
      check(vkEndCommandBuffer(commands), "recording a plan");
      gpu_->submit({&commands, 1}, i == n ? done_ : VK_NULL_HANDLE);
      if (stats_.steps == 0 && recordings_.back().pieces.size() == 1)
        stats_.first_work_seconds = seconds_since(start);
      piece = std::min(piece * 2, largest_piece());
    } while (i < n);
    if (stats_.steps == 0) stats_.first_recording_seconds = seconds_since(start);
    ++stats_.times_recorded;
    stats_.step_phases = n_phases;
  }

  std::shared_ptr<Gpu> gpu_;
  std::shared_ptr<Pipelines> pipelines_;
  PlanOptions options_;
  gpu::StepTable table_;
  Buffer step_;                   // The table, in device memory.
  std::optional<Buffer> staged_;  // What is copied to step_, where that is not mapped.
  const std::shared_ptr<gpu::GpuWorkspace> workspace_;
  Buffer frequencies_;
  std::vector<VkPipeline> pipeline_of_;  // By launch.
  VkCommandPool pool_ = VK_NULL_HANDLE;
  std::vector<Recording> recordings_;  // The latest last.
  std::optional<LaunchTimes> times_;   // While there is a profile.
  VkFence done_ = VK_NULL_HANDLE;
  bool running_ = false;
  Clock::time_point submitted_;
  double kernel_seconds_ = 0.0;
  PlanStats stats_;
};

}  // namespace

const PlanStats& stats(const DevicePlan& plan) {
  const auto* const vulkan_plan = dynamic_cast<const VulkanPlan*>(&plan);
  WEFT_CHECK(vulkan_plan != nullptr);
  return vulkan_plan->stats();
}

std::vector<ShaderStatistics> shader_statistics(const Gpu& gpu, Pipelines& pipelines, const Graph& graph) {
  std::vector<ShaderStatistics> result;
  std::set<std::pair<gpu::Kernel, std::vector<std::uint32_t>>> told;
  for (const Launch& launch : gpu::make_program(graph, target_of(gpu)).launches) {
    if (!told.insert({launch.kernel, launch.constants}).second) continue;
    auto numbers = pipelines.statistics(launch.kernel, launch.constants);
    if (!numbers.empty()) result.push_back({gpu::kernel_text(launch), std::move(numbers)});
  }
  return result;
}

PlanMemory plan_memory(const Gpu& gpu, const Graph& graph, bool shares_workspace) {
  return gpu::StepTable(graph, target_of(gpu)).memory(shares_workspace);
}

std::unique_ptr<DevicePlan> make_plan(std::shared_ptr<Gpu> gpu, std::shared_ptr<Pipelines> pipelines,
                                      const Graph& graph, const Bindings& bindings,
                                      const PlanOptions& options) {
  return std::make_unique<VulkanPlan>(std::move(gpu), std::move(pipelines), graph, bindings, options);
}

}  // namespace weft::vulkan
