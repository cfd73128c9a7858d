#pragma once
// From nodes to launches: which shader, with which constants, on which tensors, in how many groups. All that
// depends on the op stands here; the plan records and runs launches and knows no ops.
#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "backend/gpu/kernel.h"
#include "backend/gpu/sizes.h"
#include "weft/graph.h"

namespace weft::gpu {

using Groups = std::array<std::uint32_t, 3>;

/// What a launch's sizes are in a step.
struct StepSizes {
  std::uint32_t rows = 0;                ///< Of Launch::rows.
  std::span<const std::uint32_t> words;  ///< Of Launch::words.
};

struct Launch {
  Kernel kernel = Kernel::kElementwise;
  std::vector<std::uint32_t> constants;
  Push push;  ///< Addresses are the plan's to fill; tensors are places in the address table.
  NodeId node = kNoNode;
  int phase = 0;               ///< Launches of a phase do not depend on each other.
  Dim rows;                    ///< The shader's n_rows() in a step.
  std::vector<Dim> words;      ///< Other sizes of the step that it reads (shaders/strided.glsl).
  bool counts_groups = false;  ///< Has a word to count its groups instead (shaders/last_group.glsl).
  bool must_run = false;       ///< Even when the step is cancelled.
  bool grids = false;          ///< The shader reads the table of grids (grids.h).
  std::uint32_t scratch =
      0;  ///< Bits of those tensors that are numbers of scratch memory until all is known.
  /// Workgroups for that many rows (at least 1); none: the launch sits this step out.
  std::function<Groups(const StepSizes&)> groups;
};

/// The frequencies of a rope, which follow the values in the address table.
struct Frequencies {
  ops::Rope rope;
  ValueId factors = kNoValue;
};

/// Memory between launches that holds no value of the graph. It follows the frequencies in the address table
/// and is stored next to the temporaries.
struct Scratch {
  enum class Kind : std::uint8_t {
    kCodes,  ///< Activations as codes of eight bits (blocks.glsl).
    kPairs,  ///< Rows sorted by expert (sort_experts.comp) ...
    kTiles,  ///< ... and tiles of them; follows its pairs.
    kPages,  ///< Attention's partials of pages (merge_pages.comp).
    kBest,   ///< The best of parts of rows (best.comp).
  };
  Kind kind = Kind::kCodes;
  ValueId of = kNoValue;
  NodeId user = kNoNode;  ///< The first.
  Dim rows;
  std::size_t row_bytes = 0;
  int first_phase = 0, last_phase = 0;
  bool is_made = false;         ///< The launch of the value's own node fills it.
  std::uint32_t n_experts = 0;  ///< Of pairs and tiles: those are of as many.
};

/// An input that the host writes and shaders read from device memory. It is stored among the temporaries; its
/// bound tensor follows the scratch memory in the address table.
struct Brought {
  ValueId input = kNoValue;
  std::uint32_t source = 0;  ///< Its place in the table.
};

/// What a program is made for.
struct Target {
  bool byte_dots = false;  ///< Quantised weights are multiplied with activations of eight bits.
  bool tails = true;       ///< The last workgroup of a product continues with its RowTail.
  Sizes sizes;
  bool far_from_host = false;  ///< Inputs that the host writes are brought into the device's memory first.
};

struct Program {
  std::vector<Launch> launches;  ///< By phase.
  std::vector<Frequencies> frequencies;
  std::vector<Scratch> scratch;
  std::vector<Brought> brought;
  int n_phases = 0;
  std::vector<ValueId>
      storage;  ///< By value: the state that a cache after a store or move represents, or itself.
};

/// Whether there is a launch for the node; what weft's graph rules allow and this does not is refused here.
bool can_launch(const Graph& graph, const Node& node);

/// Every node must be one that can be launched. Unused nodes are left out.
Program make_program(const Graph& graph, const Target& target);

}  // namespace weft::gpu
