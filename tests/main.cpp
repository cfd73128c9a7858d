// main of all test programs of GoogleTest. A case that calls exit() fails its suite: GoogleTest's own main
// would end with the status of that call, and the cases that follow would not run.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace {

/// The process, while it runs tests. The processes of death tests are others.
pid_t running = 0;

class RunningTests final : public testing::EmptyTestEventListener {
  void OnTestProgramStart(const testing::UnitTest& /*all*/) override { running = ::getpid(); }
  void OnTestProgramEnd(const testing::UnitTest& /*all*/) override { running = 0; }
};

void check_end() {
  if (running != ::getpid()) return;
  const testing::TestInfo* const test = testing::UnitTest::GetInstance()->current_test_info();
  std::fprintf(stderr, "exit() was called within %s.%s\n",
               test != nullptr ? test->test_suite_name() : "no test", test != nullptr ? test->name() : "");
  std::_Exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  testing::UnitTest::GetInstance()->listeners().Append(new RunningTests);
  std::atexit(check_end);
  return RUN_ALL_TESTS();
}
