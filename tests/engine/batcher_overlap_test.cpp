// A batcher over a context whose steps overlap: larger batches if no request waits for them, and the same
// tokens.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <thread>

#include "engine/batching/limits.h"
#include "engine/batching/step_pace.h"
#include "engine/model_impl.h"
#include "engine/small_device.h"
#include "engine/test_support.h"
#include "weft/batcher.h"

namespace weft {
namespace {

constexpr int kUbatch = 8;
constexpr ContextParams kContext = {.n_ctx = 1024, .n_sequences = 6, .n_ubatch = kUbatch, .n_threads = 1};

/// The last layers on devices in addition to the host, a layer each.
std::shared_ptr<const Model> overlapping(const char* family, int n_devices = 1) {
  const PlacementParams placement = {.n_layers = n_devices,
                                     .shares = std::vector<float>(static_cast<std::size_t>(n_devices), 1.0f)};
  return test::load_with_small(test::golden_dir() / family / "model.gguf", std::uint64_t{1} << 32, true,
                               placement, true, false, n_devices);
}

/// The host has only the table of embeddings; devices have one split each.
std::shared_ptr<const Model> chain(int n_devices) {
  const PlacementParams placement = {.n_layers = 4,
                                     .shares = std::vector<float>(static_cast<std::size_t>(n_devices), 1.0f)};
  return test::load_with_small(test::golden_dir() / "llama" / "model.gguf", std::uint64_t{1} << 32, true,
                               placement, true, true, n_devices);
}

test::Conduct& conduct_of(const Model& model, std::size_t device) {
  return *dynamic_cast<test::SmallDevice&>(*model.impl().devices.devices[device]).conduct;
}

struct Served {
  std::vector<std::vector<Token>> texts;
  BatcherStats batcher;
  PlanStats plan;
};

/// Prompts of many lengths that come one after another, while others run.
Served serve(Context& context, BatcherParams params) {
  Batcher batcher(context, params);
  Served served;
  constexpr int kLengths[] = {70, 90, 64, 41, 100, 9, 17, 3, 33, 1, 8, 24};
  served.texts.resize(std::size(kLengths));
  for (std::size_t i = 0; i < std::size(kLengths); ++i) {
    std::vector<Token> prompt;
    for (int k = 0; k < kLengths[i]; ++k)
      prompt.push_back(static_cast<Token>((k * 7 + static_cast<int>(i % 3) * (k > 20 ? 5 : 0)) % 200));
    RequestParams request = {.n_predict = 6 + static_cast<int>(i), .ignore_end = true};
    request.sampler.temperature = i % 2 == 0 ? 0.0f : 0.8f;
    request.sampler.seed = i;
    request.on_output = [&text = served.texts[i]](const Output& output) {
      for (const OutputToken& token : output.tokens) text.push_back(token.id);
      return true;
    };
    batcher.submit(prompt, request);
    if (i % 3 == 2) batcher.step();
    EXPECT_TRUE(batcher.consistent());
  }
  batcher.run();
  EXPECT_TRUE(batcher.consistent());
  served.batcher = batcher.stats();
  served.plan = context.plan_stats();
  return served;
}

class BatcherOverlap : public testing::TestWithParam<const char*> {};

TEST_P(BatcherOverlap, StepsOfPromptsOverlapAndTextsAreTheSame) {
  const auto plain = Model::load(test::golden_dir() / GetParam() / "model.gguf");
  const auto model = overlapping(GetParam());
  const test::Conduct& conduct = conduct_of(*model, 0);
  for (const bool drafts : {false, true}) {
    const BatcherParams params = {.speculation = drafts ? Speculation::kNgram : Speculation::kNone};
    Context alone(plain, kContext), one_by_one(model, kContext), ahead(model, kContext);
    const Served expected = serve(alone, params);
    // A batch of one step overlaps with none.
    BatcherParams small_steps = params;
    small_steps.n_step_tokens = kUbatch;
    const int before = conduct.n_bound_anew;
    EXPECT_TRUE(serve(one_by_one, small_steps).texts == expected.texts);
    if (!drafts) {  // Those are checked in larger ones.
      EXPECT_EQ(conduct.n_bound_anew, before);
    }
    const Served served = serve(ahead, params);
    EXPECT_TRUE(served.texts == expected.texts);
    EXPECT_GT(conduct.n_bound_anew, before);
    EXPECT_LT(served.batcher.n_steps, served.plan.steps);
  }
}

TEST(OverlappingBatches, APromptsFirstTokenWaitsForNoOtherPrompt) {
  const auto model = overlapping("llama");
  Context context(model, kContext);
  Batcher batcher(context, {.max_step_ms = 1e-3});
  std::vector<std::int64_t> begun_at;
  int n_steps = 0;
  const auto submit = [&](int n_prompt) {
    RequestParams request = {.n_predict = 1};
    request.on_output = [&](const Output&) {
      begun_at.push_back(n_steps);
      return true;
    };
    std::vector<Token> prompt(static_cast<std::size_t>(n_prompt), 5);
    prompt[0] = static_cast<Token>(n_prompt);
    batcher.submit(prompt, request);
  };
  submit(3 * kUbatch + 1);
  submit(4 * kUbatch);
  // A batch has four steps, of which one is the second prompt's, and the shorter one goes first.
  const auto step = [&] {
    ++n_steps;
    batcher.step();
  };
  step();
  EXPECT_TRUE(begun_at.empty());
  EXPECT_EQ(context.plan_stats().steps, 4);
  EXPECT_EQ(batcher.stats().n_prompt_tokens, 4 * kUbatch);
  // It ends with the first token of the next batch, which adds only the smallest chunk.
  step();
  EXPECT_EQ(begun_at, std::vector<std::int64_t>{2});
  EXPECT_EQ(context.plan_stats().steps, 4 + 3);
  while (batcher.n_running() > 0) step();
  EXPECT_EQ(begun_at.size(), 2u);
  // The end of a short prompt ends its batch, though another prompt could continue.
  submit(kUbatch + 2);
  submit(5 * kUbatch);
  const std::int64_t before = context.plan_stats().steps;
  step();
  EXPECT_EQ(begun_at.size(), 3u);
  EXPECT_EQ(context.plan_stats().steps, before + 2);
}

TEST(StepPace, WhereStepsDoNotOverlapABatchIsOneStep) {
  const auto plain = Model::load(test::golden_dir() / "llama" / "model.gguf");
  const Context context(plain, kContext), ahead(overlapping("llama"), kContext);
  EXPECT_EQ(engine::fill_in({}, context).n_step_tokens, kUbatch);
  EXPECT_EQ(engine::fill_in({.n_step_tokens = 1 << 20}, context).n_step_tokens, kUbatch);
  EXPECT_EQ(engine::fill_in({}, ahead).n_step_tokens, 4 * kUbatch);
  EXPECT_EQ(engine::fill_in({.n_step_tokens = 5}, ahead).n_step_tokens, 5);
}

// --- Groups of streams, whose batches are in flight by turns

constexpr ContextParams kManyStreams = {
    .n_ctx = 2048, .n_sequences = 24, .n_ubatch = kUbatch, .n_outputs = 16, .n_threads = 1};

/// Typical requests to a server, some with common prefixes, and the tokens of each.
struct Requests {
  explicit Requests(int n) {
    for (int i = 0; i < n; ++i) {
      std::vector<Token> prompt;
      const int length = 1 + i * 5 % 23;
      for (int k = 0; k < length; ++k) prompt.push_back(static_cast<Token>((k * 7 + i % 4 * 3) % 200));
      prompts.push_back(std::move(prompt));
    }
  }
  RequestParams params(std::size_t i) {
    RequestParams request = {.n_predict = 5 + static_cast<int>(i * 3 % 19), .ignore_end = true};
    request.sampler.temperature = i % 2 == 0 ? 0.0f : 0.8f;
    request.sampler.seed = i;
    request.on_output = [this, i](const Output& output) {
      for (const OutputToken& token : output.tokens) texts[i].push_back(token.id);
      if (output.done) ends[i] = output.stop;
      return !leaves(i);
    };
    return request;
  }
  /// All at once.
  void serve(Context& context) {
    Batcher batcher(context, {});
    for (std::size_t i = 0; i < prompts.size(); ++i) batcher.submit(prompts[i], params(i));
    while (batcher.step()) EXPECT_TRUE(batcher.consistent());
    EXPECT_TRUE(batcher.consistent());
  }

  std::vector<std::vector<Token>> prompts;
  std::map<std::size_t, std::vector<Token>> texts;
  std::map<std::size_t, StopReason> ends;
  std::function<bool(std::size_t)> leaves = [](std::size_t) { return false; };  ///< A client, now.
};

TEST_P(BatcherOverlap, StreamsInAsManyGroupsAsDevicesHaveTheSameTexts) {
  const auto plain = Model::load(test::golden_dir() / GetParam() / "model.gguf");
  Context alone(plain, kManyStreams);
  constexpr int kRequests = 20;
  Requests expected(kRequests);
  expected.serve(alone);
  for (const int n_devices : {1, 2, 3}) {
    const auto model = overlapping(GetParam(), n_devices);
    const test::Conduct& conduct = conduct_of(*model, 0);
    Context ahead(model, kManyStreams);
    Requests served(kRequests);
    const int before = conduct.n_bound_anew;
    served.serve(ahead);
    EXPECT_TRUE(served.texts == expected.texts) << n_devices;
    // Most steps overlap others, each with its own tensors.
    EXPECT_GT(conduct.n_bound_anew - before, static_cast<int>(ahead.plan_stats().steps) / 2);
    EXPECT_EQ(ahead.cache().cells_used() > 0, alone.cache().cells_used() > 0);
  }
}

/// Once all groups run, a step of a device or the host ends only after each other one has begun its step of
/// the same time. The wait would time out if a device had no work.
TEST(OverlappingBatches, AllDevicesHaveWorkAtOnce) {
  for (const int n_devices : {1, 2, 3}) {
    const auto model = chain(n_devices);
    std::mutex mutex;
    std::condition_variable news;
    std::vector<int> begun(static_cast<std::size_t>(1 + n_devices));  // By place in the chain.
    int n_in_time = 0, n_in_vain = 0;
    for (int place = 0; place <= n_devices; ++place) {
      // The host is the model's last device and the chain's first.
      const auto device = static_cast<std::size_t>((place + n_devices) % (1 + n_devices));
      conduct_of(*model, device).during = [&, place] {
        std::unique_lock lock(mutex);
        const int step = begun[static_cast<std::size_t>(place)]++;
        news.notify_all();
        if (step < 10 || step >= 30 || n_in_vain > 0) return;
        const bool in_time = news.wait_for(lock, std::chrono::seconds(10), [&] {
          for (int other = 0; other <= n_devices; ++other)
            if (begun[static_cast<std::size_t>(other)] <= step + place - other) return false;
          return true;
        });
        ++(in_time ? n_in_time : n_in_vain);
      };
    }
    Context context(model, kManyStreams);
    Batcher batcher(context, {});
    for (Token i = 0; i < 16; ++i)
      batcher.submit(std::vector<Token>{1, i}, {.n_predict = 20, .ignore_end = true});
    batcher.run();
    EXPECT_EQ(n_in_time, 20 * (1 + n_devices));
    EXPECT_EQ(n_in_vain, 0);
  }
}

/// A group of fewer rows would cost as much as a larger one.
TEST(OverlappingBatches, FewStreamsAreFewerGroups) {
  const auto model = overlapping("llama", 3);
  for (const auto& [n_streams, n_in_step] : {std::pair{7, 7}, {8, 4}, {11, 6}, {12, 4}, {15, 5}, {16, 4}}) {
    Context context(model, kManyStreams);
    Requests served(n_streams);
    int most_in_step = 0;
    BatcherParams params;
    params.on_step = [&](const StepRecord& step) {
      if (step.n_prompt == 0) most_in_step = std::max(most_in_step, step.n_streams);
    };
    Batcher batcher(context, params);
    for (int i = 0; i < n_streams; ++i)
      batcher.submit(std::vector<Token>{1, i}, {.n_predict = 12, .ignore_end = true});
    batcher.run();
    EXPECT_EQ(most_in_step, n_in_step) << n_streams;
  }
}

/// Each device fails once, at each of its first steps: with as many batches in flight as there are devices.
TEST(OverlappingBatches, DeviceFailuresAtAnyStepLoseNoCompletion) {
  const auto plain = Model::load(test::golden_dir() / "llama" / "model.gguf");
  Context alone(plain, kManyStreams);
  Requests expected(17);
  expected.serve(alone);
  for (const int n_devices : {2, 3}) {
    const auto model = overlapping("llama", n_devices);
    for (int device = 0; device < n_devices; ++device)
      for (int at = 0; at < 14; ++at) {
        Context context(model, kManyStreams);
        Requests served(17);
        test::Conduct& conduct = conduct_of(*model, static_cast<std::size_t>(device));
        conduct.during = [step = 0, at]() mutable {
          if (step++ == at) throw Error(ErrorCode::kDevice, "the device stumbles");
        };
        served.serve(context);
        conduct.during = [] {};
        EXPECT_TRUE(served.texts == expected.texts) << "device " << device << " step " << at;
      }
  }
}

/// Clients leave, pause and come, steps are cancelled and devices fail. Each request that ends well has the
/// same tokens as alone.
TEST_P(BatcherOverlap, CompletionsDoNotDependOnOtherRequestsInFlight) {
  const auto plain = Model::load(test::golden_dir() / GetParam() / "model.gguf");
  Context alone(plain, kManyStreams);
  Requests expected(40);
  expected.serve(alone);
  std::mt19937 random(7);
  const auto one_in = [&](unsigned n) { return random() % n == 0; };
  for (int run = 0; run < 9; ++run) {
    const int n_devices = 1 + run / 3, round = run % 3;
    const auto model = overlapping(GetParam(), n_devices);
    Context context(model, kManyStreams);
    Batcher batcher(context, {.max_pause_ms = round == 1 ? 0.0 : 1e9});
    Requests served(40);
    std::set<std::size_t> gone;
    served.leaves = [&](std::size_t i) { return one_in(40) && gone.insert(i).second; };
    std::vector<RequestId> ids;
    std::map<std::size_t, int> paused;
    int may_fail = 0;  // Consecutive failures are blamed on a request.
    for (int step = 0;; ++step) {
      ASSERT_LT(step, 5000);
      while (ids.size() < 40 && one_in(2))
        ids.push_back(batcher.submit(served.prompts[ids.size()], served.params(ids.size())));
      const std::size_t one = ids.empty() ? 0 : random() % ids.size();
      if (!ids.empty() && one_in(12) && !served.ends.contains(one)) {
        batcher.cancel(ids[one]);
        gone.insert(one);
      }
      if (!ids.empty() && one_in(9) && !paused.contains(one)) {
        batcher.pause(ids[one], 0);
        paused[one] = step + 6;
      }
      std::erase_if(paused, [&](const auto& entry) {
        if (entry.second > step) return false;
        batcher.resume(ids[entry.first], 0);
        return true;
      });
      if (one_in(25)) context.cancel();
      try {
        if (one_in(20)) (void)batcher.save_prefix(served.prompts[one]);
      } catch (const Error& error) {  // The cache is full, or a device failed during a step.
        EXPECT_TRUE(error.code() == ErrorCode::kOverloaded ||
                    (error.code() == ErrorCode::kDevice && round == 2))
            << error.what();
      }
      test::Conduct& conduct = conduct_of(*model, random() % static_cast<std::size_t>(n_devices));
      conduct.fails = round == 2 && one_in(15) && step >= may_fail;
      if (conduct.fails) may_fail = step + 3;
      const bool more = batcher.step();
      conduct.fails = false;
      ASSERT_TRUE(batcher.consistent()) << "round " << round << " step " << step;
      if (!more && ids.size() == 40 && paused.empty()) break;
    }
    for (std::size_t i = 0; i < 40; ++i) {
      const std::vector<Token>& text = served.texts[i];
      if (!gone.contains(i)) {
        EXPECT_EQ(served.ends[i], StopReason::kLength) << "round " << round << " request " << i;
        EXPECT_EQ(text, expected.texts[i]) << "round " << round << " request " << i;
      }
      // Tokens that were delivered before the end are right in any case.
      ASSERT_LE(text.size(), expected.texts[i].size());
      EXPECT_TRUE(std::equal(text.begin(), text.end(), expected.texts[i].begin()));
    }
    EXPECT_LT(gone.size(), 35u);
  }
}

/// One that pauses while its batch is on its way has its deadline like others.
TEST(OverlappingBatches, DeadlinesApplyToPausedRequestsInFlight) {
  const auto model = overlapping("llama", 2);
  const test::Conduct& conduct = conduct_of(*model, 0);
  for (const int n_more : {0, 1, 2}) {  // It is in flight in one of the three.
    Context context(model, kManyStreams);
    Batcher batcher(context, {.max_pause_ms = 1e9});
    std::vector<RequestId> ids;
    std::vector<StopReason> ends;
    for (Token i = 0; i < 12; ++i) {
      RequestParams request = {.n_predict = 1000, .ignore_end = true, .timeout_ms = i == 0 ? 300.0 : 0.0};
      request.on_output = [&](const Output& output) {
        if (output.done) ends.push_back(output.stop);
        return true;
      };
      ids.push_back(batcher.submit(std::vector<Token>{1, i}, request));
    }
    const int n_bound = conduct.n_bound_anew;
    while (batcher.step() && conduct.n_bound_anew < n_bound + 4 + n_more) {  // Until groups go by turns.
    }
    for (const RequestId id : ids) batcher.pause(id, 0);
    while (const auto deadline = batcher.next_deadline()) {
      std::this_thread::sleep_until(*deadline);
      const std::size_t n_before = ends.size();
      while (batcher.step()) {
      }
      ASSERT_GT(ends.size(), n_before);
    }
    EXPECT_EQ(ends, std::vector<StopReason>{StopReason::kTimeout});
    EXPECT_TRUE(batcher.consistent());
  }
}

INSTANTIATE_TEST_SUITE_P(Families, BatcherOverlap,
                         testing::Values("llama", "gemma3", "qwen3moe", "mamba", "lfm2"),
                         test::name_of_family);

}  // namespace
}  // namespace weft
