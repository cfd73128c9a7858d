// Since 0.1
#pragma once
// The interface between weft and a backend. A backend implements Device, DeviceTensor and DevicePlan; weft
// uses devices only through these.
//
// For each node weft asks a device whether it supports it (Device::supports). It then compiles graphs of
// supported nodes (Device::compile) and runs them step by step (DevicePlan::submit). graph/op.h defines the
// ops, and check_conformance (weft/conformance.h) tests a device against the definitions.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weft/backend/host_threads.h"
#include "weft/backend/workspace.h"
#include "weft/device.h"
#include "weft/error.h"
#include "weft/graph.h"
#include "weft/graph/changes.h"
#include "weft/graph/kinds.h"
#include "weft/profile.h"

namespace weft::base {
class MappedFile;
}  // namespace weft::base

#pragma GCC visibility push(default)

namespace weft {

/// A tensor in a device's memory, in a layout that the device chooses (packed weights, blocked caches). Data
/// that is passed through this interface has GGUF's layout, and caches are plain rows. Dimensions are
/// outermost first. Memory has room for the upper bounds of symbols; a step uses the first rows, without
/// gaps.
class DeviceTensor {
 public:
  virtual ~DeviceTensor() = default;
  virtual DType dtype() const = 0;
  virtual std::size_t bytes() const = 0;  ///< In the device's memory.
  /// For inputs and outputs: memory that the host writes before a step or reads after it. Empty for others.
  virtual std::span<std::byte> host() { return {}; }
  /// For weights: whether it uses WeightSource::bytes in place. If not, the bytes may be freed.
  virtual bool reads_source() const { return true; }
};

/// The inputs, outputs, weights and states of a graph, by ValueId. Null for other results. All belong to the
/// device that gets them.
using Bindings = std::vector<DeviceTensor*>;

struct CompileOptions {
  Changes allowed = {};
  int n_threads = 0;  ///< Host threads that the plan may use. 0: the number of cores.
  /// Threads for weft's CPU, which plans that run in turns share. Other devices ignore it.
  std::shared_ptr<HostThreads> pool = nullptr;
  /// Memory for temporaries that plans share if they run in turns (workspace.h). Only devices may use it
  /// whose steps have ended when submit returns, or run in the order of submission.
  std::shared_ptr<Workspaces> workspaces = nullptr;
  /// Cancellation: while this flag is set, running and new steps end early. Their outputs and stored rows are
  /// undefined, but moves of cells (MoveCells) are complete. Any thread or signal handler may set it; only
  /// the caller clears it. Null: steps run to their end. It must outlive the plan.
  const std::atomic<bool>* cancelled = nullptr;
  /// Outputs that only devices read (Device::send_to), not the host.
  std::vector<ValueId> not_for_host = {};
};
/// Whether the flag (CompileOptions::cancelled) is set.
inline bool is_cancelled(const std::atomic<bool>* flag) {
  static_assert(std::atomic<bool>::is_always_lock_free);
  return flag != nullptr && flag->load(std::memory_order_relaxed);
}

/// The bytes of a plan, without its bound tensors.
struct PlanMemory {
  std::size_t own = 0;
  std::size_t shared = 0;  ///< In CompileOptions::workspaces, if the plan uses them.
};

/// A graph compiled for one device: its kernels after fusion, and memory for the upper bounds of its symbols.
/// Used by one thread at a time.
class DevicePlan {
 public:
  virtual ~DevicePlan() = default;
  /// Starts one step. The caller guarantees that `symbols` are within their bounds, and `actual` within
  /// CompileOptions::allowed. `actual` declares what differs from the last step; the plan rereads nothing
  /// else. The first step declares nothing. The arguments need not outlive the call, but the tensors must
  /// live until wait(). An asynchronous device returns as soon as the step has started, and the caller does
  /// not write to inputs before wait().
  ///
  /// submit() and wait() throw Error kDevice if the device fails, and kOutOfMemory or std::bad_alloc if
  /// memory is exhausted. They throw kIo if weights that the step reads in a mapped file have changed. The
  /// caller still calls wait(), after which nothing of the step runs. What the step was to write is undefined
  /// then: outputs, stored rows and moved cells. Everything else is unchanged. Another step may be submitted;
  /// it declares what may differ from the last completed step. If the device is lost for good, that step
  /// fails, too.
  virtual void submit(std::span<const std::int64_t> symbols, const Bindings& bindings,
                      const Changes& actual) = 0;
  /// Blocks until the outputs of the last submitted step can be read. Returns at once if no step runs.
  virtual void wait() = 0;
  virtual PlanMemory memory() const = 0;

  // Optional statistics.

  /// Records later steps in `profile`. Null ends that.
  virtual void set_profile(Profile* /*profile*/) {}
  /// Time of kernels in all steps so far, without host work.
  virtual double kernel_seconds() const { return 0.0; }
  virtual int n_launches() const { return 0; }  ///< Kernels of a step, after fusion.
  virtual int n_phases() const { return 0; }    ///< Barriers of a step, at most.
  /// One line per launch, for display.
  virtual std::string describe() const { return {}; }
};

/// The data of a weight: rows in GGUF's layout.
struct WeightSource {
  /// Pieces of equal length in a mapped file, `stride` bytes apart.
  struct Pieces {
    std::span<const std::byte> first;
    std::size_t n = 0;
    std::size_t stride = 0;
  };
  std::span<const std::byte> bytes;  ///< Must outlive tensors that use them in place (reads_source).
  /// Copies a part of `bytes`, in any thread. Null: they are ordinary memory. Throws Error kIo if a mapped
  /// file has lost them.
  std::function<void(std::span<const std::byte> part, std::span<std::byte> to)> reader = {};
  /// The weight's name in the model, for devices that cache packed weights. Empty: do not cache.
  std::string_view name = {};
  /// If `bytes` are a copy of pieces of the file: these pieces.
  Pieces copied_from = {};
  /// For weft's own devices: the file that the bytes are mapped from. A tensor that uses them in place keeps
  /// the file, and its steps check it. Null: ordinary memory.
  std::shared_ptr<const base::MappedFile> file = nullptr;

  void read(std::span<const std::byte> part, std::span<std::byte> to) const {
    if (reader) return reader(part, to);
    std::copy(part.begin(), part.end(), to.begin());
  }
};

/// Any thread may call any member, unless noted otherwise. Members throw Error kOutOfMemory and kDevice.
class Device {
 public:
  virtual ~Device() = default;
  virtual const DeviceInfo& info() const = 0;
  /// Whether steps of all plans run in the order of submission, and each sees the writes of earlier ones.
  /// Callers then need not wait for a step before they submit one of another plan.
  virtual bool in_order() const { return false; }

  /// Whether it can compute the node, given its parameters and the types, kinds and shapes of its inputs. The
  /// CPU takes all other nodes.
  virtual bool supports(const Graph& graph, const Node& node) const = 0;
  /// The 16-bit cache type that attention reads fastest: kF16 or kBF16.
  virtual DType best_cache_type() const { return DType::kF16; }
  /// The bytes that a weight or state takes on this device. A weight may take fewer, depending on its values.
  virtual std::size_t bytes_of(ValueKind kind, DType dtype, std::span<const std::int64_t> shape) const = 0;

  virtual std::unique_ptr<DeviceTensor> create_weight(DType dtype, std::span<const std::int64_t> shape,
                                                      const WeightSource& source) = 0;
  /// Called after all weights of a model were created. The device may write its cache of packed weights for
  /// the next start. Returns whether it uses weights in a mapped file.
  virtual bool finish_weights() { return false; }
  /// Blocks until background work on the weights is done, so that the speed of steps no longer changes.
  virtual void settle() {}

  // States: only for devices that support nodes with states.

  /// Makes a state of zeros. Physical memory should be taken at its first use only.
  virtual std::unique_ptr<DeviceTensor> create_state(DType /*dtype*/,
                                                     std::span<const std::int64_t> /*shape*/) {
    throw Error(ErrorCode::kUnsupported, info().name + " keeps no states");
  }
  /// Reads or writes cells of a cache {cells, heads, head_dim}. `rows` has [heads][head_dim] elements for
  /// each of `cells`, in order, in the cache's type and GGUF's layout. `role` is what the graph uses the
  /// cache for. Recurrent states (kSlots) are {slots, rows, columns}, with slots in place of cells. Reads see
  /// all earlier steps, and later steps see all writes. No plan that is bound to the state may be running.
  virtual void read_cells(const DeviceTensor& /*state*/, CacheRole /*role*/,
                          std::span<const std::int32_t> /*cells*/, std::span<std::byte> /*rows*/) {
    throw Error(ErrorCode::kUnsupported, info().name + " keeps no states");
  }
  virtual void write_cells(DeviceTensor& /*state*/, CacheRole /*role*/,
                           std::span<const std::int32_t> /*cells*/, std::span<const std::byte> /*rows*/) {
    throw Error(ErrorCode::kUnsupported, info().name + " keeps no states");
  }

  /// Makes an input or output.
  virtual std::unique_ptr<DeviceTensor> create_host_tensor(DType dtype,
                                                           std::span<const std::int64_t> shape) = 0;

  // Transfers between devices that run steps in order, without the host. Callers do not wait for a transfer.
  // If it fails, the steps that read its data fail.

  /// A transfer of a tensor's first bytes from one device to another.
  struct Transfer {
    DeviceTensor* from = nullptr;
    std::size_t bytes = 0;
    std::uint64_t number = 0;  ///< For the devices' own use.
  };
  virtual bool can_receive_from(const Device& /*other*/) const { return false; }
  /// Sends a tensor of this device, after all steps that were submitted so far. The caller must then call
  /// receive_from once on the other device.
  virtual Transfer send_to(Device& other, DeviceTensor& /*from*/, std::size_t /*bytes*/) {
    throw Error(ErrorCode::kUnsupported, info().name + " sends nothing to " + other.info().name);
  }
  /// Writes the transfer into a tensor of this device, for steps that are submitted later. Null: drops it.
  /// Only transfers fill such a tensor; its host memory is undefined.
  virtual void receive_from(Device& other, const Transfer& /*transfer*/, DeviceTensor* /*to*/) {
    throw Error(ErrorCode::kUnsupported, info().name + " receives nothing from " + other.info().name);
  }

  /// The memory that compile() would take with these options. All nodes must be supported.
  virtual PlanMemory memory_of(const Graph& graph, const CompileOptions& options) const = 0;
  /// Compiles a graph whose nodes are all supported. The graph and the bindings need not outlive the call.
  /// The tensors must outlive the plan, or be bound again in a step.
  virtual std::unique_ptr<DevicePlan> compile(const Graph& graph, const Bindings& bindings,
                                              const CompileOptions& options) = 0;

  /// Throws Error kIo if weights in a mapped file have changed since it was opened (another process, or a
  /// failed disk). Steps throw it, too.
  virtual void check_weights() const {}
};

}  // namespace weft

#pragma GCC visibility pop
