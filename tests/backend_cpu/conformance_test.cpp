// Every op, type and shape of the conformance table on the CPU, by each instruction set: a second truth.
#include "backend/conformance.h"

#include <gtest/gtest.h>

#include "backend/cpu/device.h"

namespace weft {
namespace {

TEST(Conformance, OfEveryInstructionSet) {
  for (const cpu::Isa isa : {cpu::Isa::kGeneric, cpu::Isa::kAvx2, cpu::Isa::kAvx512}) {
    if (!cpu::supported(isa)) continue;
    const auto device = cpu::make_device({.isa = isa, .n_threads = 2});
    for (const ConformanceCase& c : check_conformance(*device))
      EXPECT_TRUE(c.supported && c.passed())
          << c.op << " " << c.what << ": " << c.error << " > " << c.tolerance;
  }
}

}  // namespace
}  // namespace weft
