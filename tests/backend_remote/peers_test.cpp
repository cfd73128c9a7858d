// What followers send each other, without leader or devices.
#include "backend/remote/peers.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "backend_remote/remote_testing.h"

namespace weft {
namespace {

using remote::Kind;
using remote::Peers;
using remote::TransferEnd;
using remote::Writer;

class BetweenPeers : public testing::Test {
 protected:
  Peers::Connect connect(int own) {
    return [this, own](int other) {
      return std::make_unique<test::QueueLink>(lines_.way(own, other), lines_.way(other, own));
    };
  }
  static Writer bytes(std::size_t n, int value) {
    const std::vector<std::byte> all(n, static_cast<std::byte>(value));
    Writer writer;
    writer.raw(all);
    return writer;
  }
  static std::string why_not(Peers& peers, const TransferEnd& from) {
    try {
      peers.receive(from, [] { return false; });
    } catch (const Error& error) {
      return error.what();
    }
    return "it came";
  }

  test::Lines lines_;
  Peers one_{connect(1)}, two_{connect(2)};
};

TEST_F(BetweenPeers, DeliversMessagesInAnyOrder) {
  for (int n = 1; n <= 3; ++n)
    one_.send({.number = static_cast<std::uint64_t>(n), .bytes = 8, .rank = 2}, Kind::kResponse, bytes(8, n));
  for (const int n : {2, 3, 1}) {
    const auto received =
        two_.receive({.number = static_cast<std::uint64_t>(n), .bytes = 8, .rank = 1}, [] { return false; });
    EXPECT_EQ(received, remote::Message(8, static_cast<std::byte>(n)));
    two_.listen();
  }
}

TEST_F(BetweenPeers, ReportsErrorsToReceivers) {
  Writer reason;
  reason.put(std::string_view("a step failed"));
  one_.send({.number = 1, .bytes = 8, .rank = 2}, Kind::kError, reason);
  EXPECT_EQ(why_not(two_, {.number = 1, .bytes = 8, .rank = 1}), "rank 1 sent nothing: a step failed");
  one_.send({.number = 2, .bytes = 8, .rank = 2}, Kind::kResponse, bytes(7, 0));
  EXPECT_EQ(why_not(two_, {.number = 2, .bytes = 8, .rank = 1}), "rank 1 sent another number of bytes");
  Peers alone{Peers::Connect()};
  EXPECT_EQ(why_not(alone, {.number = 1, .bytes = 8, .rank = 7}), "rank 7 cannot be reached from here");
}

TEST_F(BetweenPeers, DoesNotWaitForLostPeers) {
  two_.lose(1);
  EXPECT_EQ(why_not(two_, {.number = 1, .bytes = 8, .rank = 1}), "rank 1 is lost");
  two_.send({.number = 1, .bytes = 8, .rank = 1}, Kind::kResponse, bytes(8, 0));
  // While somebody waits.
  Peers three{connect(3)};
  std::jthread waiting(
      [&] { EXPECT_EQ(why_not(three, {.number = 1, .bytes = 8, .rank = 1}), "rank 1 is lost"); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  three.lose(1);
  waiting.join();
  three.listen();
  // Nor does one that is to end.
  EXPECT_THROW(one_.receive({.number = 1, .bytes = 8, .rank = 2}, [] { return true; }), Error);
}

}  // namespace
}  // namespace weft
