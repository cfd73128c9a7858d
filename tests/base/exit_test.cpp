#include <gtest/gtest.h>

#include <cstdlib>

namespace weft::base {
namespace {

// Run by base.ATestThatExitsFails.
TEST(ExitOfATest, DISABLED_EndsTheProgram) { std::exit(0); }

}  // namespace
}  // namespace weft::base
