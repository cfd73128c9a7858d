// Since 0.1
#pragma once
// The contract between weft and a backend: devices, their tensors, and plans that run graphs on them. A
// backend implements Device, DevicePlan and DeviceTensor; the layers above use only these.
//
// weft asks a device for each node whether it can compute it (supports). Then it compiles whole graphs of
// such nodes (compile) and runs them step by step (DevicePlan::submit). graph/op.h defines the ops;
// check_conformance (weft/conformance.h) tests a device against the definitions.
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

#include "weft/backend/workspace.h"
#include "weft/device.h"
#include "weft/error.h"
#include "weft/graph.h"
#include "weft/graph/changes.h"
#include "weft/graph/kinds.h"
#include "weft/profile.h"

namespace weft::base {
class MappedFile;
class Pool;
}  // namespace weft::base

#pragma GCC visibility push(default)

namespace weft {

/// A tensor in a device's memory and in the device's own layout (packed weights, blocked caches). Data that
/// crosses this interface is canonical: rows as GGUF stores them, caches as plain rows. Dimensions are
/// outermost first. Memory has room for the upper bounds of symbols; a step uses its first rows, without
/// gaps.
class DeviceTensor {
 public:
  virtual ~DeviceTensor() = default;
  virtual DType dtype() const = 0;
  virtual std::size_t bytes() const = 0;  ///< In the device's memory.
  /// Inputs and outputs only: memory that the host writes before a step or reads after it. Empty otherwise.
  virtual std::span<std::byte> host() { return {}; }
  /// For weights: whether it reads WeightSource::bytes in place. If not, these may be freed.
  virtual bool reads_source() const { return true; }
};

/// External tensors of a graph, by ValueId; null for internal results. They belong to the device that gets
/// them.
using Bindings = std::vector<DeviceTensor*>;

struct CompileOptions {
  Changes allowed = {};
  int n_threads = 0;  ///< Host threads that the plan may use. 0: the number of cores.
  /// Threads of weft's own CPU, for its plans that run in turns. Other devices ignore it.
  std::shared_ptr<base::Pool> pool = nullptr;
  /// Memory for temporaries that such plans share. A device that neither ends a plan's step in submit nor
  /// keeps the order of submission (workspace.h) ignores it.
  std::shared_ptr<Workspaces> workspaces = nullptr;
  /// The caller's flag, set from any thread or signal handler. While it is set, running and newly submitted
  /// steps end early. Their outputs and stored rows are undefined, but moves of cells are done. Only the
  /// caller clears it. Null: steps always run to their end. Must outlive the plan.
  const std::atomic<bool>* cancelled = nullptr;
  /// Outputs that the host does not read: only devices read them (Device::send_to).
  std::vector<ValueId> not_for_host = {};
};
/// For plans: whether the flag of CompileOptions::cancelled is set.
inline bool is_cancelled(const std::atomic<bool>* flag) {
  static_assert(std::atomic<bool>::is_always_lock_free);
  return flag != nullptr && flag->load(std::memory_order_relaxed);
}

/// The memory of a plan without its bound tensors, in bytes.
struct PlanMemory {
  std::size_t own = 0;
  std::size_t shared = 0;  ///< In CompileOptions::workspaces, where the plan uses those.
};

/// A graph compiled for one device: memory for the upper bounds of its symbols, and the list of kernels after
/// fusion. Used by one thread at a time.
class DevicePlan {
 public:
  virtual ~DevicePlan() = default;
  /// Starts one step. The caller has checked that `symbols` are within their bounds and `actual` within the
  /// allowed changes. The plan reads again only what `actual` declares as changed. A plan's first step
  /// declares nothing. The arguments need not outlive the call; the tensors must live until `wait`. An
  /// asynchronous device returns as soon as the step is started; the caller must not write to the inputs'
  /// memory before `wait`.
  ///
  /// Either call throws Error kDevice where the device fails, and kOutOfMemory or std::bad_alloc where memory
  /// is exhausted. It throws kIo where weights that the step reads in a mapped file have changed. The caller
  /// still waits for the submitted step; after that nothing of the step runs. All that the step was to write
  /// is undefined: outputs, rows that it stores, cells that it moves. Everything else is as before. Another
  /// step may be submitted, which declares all that may differ from the last completed step. A device that is
  /// lost for good fails in that step, too.
  virtual void submit(std::span<const std::int64_t> symbols, const Bindings& bindings,
                      const Changes& actual) = 0;
  /// Blocks until the outputs of the last submitted step can be read. Returns at once if no step is running.
  virtual void wait() = 0;
  virtual PlanMemory memory() const = 0;

  // Statistics, as far as the device has them.

  /// Records all following steps in `profile`, until it is null.
  virtual void set_profile(Profile* /*profile*/) {}
  /// The time of kernels in all steps so far, without the host's work.
  virtual double kernel_seconds() const { return 0.0; }
  virtual int n_launches() const { return 0; }  ///< Kernels of a step, after fusion.
  virtual int n_phases() const { return 0; }    ///< The most barriers of a step.
  /// One line per launch, for display.
  virtual std::string describe() const { return {}; }
};

/// Canonical rows of a weight.
struct WeightSource {
  /// Pieces of one length at equal distances, in a mapped file.
  struct Pieces {
    std::span<const std::byte> first;
    std::size_t n = 0;
    std::size_t stride = 0;
  };
  std::span<const std::byte> bytes;  ///< Must outlive tensors that read them (reads_source).
  /// Copies a part of the bytes, from any thread. Null: the bytes are in memory. Throws Error kIo where a
  /// mapped file has lost them.
  std::function<void(std::span<const std::byte> part, std::span<std::byte> to)> reader = {};
  /// Identifies a weight within a model, for devices that cache packed weights. Empty: do not cache.
  std::string_view name = {};
  /// The origin of the bytes in the file, if they are a copy of several pieces.
  Pieces copied_from = {};
  /// The file that the bytes are mapped from, for weft's own devices. A tensor that reads the bytes in place
  /// keeps the file and watches it (DevicePlan::submit). Null: the bytes are in memory.
  std::shared_ptr<const base::MappedFile> file = nullptr;

  void read(std::span<const std::byte> part, std::span<std::byte> to) const {
    if (reader) return reader(part, to);
    std::copy(part.begin(), part.end(), to.begin());
  }
};

/// Thread-safe, unless noted otherwise. Throws Error kOutOfMemory and kDevice.
class Device {
 public:
  virtual ~Device() = default;
  virtual const DeviceInfo& info() const = 0;
  /// Whether steps of all plans of this device run one after another in the order of submission, and each
  /// sees all writes of earlier ones. Then callers need not wait for a step before they submit one of another
  /// plan.
  virtual bool in_order() const { return false; }

  /// Whether it computes the node, with its parameters and the types, kinds and shapes of its inputs. The CPU
  /// takes all other nodes.
  virtual bool supports(const Graph& graph, const Node& node) const = 0;
  /// The cache type with the precision of F16 that attention reads fastest here: kF16 or kBF16.
  virtual DType best_cache_type() const { return DType::kF16; }
  /// The bytes of a weight or state on this device. A weight may take less, depending on its values.
  virtual std::size_t bytes_of(ValueKind kind, DType dtype, std::span<const std::int64_t> shape) const = 0;

  virtual std::unique_ptr<DeviceTensor> create_weight(DType dtype, std::span<const std::int64_t> shape,
                                                      const WeightSource& source) = 0;
  /// Called after all weights of a model were created: writes the device's cache of packed weights for the
  /// next start. Returns whether the weights are in a mapped file.
  virtual bool finish_weights() { return false; }
  /// Blocks until all background work on the weights is done, which changes the speed of steps.
  virtual void settle() {}

  // States. Only for devices that support nodes with states.

  /// Zeroed lazily: memory is allocated when it is first touched.
  virtual std::unique_ptr<DeviceTensor> create_state(DType /*dtype*/,
                                                     std::span<const std::int64_t> /*shape*/) {
    throw Error(ErrorCode::kUnsupported, info().name + " keeps no states");
  }
  /// Reads cells of a cache, {cells, heads, head_dim}, as canonical rows. Each of `cells`, in their order,
  /// has [heads][head_dim] elements of its type as GGUF stores them. `role` is the graph's use of the cache.
  /// Recurrent states (kSlots) are {slots, rows, columns}, with slots instead of cells. No plan that is bound
  /// to it may be running. Reads see all earlier steps; later steps see all writes.
  virtual void read_cells(const DeviceTensor& /*state*/, CacheRole /*role*/,
                          std::span<const std::int32_t> /*cells*/, std::span<std::byte> /*rows*/) {
    throw Error(ErrorCode::kUnsupported, info().name + " keeps no states");
  }
  virtual void write_cells(DeviceTensor& /*state*/, CacheRole /*role*/,
                           std::span<const std::int32_t> /*cells*/, std::span<const std::byte> /*rows*/) {
    throw Error(ErrorCode::kUnsupported, info().name + " keeps no states");
  }

  /// Inputs and outputs of steps.
  virtual std::unique_ptr<DeviceTensor> create_host_tensor(DType dtype,
                                                           std::span<const std::int64_t> shape) = 0;

  // Transfers between devices without the host, where both run steps in order. Callers do not wait for a
  // transfer; if it fails, the steps that read its data fail.

  /// A transfer of the first bytes of a host tensor from one device to another.
  struct Transfer {
    DeviceTensor* from = nullptr;
    std::size_t bytes = 0;
    std::uint64_t number = 0;  ///< The devices' own.
  };
  virtual bool can_receive_from(const Device& /*other*/) const { return false; }
  /// Sends a tensor of this device after all steps submitted so far. The caller must call receive_from on the
  /// other device once.
  virtual Transfer send_to(Device& other, DeviceTensor& /*from*/, std::size_t /*bytes*/) {
    throw Error(ErrorCode::kUnsupported, info().name + " sends nothing to " + other.info().name);
  }
  /// Writes the transfer into a tensor of this device, for steps submitted afterwards; null: drops it. Such a
  /// tensor is filled only by transfers; its host memory is undefined.
  virtual void receive_from(Device& other, const Transfer& /*transfer*/, DeviceTensor* /*to*/) {
    throw Error(ErrorCode::kUnsupported, info().name + " receives nothing from " + other.info().name);
  }

  /// The memory of a plan with these options. Every node must be supported.
  virtual PlanMemory memory_of(const Graph& graph, const CompileOptions& options) const = 0;
  /// The graph and the bindings need not outlive the call. The tensors must outlive the plan, or be bound
  /// again.
  virtual std::unique_ptr<DevicePlan> compile(const Graph& graph, const Bindings& bindings,
                                              const CompileOptions& options) = 0;

  /// Throws Error kIo where weights in a mapped file have changed since it was opened. Another process cut
  /// the file or wrote to it, or its disk failed. Steps throw it, too.
  virtual void check_weights() const {}
};

}  // namespace weft

#pragma GCC visibility pop
