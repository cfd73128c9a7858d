#pragma once
// One block of memory with all that may change from step to step: the addresses of all tensors, then an entry
// for each launch (its groups, its rows, its words). Kernels read all of that there. So commands that were
// recorded once, or a graph that was instantiated once, serve steps of any size and other tensors.
//
// The table also assigns the temporaries of a program to places in a workspace. It knows no API: the plan
// gives it memory that the host can write, and copies that to the device where the host cannot write there.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "backend/gpu/launches.h"
#include "backend/gpu/memory.h"
#include "weft/backend/device.h"

namespace weft::gpu {

/// Where a plan's parts lie.
struct TablePlaces {
  std::byte* host = nullptr;      ///< bytes() of a StepTable, where the host writes them ...
  std::uint64_t address = 0;      ///< ... and where kernels read them.
  Buffer* frequencies = nullptr;  ///< frequency_bytes().
  std::uint64_t grids = 0;        ///< grid_table(), if needs_grids().
};

/// Used by one thread at a time.
class StepTable {
 public:
  StepTable(Graph graph, const Target& target);
  StepTable(const StepTable&) = delete;
  StepTable& operator=(const StepTable&) = delete;

  const Graph& graph() const { return graph_; }
  const Program& program() const { return program_; }
  std::size_t n_launches() const { return program_.launches.size(); }
  const Launch& launch(std::size_t i) const { return program_.launches[i]; }

  std::size_t bytes() const { return bytes_; }
  std::size_t frequency_bytes() const;
  std::size_t workspace_bytes() const { return layout_.bytes; }
  bool needs_grids() const;
  PlanMemory memory(bool shares_workspace) const;
  /// The offset of a launch's entry in the table: three words of groups, the rows, then the launch's words.
  std::size_t entry(std::size_t launch) const { return entries_[launch]; }

  /// Before all that follows; fills Launch::push.
  void place(const TablePlaces& places);
  /// Writes all addresses. An exception leaves is_bound() false.
  void bind(const Bindings& bindings, const GpuWorkspace& workspace);
  /// Whether all addresses are written, and the workspace has not moved since.
  bool is_bound(const GpuWorkspace& workspace) const { return bound_at_move_ == workspace.n_moves(); }
  /// Writes all entries for a step of these symbols.
  void set_sizes(std::span<const std::int64_t> symbols);
  /// Launches that have not begun find no groups, except launches with must_run. It begins with the last one,
  /// since the device goes the other way: none may run after one that is left out. If a device reads that in
  /// another order still, a launch reads values of an earlier step, and kernels keep indices in range.
  void cut();
  bool is_cut() const { return is_cut_; }
  /// By launch: whether it has work in this step, if the step is not cut.
  const std::vector<bool>& active() const { return active_; }
  /// Of a launch that is active.
  Groups groups(std::size_t launch) const;

 private:
  /// The places of temporaries in the workspace.
  struct Layout {
    std::vector<bool> external;            // By value: whether memory is bound from outside.
    std::vector<std::size_t> temporaries;  // Values ...
    std::vector<std::size_t> offsets;      // ... and their offsets, then the offsets of Program::scratch.
    std::size_t bytes = 0;
  };
  static Layout lay_out_program(const Graph& graph, const Program& program);
  std::size_t n_addresses() const;
  std::uint64_t* addresses() const { return reinterpret_cast<std::uint64_t*>(places_.host); }
  volatile std::uint32_t* words_of(std::size_t launch) const {
    return reinterpret_cast<volatile std::uint32_t*>(places_.host + entries_[launch]);
  }
  void write_frequencies(const Bindings& bindings);

  const Graph graph_;  // Its own copy: the caller's may go.
  Program program_;
  const Layout layout_;
  std::vector<std::size_t> entries_;  // By launch.
  std::size_t bytes_ = 0;
  std::vector<std::uint32_t> words_;  // A launch's words, while they are computed.
  TablePlaces places_;
  // By table of frequencies: the factors that it is made from, or that there are none; nothing: it is not
  // made.
  std::vector<std::optional<const DeviceTensor*>> factors_of_;
  std::vector<bool> active_;
  std::optional<std::uint64_t> bound_at_move_;  // The workspace's, when all addresses were written.
  bool is_cut_ = false;
};

/// A kernel's name and its constants, for display.
std::string kernel_text(const Launch& launch);
/// One line per launch, for display.
std::string describe(const Graph& graph, const Program& program);
/// The name of a launch, with layers taken together: "matmul_codes ffn_up, 9.4 MB" for a weight that it
/// reads. For a stack it has the bytes of one row's experts. Its reads are not in Profile::Work::bytes, which
/// is compared with the processor's memory.
std::string work_name(const Graph& graph, const Launch& launch);

}  // namespace weft::gpu
