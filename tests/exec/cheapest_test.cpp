// Where nodes go that no rule says a place for, by the devices' figures.
#include "exec/cheapest.h"

#include <gtest/gtest.h>

#include "exec/bare_device.h"

namespace weft::exec {
namespace {

class Figured final : public test::BareDevice {
 public:
  Figured(std::string name, const DeviceSpeed& speed) : BareDevice(std::move(name)) { info_.speed = speed; }
  std::unique_ptr<DevicePlan> compile(const Graph&, const Bindings&, const CompileOptions&) override {
    return nullptr;
  }
};

/// The device, 0 the host, of a product of one row with a matrix of 64 MiB.
int place_product(const DeviceSpeed& host, const DeviceSpeed& other) {
  Graph graph;
  const ValueId x = graph.add_input("x", DType::kF32, {Dim(1, graph.add_symbol("n", 0, 8)), 4096});
  graph.add_output(graph.add(ops::Matmul{}, {graph.add_weight("w", DType::kF32, {4096, 4096}), x}, "y"));
  DeviceSet set;
  set.devices = {std::make_shared<Figured>("cpu", host), std::make_shared<Figured>("other", other)};
  set.named = {1};
  const int open[] = {-1}, fixed[] = {0};
  EXPECT_EQ(place_cheapest(graph, set, fixed)[0], 0);
  return place_cheapest(graph, set, open)[0];
}

TEST(Cheapest, GoesByTheFiguresOfDevices) {
  const DeviceSpeed host = {2e10, 5e11, 1e-5, 1e10};
  EXPECT_EQ(place_product(host, {3e11, 1e13, 5e-5, 1e10}), 1);
  EXPECT_EQ(place_product(host, host), 0) << "a copy there and back for nothing";
  EXPECT_EQ(place_product(host, {3e11, 1e13, 5e-3, 1e10}), 0) << "a step there takes too long";
  EXPECT_EQ(place_product(host, {3e11, 1e13, 5e-5, 1e6}), 0) << "copies take too long";
  EXPECT_EQ(place_product(host, {3e11, 1e9, 5e-5, 1e10}), 0) << "it has the bytes and cannot multiply";
  EXPECT_EQ(place_product({5e9, 5e11, 1e-5, 1e10}, host), 1);
}

TEST(Cheapest, MissingFiguresHaveDefaultsOfTheDeviceKind) {
  const DeviceSpeed gpu = exec::expected_speed({.name = "gpu0"});
  const DeviceSpeed cpu = exec::expected_speed({.name = "cpu", .on_host_cpu = true});
  EXPECT_GT(gpu.bytes_per_second, cpu.bytes_per_second);
  EXPECT_GT(gpu.flops, cpu.flops);
  EXPECT_GT(cpu.step_seconds, 0.0);
  EXPECT_GT(cpu.copy_bytes_per_second, 0.0);
  const DeviceSpeed known =
      exec::expected_speed({.name = "gpu0", .speed = {.flops = 7.0, .step_seconds = -1.0}});
  EXPECT_EQ(known.flops, 7.0);
  EXPECT_EQ(known.bytes_per_second, gpu.bytes_per_second);
  EXPECT_EQ(known.step_seconds, gpu.step_seconds);
}

}  // namespace
}  // namespace weft::exec
