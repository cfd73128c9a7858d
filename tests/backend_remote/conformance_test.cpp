// A device of another process computes what it computes there.
#include "weft/conformance.h"

#include <gtest/gtest.h>

#include <thread>

#include "backend_remote/remote_testing.h"

namespace weft {
namespace {

TEST(Remote, ConformsAsTheDeviceDoes) {
  const test::RemoteCpu remote;
  const auto here = test::cpu();
  const auto expected = check_conformance(*here);
  const auto got = check_conformance(*remote.open());
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].supported, expected[i].supported) << got[i].op << ' ' << got[i].what;
    EXPECT_EQ(got[i].error, expected[i].error) << got[i].op << ' ' << got[i].what;
  }
}

}  // namespace
}  // namespace weft
