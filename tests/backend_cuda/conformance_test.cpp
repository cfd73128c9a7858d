// Every op, type and shape of the conformance table by CUDA's kernels on an emulated GPU.
#include "weft/conformance.h"

#include <gtest/gtest.h>

#include <cstdio>

#include "cuda_test_support.h"
#include "engine/families_tried.h"

namespace weft {
namespace {

TEST(Conformance, OfEmulatedCuda) {
  const auto device = test::emulated_cuda();
  const int every = test::tries_all() ? 1 : 4;
  const std::vector<ConformanceCase> cases = check_conformance(*device, {.every = every});
  std::printf("%s", to_table(cases).c_str());
  for (const ConformanceRow& row : by_op(cases)) {
    EXPECT_EQ(row.n_failed, 0) << row.op;
    // No layer of a model on the GPU needs the CPU.
    if (row.op == "delta_rule" || row.op == "selective_scan" || row.op == "short_conv") {
      EXPECT_EQ(row.n_unsupported, 0) << row.op;
    }
  }
  EXPECT_GE(cases.size(), 100u);
}

}  // namespace
}  // namespace weft
