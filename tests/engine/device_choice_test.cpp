// The default choice of devices: GPUs are used, drivers on the CPU never.
#include "engine/devices/device_choice.h"

#include <gtest/gtest.h>

#include "engine/model_impl.h"
#include "engine/test_support.h"

namespace weft {
namespace {

using Names = std::vector<std::string>;

DeviceInfo gpu(const std::string& name, std::uint64_t memory = 1) {
  return {.name = name, .backend = "fake", .memory_free = memory};
}
DeviceInfo driver_on_cpu(const std::string& name) {
  return {.name = name, .backend = "fake", .memory_free = 100, .on_host_cpu = true};
}

Registry registry_with(const std::vector<DeviceInfo>& infos) {
  Registry registry;
  registry.add({"cpu", [] { return std::vector{driver_on_cpu("cpu")}; }, nullptr});
  registry.add({"fake", [infos] { return infos; }, nullptr});
  return registry;
}

PlacementParams choose(const std::vector<DeviceInfo>& infos, const PlacementParams& params = {}) {
  return engine::choose_devices(registry_with(infos), params);
}

TEST(DeviceChoice, UsesGpusByDefaultAsFarAsTheModelFits) {
  const auto chosen = choose({gpu("gpu0"), gpu("gpu1"), driver_on_cpu("soft0")});
  EXPECT_EQ(chosen.devices, (Names{"gpu0", "gpu1"}));
  EXPECT_EQ(chosen.n_layers, -1);
  EXPECT_TRUE(chosen.shares.empty());
  EXPECT_EQ(choose({gpu("gpu0"), gpu("gpu1")}, {.n_layers = 3, .shares = {3, 1}}).shares,
            (std::vector<float>{3, 1}));
}

TEST(DeviceChoice, NoLayersMeansNoGpus) {
  EXPECT_EQ(choose({gpu("gpu0")}, {.n_layers = 0}).devices, Names{"cpu"});
}

TEST(DeviceChoice, ADriverOnTheCpuServesOnlyWhereLayersAreAskedForAndThereIsNoGpu) {
  EXPECT_EQ(choose({}).devices, Names{"cpu"});
  EXPECT_EQ(choose({driver_on_cpu("soft0")}).devices, Names{"cpu"});
  EXPECT_EQ(choose({driver_on_cpu("soft0")}, {.shares = {1}}).devices, Names{"cpu"});
  EXPECT_THROW(choose({gpu("gpu0"), gpu("gpu1")}, {.shares = {1, 2, 3}}), Error);
  EXPECT_EQ(choose({driver_on_cpu("soft0"), driver_on_cpu("soft1")}, {.n_layers = 5}).devices,
            Names{"soft0"});
  EXPECT_EQ(choose({gpu("gpu0"), driver_on_cpu("soft0")}, {.n_layers = 5}).devices, Names{"gpu0"});
}

TEST(DeviceChoice, LocalCpuHasLayersNextToRemoteCpus) {
  DeviceInfo other = gpu("rank1.cpu");
  other.n_threads = 4;
  EXPECT_EQ(choose({other}).devices, (Names{"cpu", "rank1.cpu"}));
  EXPECT_EQ(choose({other}).n_layers, -1);
  EXPECT_EQ(choose({other}, {.n_layers = 2}).devices, Names{"rank1.cpu"});
}

TEST(DeviceChoice, APinBringsItsDeviceAndNoLayers) {
  const auto alone = choose({driver_on_cpu("soft0")}, {.pins = {{"ffn", "soft0"}}});
  EXPECT_EQ(alone.devices, Names{"soft0"});
  EXPECT_EQ(alone.n_layers, 0);
  const auto beside = choose({gpu("gpu0", 7), driver_on_cpu("soft0")}, {.pins = {{"ffn", "soft0"}}});
  EXPECT_EQ(beside.devices, (Names{"gpu0", "soft0"}));
  EXPECT_EQ(beside.n_layers, -1);
  EXPECT_EQ(beside.shares, std::vector<float>{7});
  EXPECT_EQ(choose({gpu("gpu0")}, {.n_layers = 0, .pins = {{"ffn", "gpu0"}}}).devices, Names{"gpu0"});
  EXPECT_EQ(choose({gpu("gpu0")}, {.pins = {{"ffn", "cpu"}}}).devices, Names{"gpu0"});
  EXPECT_EQ(choose({driver_on_cpu("soft0")}, {.pins = {{"ffn", "cpu"}}}).devices, Names{"cpu"});
}

TEST(DeviceChoice, NamedDevicesStayAsTheyAre) {
  EXPECT_EQ(choose({gpu("gpu0")}, {.devices = {"cpu"}}).devices, Names{"cpu"});
  EXPECT_EQ(choose({gpu("gpu0")}, {.devices = {"a=cpu", "b=cpu"}, .n_layers = 2}).devices,
            (Names{"a=cpu", "b=cpu"}));
}

/// A CPU under a GPU's name, by a backend of the test's.
std::shared_ptr<Registry> with_gpu_like_the_cpu(bool on_host_cpu) {
  const auto registry = load_backends();
  DeviceInfo info = gpu("gpu0", std::uint64_t{1} << 32);
  info.on_host_cpu = on_host_cpu;
  const auto open = [inner = std::weak_ptr(registry)](std::string_view, const OpenOptions& options) {
    return inner.lock()->open("cpu", options);
  };
  registry->add({"fake", [info] { return std::vector{info}; },
                 [open](std::string_view name, const OpenOptions& options) {
                   OpenOptions own = options;
                   own.name = name;
                   return open(name, own);
                 }});
  return registry;
}

TEST(DeviceChoice, ModelsAndPlansFollowIt) {
  const auto path = test::golden_dir() / "llama" / "model.gguf";
  for (const bool on_host_cpu : {false, true})
    for (const int n_layers : {-1, 0, 1}) {
      ModelParams params;
      params.registry = with_gpu_like_the_cpu(on_host_cpu);
      params.placement.n_layers = n_layers;
      const PlanReport plan = inspect_plan(path, params);
      const bool used = n_layers == 1 || (n_layers == -1 && !on_host_cpu);
      ASSERT_EQ(plan.devices.size(), used ? 2u : 1u) << n_layers << on_host_cpu;
      EXPECT_EQ(plan.devices[0].name, used ? "gpu0" : "cpu");
      EXPECT_GT(plan.devices[0].weights, 0u);
      const auto model = Model::load(path, params);
      EXPECT_EQ(model->impl().devices.size(), used ? 2 : 1);
      EXPECT_EQ(model->impl().weights[0].empty(), false);
    }
}

}  // namespace
}  // namespace weft
