// Contracts of a Vulkan plan: recorded once for each kind of step, steps without declared changes use the old
// inputs, rebound tensors, cancelled steps, errors.
#include "backend/vulkan/plan.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <unistd.h>
#include <vulkan/vulkan.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <thread>

#include "exec/plan.h"
#include "vulkan_test_support.h"
#include "weft/error.h"
#include "weft/profile.h"

namespace {
// The n-th call from now on fails; 0: none.
int fail_end_of_recording = 0;
int fail_wait = 0;

bool fails(int& n) { return n > 0 && --n == 0; }
}  // namespace

// The driver's, or a failure.
VKAPI_ATTR VkResult VKAPI_CALL vkEndCommandBuffer(VkCommandBuffer commands) {
  static const auto own = reinterpret_cast<PFN_vkEndCommandBuffer>(dlsym(RTLD_NEXT, "vkEndCommandBuffer"));
  const VkResult result = own(commands);
  return fails(fail_end_of_recording) ? VK_ERROR_OUT_OF_DEVICE_MEMORY : result;
}
VKAPI_ATTR VkResult VKAPI_CALL vkWaitForFences(VkDevice device, uint32_t n, const VkFence* fences,
                                               VkBool32 all, uint64_t timeout) {
  static const auto own = reinterpret_cast<PFN_vkWaitForFences>(dlsym(RTLD_NEXT, "vkWaitForFences"));
  return fails(fail_wait) ? VK_ERROR_DEVICE_LOST : own(device, n, fences, all, timeout);
}

namespace weft {
namespace {

class VulkanPlanTest : public testing::Test {
 protected:
  void SetUp() override {
    devices_ = test::vulkan_devices(options_);
    if (devices_.empty()) GTEST_SKIP() << test::kNoVulkan;
  }
  Device& device() { return *devices_.front(); }
  void cancel_steps();
  static std::span<float> floats(DeviceTensor& tensor) {
    return {reinterpret_cast<float*>(tensor.host().data()), tensor.host().size() / sizeof(float)};
  }
  std::unique_ptr<DeviceTensor> host(std::vector<std::int64_t> shape) {
    return device().create_host_tensor(DType::kF32, shape);
  }
  std::unique_ptr<DeviceTensor> weight(std::vector<std::int64_t> shape, const std::vector<float>& values) {
    return device().create_weight(DType::kF32, shape, {std::as_bytes(std::span(values)), {}});
  }

  vulkan::VulkanOptions options_;
  std::vector<std::shared_ptr<Device>> devices_;
};

/// y = (x + b) W, again and again: as many phases as wanted.
struct Chain {
  explicit Chain(int n_links) {
    const SymbolId n = graph.add_symbol("n", 0, 20);
    x = graph.add_input("x", DType::kF32, {Dim(1, n), 2});
    b = graph.add_weight("b", DType::kF32, {2});
    w = graph.add_weight("w", DType::kF32, {2, 2});
    y = x;
    for (int i = 0; i < n_links; ++i) {
      y = graph.add(ops::Add{}, {y, b}, "sum" + std::to_string(i));
      y = graph.add(ops::Matmul{}, {w, y}, "product" + std::to_string(i));
    }
    graph.add_output(y);
  }
  Graph graph;
  ValueId x, b, w, y;
};

const std::vector<float> kSwap = {0, 1, 1, 0};

TEST_F(VulkanPlanTest, IsRecordedOnceForEachKindOfStepAndForOtherTensors) {
  const Chain chain(3);
  const auto x = host({20, 2}), y = host({20, 2});
  const auto b = weight({2}, {1, 10}), other = weight({2}, {0, 0}), w = weight({2, 2}, kSwap);
  Bindings bindings(chain.graph.values().size(), nullptr);
  bindings[static_cast<std::size_t>(chain.x)] = x.get();
  bindings[static_cast<std::size_t>(chain.y)] = y.get();
  bindings[static_cast<std::size_t>(chain.b)] = b.get();
  bindings[static_cast<std::size_t>(chain.w)] = w.get();
  const auto plan = device().compile(chain.graph, bindings, {.allowed = {.shapes = true, .tensors = true}});
  for (std::size_t i = 0; i < 40; ++i) floats(*x)[i] = static_cast<float>(i);
  const auto expect_rows = [&](std::size_t n, float first, float second) {
    for (std::size_t r = 0; r < 20; ++r) {
      // Swapped three times; what the step does not have stays as it was.
      const float expected0 = r < n ? static_cast<float>(2 * r + 1) + second : -1.0f;
      const float expected1 = r < n ? static_cast<float>(2 * r) + first : -1.0f;
      EXPECT_EQ(floats(*y)[2 * r], expected0) << r;
      EXPECT_EQ(floats(*y)[2 * r + 1], expected1) << r;
    }
    std::fill(floats(*y).begin(), floats(*y).end(), -1.0f);
  };
  std::fill(floats(*y).begin(), floats(*y).end(), -1.0f);
  std::int64_t n = 20;
  const auto step = [&](const Changes& actual) {
    plan->submit({&n, 1}, bindings, actual);
    plan->wait();
  };
  step({});
  expect_rows(20, 12.0f, 21.0f);
  for (const std::int64_t size : {1, 7, 0, 4, 5, 20}) {
    n = size;
    step({.shapes = true});
    expect_rows(static_cast<std::size_t>(n), 12.0f, 21.0f);
  }
  step({});
  expect_rows(20, 12.0f, 21.0f);
  bindings[static_cast<std::size_t>(chain.b)] = other.get();
  step({.tensors = true});
  expect_rows(20, 0.0f, 0.0f);
  // Many rows, one, few and none are steps of different launches.
  EXPECT_EQ(vulkan::stats(*plan).times_recorded, 4);
  EXPECT_EQ(vulkan::stats(*plan).steps, 9);
}

TEST_F(VulkanPlanTest, ProfilesOfTwoDevicesAddUp) {
  const Chain chain(3);
  const auto x = host({20, 2}), y = host({20, 2});
  const auto b = weight({2}, {1, 10}), w = weight({2, 2}, kSwap);
  Bindings bindings(chain.graph.values().size(), nullptr);
  bindings[static_cast<std::size_t>(chain.x)] = x.get();
  bindings[static_cast<std::size_t>(chain.y)] = y.get();
  bindings[static_cast<std::size_t>(chain.b)] = b.get();
  bindings[static_cast<std::size_t>(chain.w)] = w.get();
  const auto plan = device().compile(chain.graph, bindings, {});
  Profile profile{.n_threads = 4};  // As a plan with threads has left it.
  plan->set_profile(&profile);
  const std::int64_t n = 20;
  plan->submit({&n, 1}, bindings, {});
  plan->wait();
  plan->set_profile(nullptr);
  if (profile.work.empty()) GTEST_SKIP() << "a device without timestamps";
  double seconds = 0.0;
  for (const Profile::Work& work : profile.work) seconds += work.seconds;
  EXPECT_GT(profile.seconds, 0.0);
  EXPECT_NEAR(seconds, profile.seconds, 1e-9);
}

TEST_F(VulkanPlanTest, PiecesComputeWhatTheWholeDoes) {
  for (const int first_piece : {0, 1, 3}) {
    const auto devices = test::vulkan_devices({.first_piece = first_piece});
    const Chain chain(8);
    const auto x = devices[0]->create_host_tensor(DType::kF32, std::vector<std::int64_t>{20, 2});
    const auto y = devices[0]->create_host_tensor(DType::kF32, std::vector<std::int64_t>{20, 2});
    const std::vector<float> ones = {1, 1};
    const auto b = devices[0]->create_weight(DType::kF32, std::vector<std::int64_t>{2},
                                             {std::as_bytes(std::span(ones)), {}});
    const auto w = devices[0]->create_weight(DType::kF32, std::vector<std::int64_t>{2, 2},
                                             {std::as_bytes(std::span(kSwap)), {}});
    Bindings bindings(chain.graph.values().size(), nullptr);
    bindings[static_cast<std::size_t>(chain.x)] = x.get();
    bindings[static_cast<std::size_t>(chain.y)] = y.get();
    bindings[static_cast<std::size_t>(chain.b)] = b.get();
    bindings[static_cast<std::size_t>(chain.w)] = w.get();
    const auto plan = devices[0]->compile(chain.graph, bindings, {});
    const std::int64_t n = 6;
    for (int step = 0; step < 3; ++step) {
      std::fill(floats(*y).begin(), floats(*y).end(), 0.0f);
      plan->submit({&n, 1}, bindings, {});
      plan->wait();
      for (std::size_t i = 0; i < 12; ++i) EXPECT_EQ(floats(*y)[i], 8.0f) << first_piece;
    }
    EXPECT_EQ(vulkan::stats(*plan).times_recorded, 1);
  }
}

TEST_F(VulkanPlanTest, StepsThatFailAreTriedAgain) {
  devices_ = test::vulkan_devices({.first_piece = 1});
  const Chain chain(4);
  const auto x = host({20, 2}), y = host({20, 2}), b = weight({2}, {1, 1}), w = weight({2, 2}, kSwap);
  Bindings bindings(chain.graph.values().size(), nullptr);
  bindings[static_cast<std::size_t>(chain.x)] = x.get();
  bindings[static_cast<std::size_t>(chain.y)] = y.get();
  bindings[static_cast<std::size_t>(chain.b)] = b.get();
  bindings[static_cast<std::size_t>(chain.w)] = w.get();
  const std::int64_t n = 20;
  const auto run = [&](DevicePlan& plan) {
    std::fill(floats(*y).begin(), floats(*y).end(), 0.0f);
    plan.submit({&n, 1}, bindings, {.shapes = true});
    plan.wait();
    return std::vector<float>(floats(*y).begin(), floats(*y).end());
  };
  const auto code_of = [&](DevicePlan& plan) {
    try {
      run(plan);
    } catch (const Error& error) {
      return error.code();
    }
    ADD_FAILURE() << "nothing has failed";
    return ErrorCode::kCancelled;
  };
  const std::vector<float> right(40, 4.0f);
  for (const int piece : {1, 2, 3}) {
    const auto plan = device().compile(chain.graph, bindings, {.allowed = {.shapes = true}});
    fail_end_of_recording = piece;
    EXPECT_EQ(code_of(*plan), ErrorCode::kOutOfMemory);
    EXPECT_EQ(run(*plan), right) << "piece " << piece;
    EXPECT_EQ(run(*plan), right) << "piece " << piece;
    for (int i = 0; i < 2; ++i) {
      fail_wait = 1;
      EXPECT_EQ(code_of(*plan), ErrorCode::kDevice);
    }
    EXPECT_EQ(run(*plan), right);
  }
}

void VulkanPlanTest::cancel_steps() {
  Graph graph;
  const ValueId cache = graph.add_state("cache", DType::kF32, {64, 1, 4});
  // The last number of the first column: a view, which is copied before.
  const ValueId from = graph.add_input("from", DType::kI32, {3, 2}),
                to = graph.add_input("to", DType::kI32, {1});
  const ValueId column = graph.add(ops::Slice{.axis = 1, .begin = 1, .end = 2}, {from}, "column");
  const ValueId last = graph.add(ops::Slice{.axis = 0, .begin = 2, .end = 3}, {column}, "last");
  const ValueId source = graph.add(ops::Reshape{Shape{1}}, {last}, "source");
  graph.add(ops::MoveCells{CacheRole::kValues, {}}, {cache, source, to}, "moved");
  // Long enough that a cancelled step has dispatches to skip.
  const ValueId x = graph.add_input("x", DType::kF32, {512, 512});
  ValueId y = x;
  for (int i = 0; i < 400; ++i) y = graph.add(ops::Scale{2.0f}, {y}, "y" + std::to_string(i));
  y = graph.add(ops::Scale{0.0f}, {y}, "z");
  graph.add_output(y);
  const auto xs = host({512, 512}), ys = host({512, 512});
  const auto state = device().create_state(DType::kF32, std::vector<std::int64_t>{64, 1, 4});
  const auto f = device().create_host_tensor(DType::kI32, std::vector<std::int64_t>{3, 2});
  const auto t = device().create_host_tensor(DType::kI32, std::vector<std::int64_t>{1});
  std::int32_t& from_cell = reinterpret_cast<std::int32_t*>(f->host().data())[5];
  from_cell = 3;
  reinterpret_cast<std::int32_t*>(t->host().data())[0] = 60;
  const std::vector<float> row = {1, 2, 3, 4}, other_row = {5, 6, 7, 8};
  const std::vector<std::int32_t> three = {3}, four = {4}, sixty = {60};
  device().write_cells(*state, CacheRole::kValues, three, std::as_bytes(std::span(row)));
  device().write_cells(*state, CacheRole::kValues, four, std::as_bytes(std::span(other_row)));
  Bindings bindings(graph.values().size(), nullptr);
  bindings[static_cast<std::size_t>(cache)] = state.get();
  bindings[static_cast<std::size_t>(from)] = f.get();
  bindings[static_cast<std::size_t>(to)] = t.get();
  bindings[static_cast<std::size_t>(x)] = xs.get();
  bindings[static_cast<std::size_t>(y)] = ys.get();
  std::atomic<bool> cancelled{false};
  const auto plan = device().compile(graph, bindings, {.cancelled = &cancelled});
  plan->submit({}, bindings, {});
  plan->wait();
  EXPECT_EQ(floats(*ys)[5], 0.0f);
  for (const bool before_submit : {false, true}) {
    cancelled = before_submit;
    from_cell = before_submit ? 4 : 3;
    device().write_cells(*state, CacheRole::kValues, sixty, std::as_bytes(std::span(floats(*xs).first(4))));
    floats(*ys)[5] = 7.0f;
    plan->submit({}, bindings, {});
    cancelled = true;
    plan->wait();
    EXPECT_EQ(floats(*ys)[5], 7.0f) << "the last dispatch ran";
    std::vector<float> moved(4);
    device().read_cells(*state, CacheRole::kValues, sixty, std::as_writable_bytes(std::span(moved)));
    EXPECT_EQ(moved, before_submit ? other_row : row);
  }
  cancelled = false;
  plan->submit({}, bindings, {});
  plan->wait();
  EXPECT_EQ(floats(*ys)[5], 0.0f);
}

TEST_F(VulkanPlanTest, CancelledStepsMoveCellsAndTheNextOnesCompute) { cancel_steps(); }

TEST_F(VulkanPlanTest, RejectsOutOfRangeCells) {
  const auto state = device().create_state(DType::kF32, std::vector<std::int64_t>{64, 1, 4});
  std::vector<float> rows(8);
  for (const std::vector<std::int32_t>& cells :
       {std::vector<std::int32_t>{-1, 0}, {63, 64}, {1, std::numeric_limits<std::int32_t>::max()}}) {
    EXPECT_THROW(
        device().read_cells(*state, CacheRole::kKeys, cells, std::as_writable_bytes(std::span(rows))), Error);
    EXPECT_THROW(device().write_cells(*state, CacheRole::kKeys, cells, std::as_bytes(std::span(rows))),
                 Error);
  }
}

// Where the host cannot write the table that commands read, each piece of them copies its part.
TEST_F(VulkanPlanTest, CancelledStepsEndWithAPieceWhereTheTableIsCopied) {
  devices_ = test::vulkan_devices({.staging = true});
  cancel_steps();
}

// Ctrl-C comes at any time, in the thread that submits.
TEST_F(VulkanPlanTest, ASignalHandlerMayCancelInTheMidstOfASubmit) {
  static std::atomic<bool> cancelled;
  cancelled = false;
  const Chain chain(60);
  const auto x = host({20, 2}), y = host({20, 2}), b = weight({2}, {1, 1}), w = weight({2, 2}, kSwap);
  Bindings bindings(chain.graph.values().size(), nullptr);
  bindings[static_cast<std::size_t>(chain.x)] = x.get();
  bindings[static_cast<std::size_t>(chain.y)] = y.get();
  bindings[static_cast<std::size_t>(chain.b)] = b.get();
  bindings[static_cast<std::size_t>(chain.w)] = w.get();
  const auto plan = device().compile(chain.graph, bindings, {.cancelled = &cancelled});
  struct sigaction action = {}, before = {};
  action.sa_handler = [](int) { cancelled = true; };
  ASSERT_EQ(sigaction(SIGUSR1, &action, &before), 0);
  {
    const auto submitter = pthread_self();
    const std::jthread interrupter([&](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        pthread_kill(submitter, SIGUSR1);
        std::this_thread::sleep_for(std::chrono::microseconds(5));
      }
    });
    for (std::int64_t step = 0; step < 3000; ++step) {
      const std::int64_t n = 1 + step % 20;
      plan->submit({&n, 1}, bindings, {.shapes = true});
      plan->wait();
      cancelled = false;
    }
  }
  cancelled = false;
  ASSERT_EQ(sigaction(SIGUSR1, &before, nullptr), 0);
  // The first step without cancellation computes everything again, for any change.
  const std::int64_t n = 20;
  for (const bool shapes : {false, true}) {
    std::fill(floats(*x).begin(), floats(*x).end(), 1.0f);
    std::fill(floats(*y).begin(), floats(*y).end(), 0.0f);
    plan->submit({&n, 1}, bindings, {.shapes = shapes});
    plan->wait();
    for (const float value : floats(*y)) EXPECT_EQ(value, 61.0f);
  }
}

TEST_F(VulkanPlanTest, SplitsOfOneDeviceFollowEachOtherWithoutTheHost) {
  // Each link: a and c here, b from a there, and a sum here, which follows c in the queue.
  constexpr int kLinks = 6;
  const auto second = vulkan::backend().open("vulkan0", {.name = "second"});
  Graph graph;
  const SymbolId n = graph.add_symbol("n", 0, 20);
  const ValueId x = graph.add_input("x", DType::kF32, {Dim(1, n), 2});
  const ValueId w = graph.add_weight("w", DType::kF32, {2, 2});
  std::vector<int> device_of;
  const auto add = [&](int on, Op op, const std::vector<ValueId>& inputs) {
    device_of.push_back(on);
    return graph.add(std::move(op), inputs, "v" + std::to_string(device_of.size()));
  };
  ValueId y = x;
  for (int i = 0; i < kLinks; ++i) {
    const ValueId a = add(0, ops::Matmul{}, {w, y}), b = add(1, ops::Scale{0.5f}, {a});
    const ValueId c = add(0, ops::Matmul{}, {w, a});
    y = add(0, ops::Add{}, {c, b});
  }
  graph.add_output(y);
  const auto xs = host({20, 2}), ys = host({20, 2});
  const auto weights = weight({2, 2}, {0.3f, 0.7f, -0.4f, 1.1f});
  for (std::size_t i = 0; i < 40; ++i) floats(*xs)[i] = static_cast<float>(i) / 7.0f;
  Bindings bindings(graph.values().size(), nullptr);
  bindings[static_cast<std::size_t>(x)] = xs.get();
  bindings[static_cast<std::size_t>(w)] = weights.get();
  bindings[static_cast<std::size_t>(y)] = ys.get();
  const auto steps = [&](exec::Plan& plan) {
    std::vector<float> made;
    for (const std::int64_t rows : {20, 3, 20}) {
      std::fill(floats(*ys).begin(), floats(*ys).end(), 0.0f);
      plan.run({{&rows, 1}, {.shapes = true}, {}, nullptr});
      made.insert(made.end(), floats(*ys).begin(), floats(*ys).end());
    }
    return made;
  };
  const CompileOptions options = {.allowed = {.shapes = true}};
  exec::Plan alone(device(), graph, bindings, options);
  const std::vector<float> expected = steps(alone);
  exec::Plan spread({&device(), second.get()}, {graph, device_of, {bindings, Bindings(bindings.size())}},
                    options);
  EXPECT_TRUE(steps(spread) == expected);
  EXPECT_NE(expected.front(), expected[1]);
  // Per link b waits for a, and the sum for b; nothing waits for c.
  EXPECT_EQ(spread.n_splits(), 3 * kLinks + 1);
  EXPECT_EQ(spread.counters().waits, 3 * 2 * kLinks);
}

TEST_F(VulkanPlanTest, RejectsTooLargeTensors) {
  try {
    device().create_state(DType::kF32, std::vector<std::int64_t>{std::int64_t{1} << 30, 64, 128});
    FAIL() << "32 TiB were allocated";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kOutOfMemory);
  }
  EXPECT_NE(device().create_state(DType::kF32, std::vector<std::int64_t>{64, 1, 4}), nullptr);
}

TEST_F(VulkanPlanTest, DevicesMayBeOpenedMoreThanOnce) {
  const Backend backend = vulkan::backend();
  const auto again = backend.open("vulkan0", {.name = "other"});
  EXPECT_EQ(device().info().name, "vulkan0");
  EXPECT_EQ(again->info().name, "other");
  EXPECT_EQ(again->info().backend, "vulkan");
  EXPECT_GT(again->info().memory_total, 0u);
  EXPECT_THROW(backend.open("vulkan99", {}), Error);
}

TEST_F(VulkanPlanTest, CachesPipelinesOnDiskAndIgnoresDamagedFiles) {
  const auto folder = std::filesystem::temp_directory_path() / ("weft_pipelines_" + std::to_string(getpid()));
  OpenOptions kept;
  kept.compiled = folder;
  std::filesystem::path file;
  std::uintmax_t whole = 0;
  for (const bool damaged : {false, true}) {
    if (damaged) std::filesystem::resize_file(file, whole / 2);
    const auto devices = test::vulkan_devices({}, kept);
    const Chain chain(1);
    const std::vector<float> ones = {1, 1};
    const auto x = devices[0]->create_host_tensor(DType::kF32, std::vector<std::int64_t>{20, 2});
    const auto b = devices[0]->create_weight(DType::kF32, std::vector<std::int64_t>{2},
                                             {std::as_bytes(std::span(ones)), {}});
    const auto w = devices[0]->create_weight(DType::kF32, std::vector<std::int64_t>{2, 2},
                                             {std::as_bytes(std::span(kSwap)), {}});
    Bindings bindings(chain.graph.values().size(), nullptr);
    bindings[static_cast<std::size_t>(chain.x)] = bindings[static_cast<std::size_t>(chain.y)] = x.get();
    bindings[static_cast<std::size_t>(chain.b)] = b.get();
    bindings[static_cast<std::size_t>(chain.w)] = w.get();
    EXPECT_NE(devices[0]->compile(chain.graph, bindings, {}), nullptr);
    file = *std::filesystem::directory_iterator(folder);
    if (damaged) {
      EXPECT_EQ(std::filesystem::file_size(file), whole);
    }
    whole = std::filesystem::file_size(file);
    EXPECT_GT(whole, 0u);
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace weft
