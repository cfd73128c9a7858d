// Machines that are shown as folders of /proc and /sys.
#include "base/cores.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <numeric>
#include <string>

#include "base/pool.h"

namespace weft::base {
namespace {

namespace fs = std::filesystem;

class CoresTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::temp_directory_path() / ("weft-cores-" + std::to_string(::getpid()));
    fs::remove_all(root_);
  }
  void TearDown() override { fs::remove_all(root_); }

  void put(const std::string& path, const std::string& text) const {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text << '\n';
  }
  void put_cpu(int cpu, const std::string& path, const std::string& text) const {
    put("sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/" + path, text);
  }
  Cores read(int n_cpus) const {
    std::vector<int> cpus(static_cast<std::size_t>(n_cpus));
    std::iota(cpus.begin(), cpus.end(), 0);
    return read_cores({.root = root_, .affinity = cpus});
  }

  fs::path root_;
};

TEST_F(CoresTest, WithoutTopologyEachCpuIsACore) {
  EXPECT_EQ(read(6).default_threads(), 6);
  EXPECT_EQ(read(6).helpers(6), 0);
  EXPECT_EQ(read(6).nodes().size(), 1u);
  EXPECT_EQ(read_cores({.root = root_, .affinity = std::vector<int>{}}).default_threads(), 1);
}

TEST_F(CoresTest, HardwareThreadsOfACoreCountOnce) {
  for (int cpu = 0; cpu < 8; ++cpu)
    put_cpu(cpu, "topology/thread_siblings_list",
            std::to_string(cpu % 4) + "," + std::to_string(cpu % 4 + 4));
  const Cores cores = read(8);
  EXPECT_EQ(cores.default_threads(), 4);
  EXPECT_EQ(cores.all[1].cpus, (std::vector<int>{1, 5}));
  // A process that is kept to one side of each core loses none; kept to both sides of two, it has two.
  EXPECT_EQ(read_cores({.root = root_, .affinity = std::vector<int>{4, 5, 6, 7}}).default_threads(), 4);
  EXPECT_EQ(read_cores({.root = root_, .affinity = std::vector<int>{0, 1, 4, 5}}).default_threads(), 2);
}

TEST_F(CoresTest, IntelHybridUsesTheFastKind) {
  // 4 fast cores of two hardware threads, 8 slow ones of one.
  for (int cpu = 0; cpu < 8; ++cpu) {
    put_cpu(cpu, "topology/thread_siblings_list",
            std::to_string(cpu / 2 * 2) + "-" + std::to_string(cpu / 2 * 2 + 1));
    put_cpu(cpu, "cpufreq/cpuinfo_max_freq", cpu < 4 ? "5200000" : "5000000");
  }
  for (int cpu = 8; cpu < 16; ++cpu) {
    put_cpu(cpu, "topology/thread_siblings_list", std::to_string(cpu));
    put_cpu(cpu, "cpufreq/cpuinfo_max_freq", "4600000");
  }
  put("sys/devices/cpu_core/cpus", "0-7");
  put("sys/devices/cpu_atom/cpus", "8-15");
  EXPECT_EQ(read(16).all.size(), 12u);
  EXPECT_EQ(read(16).default_threads(), 4);
  // The slow ones help where the fast ones have all a thread.
  EXPECT_EQ(read(16).helpers(4), 8);
  EXPECT_EQ(read(16).helpers(3), 0);
  EXPECT_EQ(read(16).helpers(5), 0);
  put("proc/self/cgroup", "0::/");
  put("sys/fs/cgroup/cpu.max", "1000000 100000");
  EXPECT_EQ(read(16).helpers(4), 0);
  put("sys/fs/cgroup/cpu.max", "max 100000");
  // Nothing but slow cores is not nothing.
  EXPECT_EQ(read_cores({.root = root_, .affinity = std::vector<int>{8, 9, 10}}).default_threads(), 3);
}

// A driver reports clocks, and it may be missing.
TEST_F(CoresTest, IntelHybridUsesTheFastKindWhereNoClocksAreKnown) {
  put("sys/devices/cpu_atom/cpus", "4-7");
  EXPECT_EQ(read(8).default_threads(), 4);
  EXPECT_EQ(read(8).helpers(4), 4);
  EXPECT_EQ(read_cores({.root = root_, .affinity = std::vector<int>{6, 7}}).default_threads(), 2);
}

TEST_F(CoresTest, ArmHybridUsesTheFastKinds) {
  // Little, middle, big; a prime core that is a bit faster does not stand alone.
  const char* const capacity[] = {"260", "260", "260", "260", "850", "850", "850", "1024"};
  for (int cpu = 0; cpu < 8; ++cpu) put_cpu(cpu, "cpu_capacity", capacity[cpu]);
  const std::vector<Core> fast = read(8).fast();
  ASSERT_EQ(fast.size(), 4u);
  EXPECT_EQ(fast[0].cpus, std::vector<int>{4});
  EXPECT_EQ(read(8).helpers(4), 4);
}

TEST_F(CoresTest, MemoryNodesAreKnown) {
  put("sys/devices/system/node/node0/cpulist", "0-3");
  put("sys/devices/system/node/node1/cpulist", "4-7");
  put("sys/devices/system/node/possible", "0-1");
  const Cores cores = read(8);
  EXPECT_EQ(cores.nodes().size(), 2u);
  EXPECT_EQ(cores.default_threads(), 8);
  EXPECT_EQ(cores.all[3].node, 0);
  EXPECT_EQ(cores.all[4].node, 1);
}

TEST_F(CoresTest, ThreadsThatCountTogetherShareACache) {
  EXPECT_EQ(read(6).group_size(), 8);  // Nothing is known.
  EXPECT_EQ(read(64).group_size(), 16);
  const auto share = [&](int n_cpus, int n_shared) {
    for (int cpu = 0; cpu < n_cpus; ++cpu) {
      put_cpu(cpu, "cache/index0/level", "1");
      put_cpu(cpu, "cache/index0/shared_cpu_list", std::to_string(cpu));
      put_cpu(cpu, "cache/index3/level", "3");
      const int first = cpu / n_shared * n_shared;
      put_cpu(cpu, "cache/index3/shared_cpu_list",
              std::to_string(first) + "-" + std::to_string(first + n_shared - 1));
    }
  };
  share(32, 16);
  Cores cores = read(32);
  EXPECT_EQ(cores.group_size(), 16);
  EXPECT_EQ(cores.all[15].cache, cores.all[0].cache);
  EXPECT_NE(cores.all[16].cache, cores.all[0].cache);
  share(32, 12);
  EXPECT_EQ(read(32).group_size(), 12);
  share(32, 4);  // Too few for a count of their own.
  EXPECT_EQ(read(32).group_size(), 8);
  share(56, 56);  // Too many for one: four of 14.
  EXPECT_EQ(read(56).group_size(), 14);
  // Slow cores have no threads.
  share(16, 16);
  for (int cpu = 0; cpu < 16; ++cpu) put_cpu(cpu, "cpu_capacity", cpu < 10 ? "1024" : "400");
  EXPECT_EQ(read(16).group_size(), 10);
}

TEST_F(CoresTest, QuotaOfTheControlGroup) {
  put("proc/self/cgroup", "0::/pod/container");
  put("sys/fs/cgroup/pod/container/cpu.max", "max 100000");
  EXPECT_EQ(read(8).default_threads(), 8);
  put("sys/fs/cgroup/pod/cpu.max", "250000 100000");  // A group above limits those below.
  EXPECT_DOUBLE_EQ(read(8).quota, 2.5);
  EXPECT_EQ(read(8).default_threads(), 3);
  put("sys/fs/cgroup/pod/container/cpu.max", "50000 100000");
  EXPECT_EQ(read(8).default_threads(), 1);
}

TEST_F(CoresTest, QuotaOfTheFirstVersion) {
  put("proc/self/cgroup", "4:cpu,cpuacct:/docker/1\n5:cpuset:/docker/1\n0::/init");
  put("sys/fs/cgroup/cpu/docker/1/cpu.cfs_quota_us", "400000");
  put("sys/fs/cgroup/cpu/docker/1/cpu.cfs_period_us", "100000");
  put("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1");
  put("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000");
  put("sys/fs/cgroup/cpuset/docker/1/cpuset.cpus", "2-7");
  const Cores cores = read(8);
  EXPECT_EQ(cores.all.size(), 6u);
  EXPECT_EQ(cores.default_threads(), 4);
}

TEST_F(CoresTest, CpusetAndOnline) {
  put("proc/self/cgroup", "0::/");
  put("sys/fs/cgroup/cpuset.cpus.effective", "0-5");
  put("sys/devices/system/cpu/online", "0-3,5");
  EXPECT_EQ(read(8).all.size(), 5u);
}

TEST_F(CoresTest, IgnoresMalformedFiles) {
  put("proc/self/cgroup", "nonsense\n0::/../../../etc");
  put("sys/fs/cgroup/cpu.max", "-5 x");
  put("sys/fs/cgroup/cpuset.cpus.effective", "9-2,,x,99999999999-3");
  put("sys/devices/system/cpu/online", "");
  put_cpu(0, "topology/thread_siblings_list", "-1-");
  put_cpu(1, "cpu_capacity", "many");
  EXPECT_EQ(read(4).default_threads(), 4);
}

TEST(CoresOfThisMachine, AreWhatTheSchedulerAllows) {
  const Cores cores = read_cores();
  ASSERT_FALSE(cores.all.empty());
  EXPECT_GE(default_threads(), 1);
  EXPECT_EQ(default_threads(), cores.default_threads());
}

}  // namespace
}  // namespace weft::base
