// The service: many threads submit, read slowly or leave; each response is as if it were the only one.
#include "weft/service.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "engine/batcher_testing.h"
#include "engine/failing_device.h"
#include "engine/model_impl.h"
#include "engine/small_device.h"

namespace weft {
namespace {

using namespace std::chrono_literals;
using test::alone;
using test::Ask;
using test::expect_same;
using test::golden;
using test::random_ask;
using test::Result;

/// Reads a response to its end.
std::vector<Result> read_all(Response& response, int n = 1) {
  std::vector<Result> results(static_cast<std::size_t>(n));
  for (Output chunk; response.next(chunk);) {
    Result& result = results[static_cast<std::size_t>(chunk.completion)];
    EXPECT_FALSE(result.done) << "told after its end";
    result.text += chunk.text;
    for (const OutputToken& token : chunk.tokens) result.tokens.push_back(token.id);
    result.done = chunk.done;
    result.stop = chunk.stop;
    result.stats = chunk.stats;
  }
  return results;
}

/// Until `what` holds, or much too long.
template <typename F>
bool eventually(F&& what) {
  for (int i = 0; i < 20000; ++i) {
    if (what()) return true;
    std::this_thread::sleep_for(1ms);
  }
  return false;
}

TEST(Service, AnswersAreAsIfAlone) {
  const auto model = golden("llama");
  Service service(Context(model, {.n_ctx = 512, .n_sequences = 6, .n_threads = 1}));
  std::mt19937_64 random(1);
  std::vector<Ask> asks;
  for (int i = 0; i < 12; ++i) asks.push_back(random_ask(*model, random));
  std::vector<std::thread> clients;
  for (const Ask& ask : asks)
    clients.emplace_back([&] {
      Response response = service.submit(ask.prompt, ask.params);
      EXPECT_GT(response.id(), 0);
      expect_same(read_all(response)[0], alone(model, ask), "a client");
      Output chunk;
      EXPECT_FALSE(response.next(chunk));
      EXPECT_EQ(response.poll(chunk), Response::Poll::kEnd);
    });
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(service.stats().n_running, 0);
  EXPECT_EQ(service.stats().n_completed, 12);
  EXPECT_TRUE(service.drain(10s));
  EXPECT_THROW(service.submit({1, 2}, {}), Error);
}

TEST(Service, EachOutputNamesItsRequest) {
  Service service(Context(golden("llama"), {.n_ctx = 256, .n_sequences = 4, .n_threads = 1}),
                  {.n_unread = 2});
  (void)service.submit({1, 2}, {.n_predict = 1});
  Response response = service.submit({1, 2, 3}, {.n = 2, .n_predict = 9, .ignore_end = true});
  int n_outputs = 0;
  for (Output output; response.next(output); ++n_outputs) EXPECT_EQ(output.request, response.id());
  EXPECT_GT(n_outputs, 2);
}

TEST(Service, CountsAnEndBeforeItsReaderSeesIt) {
  Service service(Context(golden("llama"), {.n_ctx = 256, .n_sequences = 4, .n_threads = 1}));
  for (int i = 1; i < 30; ++i) {
    Response response =
        service.submit({1, 2, 3}, {.n = 1 + i % 2, .n_predict = 1 + i % 3, .ignore_end = true});
    read_all(response, 2);
    const BatcherStats stats = service.stats();
    EXPECT_EQ(stats.n_running, 0);
    EXPECT_EQ(stats.n_completed, i + (i + 1) / 2);
  }
}

TEST(Service, ASlowReaderPausesItsOwnCompletionOnly) {
  const auto model = golden("llama");
  Service service(Context(model, {.n_ctx = 512, .n_sequences = 4, .n_threads = 1}), {.n_unread = 5});
  Ask slow{{1, 2, 3}, {.n_predict = 50, .ignore_end = true}};
  slow.params.sampler.seed = 1;
  Response response = service.submit(slow.prompt, slow.params);
  ASSERT_TRUE(eventually([&] { return service.stats().n_paused == 1; }));
  Ask other{{1, 2, 4}, {.n_predict = 3, .ignore_end = true}};
  other.params.sampler.seed = 2;
  Response quick = service.submit(other.prompt, other.params);
  expect_same(read_all(quick)[0], alone(model, other), "beside a slow reader");
  Output first;
  ASSERT_TRUE(response.next(first));
  EXPECT_EQ(first.tokens.size(), 5u);
  Result result = read_all(response)[0];
  result.text = first.text + result.text;
  for (std::size_t i = first.tokens.size(); i-- > 0;)
    result.tokens.insert(result.tokens.begin(), first.tokens[i].id);
  expect_same(result, alone(model, slow), "the slow one");
}

TEST(Service, DisconnectedClientsFreeTheirCells) {
  const auto model = golden("llama");
  Service service(Context(model, {.n_ctx = 512, .n_sequences = 4, .n_threads = 1}),
                  {.batcher = {.reuse_prefixes = false}});
  {
    Response running = service.submit({1, 2, 3}, {.n = 2, .ignore_end = true, .context_shift = true});
    Output chunk;
    ASSERT_TRUE(running.next(chunk));
  }
  EXPECT_TRUE(eventually([&] { return service.stats().n_cancelled == 2; }));
  EXPECT_EQ(service.stats().cells_used, 0);
  Response cancelled = service.submit({1, 2, 3}, {.ignore_end = true, .context_shift = true});
  cancelled.cancel();
  EXPECT_EQ(read_all(cancelled)[0].stop, StopReason::kCancelled);
}

TEST(Service, CancelledCompletionsHaveNoGaps) {
  const auto model = golden("llama");
  const std::vector<Token> prompt = {1, 2, 3};
  Ask ask{prompt, {.n_predict = 200, .ignore_end = true}};
  ask.params.sampler.seed = 1;
  const Result whole = alone(model, ask);
  // A stop string that is held back again and again.
  ask.params.stop = {std::string(whole.text.substr(20, 1)) + "\x01"};
  for (int i = 0; i < 50; ++i) {
    Service service(Context(model, {.n_ctx = 512, .n_sequences = 2, .n_threads = 1}));
    Response response = service.submit(prompt, ask.params);
    std::this_thread::sleep_for(std::chrono::microseconds(37 * i));
    response.cancel();
    Result result = read_all(response)[0];
    EXPECT_TRUE(result.done);
    EXPECT_TRUE(std::equal(result.tokens.begin(), result.tokens.end(), whole.tokens.begin()));
    // Half a character at the end is reported as such.
    const auto same = std::mismatch(result.text.begin(), result.text.end(), whole.text.begin()).first;
    EXPECT_LE(result.text.end() - same, 3);
  }
}

TEST(Service, WaitsForAnyLength) {
  const auto model = golden("llama");
  Service service(Context(model, {.n_ctx = 512, .n_sequences = 2, .n_threads = 1}));
  Response response = service.submit({1, 2, 3}, {.n_predict = 5, .ignore_end = true});
  EXPECT_TRUE(service.drain(std::chrono::milliseconds::max()));
  Output chunk;
  EXPECT_EQ(response.poll(chunk, std::chrono::milliseconds::max() - 1ms), Response::Poll::kOutput);
  EXPECT_EQ(read_all(response).size(), 1u);
}

TEST(Service, EventLoopsAreWoken) {
  const auto model = golden("llama");
  Service service(Context(model, {.n_ctx = 512, .n_sequences = 4, .n_threads = 1}));
  Response response = service.submit({5, 6, 7}, {.n_predict = 10, .ignore_end = true});
  std::mutex mutex;
  std::condition_variable changed;
  int n_woken = 0;
  response.on_ready([&] {
    const std::lock_guard lock(mutex);
    ++n_woken;
    changed.notify_all();
  });
  std::size_t n_tokens = 0;
  for (int seen = 0;;) {
    {
      std::unique_lock lock(mutex);
      ASSERT_TRUE(changed.wait_for(lock, 20s, [&] { return n_woken > seen; }));
      seen = n_woken;
    }
    Output chunk;
    Response::Poll poll;
    while ((poll = response.poll(chunk)) == Response::Poll::kOutput) n_tokens += chunk.tokens.size();
    if (poll == Response::Poll::kEnd) break;
  }
  EXPECT_EQ(n_tokens, 10u);
  response.on_ready(nullptr);
}

TEST(Service, ShutdownEndsAllRequests) {
  const auto model = golden("llama");
  auto service = std::make_unique<Service>(Context(model, {.n_ctx = 256, .n_sequences = 2, .n_threads = 1}));
  std::vector<Response> responses;
  for (Token i = 0; i < 8; ++i)
    responses.push_back(
        service->submit({1, 2, i}, {.n = 1 + i % 2, .ignore_end = true, .context_shift = true}));
  EXPECT_FALSE(service->drain(20ms));
  service.reset();
  for (Token i = 0; i < 8; ++i)
    for (const Result& result : read_all(responses[static_cast<std::size_t>(i)], 1 + i % 2)) {
      EXPECT_TRUE(result.done);
      EXPECT_EQ(result.stop, StopReason::kCancelled);
    }
}

TEST(Service, ItsQueueIsBounded) {
  const auto model = golden("llama");
  Service service(Context(model, {.n_ctx = 256, .n_sequences = 1, .n_threads = 1}),
                  {.batcher = {.limits = {.n_waiting = 3}}});
  Response running = service.submit({1, 2, 3}, {.ignore_end = true, .context_shift = true});
  Output chunk;
  ASSERT_TRUE(running.next(chunk));
  EXPECT_TRUE(eventually([&] { return service.stats().n_running == 1; }));
  std::vector<Response> waiting;
  for (int i = 0; i < 3; ++i) waiting.push_back(service.submit({1, 2, 3}, {.n_predict = 2}));
  try {
    service.submit({1, 2, 3}, {.n_predict = 2});
    FAIL() << "accepted";
  } catch (const OverloadedError& error) {
    EXPECT_GT(error.retry_after_ms, 0.0);
  }
  EXPECT_EQ(service.stats().n_rejected, 1);
  EXPECT_THROW(service.submit({}, {}), Error);
  EXPECT_THROW(service.submit({1}, {.on_output = [](const Output&) { return true; }}), Error);
  running.cancel();
  for (Response& response : waiting) EXPECT_TRUE(read_all(response)[0].done);
}

/// A service whose device is lost once, in the n-th step, and the means to renew it.
struct Losing {
  Losing(const char* family, int n, ServiceParams params = {})
      : path(test::golden_dir() / family / "model.gguf"),
        model(test::load_failing(path, faults)),
        service(context(), with_loss(std::move(params))) {
    faults->fail_at(n, test::Failure::kBefore);
  }
  Context context() const { return Context(model, {.n_ctx = 512, .n_sequences = 6, .n_threads = 1}); }
  ServiceParams with_loss(ServiceParams params) {
    params.devices_lost = [this] { return lost = lost || faults->n_failed > 0; };
    return params;
  }
  Context made_anew() {
    model->reload(test::failing_params(faults));
    faults->n_failed = 0;
    lost = false;
    return context();
  }

  const std::filesystem::path path;
  const std::shared_ptr<test::Faults> faults = std::make_shared<test::Faults>();
  const std::shared_ptr<Model> model;
  std::atomic<bool> lost{false};
  Service service;
};

TEST(Service, RequestsGoOnInAnotherContext) {
  for (const char* family : {"llama", "gemma3", "lfm2"}) {
    const auto plain = golden(family);
    std::mt19937_64 random(3);
    std::vector<Ask> asks;
    std::vector<Result> references;
    for (int i = 0; i < 9; ++i) {
      asks.push_back(random_ask(*plain, random));
      references.push_back(alone(plain, asks.back()));
    }
    for (int n = 1; n < 18; n += 3) {
      Losing losing(family, n, {.batcher = {.speculation = Speculation::kNgram}, .n_unread = 4});
      std::vector<Response> responses;
      for (int i = 0; i < 7; ++i)
        responses.push_back(losing.service.submit(asks[static_cast<std::size_t>(i)].prompt,
                                                  asks[static_cast<std::size_t>(i)].params));
      std::vector<std::thread> readers;
      std::vector<Result> results(9);
      for (std::size_t i = 0; i < 7; ++i)
        readers.emplace_back([&, i] { results[i] = read_all(responses[i])[0]; });
      ASSERT_TRUE(eventually([&] { return losing.lost.load(); })) << family << " step " << n;
      EXPECT_EQ(losing.service.stats().n_errors, 0);
      Response before = losing.service.submit(asks[7].prompt, asks[7].params), meanwhile, wrong;
      losing.service.renew([&] {
        meanwhile = losing.service.submit(asks[8].prompt, asks[8].params);
        wrong = losing.service.submit({-1}, {});  // Not checked yet.
        EXPECT_EQ(&losing.service.model(), losing.model.get());
        return losing.made_anew();
      });
      for (std::thread& reader : readers) reader.join();
      results[7] = read_all(before)[0];
      results[8] = read_all(meanwhile)[0];
      for (std::size_t i = 0; i < 9; ++i)
        expect_same(results[i], references[i],
                    std::string(family) + " step " + std::to_string(n) + " request " + std::to_string(i));
      EXPECT_EQ(read_all(wrong)[0].stop, StopReason::kError);
      EXPECT_EQ(losing.service.stats().n_errors, 0);
    }
  }
}

TEST(Service, AContextCanBeMadeAnewAtAnyTime) {
  const auto plain = golden("llama");
  Losing losing("llama", 0, {.n_unread = 64});  // Responses are not read, so no request ends before.
  Ask ask{{1, 2, 3}, {.n_predict = 240, .ignore_end = true}};
  ask.params.sampler.seed = 7;
  const Result reference = alone(plain, ask);
  // What a constraint has accepted stays accepted.
  Ask scripted{{1, 2, 3}, {.n_predict = 240, .ignore_end = true}};
  scripted.params.constraint = test::Script::writes(reference.tokens);
  Response response = losing.service.submit(ask.prompt, ask.params);
  Response held = losing.service.submit(scripted.prompt, scripted.params);
  Response shifting = losing.service.submit({1, 2}, {.ignore_end = true, .context_shift = true, .n_ctx = 32});
  EXPECT_TRUE(eventually([&] { return losing.service.stats().n_generated_tokens > 150; }));
  for (int i = 0; i < 3; ++i) losing.service.renew([&] { return losing.made_anew(); });
  const Result result = read_all(response)[0], held_result = read_all(held)[0];
  expect_same(result, reference, "made anew");
  EXPECT_EQ(held_result.tokens, reference.tokens);
  // Both requests have the same tokens: one computes them again, the other may find them in the cache.
  EXPECT_GT(result.stats.n_recomputed + held_result.stats.n_recomputed, 0);
  EXPECT_EQ(read_all(shifting)[0].stop, StopReason::kError) << "what it has forgotten is gone";
}

TEST(Service, RequestsEndIfTheContextCannotBeRebuilt) {
  Losing losing("llama", 5);
  std::vector<Response> responses;
  for (Token i = 0; i < 8; ++i)
    responses.push_back(losing.service.submit({1, 2, i}, {.n_predict = 100, .ignore_end = true}));
  ASSERT_TRUE(eventually([&] { return losing.lost.load(); }));
  EXPECT_THROW(
      losing.service.renew([]() -> Context { throw Error(ErrorCode::kOutOfMemory, "it does not fit"); }),
      Error);
  for (Response& response : responses) {
    std::string error;
    StopReason stop = StopReason::kEnd;
    for (Output chunk; response.next(chunk);) {
      stop = chunk.stop;
      error = chunk.error;
    }
    EXPECT_EQ(stop, StopReason::kError);
    EXPECT_EQ(error, "it does not fit");
  }
  EXPECT_THROW(losing.service.submit({1, 2}, {}), Error);
  EXPECT_THROW(losing.service.snapshot(), Error);
}

TEST(Service, SavedTextsCanBeTriedAgainOnceThereAreOtherDevices) {
  Losing losing("llama", 0);
  Response response = losing.service.submit({1, 2, 3}, {.n_predict = 20, .ignore_end = true});
  std::vector<Token> text = {1, 2, 3};
  const std::vector<Result> results = read_all(response);
  text.insert(text.end(), results[0].tokens.begin(), results[0].tokens.end());
  const SavedPrefix saved = losing.service.save_prefix(text);
  ASSERT_GT(saved.n_tokens, 0);
  losing.service.forget_prefix(text);
  losing.lost = losing.faults->lost = true;
  try {
    losing.service.restore_prefix(saved.state);
    FAIL() << "restored";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
    EXPECT_THAT(error.what(), testing::HasSubstr("try again"));
  }
  try {  // Not of what never will be one.
    losing.service.restore_prefix(std::span(saved.state).first(saved.state.size() / 2));
    FAIL() << "restored";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidFile);
  }
  losing.faults->lost = false;
  losing.service.renew([&] { return losing.made_anew(); });
  EXPECT_EQ(static_cast<int>(losing.service.restore_prefix(saved.state).tokens.size()), saved.n_tokens);
}

TEST(Service, RequestsWaitingForADeviceCanBeCancelled) {
  Losing losing("llama", 5);
  Response late = losing.service.submit({1, 2}, {.n_predict = 200, .ignore_end = true, .timeout_ms = 1.0});
  Response left = losing.service.submit({1, 2, 3}, {.n_predict = 200, .ignore_end = true});
  ASSERT_TRUE(eventually([&] { return losing.lost.load(); }));
  left.cancel();
  EXPECT_EQ(read_all(left)[0].stop, StopReason::kCancelled);
  EXPECT_EQ(read_all(late)[0].stop, StopReason::kTimeout);
  losing.service.shutdown();
}

/// Many clients with all operations at any time. The cache is four times too small, and the device fails now
/// and then.
struct Town {
  const char* name;
  const char* family;
  ContextParams context;
  int n_requests;
  int max_prompt;
  int max_large_prompt = 0;  ///< One prompt in twenty is up to so long, instead.
  int n_clients = 8;
};

void serve(const Town& town) {
  const auto plain = golden(town.family);
  const auto model = test::load_with_small(test::golden_dir() / town.family / "model.gguf",
                                           std::uint64_t{1} << 32, true, {.n_layers = 1});
  test::Conduct& conduct = *dynamic_cast<test::SmallDevice&>(*model->impl().devices.devices[0]).conduct;
  std::mt19937_64 random(99);
  std::vector<Ask> asks;
  std::vector<Result> references;
  for (int i = 0; i < 60; ++i) {
    const int max_prompt =
        i % 20 == 19 && town.max_large_prompt > 0 ? town.max_large_prompt : town.max_prompt;
    asks.push_back(random_ask(*plain, random, static_cast<std::size_t>(max_prompt), 12));
    references.push_back(alone(plain, asks.back()));
  }
  conduct.during = [n = 0]() mutable {
    if (++n % 211 == 0) throw Error(ErrorCode::kDevice, "the device hiccups");
    if (n % 307 == 0) throw std::bad_alloc();
  };
  std::atomic<int> n_ended[7] = {};
  {
    Service service(
        Context(model, town.context),
        {.batcher = {.max_pause_ms = 5.0, .speculation = Speculation::kNgram, .n_draft = 4}, .n_unread = 3});
    std::vector<std::thread> clients;
    std::atomic<int> n_left = town.n_requests;
    std::atomic<int> n_vanished = 0;
    for (int c = 0; c < town.n_clients; ++c)
      clients.emplace_back([&, seed = static_cast<std::uint64_t>(c)] {
        std::mt19937_64 own(seed);
        while (n_left.fetch_sub(1) > 0) {
          const std::size_t which = own() % asks.size();
          RequestParams params = asks[which].params;
          if (own() % 8 == 0) params.timeout_ms = 1.0 + static_cast<double>(own() % 50);
          if (own() % 8 == 0) params.queue_timeout_ms = 1.0 + static_cast<double>(own() % 50);
          Response response = service.submit(asks[which].prompt, params);
          std::thread canceller;
          if (own() % 6 == 0)
            canceller = std::thread([&response, us = own() % 3000] {
              std::this_thread::sleep_for(std::chrono::microseconds(us));
              response.cancel();
            });
          const bool vanishes = own() % 10 == 0;
          const bool slow = own() % 10 == 0;
          Result result;
          for (Output chunk; response.next(chunk);) {
            EXPECT_FALSE(result.done) << "told after its end";
            result.text += chunk.text;
            for (const OutputToken& token : chunk.tokens) result.tokens.push_back(token.id);
            result.done = chunk.done;
            result.stop = chunk.stop;
            if (vanishes) break;
            if (slow) std::this_thread::sleep_for(std::chrono::microseconds(own() % 20000));
          }
          if (canceller.joinable()) canceller.join();
          if (vanishes) {
            ++n_vanished;
            continue;
          }
          EXPECT_TRUE(result.done);
          ++n_ended[static_cast<int>(result.stop)];
          if (result.stop == StopReason::kCancelled || result.stop == StopReason::kTimeout ||
              result.stop == StopReason::kError) {
            // Its tokens are a prefix of the full completion.
            const auto& whole = references[which].tokens;
            EXPECT_TRUE(std::equal(result.tokens.begin(), result.tokens.end(), whole.begin(),
                                   whole.begin() + std::min(whole.size(), result.tokens.size())));
          } else {
            expect_same(result, references[which], "request");
          }
        }
      });
    for (std::thread& client : clients) client.join();
    EXPECT_TRUE(service.drain(60s));
    const BatcherStats stats = service.stats();
    EXPECT_EQ(stats.n_completed + stats.n_cancelled + stats.n_timed_out + stats.n_errors, stats.n_requests);
    EXPECT_EQ(stats.n_running + stats.n_waiting, 0);
    EXPECT_EQ(stats.cells_used, stats.cells_cached);
    EXPECT_EQ(stats.sequences_cached + stats.sequences_free, stats.sequences_total);
    EXPECT_GT(stats.n_failed_steps, 0);
    EXPECT_GT(stats.n_preempted, 0);
    EXPECT_GT(n_vanished, 0);
  }
  EXPECT_GT(n_ended[static_cast<int>(StopReason::kLength)], town.n_requests / 4);
  EXPECT_GT(n_ended[static_cast<int>(StopReason::kCancelled)], 0);
}

class ServiceDay : public testing::TestWithParam<Town> {};

TEST_P(ServiceDay, LosesNoRequest) { serve(GetParam()); }

INSTANTIATE_TEST_SUITE_P(
    Towns, ServiceDay,
    testing::Values(Town{"llama", "llama", {.n_ctx = 160, .n_sequences = 10, .n_threads = 1}, 1500, 60},
                    Town{"windows",
                         "gemma3",
                         {.n_ctx = 300, .n_sequences = 8, .n_threads = 1, .window_rewind = 0},
                         800,
                         120},
                    Town{"recurrent",
                         "lfm2",
                         {.n_ctx = 160, .n_sequences = 8, .n_threads = 1, .state_rewind = 20},
                         800,
                         60}),
    [](const auto& tested) { return std::string(tested.param.name); });

/// For `make soak`, with sanitizers: hours of a server in minutes. WEFT_SOAK says how many requests.
TEST(ServiceSoak, DISABLED_TenThousandRequests) {
  const char* n = std::getenv("WEFT_SOAK");
  serve({.name = "soak",
         .family = "llama",
         .context = {.n_ctx = 8192, .n_sequences = 20, .n_threads = 1},
         .n_requests = n != nullptr ? std::atoi(n) : 10000,
         .max_prompt = 400,
         .max_large_prompt = 8000,
         .n_clients = 64});
}

}  // namespace
}  // namespace weft
