#include "backend/cuda/emulated/fibers.h"

#include <ucontext.h>

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <random>
#include <vector>

namespace weft::cuda::emulation {
namespace {

constexpr unsigned kWarp = 32;
constexpr std::size_t kStackBytes = std::size_t{64} << 10;

enum class State : std::uint8_t { kReady, kBarrier, kLanes, kDone };

struct Fiber {
  ucontext_t context = {};  // For its first turn. Later turns begin at `jump`, as jumps need no system call.
  jmp_buf jump = {};
  bool has_begun = false;
  std::unique_ptr<std::byte[]> stack;
  State state = State::kReady;
  LaneWords words = {};  // For an operation of the warp, which `work` does.
  void (*work)(LaneWords*) = nullptr;
};

struct Run {
  Index block;
  std::vector<Fiber> fibers;
  jmp_buf scheduler = {};
  const std::function<void()>* kernel = nullptr;
  unsigned self = 0;
};

std::mutex mutex;
Run* running = nullptr;
std::mt19937 random_turns(1);
std::vector<std::unique_ptr<std::byte[]>> free_stacks;

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "emulation of a GPU: %s\n", what);
  std::abort();
}

void wait(State state) {
  Fiber& self = running->fibers[running->self];
  self.state = state;
  if (_setjmp(self.jump) == 0) _longjmp(running->scheduler, 1);
}

void enter() {
  (*running->kernel)();
  wait(State::kDone);
}

void resume(unsigned i) {
  running->self = i;
  Fiber& fiber = running->fibers[i];
  if (_setjmp(running->scheduler) != 0) return;
  if (fiber.has_begun) _longjmp(fiber.jump, 1);
  fiber.has_begun = true;
  setcontext(&fiber.context);
}

void run_block(std::vector<unsigned>& order) {
  auto& fibers = running->fibers;
  for (;;) {
    std::shuffle(order.begin(), order.end(), random_turns);
    bool any = false;
    for (const unsigned i : order)
      if (fibers[i].state == State::kReady) {
        any = true;
        resume(i);
      }
    if (any) continue;
    const auto count = [&](State state) {
      return std::count_if(fibers.begin(), fibers.end(), [&](const Fiber& f) { return f.state == state; });
    };
    const auto all = static_cast<std::ptrdiff_t>(fibers.size());
    if (count(State::kDone) == all) return;
    if (count(State::kBarrier) != all) fail("not all threads of a block come to a barrier");
    for (Fiber& fiber : fibers) fiber.state = State::kReady;
  }
}

}  // namespace

void run(const std::function<void()>& kernel, Index grid, unsigned n_threads) {
  if (n_threads % kWarp != 0) fail("blocks are whole warps");
  const std::lock_guard lock(mutex);
  Run one;
  one.kernel = &kernel;
  one.fibers.resize(n_threads);
  for (Fiber& fiber : one.fibers) {
    if (free_stacks.empty()) free_stacks.emplace_back(new std::byte[kStackBytes]);
    fiber.stack = std::move(free_stacks.back());
    free_stacks.pop_back();
  }
  running = &one;
  ucontext_t begin = {};
  getcontext(&begin);
  std::vector<unsigned> order(n_threads);
  for (unsigned i = 0; i < n_threads; ++i) order[i] = i;
  for (unsigned z = 0; z < grid.z; ++z)
    for (unsigned y = 0; y < grid.y; ++y)
      for (unsigned x = 0; x < grid.x; ++x) {
        one.block = {x, y, z};
        for (Fiber& fiber : one.fibers) {
          fiber.context = begin;
          fiber.has_begun = false;
          fiber.context.uc_stack.ss_sp = fiber.stack.get();
          fiber.context.uc_stack.ss_size = kStackBytes;
          fiber.context.uc_link = nullptr;
          makecontext(&fiber.context, enter, 0);
          fiber.state = State::kReady;
        }
        run_block(order);
      }
  running = nullptr;
  for (Fiber& fiber : one.fibers) free_stacks.push_back(std::move(fiber.stack));
}

Index block() { return running->block; }
unsigned thread() { return running->self; }
void barrier() { wait(State::kBarrier); }

LaneWords with_warp(const LaneWords& mine, void (*work)(LaneWords* lanes)) {
  Fiber* const warp = running->fibers.data() + running->self / kWarp * kWarp;
  Fiber& self = running->fibers[running->self];
  self.words = mine;
  self.work = work;
  self.state = State::kLanes;
  const auto any = [&](auto holds) { return std::any_of(warp, warp + kWarp, holds); };
  if (any([](const Fiber& f) { return f.state == State::kDone; }))
    fail("a lane has left a warp that works together");
  if (any([&](const Fiber& f) { return f.state == State::kLanes && f.work != work; }))
    fail("lanes of a warp are at different operations");
  if (any([](const Fiber& f) { return f.state != State::kLanes; })) {
    wait(State::kLanes);
    return self.words;
  }
  LaneWords lanes[kWarp];
  for (unsigned l = 0; l < kWarp; ++l) lanes[l] = warp[l].words;
  work(lanes);
  for (unsigned l = 0; l < kWarp; ++l) {
    warp[l].words = lanes[l];
    warp[l].state = State::kReady;
  }
  return self.words;
}

}  // namespace weft::cuda::emulation
