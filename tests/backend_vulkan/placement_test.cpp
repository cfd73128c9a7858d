// Models over the CPU and Vulkan devices, with every way to spread them. Logits are near the CPU's own, and
// tokens are the same where the next token is clear. With --gtest_also_run_disabled_tests the real models use
// every number of layers and print a table.
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <random>
#include <string_view>

#include "engine/allocation_counter.h"
#include "engine/families_tried.h"
#include "engine/model_impl.h"
#include "engine/needed_memory.h"
#include "vulkan_test_support.h"

namespace weft {
namespace {

constexpr double kPlacementNear = 1e-3;  ///< NMSE.

/// Kernels are compiled once for all tests, and kept.
std::shared_ptr<const Model> load(const std::filesystem::path& path, const PlacementParams& placement) {
  ModelParams params;
  params.registry = test::registry_with_vulkan();
  params.placement = placement;
  params.pack_cache = std::filesystem::path(testing::TempDir()) / "weft_vulkan_kernels";
  return Model::load(path, params);
}

PlacementParams on_cpu() { return {.devices = {"cpu"}}; }
PlacementParams layers(int n) { return {.devices = {"vulkan0"}, .n_layers = n}; }
PlacementParams rows() {
  return {.devices = {"vulkan0", "second=vulkan0"}, .n_layers = 1 << 20, .split_rows = true};
}
PlacementParams random_pins(const std::filesystem::path& path, unsigned seed) {
  std::mt19937 random(seed);
  FileInfo file = inspect(path);
  // RWKV's files have unused tensors: values that the first layer does not mix. Only long contexts read the
  // factors for long contexts.
  std::erase_if(file.tensors, [](const FileInfo::Tensor& tensor) {
    return tensor.name.starts_with("rope_factors") ||
           (tensor.name.starts_with("blk.0.time_mix_v") && !tensor.name.starts_with("blk.0.time_mix_value"));
  });
  PlacementParams placement = layers(static_cast<int>(random() % 8));
  for (int i = 0; i < 200; ++i)
    placement.pins.push_back(
        {"^" + file.tensors[random() % file.tensors.size()].name, random() % 2 == 0 ? "cpu" : "vulkan0"});
  return placement;
}

class VulkanSpread : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (vulkan::backend().list().empty()) GTEST_SKIP() << test::kNoVulkan;
  }
  std::filesystem::path path() const { return test::golden_dir() / GetParam() / "model.gguf"; }
  std::vector<float> logits(const PlacementParams& placement) const {
    // Routers of small models turn on the rounding of caches of 16 bits.
    Context context(load(path(), placement),
                    {.n_ctx = 256, .k_type = CacheType::kF32, .v_type = CacheType::kF32});
    const auto tokens = test::read_tokens(test::golden_dir() / GetParam() / "tokens.json");
    return test::all_logits(context, tokens, 11);
  }
};

TEST_P(VulkanSpread, AnyNumberOfLayersRowsAndPinsAreNearTheCpu) {
  const std::vector<float> expected = logits(on_cpu());
  const int n_layers = inspect(path()).model->n_layers;
  for (int n = 0; n <= n_layers + 1; ++n) {
    if (n > 1 && n < n_layers && !test::tries_all()) continue;
    EXPECT_LE(test::nmse(logits(layers(n)), expected), kPlacementNear) << n << " layers";
  }
  EXPECT_LE(test::nmse(logits(rows()), expected), kPlacementNear) << "rows";
  for (const unsigned seed : {1u, 2u})
    EXPECT_LE(test::nmse(logits(random_pins(path(), seed)), expected), kPlacementNear) << "pins " << seed;
}

TEST_P(VulkanSpread, StepsCopyAsPlannedAndAllocateNothing) {
  for (const bool split_rows : {false, true}) {
    ModelParams params;
    params.registry = test::registry_with_vulkan();
    params.placement = split_rows ? rows() : layers(1);
    params.placement.n_ctx = 256;
    const PlanReport plan = inspect_plan(path(), params);
    std::uint64_t bytes = 0;
    for (const PlanReport::Copy& copy : plan.copies) bytes += copy.bytes;
    EXPECT_GT(plan.splits.size(), 1u);

    Context context(load(path(), params.placement), {.n_ctx = 256});
    Batch batch;
    PlanStats before;
    long allocations = 0;
    constexpr int kWarmUp = 4, kSteps = 10;
    for (int i = 0; i < kWarmUp + kSteps; ++i) {
      if (i == kWarmUp) {
        before = context.plan_stats();
        allocations = test::n_allocations();
      }
      batch.clear();
      batch.add(i, 0, {.logits = true});
      ASSERT_EQ(context.decode(batch), DecodeStatus::kOk);
    }
    const PlanStats after = context.plan_stats();
    EXPECT_EQ(after.copies - before.copies, kSteps * static_cast<std::int64_t>(plan.copies.size()));
    // Only the used part of the tables of extents.
    EXPECT_LE(after.copied_bytes - before.copied_bytes, static_cast<std::int64_t>(kSteps * bytes));
    EXPECT_GT(after.copied_bytes - before.copied_bytes, static_cast<std::int64_t>(kSteps * bytes / 2));
    EXPECT_EQ(after.compiled, 1);
    if (test::kCountsAllocations) {
      EXPECT_EQ(test::n_allocations() - allocations, 0);
    }
  }
}

TEST_P(VulkanSpread, StepsThatOverlapGiveTheSameBitsAndAllocateNothing) {
  constexpr int kUbatch = 4;
  auto tokens = test::read_tokens(test::golden_dir() / GetParam() / "tokens.json");
  tokens.resize(5 * kUbatch, 7);  // Three times they stay within a page.
  PlacementParams two_gpus = layers(1 << 20);
  two_gpus.devices.push_back("second=vulkan0");
  for (const PlacementParams& placement : {layers(1), rows(), random_pins(path(), 3), two_gpus}) {
    const auto model = load(path(), placement);
    const ContextParams params = {.n_ctx = 256, .n_ubatch = kUbatch};
    // A batch of one step overlaps with none.
    Context one_by_one(model, params), ahead(model, params);
    const std::vector<float> expected = test::all_logits(one_by_one, tokens, kUbatch);
    EXPECT_TRUE(test::all_logits(ahead, tokens, tokens.size()) == expected);
    EXPECT_EQ(ahead.plan_stats().steps, one_by_one.plan_stats().steps);
    EXPECT_EQ(ahead.plan_stats().copies, one_by_one.plan_stats().copies);
    EXPECT_EQ(ahead.plan_stats().copied_bytes, one_by_one.plan_stats().copied_bytes);
    // Once more, with everything warm: plans have recorded every kind of step.
    Batch batch;
    for (const Token token : tokens) batch.add(token, 0);
    ASSERT_EQ(ahead.decode(batch), DecodeStatus::kOk);
    const long allocations = test::n_allocations();
    ASSERT_EQ(ahead.decode(batch), DecodeStatus::kOk);
    if (test::kCountsAllocations) {
      EXPECT_EQ(test::n_allocations() - allocations, 0);
    }
  }
}

TEST_P(VulkanSpread, PredictsMemoryExactly) {
  for (const PlacementParams& placement : {layers(1 << 20), layers(1), rows(), random_pins(path(), 3)})
    for (const test::DeviceMemory& memory :
         test::needed_memory(*load(path(), placement), {.n_ctx = 256, .n_ubatch = 32}))
      if (memory.weights > 0) test::expect_needed(memory);
}

/// Recurrent states next to attention, windows and shared caches, dense layers, experts.
constexpr const char* kSpreadFamilies[] = {"falcon-h1", "gemma3n", "llama", "qwen3moe"};
INSTANTIATE_TEST_SUITE_P(Families, VulkanSpread,
                         testing::ValuesIn(test::some_or_all(kSpreadFamilies, test::kFamilies)),
                         test::name_of_family);

struct RealModel {
  const char* file;
  const char* folder;
};

/// Other devices than the CPU do not choose another.
constexpr ContextParams kF16Cache = {.n_ctx = 256, .k_type = CacheType::kF16, .v_type = CacheType::kF16};

/// A golden prompt and the beginning of its greedy continuation, computed in one piece: at each token the
/// logits say what would come next.
class VulkanSpreadReal : public testing::TestWithParam<RealModel> {
 protected:
  void SetUp() override {
    if (vulkan::backend().list().empty()) GTEST_SKIP() << test::kNoVulkan;
    const auto found = test::cached_model(GetParam().file);
    if (!found) GTEST_SKIP() << GetParam().file << " is not in the model cache (make models fetches it)";
    path = *found;
    n_layers = inspect(path).model->n_layers;
  }

  struct Text {
    std::vector<Token> tokens, next;  // The next token for each, or kNoToken where it is not clear.
    std::vector<float> expected;
  };
  Text text(std::size_t prompt, std::size_t n_greedy) const {
    const auto json = nlohmann::json::parse(
        std::ifstream(test::golden_dir() / GetParam().folder / "reference.json"))["prompts"][prompt];
    const auto greedy = json["greedy_ids"].get<std::vector<Token>>();
    const auto margins = json["greedy_margins"].get<std::vector<double>>();
    Text text;
    text.tokens = json["ids"].get<std::vector<Token>>();
    text.next.resize(text.tokens.size() - 1, kNoToken);
    for (std::size_t i = 0; i < n_greedy; ++i) {
      text.next.push_back(margins[i] > 1.0 ? greedy[i] : kNoToken);
      text.tokens.push_back(greedy[i]);
    }
    text.tokens.pop_back();
    Context context(load(path, on_cpu()), kF16Cache);
    text.expected = test::all_logits(context, text.tokens, text.tokens.size());
    return text;
  }

  struct Outcome {
    double nmse = 0.0;
    int n_clear = 0, n_same = 0;
  };
  Outcome outcome(const Text& text, Context& context) const {
    const std::vector<float> logits = test::all_logits(context, text.tokens, text.tokens.size());
    Outcome outcome = {.nmse = test::nmse(logits, text.expected)};
    const std::size_t n_vocab = logits.size() / text.tokens.size();
    for (std::size_t i = 0; i < text.tokens.size(); ++i) {
      if (text.next[i] == kNoToken) continue;
      const auto row = std::span(logits).subspan(i * n_vocab, n_vocab);
      ++outcome.n_clear;
      outcome.n_same += std::max_element(row.begin(), row.end()) - row.begin() == text.next[i] ? 1 : 0;
    }
    return outcome;
  }
  void expect_near(const Text& text, const PlacementParams& placement, const std::string& what) const {
    Context context(load(path, placement), kF16Cache);
    const Outcome found = outcome(text, context);
    RecordProperty("nmse " + what, testing::PrintToString(found.nmse));
    EXPECT_LE(found.nmse, test::kNearReal) << what;
    EXPECT_GT(found.n_clear, 0);
    EXPECT_EQ(found.n_same, found.n_clear) << what;
  }

  std::filesystem::path path;
  int n_layers = 0;
};

TEST_P(VulkanSpreadReal, LayersRowsAndPinsAreNearTheCpu) {
  const Text few = text(0, 8);
  for (const int n : {1, n_layers + 1, 0, n_layers / 2}) {
    if ((n == 0 || n == n_layers / 2) && !test::tries_all()) continue;
    expect_near(few, layers(n), std::to_string(n) + " layers");
  }
  expect_near(few, rows(), "rows");
  expect_near(few, random_pins(path, 1), "pins");
}

TEST_P(VulkanSpreadReal, DISABLED_EveryNumberOfLayers) {
  const std::vector<Text> texts = {text(0, 24), text(1, 24)};
  std::printf("%-12s  %6s  %6s  %14s  %9s  %9s  %s\n", "placement", "splits", "copies", "bytes a token",
              "NMSE", "", "clear tokens that are the same");
  const auto print_row = [&](const std::string& what, PlacementParams placement) {
    ModelParams params;
    params.registry = test::registry_with_vulkan();
    params.placement = placement;
    params.placement.n_ctx = 256;
    const PlanReport plan = inspect_plan(path, params);
    std::uint64_t bytes = 0;
    for (const PlanReport::Copy& copy : plan.copies) bytes += copy.bytes;
    const auto model = load(path, placement);
    std::vector<Outcome> found;
    for (const Text& t : texts) {
      Context context(model, kF16Cache);
      found.push_back(outcome(t, context));
      EXPECT_LE(found.back().nmse, test::kNearReal) << what;
      EXPECT_EQ(found.back().n_same, found.back().n_clear) << what;
    }
    std::printf("%-12s  %6zu  %6zu  %14lu  %9.2e  %9.2e  %d of %d\n", what.c_str(), plan.splits.size(),
                plan.copies.size(), static_cast<unsigned long>(bytes), found[0].nmse, found[1].nmse,
                found[0].n_same + found[1].n_same, found[0].n_clear + found[1].n_clear);
    std::fflush(stdout);
  };
  print_row("cpu", on_cpu());
  for (int n = 0; n <= n_layers + 1; ++n) print_row("-ngl " + std::to_string(n), layers(n));
  print_row("rows", rows());
  for (const unsigned seed : {1u, 2u, 3u}) print_row("pins " + std::to_string(seed), random_pins(path, seed));
}

INSTANTIATE_TEST_SUITE_P(Models, VulkanSpreadReal,
                         testing::Values(RealModel{test::kSmolLm2, "real-smollm2"},
                                         RealModel{test::kGemma3, "real-gemma3"}),
                         [](const auto& test) { return std::string(test.param.folder).substr(5); });

}  // namespace
}  // namespace weft
