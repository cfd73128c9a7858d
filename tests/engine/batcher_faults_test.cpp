// A batcher while memory, devices, samplers and receivers fail. Each request has the same tokens as alone,
// each gets one end, and nothing is lost.
#include <functional>
#include <memory>
#include <stdexcept>

#include "engine/allocation_counter.h"
#include "engine/batcher_testing.h"
#include "engine/model_impl.h"
#include "engine/small_device.h"

namespace weft {
namespace {

using test::alone;
using test::Ask;
using test::Collector;
using test::expect_same;
using test::golden;
using test::random_ask;
using test::Result;

/// A few requests that share beginnings, in a cache that is too small for them.
struct Day {
  explicit Day(const std::shared_ptr<const Model>& model_in) : model(model_in) {
    std::mt19937_64 random(5);
    for (int i = 0; i < 5; ++i) {
      asks.push_back(random_ask(*model, random, 40, 8));
      if (i == 2) asks.back().params.n = 2;
      if (i == 3) asks.back().params.stop = {"zq"};
      if (i == 4) asks.back().params.n_logprobs = 2;
      if (i == 4) asks.back().params.prompt_logprobs = !model->info().reads_source;
    }
    for (const Ask& ask : asks) {
      Ask single = ask;
      single.params.n = 1;
      references.push_back({alone(model, single)});
      if (ask.params.n == 2) {
        ++single.params.sampler.seed;
        references.back().push_back(alone(model, single));
      }
    }
  }

  /// Serves all requests, with `trouble` before (true) and after each step. Each request that ends by itself
  /// must be as alone.
  template <typename F>
  void serve(Context& context, const BatcherParams& params, F&& trouble, const std::string& what) {
    n_errors = 0;
    Collector collector;
    {
      Batcher batcher(context, params);
      std::vector<RequestId> ids;
      for (const Ask& ask : asks) ids.push_back(collector.submit(batcher, ask));
      for (bool more = true; more; ++n_steps) {
        ASSERT_LT(n_steps, 2000) << what << ": it does not end";
        trouble(true);
        more = batcher.step();
        trouble(false);
        ASSERT_TRUE(batcher.consistent()) << what;
      }
      for (std::size_t i = 0; i < ids.size(); ++i)
        for (int k = 0; k < asks[i].params.n; ++k) {
          const Result& result = collector(ids[i], k);
          ASSERT_TRUE(result.done) << what;
          if (result.stop == StopReason::kError) {
            ++n_errors;
          } else {
            expect_same(result, references[i][static_cast<std::size_t>(k)], what);
          }
        }
      EXPECT_EQ(batcher.n_running() + batcher.n_waiting(), 0) << what;
      stats = batcher.stats();
    }
    EXPECT_EQ(context.cache().cells_used(), 0) << what;
    EXPECT_TRUE(context.cache().consistent()) << what;
    n_steps = 0;
  }

  std::shared_ptr<const Model> model;
  std::vector<Ask> asks;
  std::vector<std::vector<Result>> references;
  BatcherStats stats;
  int n_errors = 0;
  int n_steps = 0;
};

class FaultyMemory : public testing::TestWithParam<const char*> {};

TEST_P(FaultyMemory, EachAllocationMayFail) {
  if (!test::kCountsAllocations) GTEST_SKIP() << "sanitizers bring an operator new of their own";
  Day day(golden(GetParam()));
  Context context(day.model, {.n_ctx = 96, .n_sequences = 4, .n_threads = 1, .state_rewind = 16});
  bool failed = true;
  int n_errors = 0;
  long n = 1;
  for (; failed && !HasFailure(); ++n) {
    failed = false;
    long left = n;  // Of the allocations in steps.
    const auto trouble = [&](bool begins) {
      if (begins) {
        test::fail_allocation(failed ? 0 : left);
      } else {
        left = test::allocations_until_failure();
        failed = left == 0;
        test::fail_allocation(0);
      }
    };
    day.serve(context, {.speculation = Speculation::kNgram, .n_draft = 3, .adapt_drafts = false}, trouble,
              "allocation " + std::to_string(n));
    n_errors += day.n_errors;
  }
  EXPECT_GT(n, 100);
  // A sampler that runs out of memory during a draw cannot continue; all else is retried.
  EXPECT_LT(n_errors, n);
}

INSTANTIATE_TEST_SUITE_P(Families, FaultyMemory, testing::Values("llama", "gemma3", "lfm2", "flan-t5"),
                         test::name_of_family);

/// The steps of a day whose device fails now and then, or for good.
class FaultyDevice : public testing::TestWithParam<const char*> {};

TEST_P(FaultyDevice, EachStepMayFail) {
  const auto model =
      test::load_with_small(test::golden_file(GetParam()), std::uint64_t{1} << 32, true, {.n_layers = 1});
  test::Conduct& conduct = *dynamic_cast<test::SmallDevice&>(*model->impl().devices.devices[0]).conduct;
  Day day(golden(GetParam()));
  Context context(model, {.n_ctx = 96, .n_sequences = 4, .n_threads = 1});
  const BatcherParams params = {.speculation = Speculation::kNgram, .n_draft = 3, .adapt_drafts = false};
  // Once, at each submit of a short run.
  bool failed = true;
  for (int n = 1; failed && !HasFailure(); ++n) {
    failed = false;
    conduct.during = [&, left = n]() mutable {
      if (--left != 0) return;
      failed = true;
      throw Error(ErrorCode::kDevice, "the device hiccups");
    };
    day.serve(context, params, [](bool) {}, "submit " + std::to_string(n));
    EXPECT_EQ(day.n_errors, 0) << n;
    EXPECT_EQ(day.stats.n_failed_steps, failed ? 1 : 0);
  }
  // Now and then: more often than steps are tried again, so that some end; the others are as alone.
  std::mt19937_64 random(1);
  conduct.during = [&] {
    if (random() % 3 == 0) throw std::bad_alloc();
  };
  day.serve(context, params, [](bool) {}, "now and then");
  EXPECT_GT(day.stats.n_failed_steps, 2);
  // For good: all end, in a bounded number of steps.
  conduct.during = [] { throw Error(ErrorCode::kDevice, "the device is lost"); };
  day.serve(context, params, [](bool) {}, "for good");
  EXPECT_EQ(day.n_errors, 6);
  conduct.during = [] {};
  day.serve(context, params, [](bool) {}, "well again");
  EXPECT_EQ(day.n_errors, 0);
}

INSTANTIATE_TEST_SUITE_P(Families, FaultyDevice,
                         testing::Values("llama", "gemma3", "mamba", "lfm2", "flan-t5"),
                         test::name_of_family);

TEST(BatcherFaults, ThrowingReceiversEndOnlyTheirCompletion) {
  const auto model = golden("llama");
  Context context(model, {.n_ctx = 512, .n_sequences = 4, .n_threads = 1});
  Batcher batcher(context);
  std::mt19937_64 random(3);
  Ask ask = random_ask(*model, random), other = random_ask(*model, random);
  ask.params.ignore_end = true;
  ask.params.n_predict = 20;
  int n_calls = 0, n_ends = 0;
  RequestParams throwing = ask.params;
  throwing.on_output = [&](const Output& output) -> bool {
    n_ends += output.done ? 1 : 0;
    EXPECT_TRUE(!output.done || output.stop == StopReason::kCancelled);
    if (++n_calls == 3) throw std::runtime_error("the receiver fell over");
    return true;
  };
  Collector collector;
  batcher.submit(ask.prompt, throwing);
  const RequestId id = collector.submit(batcher, other);
  int n_thrown = 0;
  for (bool more = true; more;) {
    try {
      more = batcher.step();
    } catch (const std::runtime_error&) {
      ++n_thrown;
    }
  }
  EXPECT_EQ(n_thrown, 1);
  EXPECT_EQ(n_ends, 1);
  EXPECT_EQ(n_calls, 4);
  expect_same(collector(id), alone(model, other), "the other one");
}

TEST(BatcherFaults, StepsDoNotNest) {
  const auto model = golden("llama");
  Context context(model, {.n_ctx = 128, .n_threads = 1});
  Batcher batcher(context);
  bool refused = false;
  const std::vector<Token> prompt = {1, 2, 3};
  batcher.submit(prompt, {.n_predict = 2, .on_output = [&](const Output&) {
                            try {
                              batcher.step();
                            } catch (const Error&) {
                              refused = true;
                            }
                            return true;
                          }});
  batcher.run();
  EXPECT_TRUE(refused);
}

TEST(BatcherFaults, ReceiversMaySubmit) {
  const auto model = golden("llama");
  Context context(model, {.n_ctx = 512, .n_sequences = 6, .n_threads = 1});
  Batcher batcher(context);
  int n_ends = 0, n_submitted = 1;
  const std::vector<Token> prompt = {1, 2, 3};
  std::function<bool(const Output&)> receive = [&](const Output& output) {
    if (n_submitted < 200) {
      RequestParams params{.n = 1 + n_submitted % 7, .n_predict = n_submitted % 3, .on_output = receive};
      n_submitted += params.n;
      batcher.submit(prompt, params);
    }
    n_ends += output.done ? 1 : 0;
    return true;
  };
  batcher.submit(prompt, {.n_predict = 3, .on_output = receive});
  batcher.run();
  EXPECT_EQ(n_ends, n_submitted);
  EXPECT_TRUE(batcher.consistent());
}

/// What a request brought is let go of when it is over.
TEST(BatcherFaults, FreesEverythingOfEndedRequests) {
  const auto model = golden("llama");
  Context context(model, {.n_ctx = 512, .n_sequences = 6, .n_threads = 1});
  Batcher batcher(context);
  std::vector<std::weak_ptr<int>> held;
  for (int i = 0; i < 20; ++i) {
    const auto own = std::make_shared<int>(i);
    held.push_back(own);
    batcher.submit(std::vector<Token>{1, 2, static_cast<Token>(i)},
                   {.n_predict = 3, .on_output = [own](const Output&) { return true; }});
  }
  batcher.run();
  for (const auto& one : held) EXPECT_TRUE(one.expired());
}

/// Wrong, and no reason to end the process.
TEST(BatcherFaults, AContextThatIsMovedAwayIsAnErrorForAll) {
  const auto model = golden("llama");
  Context context(model, {.n_ctx = 128, .n_threads = 1});
  Collector collector;
  RequestId id = 0;
  {
    Batcher batcher(context);
    id = collector.submit(batcher, {{1, 2, 3}, {.n_predict = 9, .ignore_end = true}});
    batcher.step();
    const Context elsewhere(std::move(context));
    batcher.run();
  }
  EXPECT_EQ(collector(id).stop, StopReason::kError);
}

TEST(BatcherFaults, ReportsTheEndOnce) {
  const auto model = golden("llama");
  Context context(model, {.n_ctx = 512, .n_sequences = 6, .n_threads = 1});
  Batcher batcher(context);
  std::map<std::pair<RequestId, int>, int> ends;
  std::vector<RequestId> ids;
  const std::vector<Token> prompt = {4, 5, 6, 7};
  std::mt19937_64 random(1);
  for (int i = 0; i < 40; ++i) {
    RequestParams params{.n = 1 + i % 3, .n_predict = 1 + i % 5, .ignore_end = true};
    params.on_output = [&](const Output& output) {
      EXPECT_EQ((ends[{output.request, output.completion}]), 0) << "told after its end";
      ends[{output.request, output.completion}] += output.done ? 1 : 0;
      if (random() % 4 == 0) batcher.cancel(ids[random() % ids.size()]);
      return random() % 5 != 0;
    };
    ids.push_back(batcher.submit(prompt, params));
  }
  batcher.run();
  for (int i = 0; i < 40; ++i)
    for (int k = 0; k < 1 + i % 3; ++k)
      EXPECT_EQ((ends[{ids[static_cast<std::size_t>(i)], k}]), 1) << i << " " << k;
}

}  // namespace
}  // namespace weft
