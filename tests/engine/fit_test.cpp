// What PlacementParams::fit chooses when a device has too little memory: the context's length, then the
// experts on the CPU, then the layers. Device "small0" is the CPU with a limited memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "base/memory.h"
#include "engine/needed_memory.h"
#include "engine/small_device.h"
#include "engine/test_support.h"

namespace weft {
namespace {

ModelParams params_with(std::uint64_t memory, PlacementParams placement = {}) {
  ModelParams params;
  params.n_threads = 1;
  params.placement = std::move(placement);
  params.placement.devices = {"small0"};
  params.placement.n_ubatch = 16;
  params.registry = test::small_registry(memory);
  return params;
}

std::filesystem::path file_of(const char* family) { return test::golden_dir() / family / "model.gguf"; }

PlacementReport::Device small(const PlacementReport& report) {
  for (const PlacementReport::Device& device : report.devices)
    if (device.name == "small0") return device;
  return {};
}
std::uint64_t bytes_of(const PlacementReport::Device& device) {
  return device.weights + device.cache + device.workspace;
}

constexpr std::uint64_t kPlenty = std::uint64_t{1} << 32;

/// Loads, and generates a few logits.
std::vector<float> logits_of(const std::filesystem::path& file, const ModelParams& params) {
  Context context(Model::load(file, params), {.n_ctx = 64, .n_ubatch = 16, .n_threads = 1});
  return test::all_logits(context, std::vector<Token>{5, 9, 4, 7, 20, 1}, 4);
}

TEST(Fit, KeepsEverythingOnADeviceWithRoom) {
  const PlanReport plan = inspect_plan(file_of("mixtral"), params_with(kPlenty, {.n_ctx = 1024}));
  EXPECT_EQ(plan.n_layers, plan.n_layers_all);
  EXPECT_EQ(plan.n_cpu_moe, 0);
  EXPECT_EQ(plan.n_ctx, 1024);
  EXPECT_EQ(plan.n_ctx_full, 1024);
}

TEST(Fit, ChoosesTheLongestContextThatFits) {
  const auto plan_with = [](std::uint64_t memory) {
    return inspect_plan(file_of("llama"), params_with(memory, {.n_ctx_min = 512, .n_ctx = 1 << 16}));
  };
  const std::uint64_t all = bytes_of(small(plan_with(kPlenty)));
  int last = 1 << 16;
  for (const double part : {0.9, 0.5, 0.25}) {
    const auto memory = static_cast<std::uint64_t>(part * static_cast<double>(all));
    const PlanReport plan = plan_with(memory);
    EXPECT_EQ(plan.n_layers, plan.n_layers_all);
    EXPECT_EQ(plan.n_ctx_full, 1 << 16);
    EXPECT_LT(plan.n_ctx, last);
    EXPECT_GE(plan.n_ctx, 512);
    EXPECT_LE(bytes_of(small(plan)), memory);
    // The next longer one does not fit.
    EXPECT_THROW((void)inspect_plan(file_of("llama"), params_with(memory, {.n_layers = plan.n_layers,
                                                                           .n_ctx = plan.n_ctx + 512})),
                 Error);
    last = plan.n_ctx;
  }
}

TEST(Fit, KeepsTheLengthThatIsGiven) {
  const ModelParams plenty = params_with(kPlenty, {.n_ctx = 1 << 16});
  const std::uint64_t all = bytes_of(small(inspect_plan(file_of("llama"), plenty)));
  const PlanReport plan = inspect_plan(file_of("llama"), params_with(all / 2, {.n_ctx = 1 << 16}));
  EXPECT_EQ(plan.n_ctx, 1 << 16);
  EXPECT_LT(plan.n_layers, plan.n_layers_all);
}

TEST(Fit, LowersTheDefaultLengthOfContexts) {
  const std::filesystem::path file = file_of("llama");
  const PlacementParams placement = {.n_ctx_min = 64};
  const PlanReport whole = inspect_plan(file, params_with(kPlenty, placement));
  ASSERT_GT(whole.n_ctx, 64);
  ModelParams params = params_with(bytes_of(small(whole)) - small(whole).cache / 4, placement);
  std::optional<PlacementReport> told;
  params.placed = [&](const PlacementReport& report) { told = report; };
  const auto model = Model::load(file, params);
  ASSERT_TRUE(told.has_value());
  EXPECT_LT(told->n_ctx, whole.n_ctx);
  EXPECT_GE(told->n_ctx, 64);
  EXPECT_EQ(told->n_layers, told->n_layers_all);
  EXPECT_EQ(model->info().n_ctx_fit, told->n_ctx);
  EXPECT_EQ(Context(model, {.n_ubatch = 16, .n_threads = 1}).params().n_ctx, told->n_ctx);
}

TEST(Fit, MovesExpertsToTheCpuBeforeLayers) {
  const PlacementParams placement = {.n_ctx = 256};
  const std::filesystem::path file = file_of("mixtral");
  const PlanReport whole = inspect_plan(file, params_with(kPlenty, placement));
  PlacementParams dense = placement;
  dense.experts_on_cpu = true;
  const std::uint64_t all = bytes_of(small(whole)),
                      without = bytes_of(small(inspect_plan(file, params_with(kPlenty, dense))));
  ASSERT_LT(without, all);
  const std::vector<float> expected = logits_of(file, params_with(kPlenty, placement));
  const int n_layers = whole.n_layers_all - 1;
  int last = 0;
  for (int i = 1; i <= 3; ++i) {
    const std::uint64_t memory = all - (all - without) * static_cast<std::uint64_t>(i) / 3;
    const ModelParams params = params_with(memory, placement);
    const PlanReport plan = inspect_plan(file, params);
    EXPECT_EQ(plan.n_layers, plan.n_layers_all) << i;
    EXPECT_GE(plan.n_cpu_moe, std::max(last, 1));
    EXPECT_LE(bytes_of(small(plan)), memory);
    if (plan.n_cpu_moe > 1) {
      ModelParams one_more = params;
      one_more.n_cpu_moe = plan.n_cpu_moe - 1;
      one_more.placement.n_layers = plan.n_layers;
      EXPECT_THROW((void)inspect_plan(file, one_more), Error);
    }
    EXPECT_EQ(logits_of(file, params), expected);
    last = plan.n_cpu_moe;
  }
  EXPECT_EQ(last, n_layers);
  const PlanReport fewer = inspect_plan(file, params_with(without / 2, placement));
  EXPECT_LT(fewer.n_layers, fewer.n_layers_all);
}

TEST(Fit, KeepsExpertsWhereTheUserPutsThem) {
  PlacementParams placement = {.n_ctx = 256};
  const std::filesystem::path file = file_of("mixtral");
  const std::uint64_t all = bytes_of(small(inspect_plan(file, params_with(kPlenty, placement))));
  ModelParams params = params_with(all - 1, placement);
  params.n_cpu_moe = 1;
  EXPECT_EQ(inspect_plan(file, params).n_cpu_moe, 1);
  EXPECT_EQ(inspect_plan(file, params).n_layers, inspect_plan(file, params).n_layers_all);
}

TEST(Fit, LeavesMarginsFree) {
  PlacementParams placement = {.n_ctx = 256};
  const std::filesystem::path file = file_of("llama");
  const std::uint64_t all = bytes_of(small(inspect_plan(file, params_with(kPlenty, placement))));
  const auto layers_with = [&](std::vector<Margin> margins) {
    PlacementParams with = placement;
    with.margins = std::move(margins);
    const PlanReport plan = inspect_plan(file, params_with(all + 1000, with));
    return plan.n_layers_all - plan.n_layers;
  };
  EXPECT_EQ(layers_with({{"small0", 1000}}), 0);
  EXPECT_EQ(layers_with({{"another", 2000}}), 0);
  EXPECT_GT(layers_with({{"small0", 1001}}), 0);
  EXPECT_GT(layers_with({{"small0", 600}, {"", 401}}), 0);
  PlacementParams forced = placement;
  forced.n_layers = 1;
  forced.margins = {{"small0", kPlenty}};
  try {
    (void)inspect_plan(file, params_with(kPlenty, forced));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kOutOfMemory);
    EXPECT_NE(std::string(error.what()).find("with a margin of 4096 MiB"), std::string::npos) << error.what();
  }
}

TEST(Fit, CountsTheTypeOfTheCache) {
  const std::filesystem::path file = file_of("llama");
  PlacementParams placement = {.n_ctx = 4096};
  const std::uint64_t f16 = small(inspect_plan(file, params_with(kPlenty, placement))).cache;
  placement.k_type = placement.v_type = CacheType::kF32;
  EXPECT_EQ(small(inspect_plan(file, params_with(kPlenty, placement))).cache, 2 * f16);
}

TEST(Fit, CountsRowsOfLogits) {
  const auto workspace = [](int n_outputs) {
    return small(inspect_plan(file_of("llama"), params_with(kPlenty, {.n_ctx = 256, .n_outputs = n_outputs})))
        .workspace;
  };
  EXPECT_LT(workspace(1), workspace(16));
  EXPECT_EQ(workspace(0), workspace(16));  // The default is more than a step has.
}

// Recurrent models keep states for drafts; the others need nothing for them.
TEST(Fit, CountsTheStatesThatContextsKeep) {
  constexpr int kStates = 68;
  for (const char* family : {"llama", "gemma3", "mamba2", "falcon-h1", "rwkv7"}) {
    std::uint64_t bytes[2];
    for (const bool drafts : {false, true}) {
      ModelParams params = params_with(kPlenty, {.n_ctx = 256, .n_sequences = 3});
      params.placement.state_rewind = drafts ? kStates : 0;
      std::optional<PlacementReport> report;
      params.placed = [&](const PlacementReport& placed) { report = placed; };
      const auto model = Model::load(file_of(family), params);
      const std::vector<test::DeviceMemory> memory =
          test::needed_memory(*model, {.n_ctx = 256,
                                       .n_sequences = 3,
                                       .n_ubatch = 16,
                                       .n_threads = 1,
                                       .state_rewind = params.placement.state_rewind});
      ASSERT_EQ(memory.size(), report->devices.size());
      for (std::size_t d = 0; d < memory.size(); ++d) {
        EXPECT_EQ(report->devices[d].weights, memory[d].weights) << family;
        EXPECT_EQ(report->devices[d].cache, memory[d].states) << family;
        EXPECT_EQ(report->devices[d].workspace, memory[d].steps) << family;
      }
      bytes[drafts ? 1 : 0] = small(*report).cache;
      if (drafts) {
        EXPECT_EQ(bytes[1] > bytes[0], model->info().recurrent) << family;
      }
    }
  }
}

TEST(Fit, NamesTheLimitOfTheHost) {
  const auto problem = [](std::uint64_t bytes, std::vector<Margin> margins = {}) {
    ModelParams params;
    params.n_threads = 1;
    params.placement = {.devices = {"cpu"}, .margins = std::move(margins), .n_ctx = 256};
    params.registry = test::host_registry(bytes);
    try {
      (void)Model::load(file_of("llama"), params);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kOutOfMemory);
      return std::string(error.what());
    }
    return std::string();
  };
  constexpr std::uint64_t kMib = std::uint64_t{1} << 20;
  EXPECT_EQ(problem(kPlenty), "");
  EXPECT_THAT(problem(kMib / 2), testing::HasSubstr(std::string(" MiB, 0 MiB are available (") +
                                                    base::machine_memory().limit + ")"));
  EXPECT_THAT(problem(kPlenty, {{"cpu", kPlenty}}),
              testing::HasSubstr("4096 MiB are available with a margin of 4096 MiB ("));
}

// Its contexts have their memory, so less of it is available.
TEST(Fit, LoadsAModelAgainBesideItsContexts) {
  ModelParams params;
  params.n_threads = 1;
  params.placement = {.devices = {"cpu"}, .n_ctx = 256};
  const auto model = Model::load(file_of("llama"), params);
  params.registry = test::host_registry(1, kPlenty);
  EXPECT_THROW((void)Model::load(file_of("llama"), params), Error);
  EXPECT_NO_THROW(model->reload(params));
}

TEST(Fit, CountsAllCellsOfWindows) {
  // Contexts reserve them, whatever --window-rewind says.
  const std::filesystem::path file = file_of("gemma3");
  const ContextParams full = {
      .n_ctx = 4096, .k_type = CacheType::kF16, .v_type = CacheType::kF16, .window_rewind = -1};
  EXPECT_GE(small(inspect_plan(file, params_with(kPlenty, {.n_ctx = 4096}))).cache,
            inspect(file, full).cache.bytes);
}

TEST(Fit, ChecksNothingIfItIsOff) {
  PlacementParams placement = {.fit = false, .n_ctx = 256};
  const PlanReport plan = inspect_plan(file_of("mixtral"), params_with(1, placement));
  EXPECT_EQ(plan.n_layers, plan.n_layers_all);
  EXPECT_EQ(plan.n_cpu_moe, 0);
}

}  // namespace
}  // namespace weft
