// Every op, type and shape of the conformance table on the CPU, by each instruction set: a second truth.
#include "weft/conformance.h"

#include <gtest/gtest.h>

#include "backend/cpu/device.h"
#include "backend_cpu/float_testing.h"

namespace weft {
namespace {

class Conformance : public testing::TestWithParam<cpu::Isa> {};

TEST_P(Conformance, OfEveryOp) {
  const auto device = cpu::make_device({.isa = GetParam(), .n_threads = 2});
  const std::vector<ConformanceCase> cases = check_conformance(*device);
  for (const ConformanceRow& row : by_op(cases))
    EXPECT_EQ(row.n_failed + row.n_unsupported, 0) << to_table(cases);
  EXPECT_EQ(by_op(cases).size(), op_names().size()) << "an op is without cases";
}

INSTANTIATE_TEST_SUITE_P(Isas, Conformance, testing::ValuesIn(cpu::supported_isas()), cpu::isa_name);

}  // namespace
}  // namespace weft
