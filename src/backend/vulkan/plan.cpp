#include "backend/vulkan/plan.h"

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <numbers>
#include <optional>
#include <set>

#include "backend/arena.h"
#include "backend/rope.h"
#include "backend/vulkan/launch_times.h"
#include "backend/vulkan/launches.h"
#include "backend/vulkan/tensors.h"
#include "base/check.h"
#include "base/to_size.h"
#include "weft/error.h"

namespace weft::vulkan {
namespace {

/// Kinds of steps (Recording) that are kept: reading, generating, both, with moves and without.
constexpr std::size_t kMaxRecordings = 8;

/// How often a wait for a step looks whether it was cancelled.
constexpr std::chrono::nanoseconds kLook = std::chrono::milliseconds(1);

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// A dispatch's data in a step: its groups, then the rows for the shader, then its words or the one that
/// counts its groups.
constexpr std::size_t kGroupWords = 3, kEntryWords = kGroupWords + 1;
std::size_t entry_bytes(const Launch& launch) {
  WEFT_CHECK(!launch.counts_groups || launch.words.empty());
  return (kEntryWords + launch.words.size() + (launch.counts_groups ? 1 : 0)) * sizeof(std::uint32_t);
}

/// Turns per position as fractions of 2^64 (shaders/turns.glsl).
std::vector<std::uint64_t> fixed_point(const std::vector<double>& radians) {
  std::vector<std::uint64_t> result;
  for (const double r : radians) {
    const double turns = r / (2.0 * std::numbers::pi);
    const double fraction = turns - std::floor(turns);
    result.push_back(static_cast<std::uint64_t>(std::ldexp(fraction, 53)) << 11);
  }
  return result;
}

/// A shader's name and its constants.
std::string shader_text(const Launch& launch) {
  std::string text = name(launch.shader);
  for (const std::uint32_t constant : launch.constants) text += " " + std::to_string(constant);
  return text;
}

Target target_of(const Gpu& gpu) {
  return {.byte_dots = gpu.abilities().byte_dots, .sizes = gpu.sizes(), .far_from_host = gpu.far_from_host()};
}

class GpuWorkspace final : public Workspace {
 public:
  explicit GpuWorkspace(std::shared_ptr<Gpu> gpu) : gpu_(std::move(gpu)) {}
  const Gpu* gpu() const { return gpu_.get(); }
  VkDeviceAddress address() const { return buffer_ != nullptr ? buffer_->address() : 0; }

 private:
  void grow(std::size_t bytes) override {
    auto larger = std::make_unique<Buffer>(*gpu_, Place::kDevice, bytes);
    gpu_->wait_idle();  // A submit that failed may have left pieces on their way.
    buffer_ = std::move(larger);
  }
  std::shared_ptr<Gpu> gpu_;
  std::unique_ptr<Buffer> buffer_;
};

std::shared_ptr<GpuWorkspace> workspace_of(const std::shared_ptr<Gpu>& gpu, Workspaces* shared) {
  const auto make = [&] { return std::make_shared<GpuWorkspace>(gpu); };
  if (shared == nullptr) return make();
  return shared->find<GpuWorkspace>([&](const GpuWorkspace& one) { return one.gpu() == gpu.get(); }, make);
}

/// By value: whether memory is bound from outside.
std::vector<bool> external_values(const Graph& graph, const Program& program) {
  std::vector<bool> result(graph.values().size());
  for (std::size_t v = 0; v < result.size(); ++v)
    result[v] = graph.values()[v].kind != ValueKind::kResult || program.storage[v] != static_cast<ValueId>(v);
  for (const Brought& brought : program.brought) result[to_size(brought.input)] = false;
  for (const ValueId output : graph.outputs()) result[to_size(output)] = true;
  return result;
}

/// The places of a program's temporaries in its workspace.
struct Layout {
  std::vector<bool> external;
  std::vector<std::size_t> temporaries;  // Values ...
  std::vector<std::size_t> offsets;      // ... and their offsets, followed by the offsets of Program::codes.
  std::size_t bytes = 0;
};

Layout lay_out_program(const Graph& graph, const Program& program) {
  Layout result;
  result.external = external_values(graph, program);
  const std::vector<std::int64_t> bounds = graph.bounds();
  std::vector<int> first(graph.values().size(), -1), last(graph.values().size(), -1);
  // A place that a launch leaves out is value 0's, which is never a temporary.
  for (const Launch& launch : program.launches)
    for (const std::uint32_t value : launch.push.tensors) {
      if (value >= first.size()) continue;
      first[value] = first[value] < 0 ? launch.phase : std::min(first[value], launch.phase);
      last[value] = std::max(last[value], launch.phase);
    }
  std::vector<Lifetime> lifetimes;
  for (std::size_t v = 0; v < result.external.size(); ++v) {
    if (result.external[v] || first[v] < 0) continue;
    result.temporaries.push_back(v);
    // Results are floats or 32-bit indices.
    lifetimes.push_back({first[v], last[v], to_size(graph.values()[v].shape.elements(bounds)) * 4});
  }
  for (const Scratch& one : program.scratch)
    lifetimes.push_back({one.first_phase, one.last_phase, to_size(one.rows.value(bounds)) * one.row_bytes});
  ArenaLayout layout = lay_out(lifetimes);
  result.offsets = std::move(layout.offsets);
  result.bytes = layout.bytes;
  return result;
}

std::size_t n_addresses(const Graph& graph, const Program& program) {
  return graph.values().size() + program.frequencies.size() + program.scratch.size() + program.brought.size();
}

std::size_t step_bytes(const Graph& graph, const Program& program) {
  std::size_t n = n_addresses(graph, program) * sizeof(std::uint64_t);
  for (const Launch& launch : program.launches) n += entry_bytes(launch);
  return n;
}

std::size_t frequency_bytes(const Program& program) {
  std::size_t n = 0;
  for (const Frequencies& f : program.frequencies) n += to_size(f.rope.n_rot / 2);
  return n * sizeof(std::uint64_t);
}

PlanMemory memory_of(const Graph& graph, const Program& program, const Layout& layout, bool shares) {
  const std::size_t tables = step_bytes(graph, program) + frequency_bytes(program);
  if (shares) return {.own = tables, .shared = layout.bytes};
  return {.own = tables + layout.bytes, .shared = 0};
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
        graph_(graph),
        options_(options),
        program_(make_program(graph_, target_of(*gpu_))),
        n_addresses_(n_addresses(graph_, program_)),
        step_(*gpu_, Place::kDevice, step_bytes(graph_, program_)),
        workspace_(workspace_of(gpu_, options.workspaces.get())),
        layout_(lay_out_program(graph_, program_)),
        frequencies_(*gpu_, Place::kDevice, frequency_bytes(program_)),
        factors_of_(program_.frequencies.size()) {
    if (step_.mapped() == nullptr) staged_.emplace(*gpu_, Place::kHost, step_.size());
    for (Launch& launch : program_.launches)
      pipeline_of_.push_back(pipelines_->get(launch.shader, launch.constants));
    pipelines_->save();
    std::size_t at = n_addresses_ * sizeof(std::uint64_t);
    for (Launch& launch : program_.launches) {
      launch.push.addresses = step_.address();
      launch.push.step = step_.address() + at;
      if (launch.grids) launch.push.grids = pipelines_->grids();
      entries_.push_back(at);
      at += entry_bytes(launch);
      words_.resize(std::max(words_.size(), launch.words.size()));
    }
    active_.resize(program_.launches.size());
    workspace_->reserve(layout_.bytes);
    bind(bindings);
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
    if (actual.tensors || bound_at_move_ != workspace_->n_moves()) bind(bindings);
    if (actual.shapes || actual.topology || stats_.steps == 0 || is_cut_) set_sizes(symbols);
    if (is_cancelled(options_.cancelled)) cut();
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
      if (!is_cut_ && is_cancelled(options_.cancelled)) cut();
      result = vkWaitForFences(gpu_->handle(), 1, &done_, VK_TRUE,
                               is_cut_ ? UINT64_MAX : static_cast<std::uint64_t>(kLook.count()));
    }
    if (result != VK_SUCCESS) gpu_->wait_idle();  // No part of a failed step continues.
    check(result, "waiting for a step");
    kernel_seconds_ += gpu_->seconds_of_step(submitted_);
    if (times_.has_value()) times_->add();
  }

  PlanMemory memory() const override {
    return memory_of(graph_, program_, layout_, options_.workspaces != nullptr);
  }
  double kernel_seconds() const override { return kernel_seconds_; }
  void set_profile(Profile* profile) override {
    forget_recordings(0);  // They may ask for times.
    times_.reset();
    if (profile == nullptr || !gpu_->has_timestamps()) return;
    std::vector<std::string> names;
    for (const Launch& launch : program_.launches) names.push_back(work_name(graph_, launch));
    times_.emplace(*gpu_, *profile, names);
  }
  int n_launches() const override { return static_cast<int>(program_.launches.size()); }
  int n_phases() const override { return program_.n_phases; }
  const PlanStats& stats() const { return stats_; }

  std::string describe() const override {
    std::string text;
    for (const Launch& launch : program_.launches) {
      const Node& node = graph_.node(launch.node);
      text += std::to_string(launch.phase) + " " + shader_text(launch);
      text += ": " + std::string(weft::to_string(node.op)) + " " + graph_.value(node.output).name + "\n";
    }
    return text;
  }

 private:
  std::byte* table() const { return staged_.has_value() ? staged_->mapped() : step_.mapped(); }
  std::uint64_t* addresses() const { return reinterpret_cast<std::uint64_t*>(table()); }
  volatile std::uint32_t* entry(std::size_t launch) const {
    return reinterpret_cast<volatile std::uint32_t*>(table() + entries_[launch]);
  }

  static Tensor& tensor_of(DeviceTensor* bound) {
    auto* const tensor = dynamic_cast<Tensor*>(bound);
    WEFT_CHECK(tensor != nullptr);
    return *tensor;
  }

  void bind(const Bindings& bindings) {
    bound_at_move_.reset();
    for (std::size_t v = 0; v < layout_.external.size(); ++v) {
      DeviceTensor* const bound = bindings[v];
      if (layout_.external[v] && bound != nullptr) addresses()[v] = tensor_of(bound).buffer().address();
    }
    for (const Brought& brought : program_.brought)
      addresses()[brought.source] = tensor_of(bindings[to_size(brought.input)]).buffer().address();
    for (std::size_t i = 0; i < layout_.temporaries.size(); ++i)
      addresses()[layout_.temporaries[i]] = workspace_->address() + layout_.offsets[i];
    const std::size_t scratch_begin = layout_.external.size() + program_.frequencies.size();
    for (std::size_t i = 0; i < program_.scratch.size(); ++i)
      addresses()[scratch_begin + i] =
          workspace_->address() + layout_.offsets[layout_.temporaries.size() + i];
    std::size_t at = 0;
    for (std::size_t i = 0; i < program_.frequencies.size(); ++i) {
      const Frequencies& f = program_.frequencies[i];
      const DeviceTensor* const source = f.factors != kNoValue ? bindings[to_size(f.factors)] : nullptr;
      const std::size_t begin = at;
      at += to_size(f.rope.n_rot / 2) * sizeof(std::uint64_t);
      addresses()[layout_.external.size() + i] = frequencies_.address() + begin;
      // Steps that alternate between inputs rebind them, and an unchanged table is not made again.
      if (factors_of_[i] == source) continue;
      factors_of_[i].reset();  // Until it is written whole.
      std::vector<float> factors;
      if (f.factors != kNoValue) {
        factors.resize(to_size(f.rope.n_rot / 2));
        tensor_of(bindings[to_size(f.factors)]).buffer().read(0, std::as_writable_bytes(std::span(factors)));
      }
      const auto table = fixed_point(rope_frequencies(f.rope, factors.empty() ? nullptr : factors.data()));
      frequencies_.write(begin, std::as_bytes(std::span(table)));
      factors_of_[i] = source;
    }
    bound_at_move_ = workspace_->n_moves();
  }

  void set_sizes(std::span<const std::int64_t> symbols) {
    for (std::size_t i = 0; i < program_.launches.size(); ++i) {
      const Launch& launch = program_.launches[i];
      const std::size_t n_words = launch.words.size();
      for (std::size_t w = 0; w < n_words; ++w)
        words_[w] = static_cast<std::uint32_t>(launch.words[w].value(symbols));
      const StepSizes sizes = {static_cast<std::uint32_t>(launch.rows.value(symbols)),
                               std::span(words_).first(n_words)};
      const Groups groups = sizes.rows > 0 ? launch.groups(sizes) : Groups{0, 0, 0};
      active_[i] = groups[0] > 0 && groups[1] > 0 && groups[2] > 0;
      volatile std::uint32_t* const to = entry(i);
      for (std::size_t d = 0; d < kGroupWords; ++d) to[d] = groups[d];
      to[kGroupWords] = sizes.rows;
      for (std::size_t w = 0; w < n_words; ++w) to[kEntryWords + w] = words_[w];
      if (launch.counts_groups) to[kEntryWords] = 0;
    }
    is_cut_ = false;
  }

  /// Dispatches that have not begun find no groups. It begins with the last one, since the device goes the
  /// other way: none may run after one that is left out. If a device reads that in another order still, a
  /// dispatch reads values of an earlier step, and shaders keep indices in range.
  void cut() {
    for (std::size_t i = program_.launches.size(); i-- > 0;)
      if (!program_.launches[i].must_run) entry(i)[0] = 0;
    is_cut_ = true;
  }

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
    const std::size_t begin = first_launch == 0 ? 0 : entries_[first_launch];
    const std::size_t end = end_launch < entries_.size() ? entries_[end_launch] : step_.size();
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
                                    [&](const Recording& one) { return one.active == active_; });
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
    recordings_.push_back({active_, {}});
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
    return staged_.has_value() && options_.cancelled != nullptr ? 64 : program_.launches.size() + 1;
  }

  /// Each piece is on its way while the next is recorded.
  void record_and_submit_pieces(Clock::time_point start) {
    std::vector<std::size_t> launches;
    for (std::size_t i = 0; i < active_.size(); ++i)
      if (active_[i]) launches.push_back(i);
    const std::size_t n = launches.size();
    std::size_t piece =
        std::min(largest_piece(), options_.first_piece > 0 ? to_size(options_.first_piece) : n);
    std::size_t i = 0;
    int n_phases = 0;
    do {
      const VkCommandBuffer commands = begin_piece();
      VkPipeline current = VK_NULL_HANDLE;
      const std::size_t end = std::min(n, i + piece);
      copy_table(commands, i == 0 ? 0 : launches[i], end < n ? launches[end] : entries_.size());
      if (times_.has_value() && i == 0) times_->begin(commands, launches);
      for (; i < end; ++i) {
        const std::size_t at = launches[i];
        const Launch& launch = program_.launches[at];
        // Also before the first: the step before may still be read or written.
        const bool begins_phase = i == 0 || launch.phase != program_.launches[launches[i - 1]].phase;
        if (begins_phase) ++n_phases;
        if (begins_phase || times_.has_value())
          barrier(commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                  VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT);
        if (pipeline_of_[at] != current)
          vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, current = pipeline_of_[at]);
        vkCmdPushConstants(commands, pipelines_->layout(), VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof(Push),
                           &launch.push);
        vkCmdDispatchIndirect(commands, step_.handle(), entries_[at]);
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
  const Graph graph_;  // Its own copy: the caller's may go.
  PlanOptions options_;
  Program program_;
  std::size_t n_addresses_;
  Buffer step_;
  std::optional<Buffer> staged_;      // What is copied to step_, where that is not mapped.
  std::vector<std::size_t> entries_;  // By launch: its offset in step_, in bytes.
  std::vector<std::uint32_t> words_;  // A launch's words, while they are computed.
  const std::shared_ptr<GpuWorkspace> workspace_;
  const Layout layout_;
  std::optional<std::uint64_t> bound_at_move_;  // The workspace's, when all addresses were written.
  Buffer frequencies_;
  // By table of frequencies: the factors that it is made from, or that there are none; nothing: it is not
  // made.
  std::vector<std::optional<const DeviceTensor*>> factors_of_;
  std::vector<VkPipeline> pipeline_of_;  // By launch.
  VkCommandPool pool_ = VK_NULL_HANDLE;
  std::vector<bool> active_;           // By launch: whether it has work in this step.
  std::vector<Recording> recordings_;  // The latest last.
  std::optional<LaunchTimes> times_;   // While there is a profile.
  VkFence done_ = VK_NULL_HANDLE;
  bool running_ = false;
  bool is_cut_ = false;  // The entries are a cancelled step's.
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
  std::set<std::pair<Shader, std::vector<std::uint32_t>>> told;
  for (const Launch& launch : make_program(graph, target_of(gpu)).launches) {
    if (!told.insert({launch.shader, launch.constants}).second) continue;
    auto numbers = pipelines.statistics(launch.shader, launch.constants);
    if (!numbers.empty()) result.push_back({shader_text(launch), std::move(numbers)});
  }
  return result;
}

PlanMemory plan_memory(const Gpu& gpu, const Graph& graph, bool shares_workspace) {
  const Program program = make_program(graph, target_of(gpu));
  return memory_of(graph, program, lay_out_program(graph, program), shares_workspace);
}

std::unique_ptr<DevicePlan> make_plan(std::shared_ptr<Gpu> gpu, std::shared_ptr<Pipelines> pipelines,
                                      const Graph& graph, const Bindings& bindings,
                                      const PlanOptions& options) {
  return std::make_unique<VulkanPlan>(std::move(gpu), std::move(pipelines), graph, bindings, options);
}

}  // namespace weft::vulkan
