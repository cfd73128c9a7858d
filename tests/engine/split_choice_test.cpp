// Layers of several processes are shared or divided, by what links and CPUs say of themselves.
#include "engine/devices/split_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model_impl.h"
#include "engine/test_support.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

/// A billion parameters in 16 layers, in 4 bits.
ModelWork large_model() {
  ModelWork work;
  const ModelWork::Part layer = {
      .bytes = 3e7, .multiply_adds = 5e7, .memory_bytes = 4e7, .messages = 4.0, .gathered_bytes = 5e4};
  work.layers.assign(16, layer);
  work.head = {
      .bytes = 1e8, .multiply_adds = 2e8, .memory_bytes = 1e8, .messages = 1.0, .collected_bytes = 4e5};
  work.width = 2048;
  work.n_heads = 32;
  work.n_kv_heads = 8;
  return work;
}

std::vector<DeviceInfo> cpus(int n, DeviceSpeed link) {
  std::vector<DeviceInfo> infos;
  for (int i = 0; i < n; ++i)
    infos.push_back({.name = i == 0 ? "cpu" : "rank" + std::to_string(i) + ".cpu",
                     .memory_total = std::uint64_t{1} << 34,
                     .memory_free = std::uint64_t{1} << 34,
                     .n_threads = 4,
                     .on_host_cpu = i == 0,
                     .features = {"avx2"},
                     .speed = i == 0 ? DeviceSpeed{} : link});
  return infos;
}
const DeviceSpeed kFast = {.step_seconds = 8e-6, .copy_bytes_per_second = 8e9};
const DeviceSpeed kSlow = {.step_seconds = 2e-3, .copy_bytes_per_second = 1e7};

TEST(SplitChoice, FastLinksShareLayersAndSlowOnesDivideThem) {
  const SplitChoice fast = engine::choose_split(cpus(2, kFast), large_model(), 1);
  EXPECT_TRUE(fast.split_rows);
  EXPECT_THAT(fast.why, HasSubstr("2 CPUs shard each layer: by estimate a token takes"));
  const SplitChoice slow = engine::choose_split(cpus(2, kSlow), large_model(), 1);
  EXPECT_FALSE(slow.split_rows);
  EXPECT_THAT(slow.why,
              HasSubstr("each layer runs on one of 2 CPUs: with sharded layers a token would take"));
  // It is a matter of the figures alone.
  for (int i = 0; i < 3; ++i) EXPECT_EQ(engine::choose_split(cpus(2, kFast), large_model(), 1).why, fast.why);
}

TEST(SplitChoice, ALinkMayBeFastEnoughForTokensAndNotForPrompts) {
  EXPECT_FALSE(
      engine::choose_split(cpus(2, {.step_seconds = 8e-6, .copy_bytes_per_second = 1e8}), large_model(), 1)
          .split_rows);
}

TEST(SplitChoice, ManyTextsGoInGroups) {
  EXPECT_TRUE(engine::choose_split(cpus(2, kFast), large_model(), 7).split_rows);
  const SplitChoice many = engine::choose_split(cpus(2, kFast), large_model(), 8);
  EXPECT_FALSE(many.split_rows);
  EXPECT_THAT(many.why, HasSubstr("of 8 sequences"));
}

TEST(SplitChoice, MemoryComesFirst) {
  std::vector<DeviceInfo> small = cpus(2, kFast);
  small[1].memory_free = std::uint64_t{1} << 27;
  EXPECT_FALSE(engine::choose_split(small, large_model(), 1).split_rows);
}

/// The CPU, and itself once more under the name of another process's, whose link is `link`.
std::shared_ptr<Registry> with_another_cpu(DeviceSpeed link, const std::vector<std::string>& features = {}) {
  const auto registry = load_backends();
  DeviceInfo info;
  for (const DeviceInfo& own : registry->devices())
    if (own.name == "cpu") info = own;
  info.name = "rank1.cpu";
  info.on_host_cpu = false;
  info.speed = link;
  if (!features.empty()) info.features = features;
  registry->add({"fake", [info] { return std::vector{info}; },
                 [inner = std::weak_ptr(registry)](std::string_view name,
                                                   const OpenOptions& options) -> std::shared_ptr<Device> {
                   if (name != "rank1.cpu") return nullptr;
                   OpenOptions own = options;
                   own.name = name;
                   return inner.lock()->open("cpu", own);
                 }});
  return registry;
}

TEST(SplitChoice, IsOfModelsFilesAndWhatIsThere) {
  const auto path = test::golden_dir() / "llama" / "model.gguf";
  // Steps of the golden models take next to nothing, so a link must take less.
  ModelParams params;
  params.registry = with_another_cpu(kFast);
  EXPECT_FALSE(choose_split(path, params).split_rows);
  EXPECT_THAT(choose_split(path, params).why, HasSubstr("each layer runs on one of 2 CPUs"));
  // With one device, or where something is said, there is nothing to choose.
  EXPECT_EQ(choose_split(path, {.registry = load_backends()}).why, "");
  for (const PlacementParams& asked :
       {PlacementParams{.devices = {"cpu", "rank1.cpu"}}, PlacementParams{.n_layers = 1},
        PlacementParams{.shares = {1, 2}}, PlacementParams{.split_rows = true},
        PlacementParams{.experts_on_cpu = true}, PlacementParams{.pins = {{"ffn", "rank1.cpu"}}}}) {
    params.placement = asked;
    EXPECT_EQ(choose_split(path, params).why, "");
  }
  // CPUs whose results differ are spread as they always are.
  EXPECT_EQ(choose_split(path, {.registry = with_another_cpu(kFast, {"another"})}).why, "");
}

}  // namespace
}  // namespace weft
