#include "base/pool.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "base/memory.h"
#include "base/thread_limit.h"
#include "engine/allocation_counter.h"
#include "weft/error.h"

namespace weft::base {
namespace {

struct Trace {
  std::vector<std::vector<int>> counts;  // [phase][task]
  std::vector<std::int32_t> n_tasks;
  std::atomic<int> out_of_order{0};
};

void record(void* context, int phase, std::int32_t begin, std::int32_t end, int) {
  auto& trace = *static_cast<Trace*>(context);
  // Reading the phase before without synchronisation is the point: the sanitizer sees it if phases overlap.
  if (phase > 0)
    for (const int count : trace.counts[static_cast<std::size_t>(phase) - 1])
      if (count != 1) trace.out_of_order.fetch_add(1);
  for (std::int32_t task = begin; task < end; ++task)
    ++trace.counts[static_cast<std::size_t>(phase)][static_cast<std::size_t>(task)];
}

struct Layout {
  int n_threads, group_size, n_rounds;
  int n_helpers = 0;
};

class PoolOf : public testing::TestWithParam<Layout> {
 protected:
  /// Helpers take part in some phases of some runs.
  static std::vector<std::uint8_t> helped(int round, std::size_t n_phases) {
    std::vector<std::uint8_t> helped(round % 5 == 0 ? 0 : n_phases);
    for (std::size_t p = 0; p < helped.size(); ++p)
      helped[p] = (static_cast<std::size_t>(round) + p) % 3 == 0 ? 1 : 0;
    return helped;
  }
};

TEST_P(PoolOf, RunsEveryTaskOnceAndPhasesInOrder) {
  const auto [n_threads, group_size, n_rounds, n_helpers] = GetParam();
  {
    Pool pool(n_threads, 8, n_helpers, group_size);
    for (int round = 0; round < n_rounds; ++round) {
      Trace trace;
      trace.n_tasks = {5, 0, 1, 17, round % 7, 3, 64, 2};
      for (const int n : trace.n_tasks) trace.counts.emplace_back(static_cast<std::size_t>(n), 0);
      pool.run(trace.n_tasks, record, &trace, {}, helped(round, trace.n_tasks.size()));
      EXPECT_EQ(trace.out_of_order.load(), 0);
      for (const auto& phase : trace.counts)
        for (const int count : phase) EXPECT_EQ(count, 1);
    }
  }
}

// Runs with fewer phases than the pool's maximum leave the other phases of an earlier run unchanged. Stamps
// restart after the first 128 phases of each pool.
TEST_P(PoolOf, RunsOfAnyLengthFollowEachOther) {
  const auto [n_threads, group_size, n_rounds, n_helpers] = GetParam();
  Pool pool(n_threads, 6, n_helpers, group_size);
  for (int round = 0; round < n_rounds; ++round) {
    Trace trace;
    for (int phase = 0; phase < round % 7; ++phase)
      trace.n_tasks.push_back(round * 13 % (phase % 2 == 0 ? 3 * n_threads + 5 : 4));
    for (const int n : trace.n_tasks) trace.counts.emplace_back(static_cast<std::size_t>(n), 0);
    pool.run(trace.n_tasks, record, &trace, {}, helped(round, trace.n_tasks.size()));
    EXPECT_EQ(trace.out_of_order.load(), 0);
    for (const auto& phase : trace.counts)
      for (const int count : phase) EXPECT_EQ(count, 1);
  }
}

// Whichever thread is held up: all that it has not begun is done by the others.
TEST_P(PoolOf, TakesOverTheShareOfAnyThread) {
  const auto [n_threads, group_size, n_rounds, n_helpers] = GetParam();
  if (n_threads == 1) return;  // Nobody to take over.
  constexpr int kOfShare = 8;  // Of which half are claimed at once.
  Pool pool(n_threads, 1, n_helpers, group_size);
  const int n_tasks = kOfShare * n_threads;
  for (int owner = 0; owner < n_threads; owner += std::max(1, n_threads / 8)) {
    const std::int32_t held_up = pool.first_task(n_tasks, owner);
    std::atomic<int> done{0};
    pool.parallel_for(n_tasks, [&](std::int32_t t, int) {
      if (t == held_up)
        while (done.load() < n_tasks - kOfShare / 2) std::this_thread::yield();
      else
        done.fetch_add(1);
    });
    EXPECT_EQ(done.load(), n_tasks - 1);
  }
}

// All threads but two of different groups are held up, so one of them has to do what another group's threads
// would have done.
TEST(Pool, TakesOverFromOtherGroups) {
  constexpr int kThreads = 6, kGroup = 2, kOfShare = 32;
  Pool pool(kThreads, 1, 0, kGroup);
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> done{0}, n_held{0};
    std::vector<std::atomic<int>> by_thread(kThreads);
    constexpr int kTasks = kThreads * kOfShare;
    // The first task of a thread other than the caller blocks until all tasks without a claim are done. A
    // claim of 32 has 16 tasks, and the claimed tasks of a blocked thread wait with it.
    pool.parallel_for(kTasks, [&](std::int32_t, int thread) {
      if (thread != 0 && by_thread[static_cast<std::size_t>(thread)].fetch_add(1) == 0) {
        n_held.fetch_add(1);
        while (done.load() < kTasks - 16 * (kThreads - 1)) std::this_thread::yield();
      } else if (thread == 0) {
        by_thread[0].fetch_add(1);
      }
      done.fetch_add(1);
    });
    EXPECT_EQ(done.load(), kTasks);
    EXPECT_GE(by_thread[0].load(), kTasks - 16 * (kThreads - 1));
  }
}

// Runs so short that most threads see only the last one, or none. State of an earlier run must not be used
// for this one. Threads that lose their core during a run are late by several runs.
TEST_P(PoolOf, LateThreadsDisturbNoOthers) {
  const auto [n_threads, group_size, n_rounds, n_helpers] = GetParam();
  Pool pool(n_threads, 4, n_helpers, group_size);
  for (int round = 0; round < (n_threads > 16 ? 1 : 50) * n_rounds; ++round) {
    // On the stack, and not as in the run before: a task of that run would write to freed memory.
    Trace trace;
    trace.n_tasks.resize(static_cast<std::size_t>(1 + round % 4), 1 + round % (2 * n_threads));
    for (const int n : trace.n_tasks) trace.counts.emplace_back(static_cast<std::size_t>(n), 0);
    pool.run(
        trace.n_tasks,
        [](void* context, int phase, std::int32_t begin, std::int32_t end, int thread) {
          record(context, phase, begin, end, thread);
          if ((phase + begin) % 41 == 40 - thread % 8) std::this_thread::yield();
        },
        &trace, {}, helped(round, trace.n_tasks.size()));
    ASSERT_EQ(trace.out_of_order.load(), 0);
    for (const auto& phase : trace.counts)
      ASSERT_EQ(std::count(phase.begin(), phase.end(), 1), std::ssize(phase));
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, PoolOf,
                         testing::Values(Layout{1, 0, 300}, Layout{2, 0, 300}, Layout{3, 0, 300},
                                         Layout{8, 0, 300}, Layout{2, 1, 300}, Layout{3, 2, 300},
                                         Layout{8, 3, 100}, Layout{12, 0, 100}, Layout{64, 8, 20},
                                         Layout{64, 16, 20}, Layout{63, 8, 20}, Layout{2, 0, 300, 2},
                                         Layout{3, 2, 300, 1}, Layout{1, 0, 10, 3}, Layout{8, 3, 50, 12}),
                         [](const auto& of) {
                           return std::to_string(of.param.n_threads) + "ThreadsInGroupsOf" +
                                  std::to_string(of.param.group_size) + "And" +
                                  std::to_string(of.param.n_helpers) + "Helpers";
                         });

// Threads are held up until a helper has done something; in a phase that does not want help, none does.
TEST(Pool, HelpersTakePartWhereTheyAreWanted) {
  constexpr int kThreads = 2, kHelpers = 2;
  for (const int group_size : {0, 1}) {
    Pool pool(kThreads, 2, kHelpers, group_size);
    EXPECT_EQ(pool.n_threads(), kThreads);
    EXPECT_EQ(pool.n_workers(), kThreads + kHelpers);
    struct Seen {
      std::atomic<int> helped{0}, unasked{0}, done{0};
    };
    for (int round = 0; round < 50; ++round) {
      Seen seen;
      pool.run(
          std::vector<std::int32_t>{64, 64},
          [](void* context, int phase, std::int32_t begin, std::int32_t end, int thread) {
            auto& of = *static_cast<Seen*>(context);
            if (thread >= kThreads) (phase == 1 ? of.helped : of.unasked).fetch_add(end - begin);
            while (phase == 1 && of.helped.load() == 0) std::this_thread::yield();
            of.done.fetch_add(end - begin);
          },
          &seen, {}, std::vector<std::uint8_t>{0, 1});
      EXPECT_EQ(seen.done, 128);
      EXPECT_EQ(seen.unasked, 0);
      EXPECT_GT(seen.helped, 0);
    }
  }
}

// Stamps restart while a thread may still look for leftovers of the run before. A thread that claimed any
// would do tasks twice, and the count of all later phases would be too high.
TEST(Pool, RenewedSharesAreNotBegunAndHaveNothingForLateThreads) {
  constexpr std::uint32_t kBegin = 4, kEnd = 9;
  for (const std::uint32_t stamp : {0u, 1u, 2u, 0x10000000u, 0x80000000u, 0xffffff80u, 0xffffffffu}) {
    const std::uint64_t word = renewed_word(stamp);
    for (const std::uint32_t later : {0u, 1u, 127u, 0x10000000u})
      EXPECT_EQ(first_unclaimed(word, stamp + later, kBegin, kEnd), kBegin) << stamp << " + " << later;
    for (const std::uint32_t before : {1u, 2u, 128u, 0x10000000u})
      EXPECT_GE(first_unclaimed(word, stamp - before, kBegin, kEnd), kEnd) << stamp << " - " << before;
    const std::uint64_t claimed = std::uint64_t{stamp} << 32 | 6u;
    EXPECT_EQ(first_unclaimed(claimed, stamp, kBegin, kEnd), 6u);
    EXPECT_EQ(first_unclaimed(claimed, stamp + 1, kBegin, kEnd), kBegin);
    EXPECT_GE(first_unclaimed(claimed, stamp - 1, kBegin, kEnd), kEnd);
  }
}

TEST(Pool, HelpersTakeLittleAndLeaveTheEnd) {
  for (std::uint32_t left = 1; left < 1000; ++left) {
    EXPECT_GE(tasks_at_once(left, false), 1u);
    EXPECT_LE(tasks_at_once(left, false), std::min(left, 16u));
    EXPECT_LE(tasks_at_once(left, true), 4u);
    EXPECT_LE(tasks_at_once(left, true), left / 3);
  }
  EXPECT_EQ(tasks_at_once(2, true), 0u);
  EXPECT_EQ(tasks_at_once(3, true), 1u);
}

TEST(Pool, WakesThreadsThatWentToSleep) {
  Pool pool(3, 1);
  for (int round = 0; round < 5; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    std::vector<int> hit(100, 0);
    pool.parallel_for(100, [&](std::int32_t t, int) { ++hit[static_cast<std::size_t>(t)]; });
    EXPECT_EQ(std::accumulate(hit.begin(), hit.end(), 0), 100);
  }
}

// Stamps restart after 128 phases of a pool: threads that have not looked before see its end, too.
TEST(Pool, EndsWithThreadsThatHaveNotComeYet) {
  for (const int n_runs : {1, 127, 128, 129})
    for (int i = 0; i < 300; ++i) {
      std::atomic<int> n_done{0};
      {
        Pool pool(8, 1);
        for (int run = 0; run < n_runs; ++run) pool.parallel_for(1, [&](std::int32_t, int) { ++n_done; });
      }
      ASSERT_EQ(n_done, n_runs);
    }
}

TEST(Pool, TakesOverTheShareOfALateThread) {
  Pool pool(2, 1);
  // The caller's first task blocks until all others are done but the three of its run (half of its share):
  // only a partner that takes over can do them.
  std::atomic<int> done{0};
  pool.parallel_for(16, [&](std::int32_t t, int) {
    if (t == 0)
      while (done.load() < 12) std::this_thread::yield();
    else
      done.fetch_add(1);
  });
  EXPECT_EQ(done.load(), 15);
}

// A thread that is late may ask for memory of an earlier run, which is gone by then.
TEST(Pool, PrefetchToleratesFreedMemory) {
  const std::span<std::byte> gone = Memory(std::size_t{1} << 20).bytes();
  const std::vector<std::byte> there(1 << 16);
  for (const int n_threads : {1, 2, 3}) {
    Pool pool(n_threads, 3);
    const std::vector<std::int32_t> n_tasks = {1, 0, 7};
    std::vector<std::span<const std::byte>> ahead(3 * static_cast<std::size_t>(n_threads), gone);
    ahead.back() = there;
    for (int round = 0; round < 50; ++round) {
      std::atomic<int> done{0};
      pool.run(
          n_tasks,
          [](void* count, int, std::int32_t begin, std::int32_t end, int) {
            // Long enough that the others wait and ask.
            std::this_thread::sleep_for(std::chrono::microseconds(20));
            static_cast<std::atomic<int>*>(count)->fetch_add(end - begin);
          },
          &done, round % 2 == 0 ? ahead : std::vector<std::span<const std::byte>>());
      EXPECT_EQ(done.load(), 8);
    }
  }
}

// A container's limit of processes is an everyday input.
TEST(Pool, ThreadsThatCannotBeMadeAreAnError) {
  if (!test::kLimitsThreads) GTEST_SKIP() << "sanitizers have a pthread_create of their own";
  for (const int n_more : {0, 1, 2, 6}) {
    const test::ThreadLimit limit(n_more);
    try {
      Pool pool(8, 3);
      ADD_FAILURE() << n_more;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kOutOfMemory);
      EXPECT_NE(std::string(error.what()).find(std::to_string(n_more + 1) + " of 8 threads"),
                std::string::npos)
          << error.what();
    }
  }
  const test::ThreadLimit limit(7);
  std::atomic<int> done{0};
  Pool(8, 1).parallel_for(20, [&](std::int32_t, int) { ++done; });
  EXPECT_EQ(done, 20);
}

TEST(Pool, ExhaustedMemoryEndsTheThreadsThatAreThere) {
  if (!test::kCountsAllocations) GTEST_SKIP() << "sanitizers bring their own operator new";
  long n = 0;
  for (bool failed = true; failed;) {
    test::fail_allocation(++n);
    try {
      const Pool pool(4, 1);
      failed = false;
    } catch (const std::bad_alloc&) {
    }
    test::fail_allocation(0);
  }
  EXPECT_GT(n, 4);
}

#ifndef __SANITIZE_THREAD__  // Which refuses threads in forked children.
TEST(Pool, TheChildOfAForkHasThreadsOfItsOwn) {
  auto pool = std::make_unique<Pool>(3, 1);
  auto unused = std::make_unique<Pool>(3, 1);
  const auto all_run = [&] {
    std::atomic<int> n_run = 0;
    for (int round = 0; round < 100; ++round) pool->parallel_for(50, [&](std::int32_t, int) { ++n_run; });
    return n_run == 5000;
  };
  ASSERT_TRUE(all_run());
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(60);  // Also ends a wait for threads that do not exist.
    const bool right = all_run();
    pool.reset();
    unused.reset();
    _exit(right ? 3 : 4);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 3) << status;
  EXPECT_TRUE(all_run());
}
#endif

TEST(Pool, DefaultThreadsIsPositive) {
  EXPECT_GE(default_threads(), 1);
  EXPECT_LE(default_threads(), kMaxThreads);
}

}  // namespace
}  // namespace weft::base
