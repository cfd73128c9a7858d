#pragma once
// A device without tensors of its own, to be made into one that a test needs.
#include <string>
#include <utility>

#include "weft/backend/device.h"

namespace weft::test {

/// A plan that takes nothing and has nothing to tell.
class BarePlan : public DevicePlan {
 public:
  void wait() override {}
  PlanMemory memory() const override { return {}; }
  double kernel_seconds() const override { return 0; }
  int n_launches() const override { return 0; }
  int n_phases() const override { return 0; }
  std::string describe() const override { return ""; }
};

class BareDevice : public Device {
 public:
  explicit BareDevice(std::string name) { info_.name = std::move(name); }
  const DeviceInfo& info() const override { return info_; }
  bool supports(const Graph&, const Node&) const override { return true; }
  std::size_t bytes_of(ValueKind, DType, std::span<const std::int64_t>) const override { return 0; }
  std::unique_ptr<DeviceTensor> create_weight(DType, std::span<const std::int64_t>,
                                              const WeightSource&) override {
    return nullptr;
  }
  std::unique_ptr<DeviceTensor> create_state(DType, std::span<const std::int64_t>) override {
    return nullptr;
  }
  void read_cells(const DeviceTensor&, CacheRole, std::span<const std::int32_t>,
                  std::span<std::byte>) override {}
  void write_cells(DeviceTensor&, CacheRole, std::span<const std::int32_t>,
                   std::span<const std::byte>) override {}
  std::unique_ptr<DeviceTensor> create_host_tensor(DType, std::span<const std::int64_t>) override {
    return nullptr;
  }
  PlanMemory memory_of(const Graph&, const CompileOptions&) const override { return {}; }

 protected:
  DeviceInfo info_;
};

}  // namespace weft::test
