#pragma once
// Blocks of GPU threads on one CPU thread, to run kernels where there is no GPU. It finds wrong results,
// missing barriers, threads that miss a barrier, and (with a sanitizer) memory errors. It says nothing about
// time.
//
// Each thread of a block is a fiber that runs until it waits at a barrier or for the other lanes of its warp.
// Threads run in random order, so a missing barrier shows as a result that changes from run to run. Blocks
// run one after another.
#include <cstddef>
#include <cstdint>
#include <functional>

namespace weft::cuda::emulation {

struct Index {
  unsigned x = 0, y = 0, z = 0;
};

/// Runs `kernel` for each thread of a grid. Calls of several threads take turns. A kernel that breaks a rule
/// of GPUs ends the process with a message.
void run(const std::function<void()>& kernel, Index grid, unsigned n_threads);

// Within a kernel.
Index block();
unsigned thread();
/// Waits for all threads of the block.
void barrier();
/// The operands and the results of a lane in an operation of its warp.
struct LaneWords {
  std::uint32_t in[8];
  std::uint32_t out[8];
};
/// An operation of a warp: when all 32 lanes are there, work(lanes) fills `out` of each. Returns this lane's
/// words.
LaneWords with_warp(const LaneWords& mine, void (*work)(LaneWords* lanes));

}  // namespace weft::cuda::emulation
