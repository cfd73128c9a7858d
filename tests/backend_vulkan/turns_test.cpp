// Contexts that take turns on a GPU have the bits of each alone and the memory of the largest, also where
// steps overlap. Models of one registry share the GPU.
#include <cstdio>

#include "engine/allocation_counter.h"
#include "engine/context_params.h"
#include "engine/model_impl.h"
#include "engine/needed_memory.h"
#include "engine/test_support.h"
#include "vulkan_test_support.h"

namespace weft {
namespace {

constexpr ContextParams kSmall = {.n_ctx = 256, .n_ubatch = 96};  // Enough for pages of its own.
constexpr ContextParams kLarge = {.n_ctx = 256, .n_ubatch = 256};
constexpr ContextParams kAhead = {.n_ctx = 256, .n_ubatch = 4};

TEST(VulkanTurns, GiveTheSameBitsInTheMemoryOfTheLargest) {
  if (vulkan::backend().list().empty()) GTEST_SKIP() << test::kNoVulkan;
  const auto registry = test::registry_with_vulkan();
  const auto load = [&](const char* family, int n_layers) {
    ModelParams params;
    params.registry = registry;
    params.placement = {.devices = {"vulkan0"}, .n_layers = n_layers};
    params.pack_cache = std::filesystem::path(testing::TempDir()) / "weft_vulkan_kernels";
    return Model::load(test::golden_dir() / family / "model.gguf", params);
  };
  const auto tokens = test::read_tokens(test::golden_dir() / "llama" / "tokens.json");
  for (const int n_layers : {1 << 20, 1}) {
    const auto model = load("llama", n_layers), draft = load("gemma3", n_layers);
    Context small(draft, kSmall), alone_small(draft, kSmall);
    const auto equal = [&](Context& context, Context& alone, std::size_t piece) {
      return test::all_logits(context, tokens, piece) == test::all_logits(alone, tokens, piece);
    };
    EXPECT_TRUE(equal(small, alone_small, 16));
    Context large(model, kLarge, small), alone_large(model, kLarge);
    const auto bytes = [](const Context& context) { return context.plan_stats().shared_workspace_bytes; };
    const std::int64_t of_largest = std::max(bytes(alone_small), bytes(alone_large));
    EXPECT_GT(std::min(bytes(alone_small), bytes(alone_large)), 0);
    // On the CPU and on the GPU another one may be the largest.
    EXPECT_GE(bytes(large), of_largest);
    EXPECT_LT(bytes(large), bytes(alone_small) + bytes(alone_large));
    if (n_layers > 1) {  // Only the table of embeddings is with the CPU.
      EXPECT_LE(bytes(large), of_largest + 4096);
    }
    EXPECT_EQ(bytes(small), bytes(large));
    const std::int64_t reserved = bytes(large);
    // Many splits of several steps at a time, where there are such.
    Context ahead(model, kAhead, small), alone_ahead(model, kAhead);
    EXPECT_EQ(bytes(ahead), reserved);
    for (const std::size_t piece : {1u, 16u, 11u}) {
      EXPECT_TRUE(equal(large, alone_large, 3 * piece));
      EXPECT_TRUE(equal(small, alone_small, piece));
      EXPECT_TRUE(equal(ahead, alone_ahead, tokens.size()));
    }
    Batch batch;
    batch.add(tokens, 0);
    long allocations = 0;
    for (int i = 0; i < 3; ++i) {  // Bookkeeping of sequences grows with the first.
      allocations = test::n_allocations();
      large.cache().clear();
      small.cache().clear();
      ahead.cache().clear();
      ASSERT_EQ(large.decode(batch), DecodeStatus::kOk);
      ASSERT_EQ(small.decode(batch), DecodeStatus::kOk);
      ASSERT_EQ(ahead.decode(batch), DecodeStatus::kOk);
    }
    if (test::kCountsAllocations) {
      EXPECT_EQ(test::n_allocations() - allocations, 0);
    }
    EXPECT_EQ(bytes(large), reserved);
  }
}

/// Bytes of temporaries if each split of a context had its own.
std::size_t of_splits(const Model& model, const ContextParams& asked) {
  const engine::ModelImpl& impl = model.impl();
  const ContextParams params = engine::fill_in(asked, model.info(), CacheType::kF16);
  const Graph graph = test::context_graph(model, params);
  const CompileOptions options = {.n_threads = params.n_threads,
                                  .workspaces = std::make_shared<Workspaces>()};
  const exec::Splits splits = exec::split(graph, impl.device_of, impl.devices.is_async());
  std::size_t sum = 0;
  for (const exec::Split& split : splits.splits)
    sum += impl.devices.pointers()[static_cast<std::size_t>(split.device)]
               ->memory_of(split.graph, options)
               .shared;
  return sum;
}

/// What temporaries of real models take: a table.
TEST(VulkanTurns, DISABLED_RealModels) {
  const auto large = test::cached_model(test::kSmolLm2), small = test::cached_model(test::kGemma3);
  if (!large || !small || vulkan::backend().list().empty()) GTEST_SKIP() << "no models, or no Vulkan device";
  struct Case {
    const char* name;
    PlacementParams placement;
  };
  PlacementParams attention = {.devices = {"vulkan0"}, .pins = {{"attn", "vulkan0"}, {"ffn", "cpu"}}};
  const Case cases[] = {{"cpu", {.devices = {"cpu"}}},
                        {"vulkan", {.devices = {"vulkan0"}}},
                        {"half of the layers", {.devices = {"vulkan0"}, .n_layers = 15}},
                        {"attention on vulkan", attention}};
  std::printf("%-20s %12s %12s %12s %12s %12s\n", "MiB", "its splits", "model", "its splits", "draft model",
              "both");
  for (const Case& c : cases) {
    ModelParams params;
    params.registry = test::registry_with_vulkan();
    params.placement = c.placement;
    const auto model = Model::load(*large, params), draft = Model::load(*small, params);
    const ContextParams sizes = {.n_ctx = 2048, .n_sequences = 4};
    const auto mib = [](auto bytes) { return static_cast<double>(bytes) / (1 << 20); };
    const auto shared = [&](const Context& context) {
      return mib(context.plan_stats().shared_workspace_bytes);
    };
    const double of_model = shared(Context(model, sizes)), of_draft = shared(Context(draft, sizes));
    const Context a(model, sizes), b(draft, sizes, a);
    std::printf("%-20s %12.1f %12.1f %12.1f %12.1f %12.1f\n", c.name, mib(of_splits(*model, sizes)), of_model,
                mib(of_splits(*draft, sizes)), of_draft, shared(b));
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace weft
