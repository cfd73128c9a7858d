// Since 0.1
#pragma once
// The contract between weft and a backend: what a device is, how tensors live on it, and how a graph becomes
// a plan that it runs. A backend implements Device, DevicePlan and DeviceTensor; nothing above it knows
// which.
//
// A device is asked, node by node, what it can compute (supports), gets whole graphs of such nodes (compile),
// and runs them step by step (DevicePlan::submit). What an op computes stands in graph/op.h;
// check_conformance (weft/conformance.h) tells whether a device does.
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

/// A tensor in a device's memory and in the layout that the device likes best (packed weights, blocked
/// caches). What crosses this interface is always canonical: rows as GGUF stores them, caches as plain rows.
/// Dimensions stand outermost first, and memory is laid out for the upper bounds of symbols: a step uses the
/// first rows of it, without gaps.
class DeviceTensor {
 public:
  virtual ~DeviceTensor() = default;
  virtual DType dtype() const = 0;
  virtual std::size_t bytes() const = 0;  ///< In the device's memory.
  /// Inputs and outputs only: memory that the host writes before a step or reads after it. Empty otherwise.
  virtual std::span<std::byte> host() { return {}; }
  /// Of weights: whether it reads WeightSource::bytes where they lie. Of one that does not, they may go.
  virtual bool reads_source() const { return true; }
};

/// External tensors of a graph, by ValueId; null for results that stay inside. They are tensors of the device
/// that gets them.
using Bindings = std::vector<DeviceTensor*>;

struct CompileOptions {
  Changes allowed = {};
  int n_threads = 0;  ///< Host threads that the plan may use. 0: as many as there are cores.
  /// Threads of weft's own CPU, for its plans that run by turns. Other devices leave them alone.
  std::shared_ptr<base::Pool> pool = nullptr;
  /// Memory for temporaries that such plans share. A device that can neither end a plan's step in submit nor
  /// keep the order of submission (workspace.h) leaves it alone.
  std::shared_ptr<Workspaces> workspaces = nullptr;
  /// The caller's, who sets it from any thread or signal handler: while it is set, steps end early, also
  /// those that are submitted then. Their outputs and what they store are undefined, but moves of cells are
  /// done. Nobody else clears it. Null: steps always run to their end. Must outlive the plan.
  const std::atomic<bool>* cancelled = nullptr;
  /// Outputs that the host does not read: devices have them from each other (Device::send_to), or themselves.
  std::vector<ValueId> not_for_host = {};
};
/// What plans ask, of such a flag.
inline bool is_cancelled(const std::atomic<bool>* flag) {
  static_assert(std::atomic<bool>::is_always_lock_free);
  return flag != nullptr && flag->load(std::memory_order_relaxed);
}

/// What a plan takes besides the tensors bound to it, in bytes.
struct PlanMemory {
  std::size_t own = 0;
  std::size_t shared = 0;  ///< Of CompileOptions::workspaces, where the plan uses those.
};

/// A graph compiled for one device: memory laid out for the upper bounds of its symbols, kernels and fusions
/// chosen, only what is really run kept, in order. Used by one thread at a time.
class DevicePlan {
 public:
  virtual ~DevicePlan() = default;
  /// Starts one step. `symbols` are within their bounds and `actual` within what was allowed (the caller
  /// checked); what did not change since the step before is not looked at again. A plan's first step declares
  /// nothing. The arguments need not outlive the call; the tensors do, until `wait`. Where the device works
  /// beside the host this returns as soon as the work is on its way, and the inputs' memory may not be
  /// written before `wait`.
  ///
  /// Either call throws Error kDevice where the device fails, and kOutOfMemory or std::bad_alloc where memory
  /// is exhausted. It throws kIo where weights that the step reads in a mapped file have changed. The caller
  /// still waits for the submitted step; after that nothing of the step runs. All that the step was to write
  /// is undefined: outputs, rows that it stores, cells that it moves. Everything else is as before. Another
  /// step may be submitted, which declares all that may differ from the last completed step. A device that is
  /// lost for good fails in that step, too.
  virtual void submit(std::span<const std::int64_t> symbols, const Bindings& bindings,
                      const Changes& actual) = 0;
  /// Blocks until the outputs of the last submitted step can be read. Returns at once where none is on its
  /// way.
  virtual void wait() = 0;
  virtual PlanMemory memory() const = 0;

  // What a device tells of its work, as far as it can.

  /// Steps from now on are taken down in `profile`, until it is null.
  virtual void set_profile(Profile* /*profile*/) {}
  /// Time of all steps so far that went into kernels, not the host's work.
  virtual double kernel_seconds() const { return 0.0; }
  virtual int n_launches() const { return 0; }  ///< Kernels of a step, after fusion.
  virtual int n_phases() const { return 0; }    ///< Barriers of a step at most.
  /// One line per launch, for people.
  virtual std::string describe() const { return {}; }
};

/// Canonical rows of a weight.
struct WeightSource {
  /// Pieces of one length at equal distances, in memory that is a mapped file's.
  struct Pieces {
    std::span<const std::byte> first;
    std::size_t n = 0;
    std::size_t stride = 0;
  };
  std::span<const std::byte> bytes;  ///< Valid as long as a tensor that reads them (reads_source).
  /// Copies a part of the bytes, from any thread. Null: the bytes are in memory. Throws Error kIo where a
  /// mapped file has lost them.
  std::function<void(std::span<const std::byte> part, std::span<std::byte> to)> reader = {};
  /// Tells weights of a model apart, for devices that keep what they made of them. Empty: not to be kept.
  std::string_view name = {};
  /// What the bytes were copied from, where they do not lie in one piece there.
  Pieces copied_from = {};
  /// The file that the bytes are mapped from, for weft's own devices. A tensor that reads the bytes in place
  /// keeps the file and watches it (DevicePlan::submit). Null: the bytes are in memory.
  std::shared_ptr<const base::MappedFile> file = nullptr;

  void read(std::span<const std::byte> part, std::span<std::byte> to) const {
    if (reader) return reader(part, to);
    std::copy(part.begin(), part.end(), to.begin());
  }
};

/// Thread-safe, except where said otherwise. Throws Error kOutOfMemory and kDevice.
class Device {
 public:
  virtual ~Device() = default;
  virtual const DeviceInfo& info() const = 0;
  /// Whether steps run one behind the other in the order in which they were submitted, of all plans of this
  /// device, each with all that those before it wrote. Nobody need wait for one before submitting the next of
  /// another plan.
  virtual bool in_order() const { return false; }

  /// Whether it computes the node, with its parameters and with inputs of their types, kinds and shapes. The
  /// CPU takes what no other device does.
  virtual bool supports(const Graph& graph, const Node& node) const = 0;
  /// The type of caches that attention reads fastest here, of those that are as good as F16: kF16 or kBF16.
  virtual DType best_cache_type() const { return DType::kF16; }
  /// How many bytes a weight or state takes here; a weight may take less, depending on its values.
  virtual std::size_t bytes_of(ValueKind kind, DType dtype, std::span<const std::int64_t> shape) const = 0;

  virtual std::unique_ptr<DeviceTensor> create_weight(DType dtype, std::span<const std::int64_t> shape,
                                                      const WeightSource& source) = 0;
  /// Called once all weights of a model were created: writes what the device keeps of them for the next
  /// start. Returns whether they lie in a mapped file.
  virtual bool finish_weights() { return false; }
  /// Blocks until nothing goes on behind the weights any more that would make steps slower or faster.
  virtual void settle() {}

  // States. A device that supports no node with a state is never asked for one.

  /// Zeroed lazily: memory is taken as it is touched.
  virtual std::unique_ptr<DeviceTensor> create_state(DType /*dtype*/,
                                                     std::span<const std::int64_t> /*shape*/) {
    throw Error(ErrorCode::kUnsupported, info().name + " keeps no states");
  }
  /// The cells of a cache, {cells, heads, head_dim}, as canonical rows: for each of `cells`, in their order,
  /// [heads][head_dim] elements of its type as GGUF stores them. `role` is what the graph uses the cache for;
  /// of running states (kSlots) {slots, rows, columns}, slots take the place of cells.
  /// No plan may be running that is bound to it; steps that ran are seen, steps to come see what was written.
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

  // What steps of one device make for steps of another can cross without the host, where both keep steps in
  // order. Nobody waits for that; where it fails, the steps that read it fail.

  /// The first bytes of a host tensor on their way from one device to another.
  struct Transfer {
    DeviceTensor* from = nullptr;
    std::size_t bytes = 0;
    std::uint64_t number = 0;  ///< The devices' own.
  };
  virtual bool can_receive_from(const Device& /*other*/) const { return false; }
  /// Sends what steps have made of a tensor of this device's that were submitted so far. Whoever sends has
  /// the other device receive it, once.
  virtual Transfer send_to(Device& other, DeviceTensor& /*from*/, std::size_t /*bytes*/) {
    throw Error(ErrorCode::kUnsupported, info().name + " sends nothing to " + other.info().name);
  }
  /// Puts it into a tensor of this device's, for steps that are submitted then; null: nobody wants it any
  /// more. The tensor gets all that it has in this way; what the host sees there is undefined.
  virtual void receive_from(Device& other, const Transfer& /*transfer*/, DeviceTensor* /*to*/) {
    throw Error(ErrorCode::kUnsupported, info().name + " receives nothing from " + other.info().name);
  }

  /// What a plan would take that is compiled like this. Every node must be supported.
  virtual PlanMemory memory_of(const Graph& graph, const CompileOptions& options) const = 0;
  /// The graph and the bindings need not outlive the call; the tensors outlive the plan, or are bound anew.
  virtual std::unique_ptr<DevicePlan> compile(const Graph& graph, const Bindings& bindings,
                                              const CompileOptions& options) = 0;

  /// Throws Error kIo where weights in a mapped file have changed since it was opened. Another process cut
  /// the file or wrote to it, or its disk failed. Steps throw it, too.
  virtual void check_weights() const {}
};

}  // namespace weft

#pragma GCC visibility pop
