// A process survives lost bytes of a mapped file. Other faults behave as without a guard.
#include "base/mapping_guard.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/mapped_file.h"

namespace weft::base {
namespace {

namespace fs = std::filesystem;

class MappingGuardTest : public testing::Test {
 protected:
  /// `n_bytes` ones.
  MappedFile map(std::size_t n_bytes) {
    std::ofstream(path_, std::ios::binary) << std::string(n_bytes, '\1');
    return MappedFile(path_);
  }
  void cut(std::size_t n_bytes) const { fs::resize_file(path_, n_bytes); }
  void TearDown() override { fs::remove(path_); }

  fs::path path_ = fs::temp_directory_path() / ("weft_mapping_guard_" + std::to_string(::getpid()));
};

int sum(std::span<const std::byte> bytes) {
  int total = 0;
  for (const std::byte byte : bytes) total += static_cast<int>(byte);
  return total;
}

TEST_F(MappingGuardTest, LostBytesReadAsZerosAndAreReported) {
  const MappedFile file = map(300000);
  cut(100000);
  EXPECT_FALSE(file.lost());
  EXPECT_EQ(file.bytes().back(), std::byte{0});
  EXPECT_TRUE(file.lost());
  EXPECT_EQ(sum(file.bytes()), 0);  // Also what the file still has.
  EXPECT_THROW(file.check_unchanged(), std::exception);
}

TEST_F(MappingGuardTest, BytesThatTheFileHasStayReadable) {
  const MappedFile file = map(300000);
  cut(100000);
  EXPECT_EQ(sum(file.bytes().first(100000)), 100000);
  EXPECT_FALSE(file.lost());
}

TEST_F(MappingGuardTest, AFileLosesOnlyItsOwnBytes) {
  const MappedFile other = map(50000);
  fs::rename(path_, path_.string() + "-other");
  MappedFile file = map(50000);
  cut(0);
  const MappedFile moved = std::move(file);
  EXPECT_EQ(moved.bytes()[49999], std::byte{0});
  EXPECT_TRUE(moved.lost());
  EXPECT_FALSE(other.lost());
  EXPECT_EQ(sum(other.bytes()), 50000);
  fs::remove(path_.string() + "-other");
}

TEST_F(MappingGuardTest, ManyThreadsMayTouchLostBytesAtOnce) {
  const MappedFile file = map(std::size_t{1} << 20);
  cut(0);
  std::atomic<int> n_wrong{0};
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 8; ++t)
      threads.emplace_back([&] {
        if (sum(file.bytes()) != 0 || !file.lost()) ++n_wrong;
      });
  }
  EXPECT_EQ(n_wrong.load(), 0);
}

TEST_F(MappingGuardTest, RangesComeAndGoWhileOthersAreLost) {
  std::atomic<bool> stop{false};
  {
    const std::jthread changer([&] {
      const fs::path path = path_.string() + "-more";
      std::ofstream(path) << "more";
      while (!stop) {
        const MappedFile one(path), another(path);
      }
      fs::remove(path);
    });
    for (int i = 0; i < 200; ++i) {
      const MappedFile file = map(20000);
      cut(0);
      EXPECT_EQ(sum(file.bytes()), 0);
      EXPECT_TRUE(file.lost());
    }
    stop = true;
  }
}

TEST_F(MappingGuardTest, AChildOfForkIsGuardedToo) {
  const MappedFile file = map(20000);
  cut(0);
  EXPECT_EXIT(std::_Exit(sum(file.bytes()) == 0 && file.lost() ? 0 : 1), testing::ExitedWithCode(0), "");
  EXPECT_FALSE(file.lost());  // This process has not touched it.
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // They handle signals themselves.

TEST_F(MappingGuardTest, OtherFaultsAndSignalsEndTheProcessAsBefore) {
  const MappedFile file = map(20000);
  const MappedFile guarded = map(30000);
  const void* const foreign = ::mmap(nullptr, 30000, PROT_READ, MAP_PRIVATE, guarded.file().descriptor(), 0);
  cut(0);
  const std::span other(static_cast<const std::byte*>(foreign), 30000);
  EXPECT_EXIT(std::_Exit(sum(other)), testing::KilledBySignal(SIGBUS), "");
  EXPECT_EXIT(::kill(::getpid(), SIGBUS), testing::KilledBySignal(SIGBUS), "");
  EXPECT_EXIT(std::_Exit(sum(guarded.bytes())), testing::ExitedWithCode(0), "");
  ::munmap(const_cast<void*>(foreign), 30000);
}

volatile std::sig_atomic_t n_handled = 0;
struct sigaction of_guard = {};

/// As Python's faulthandler does it.
void restore_and_raise(int signal) {
  n_handled = n_handled + 1;
  ::sigaction(signal, &of_guard, nullptr);
  std::raise(signal);
}

TEST_F(MappingGuardTest, ALaterHandlerThatRestoresAndRaisesIsSurvived) {
  const MappedFile file = map(20000);
  cut(0);
  const auto touch = [&] {
    struct sigaction action = {};
    action.sa_handler = restore_and_raise;
    action.sa_flags = SA_NODEFER;
    ::sigaction(SIGBUS, &action, &of_guard);
    std::_Exit(sum(file.bytes()) == 0 && file.lost() && n_handled == 1 ? 0 : 1);
  };
  EXPECT_EXIT(touch(), testing::ExitedWithCode(0), "");
}

/// In processes of their own, which have no handler yet.
class FreshProcess : public testing::Test {
 protected:
  FreshProcess() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
  ~FreshProcess() override { GTEST_FLAG_SET(death_test_style, "fast"); }

  /// A file that lost all that it had.
  static MappedFile lost_file() {
    const fs::path path = fs::temp_directory_path() / ("weft_lost_file_" + std::to_string(::getpid()));
    std::ofstream(path) << std::string(20000, '\1');
    MappedFile file(path);
    fs::resize_file(path, 0);
    fs::remove(path);
    return file;
  }
};

TEST_F(FreshProcess, EarlierHandlersGetForeignSignals) {
  const auto run = [] {
    std::signal(SIGBUS, [](int) { n_handled = n_handled + 1; });
    const MappedFile file = lost_file();
    if (sum(file.bytes()) != 0 || n_handled != 0) std::_Exit(1);
    ::kill(::getpid(), SIGBUS);
    std::raise(SIGBUS);
    std::_Exit(n_handled == 2 ? 0 : 2);
  };
  EXPECT_EXIT(run(), testing::ExitedWithCode(0), "");
}

TEST_F(FreshProcess, GuardsMayBeSwitchedOff) {
  const auto run = [] {
    allow_mapping_guards(false);
    std::_Exit(sum(lost_file().bytes()));
  };
  EXPECT_EXIT(run(), testing::KilledBySignal(SIGBUS), "");
}

#endif

}  // namespace
}  // namespace weft::base
