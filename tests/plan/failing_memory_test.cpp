// After a failure of any allocation on the host, the next attempt computes the right results.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <new>
#include <string>
#include <vector>

#include "weft/error.h"
#include "weft/gguf.h"
#include "weft/graph/custom.h"
#include "weft/plan.h"

namespace {
/// Allocations of this thread until one fails; below 0: none does.
thread_local int n_until_failure = -1;
}  // namespace

[[gnu::noinline]] void* operator new(std::size_t bytes) {
  if (n_until_failure >= 0 && n_until_failure-- == 0) throw std::bad_alloc();
  if (void* const memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
// Called for buffers of std::stable_sort. Without it, a sanitizer's own would serve what this file frees.
[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return n_until_failure >= 0 && n_until_failure-- == 0 ? nullptr : std::malloc(bytes);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace weft {
namespace {

using Floats = std::vector<float>;

/// Calls the result of `make` with ever later allocations that fail, until none does, and `check` after each.
template <typename Make, typename Try, typename Check>
void fail_everywhere(Make make, Try attempt, Check check) {
  for (int k = 0;; ++k) {
    auto subject = make();
    bool failed = false;
    n_until_failure = k;
    try {
      attempt(subject);
    } catch (const std::bad_alloc&) {
      failed = true;
    } catch (const Error& error) {
      failed = error.code() == ErrorCode::kOutOfMemory;
    }
    failed = failed && n_until_failure < 0;
    n_until_failure = -1;
    check(subject, failed);
    if (testing::Test::HasFailure()) FAIL() << "allocation " << k;
    if (!failed) return;
  }
}

struct Doubled {
  Graph g;
  Dim n = g.symbol("n", 1, 8);
  Doubled() {
    const Value x = g.input("x", {n, 2});
    const Value twice = custom("twice", {x}, {n, 2}, [](const CustomCall& call) {
      for (std::size_t i = 0; i < call.f32().size(); ++i)
        call.f32()[i] = 2.0f * call.inputs[0].f32()[static_cast<std::size_t>(call.begin) * 2 + i];
    });
    g.output("y", linear(twice, g.weight("w", {2, 2})));
  }
  const Floats one = {1, 0, 0, 1};
  Plan plan() const {
    Plan made(g, open_devices({"cpu"}), {.allowed = {.shapes = true, .tensors = true}, .n_threads = 2});
    made.set_weight("w", one);
    return made;
  }
};

TEST(FailingMemory, StepsAfterAFailedOneAreCorrect) {
  const Doubled doubled;
  fail_everywhere([&] { return doubled.plan(); },
                  [](Plan& plan) { plan.run({{"n", 2}}, {{"x", Floats{1, 2, 3, 4}}}); },
                  [](Plan& plan, bool) {
                    plan.run({{"n", 2}}, {{"x", Floats{5, 6, 7, 8}}});
                    EXPECT_EQ(plan.read("y"), (Floats{10, 12, 14, 16}));
                    plan.run({{"n", 1}}, {{"x", Floats{9, 1}}});
                    EXPECT_EQ(plan.read("y"), (Floats{18, 2}));
                  });
}

TEST(FailingMemory, AWeightIsTheOldOneOrTheNewOne) {
  const Doubled doubled;
  const Floats three = {3, 0, 0, 3};
  fail_everywhere(
      [&] {
        Plan plan = doubled.plan();
        plan.run({{"n", 1}}, {{"x", Floats{1, 2}}});
        return plan;
      },
      [&](Plan& plan) { plan.set_weight("w", three); },
      [](Plan& plan, bool failed) {
        plan.run({}, {{"x", Floats{1, 2}}});
        EXPECT_EQ(plan.read("y"), failed ? (Floats{2, 4}) : (Floats{6, 12}));
      });
}

TEST(FailingMemory, AFileHasATensorOrNot) {
  const std::vector<std::byte> four(4);
  const std::filesystem::path path =
      std::filesystem::path(testing::TempDir()) / ("failing_memory-" + std::to_string(::getpid()) + ".gguf");
  fail_everywhere(
      [] { return GgufWriter(); },
      [&](GgufWriter& file) { file.add_tensor("a tensor of a long name", DType::kF32, {1}, four); },
      [&](GgufWriter& file, bool failed) {
        file.write(path);
        EXPECT_EQ(WeightFile(path).tensors().size(), failed ? 0u : 1u);
      });
}

}  // namespace
}  // namespace weft
