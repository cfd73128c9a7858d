// A device of another process gives the results of the local device.
#include "weft/conformance.h"

#include <gtest/gtest.h>

#include <thread>

#include "backend_remote/remote_testing.h"

namespace weft {
namespace {

TEST(Remote, ConformsAsTheDeviceDoes) {
  const test::RemoteCpu remote;
  int n_supported = 0;
  for (const ConformanceCase& one : check_conformance(*remote.open())) {
    EXPECT_TRUE(one.passed()) << one.op << ' ' << one.what << ": " << one.error;
    n_supported += one.supported ? 1 : 0;
  }
  EXPECT_GT(n_supported, 1000);
}

}  // namespace
}  // namespace weft
