// Blocks of memory: where they begin, where their pages are, and that they can take another's place.
#include "base/memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "base/cores.h"
#include "weft/error.h"

namespace weft::base {
namespace {

namespace fs = std::filesystem;

TEST(Memory, IsZeroedAndLargeBlocksBeginAtALargePage) {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{5000}, kLargePage, 3 * kLargePage + 77}) {
    const Memory memory(bytes);
    ASSERT_EQ(memory.size(), bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.data()) % (bytes < kLargePage ? 4096 : kLargePage), 0u);
    EXPECT_TRUE(std::all_of(memory.bytes().begin(), memory.bytes().end(),
                            [](std::byte b) { return b == std::byte{0}; }));
  }
  EXPECT_EQ(Memory(0).data(), nullptr);
}

TEST(Memory, RejectsMoreThanTheMachineHas) { EXPECT_THROW(Memory(std::size_t{1} << 62), Error); }

TEST(Memory, FailedAllocationsTakeNoAddresses) {
  const auto mapped_pages = [] {
    std::size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    return pages;
  };
  rlimit limit{};
  ::getrlimit(RLIMIT_DATA, &limit);
  const rlimit small = {.rlim_cur = 4096, .rlim_max = limit.rlim_max};
  const std::size_t before = mapped_pages();
  ::setrlimit(RLIMIT_DATA, &small);  // Addresses can be reserved then, memory cannot be had.
  constexpr std::size_t kTry = std::size_t{1} << 20;
  if (void* const had = ::mmap(nullptr, kTry, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      had != MAP_FAILED) {
    ::munmap(had, kTry);
    ::setrlimit(RLIMIT_DATA, &limit);
    GTEST_SKIP() << "limits of memory are not kept here (qemu keeps none)";
  }
  EXPECT_THROW(Memory(std::size_t{1} << 30), Error);
  ::setrlimit(RLIMIT_DATA, &limit);
  EXPECT_LT(mapped_pages(), before + (std::size_t{1} << 29) / 4096);
}

TEST(Memory, TakesTheFirstPagesOfAnother) {
  Memory target(2 * kLargePage), other(kLargePage);
  std::fill(target.bytes().begin(), target.bytes().end(), std::byte{1});
  std::fill(other.bytes().begin(), other.bytes().end(), std::byte{2});
  ASSERT_TRUE(other.move_to(target.data()));
  EXPECT_EQ(other.size(), 0u);
  EXPECT_EQ(target.data()[0], std::byte{2});
  EXPECT_EQ(target.data()[kLargePage - 1], std::byte{2});
  EXPECT_EQ(target.data()[kLargePage], std::byte{1});
}

TEST(Memory, IsSpreadOverAllNodes) {
  const Memory memory(kLargePage);
  EXPECT_TRUE(spread_over_nodes(memory.bytes(), read_cores().nodes()));
  EXPECT_TRUE(spread_over_nodes({}, std::vector<int>{0, 1}));
  // Nodes that no machine has: refused, and the memory is as good as before.
  EXPECT_FALSE(spread_over_nodes(memory.bytes(), std::vector<int>{700, 900}));
  memory.data()[0] = std::byte{3};
  EXPECT_EQ(memory.data()[0], std::byte{3});
}

/// A machine of 64 GiB, 40 of them free, and its control groups.
class MachineMemoryTest : public testing::Test {
 protected:
  static constexpr std::size_t kGib = std::size_t{1} << 30;
  static constexpr const char* kContainer = "container limit";

  void SetUp() override {
    fs::remove_all(root_);
    put("proc/meminfo",
        "MemTotal:       67108864 kB\nMemFree:  1 kB\nMemAvailable:   41943040 kB\nHugePages_Total: 0\n");
  }
  void TearDown() override { fs::remove_all(root_); }

  void put(const std::string& path, const std::string& text) const {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text << '\n';
  }
  void put_gib(const std::string& path, std::size_t gib) const { put(path, std::to_string(gib * kGib)); }
  void expect(std::size_t total_gib, std::size_t available_gib,
              const char* limit = "memory of the machine") const {
    const MachineMemory memory = machine_memory(root_);
    EXPECT_EQ(memory.total, total_gib * kGib);
    EXPECT_EQ(memory.available, available_gib * kGib);
    EXPECT_STREQ(memory.limit, limit);
  }

  fs::path root_ = fs::temp_directory_path() / ("weft-machine-memory-" + std::to_string(::getpid()));
};

TEST_F(MachineMemoryTest, WithoutGroupsIsTheMachines) {
  expect(64, 40);
  put("proc/self/cgroup", "0::/");
  put("sys/fs/cgroup/memory.stat", "inactive_file 5");
  expect(64, 40);
}

TEST_F(MachineMemoryTest, TheProcesssOwnGroupAndThoseAboveCount) {
  put("proc/self/cgroup", "0::/pods/mine");
  const std::string above = "sys/fs/cgroup/pods/", mine = above + "mine/";
  put(mine + "memory.max", "max");
  put_gib(mine + "memory.current", 3);
  expect(64, 40);
  put_gib(above + "memory.max", 16);
  put_gib(above + "memory.current", 6);
  expect(16, 10, kContainer);
  put_gib(mine + "memory.max", 8);
  expect(8, 5, kContainer);
  put_gib(mine + "memory.high", 4);
  expect(4, 1, kContainer);
  put_gib(mine + "memory.current", 9);
  expect(4, 0, kContainer);
}

TEST_F(MachineMemoryTest, FreeSwapIsAvailableAsFarAsThereIsMemory) {
  const auto put_swap = [&](const std::string& free_kb) {
    put("proc/meminfo", "MemTotal: 67108864 kB\nMemAvailable: 41943040 kB\nSwapFree: " + free_kb + " kB\n");
  };
  put_swap("8388608");
  expect(64, 48);
  put_swap("104857600");
  expect(64, 64);
}

TEST_F(MachineMemoryTest, PagesOfFilesAreAvailable) {
  put("proc/self/cgroup", "0::/mine");
  put_gib("sys/fs/cgroup/mine/memory.max", 8);
  put_gib("sys/fs/cgroup/mine/memory.current", 7);
  put("sys/fs/cgroup/mine/memory.stat",
      "anon 1073741824\nfile 6442450944\ninactive_file 3221225472\nactive_file 2147483648\nunevictable 0");
  expect(8, 6, kContainer);
}

TEST_F(MachineMemoryTest, GroupsOfVersionOne) {
  put("proc/self/cgroup", "5:memory:/mine\n4:cpu,cpuacct:/other\n0::/");
  const std::string mine = "sys/fs/cgroup/memory/mine/";
  put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712");  // No limit.
  put_gib("sys/fs/cgroup/memory/memory.usage_in_bytes", 30);
  put_gib(mine + "memory.limit_in_bytes", 8);
  put_gib(mine + "memory.usage_in_bytes", 7);
  put(mine + "memory.stat",
      "inactive_file 0\nactive_file 0\ntotal_inactive_file 1073741824\ntotal_active_file 0");
  expect(8, 2, kContainer);
}

// A container whose group is given by a path of the host's: only the root can be seen.
TEST_F(MachineMemoryTest, OfAPathThatIsNotThereTheRootCounts) {
  put("proc/self/cgroup", "0::/host/path");
  put_gib("sys/fs/cgroup/memory.max", 2);
  put_gib("sys/fs/cgroup/memory.current", 1);
  expect(2, 1, kContainer);
}

TEST_F(MachineMemoryTest, AddressesCount) {
  const auto limits = [](const std::string& bytes) {
    return "Limit                     Soft Limit           Hard Limit           Units\n"
           "Max resident set          1024                 1024                 bytes\n"
           "Max address space         " +
           bytes + "           unlimited            bytes\n";
  };
  put("proc/self/statm",
      std::to_string(2 * kGib / static_cast<std::size_t>(::sysconf(_SC_PAGESIZE))) + " 7 7");
  put("proc/self/limits", limits("unlimited"));
  expect(64, 40);
  put("proc/self/limits", limits(std::to_string(6 * kGib)));
  expect(6, 4, "ulimit -v");
  // The tightest limit is named.
  put("proc/self/cgroup", "0::/");
  put_gib("sys/fs/cgroup/memory.max", 5);
  put_gib("sys/fs/cgroup/memory.current", 2);
  expect(5, 3, kContainer);
}

TEST_F(MachineMemoryTest, WithoutAnEstimateAllOfItIsAvailable) {
  put("proc/meminfo", "MemTotal:       67108864 kB\nMemFree:  1 kB\n");
  expect(64, 64);
}

}  // namespace
}  // namespace weft::base
