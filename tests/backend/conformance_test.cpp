// The suite reports devices that violate the contract, and invalid options. The backends' own tests check
// that it finds wrong results.
#include "weft/conformance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "exec/bare_device.h"
#include "weft/error.h"

namespace weft {
namespace {

using testing::HasSubstr;

/// Memory for the host, of a size that is right or not.
class Block final : public DeviceTensor {
 public:
  explicit Block(std::size_t bytes) : bytes_(bytes) {}
  DType dtype() const override { return DType::kF32; }
  std::size_t bytes() const override { return bytes_.size(); }
  std::span<std::byte> host() override { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

/// Supports everything. Its tensors have `bytes` bytes; if negative, it returns no tensors.
class Careless final : public test::BareDevice {
 public:
  explicit Careless(int bytes) : BareDevice("careless0"), bytes_(bytes) {}
  std::unique_ptr<DeviceTensor> create_host_tensor(DType, std::span<const std::int64_t>) override {
    return bytes_ < 0 ? nullptr : std::make_unique<Block>(static_cast<std::size_t>(bytes_));
  }
  std::unique_ptr<DevicePlan> compile(const Graph&, const Bindings&, const CompileOptions&) override {
    throw Error(ErrorCode::kDevice, "compiled");
  }

 private:
  const int bytes_;
};

std::string complaint(Device& device, const std::string& op) {
  try {
    check_conformance(device, {.only = op});
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(ConformanceSuite, NamesADeviceThatGivesTooLittleMemory) {
  for (const int bytes : {-1, 0, 3}) {
    Careless device(bytes);
    EXPECT_THAT(complaint(device, "add"),
                HasSubstr("careless0 gives " + std::to_string(std::max(bytes, 0)) + " bytes"));
    EXPECT_THAT(complaint(device, "matmul"), HasSubstr("careless0 creates no tensor of f32"));
  }
  Careless device(1 << 20);
  EXPECT_EQ(complaint(device, "add"), "compiled");
}

TEST(ConformanceSuite, NamesTheOpsThereAre) {
  Careless device(0);
  EXPECT_THAT(complaint(device, "addd"), HasSubstr("there is no op \"addd\"; known are get_rows, "));
}

}  // namespace
}  // namespace weft
