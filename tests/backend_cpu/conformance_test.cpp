// Every op, type and shape of the conformance table on the CPU, by each instruction set: a second truth.
#include "weft/conformance.h"

#include <gtest/gtest.h>

#include "backend/cpu/device.h"

namespace weft {
namespace {

TEST(Conformance, OfEveryInstructionSet) {
  for (const cpu::Isa isa : cpu::kIsas) {
    if (!cpu::supported(isa)) continue;
    const auto device = cpu::make_device({.isa = isa, .n_threads = 2});
    const std::vector<ConformanceCase> cases = check_conformance(*device);
    for (const ConformanceRow& row : by_op(cases))
      EXPECT_EQ(row.n_failed + row.n_unsupported, 0) << to_table(cases);
    EXPECT_EQ(by_op(cases).size(), op_names().size()) << "an op is without cases";
  }
}

}  // namespace
}  // namespace weft
