// A backend module as others would write it: one device that can nothing.
#include "weft/backend/module.h"
#include "weft/error.h"

namespace {

class IdleDevice final : public weft::Device {
 public:
  explicit IdleDevice(std::string name) { info_.name = std::move(name); }
  const weft::DeviceInfo& info() const override { return info_; }
  bool supports(const weft::Graph&, const weft::Node&) const override { return false; }
  std::size_t bytes_of(weft::ValueKind, weft::DType, std::span<const std::int64_t>) const override {
    return 0;
  }
  std::unique_ptr<weft::DeviceTensor> create_weight(weft::DType, std::span<const std::int64_t>,
                                                    const weft::WeightSource&) override {
    fail();
  }
  std::unique_ptr<weft::DeviceTensor> create_state(weft::DType, std::span<const std::int64_t>) override {
    fail();
  }
  void read_cells(const weft::DeviceTensor&, weft::CacheRole, std::span<const std::int32_t>,
                  std::span<std::byte>) override {}
  void write_cells(weft::DeviceTensor&, weft::CacheRole, std::span<const std::int32_t>,
                   std::span<const std::byte>) override {}
  std::unique_ptr<weft::DeviceTensor> create_host_tensor(weft::DType,
                                                         std::span<const std::int64_t>) override {
    fail();
  }
  weft::PlanMemory memory_of(const weft::Graph&, const weft::CompileOptions&) const override { return {}; }
  std::unique_ptr<weft::DevicePlan> compile(const weft::Graph&, const weft::Bindings&,
                                            const weft::CompileOptions&) override {
    fail();
  }

 private:
  [[noreturn]] static void fail() { throw weft::Error(weft::ErrorCode::kUnsupported, "idle0 does nothing"); }
  weft::DeviceInfo info_;
};

void add(weft::Registry& registry) {
  registry.add({"idle", [] { return std::vector{weft::DeviceInfo{.name = "idle0", .backend = "idle"}}; },
                [](std::string_view device, const weft::OpenOptions& options) {
                  return std::make_shared<IdleDevice>(options.name.empty() ? std::string(device)
                                                                           : options.name);
                }});
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const weft::ModuleInfo* weft_backend_module() {
  static const weft::ModuleInfo kModule = {.add = add};
  return &kModule;
}
