// Options that name devices which are there no more.
#include "serving/lost_devices.h"

#include <gtest/gtest.h>

namespace weft::cli {
namespace {

using Names = std::vector<std::string>;

struct Loss {
  Names devices;
  std::vector<float> shares;
  Names lost;
  Names devices_left;
  std::vector<float> shares_left;
};

TEST(LostDevices, RemainingDevicesKeepTheirShares) {
  const Loss kLosses[] = {
      {{"rank1.cpu", "rank2.cpu", "rank3.cpu"}, {1, 2, 3}, {"rank2.cpu"}, {"rank1.cpu", "rank3.cpu"}, {1, 3}},
      {{"a=rank1.cpu", "b=rank2.cpu"}, {2, 1}, {"rank1.cpu"}, {"b=rank2.cpu"}, {1}},
      {{"rank1.cpu", "rank2.cpu"}, {1}, {"rank1.cpu"}, {"rank2.cpu"}, {}},  // The rest had nothing.
      {{"rank1.cpu", "rank2.cpu"}, {1, 0}, {"rank1.cpu"}, {"rank2.cpu"}, {}},
      {{"rank1.cpu"}, {1}, {"rank1.cpu", "rank2.cpu"}, {}, {}},
      {{}, {1, 2}, {"rank1.cpu"}, {}, {}},
      // Whether the CPU has the first part depends on the others.
      {{"cpu", "rank1.cpu", "rank2.cpu"}, {1, 2}, {"rank1.cpu"}, {"cpu", "rank2.cpu"}, {}},
      {{"x=cpu", "rank1.cpu", "rank2.cpu"}, {1, 2, 3}, {"rank1.cpu"}, {"x=cpu", "rank2.cpu"}, {}},
      // None of these is lost.
      {{"vulkan0", "cpu"}, {3, 1}, {"rank1.cpu"}, {"vulkan0", "cpu"}, {3, 1}},
  };
  for (const Loss& loss : kLosses) {
    PlacementParams params{.devices = loss.devices, .shares = loss.shares};
    leave_out(loss.lost, params);
    EXPECT_EQ(params.devices, loss.devices_left);
    EXPECT_EQ(params.shares, loss.shares_left);
  }
}

TEST(LostDevices, RemovesTheirPins) {
  PlacementParams params{
      .devices = {"a=rank1.cpu", "rank2.cpu"},
      .pins = {{"one", "a"}, {"two", "rank2.cpu"}, {"three", "rank1.cpu"}, {"four", "cpu"}}};
  leave_out({"rank1.cpu"}, params);
  ASSERT_EQ(params.pins.size(), 2u);
  EXPECT_EQ(params.pins[0].pattern, "two");
  EXPECT_EQ(params.pins[1].pattern, "four");
}

TEST(LostDevices, TheLogSaysWhatChanges) {
  const PlacementParams params{.devices = {"rank1.cpu", "rank2.cpu", "rank3.cpu"},
                               .shares = {1, 2, 3},
                               .pins = {{"one", "rank1.cpu"}, {"two", "cpu"}}};
  EXPECT_EQ(describe_loss({"rank1.cpu"}, params),
            "lost: rank1.cpu; --device is rank2.cpu,rank3.cpu now; --tensor-split is 2,3 now; 1 of 2 pins is "
            "ignored now");
  EXPECT_EQ(describe_loss({"rank1.cpu", "rank2.cpu", "rank3.cpu"}, params),
            "lost: rank1.cpu, rank2.cpu, rank3.cpu; --device is ignored now; --tensor-split is ignored now; "
            "1 of 2 pins is ignored now");
  EXPECT_EQ(describe_loss({"rank4.cpu"}, params), "lost: rank4.cpu");
  EXPECT_EQ(describe_loss({"rank1.cpu"}, {}), "lost: rank1.cpu");
}

}  // namespace
}  // namespace weft::cli
