// Introspection of a batcher: a snapshot of the cache, and a record of each step.
#include <numeric>
#include <set>
#include <thread>

#include "engine/batcher_testing.h"
#include "engine/batching/stream.h"
#include "engine/model_impl.h"
#include "engine/small_device.h"
#include "weft/service.h"

namespace weft {
namespace {

using test::Ask;
using test::Collector;
using test::golden;
using test::random_ask;

/// Cells of each sequence in the snapshot; n_used gets all of them.
std::map<SeqId, int> cells_by_sequence(const BatcherSnapshot& snapshot, int& n_used) {
  std::map<SeqId, int> result;
  n_used = 0;
  int end = 0;
  for (const CellRun& run : snapshot.cells) {
    EXPECT_GE(run.first, end) << "runs are in order and do not overlap";
    EXPECT_GT(run.n, 0);
    end = run.first + run.n;
    n_used += run.n;
    EXPECT_FALSE(run.sequences.empty());
    EXPECT_TRUE(std::is_sorted(run.sequences.begin(), run.sequences.end()));
    for (const SeqId seq : run.sequences) result[seq] += run.n;
  }
  EXPECT_LE(end, snapshot.n_pages * snapshot.page_cells);
  return result;
}

const BatcherSnapshot::Stream& stream_of(const BatcherSnapshot& snapshot, RequestId id) {
  const auto found = std::find_if(snapshot.streams.begin(), snapshot.streams.end(),
                                  [&](const auto& stream) { return stream.request == id; });
  if (found == snapshot.streams.end()) throw std::out_of_range("the request is not in the snapshot");
  return *found;
}

TEST(BatcherSnapshot, CellsAreThoseOfTheSequences) {
  for (const char* family : {"llama", "gemma3", "mamba"}) {
    const auto model = golden(family);
    Context context(model, {.n_ctx = 512, .n_sequences = 8, .n_threads = 1});
    Batcher batcher(context, {.n_running = 4, .speculation = Speculation::kNgram, .adapt_drafts = false});
    Collector collector;
    std::mt19937_64 random(11);
    bool any_shared = false, any_cached = false;
    for (int i = 0; i < 15; ++i) {
      Ask ask = random_ask(*model, random, 300);
      ask.params.n = 2;
      collector.submit(batcher, ask);
    }
    for (bool more = true; more;) {
      more = batcher.step();
      const BatcherSnapshot snapshot = batcher.snapshot();
      const BatcherStats stats = batcher.stats();
      int n_used = 0;
      const std::map<SeqId, int> cells = cells_by_sequence(snapshot, n_used);
      EXPECT_EQ(n_used, context.cache().cells_used()) << family;
      ASSERT_EQ(cells.size(), snapshot.sequences.size());
      int n_running = 0;
      for (const BatcherSnapshot::Sequence& sequence : snapshot.sequences) {
        EXPECT_EQ(sequence.n_tokens, context.cache().next_pos(sequence.id));
        EXPECT_EQ(sequence.n_tokens, cells.at(sequence.id));
        n_running += sequence.running ? 1 : 0;
        any_cached = any_cached || !sequence.running;
      }
      for (const BatcherSnapshot::Stream& stream : snapshot.streams) {
        EXPECT_EQ(stream.n_read, stream.sequence < 0 ? 0 : context.cache().next_pos(stream.sequence));
        EXPECT_EQ(stream.sequence < 0, stream.state == StreamState::kWaiting);
        n_running -= stream.sequence >= 0 && stream.n_read > 0 ? 1 : 0;
      }
      EXPECT_EQ(n_running, 0);
      EXPECT_EQ(snapshot.n_waiting, stats.n_waiting);
      EXPECT_EQ(static_cast<int>(snapshot.streams.size()), stats.n_running + stats.n_waiting);
      any_shared = any_shared || std::any_of(snapshot.cells.begin(), snapshot.cells.end(),
                                             [](const CellRun& run) { return run.sequences.size() > 1; });
    }
    EXPECT_TRUE(any_cached) << family;
    EXPECT_TRUE(any_shared || model->info().recurrent) << family;
  }
}

TEST(BatcherSnapshot, ShowsSharedPrefixes) {
  const auto model = golden("llama");
  Context context(model, {.n_ctx = 1024, .n_sequences = 4, .n_threads = 1});
  Batcher batcher(context);
  Collector collector;
  Ask ask;
  ask.prompt.resize(130);
  std::iota(ask.prompt.begin(), ask.prompt.end(), 10);
  ask.params = {.n_predict = 20, .ignore_end = true, .priority = 3};
  const RequestId first = collector.submit(batcher, ask);
  while (collector(first).tokens.empty()) batcher.step();
  ask.prompt.back() = 7;
  const RequestId second = collector.submit(batcher, ask);
  batcher.step();
  const BatcherSnapshot snapshot = batcher.snapshot();
  const BatcherSnapshot::Stream& one = stream_of(snapshot, first);
  const BatcherSnapshot::Stream& two = stream_of(snapshot, second);
  EXPECT_EQ(two.n_prompt, 130);
  EXPECT_EQ(two.n_cached, 129);
  EXPECT_EQ(two.priority, 3);
  EXPECT_EQ(one.state, StreamState::kDecoding);
  EXPECT_EQ(to_string(one.state), "decoding");
  EXPECT_EQ(one.n_generated, static_cast<int>(collector(first).tokens.size()));
  ASSERT_FALSE(snapshot.cells.empty());
  // Two whole pages, in one run; of the third one the second has a copy.
  std::vector<SeqId> both = {one.sequence, two.sequence};
  std::sort(both.begin(), both.end());
  EXPECT_EQ(snapshot.cells[0], (CellRun{0, 128, both}));
  batcher.run();
  EXPECT_TRUE(batcher.snapshot().streams.empty());
}

TEST(BatcherSnapshot, ShowsWaitingAndPausedStreams) {
  const auto model = golden("llama");
  Context context(model, {.n_ctx = 256, .n_sequences = 2, .n_threads = 1});
  Batcher batcher(context, {.n_running = 1, .n_step_tokens = 8});
  Collector collector;
  Ask ask{{}, {.n_predict = 20, .ignore_end = true}};
  for (Token token = 0; token < 40; ++token) ask.prompt.push_back(token + 20);
  const RequestId runs = collector.submit(batcher, ask);
  ask.prompt.front() = 1;
  const RequestId waits = collector.submit(batcher, ask);
  batcher.step();
  EXPECT_EQ(stream_of(batcher.snapshot(), runs).state, StreamState::kPrefilling);
  EXPECT_EQ(stream_of(batcher.snapshot(), runs).n_read, 8);
  EXPECT_EQ(stream_of(batcher.snapshot(), waits).state, StreamState::kWaiting);
  EXPECT_EQ(stream_of(batcher.snapshot(), waits).sequence, -1);
  EXPECT_GT(stream_of(batcher.snapshot(), waits).age_ms, 0.0);
  batcher.pause(runs);
  EXPECT_EQ(stream_of(batcher.snapshot(), runs).state, StreamState::kPaused);
  batcher.resume(runs);
  ask.prompt.resize(1);
  for (int i = 0; i < BatcherSnapshot::kMostWaiting; ++i) collector.submit(batcher, ask);
  EXPECT_EQ(batcher.snapshot().n_waiting, BatcherSnapshot::kMostWaiting + 1);
  EXPECT_EQ(std::ssize(batcher.snapshot().streams), BatcherSnapshot::kMostWaiting + 1);
  batcher.run();
}

TEST(BatcherSnapshot, AServiceShowsItToAnyThread) {
  const auto model = golden("llama");
  Service service(Context(model, {.n_ctx = 512, .n_sequences = 4, .n_threads = 1}));
  EXPECT_TRUE(service.snapshot().cells.empty());
  std::vector<std::thread> readers;
  std::vector<Response> responses;
  for (Token i = 0; i < 3; ++i)
    responses.push_back(service.submit({1, 2, i}, {.n_predict = 60, .ignore_end = true}));
  for (int i = 0; i < 3; ++i)
    readers.emplace_back([&] {
      for (int n = 0; n < 20; ++n) {
        int n_used = 0;
        cells_by_sequence(service.snapshot(), n_used);
      }
    });
  for (Response& response : responses)
    for (Output chunk; response.next(chunk);) {
    }
  for (std::thread& reader : readers) reader.join();
  int n_used = 0;
  cells_by_sequence(service.snapshot(), n_used);
  EXPECT_GE(n_used, 62) << "the finished texts are kept";
  std::atomic<bool> refused = false;
  std::thread late([&] {  // Each call gets a result or an error.
    try {
      while (true) service.snapshot();
    } catch (const Error& error) {
      refused = error.code() == ErrorCode::kUnavailable;
    }
  });
  service.shutdown();
  late.join();
  EXPECT_TRUE(refused);
}

// --- Records of steps

TEST(StepRecords, AddUpToWhatTheBatcherCounts) {
  const auto model = golden("llama");
  Context context(model, {.n_ctx = 192, .n_sequences = 8, .n_threads = 1});
  std::vector<StepRecord> records;
  Batcher batcher(context, {.n_running = 4,
                            .speculation = Speculation::kNgram,
                            .adapt_drafts = false,
                            .on_step = [&](const StepRecord& record) { records.push_back(record); }});
  Collector collector;
  std::mt19937_64 random(5);
  for (int i = 0; i < 20; ++i) collector.submit(batcher, random_ask(*model, random));
  Ask ask{{5, 6, 7, 5, 6, 7, 5, 6, 7}, {.n_predict = 100, .ignore_end = true}};
  ask.params.sampler.temperature = 0.0f;  // It repeats itself in the end.
  collector.submit(batcher, ask);
  batcher.run();
  const BatcherStats stats = batcher.stats();
  const auto sum = [&](int StepRecord::* member) {
    return std::accumulate(records.begin(), records.end(), std::int64_t{0},
                           [&](std::int64_t n, const StepRecord& record) { return n + record.*member; });
  };
  EXPECT_EQ(std::ssize(records), stats.n_steps);
  EXPECT_EQ(sum(&StepRecord::n_generated), stats.n_generated_tokens);
  EXPECT_EQ(sum(&StepRecord::n_drafted), stats.n_drafted_tokens);
  EXPECT_EQ(sum(&StepRecord::n_accepted), stats.n_accepted_tokens);
  EXPECT_GT(stats.n_accepted_tokens, 0);
  EXPECT_GE(sum(&StepRecord::n_prompt), stats.n_prompt_tokens);
  for (std::size_t i = 0; i < records.size(); ++i) {
    const StepRecord& record = records[i];
    EXPECT_FALSE(record.failed);
    EXPECT_GT(record.n_streams, 0);
    EXPECT_LE(record.n_prompt + record.n_drafted, record.n_rows);
    EXPECT_TRUE(i == 0 || records[i - 1].end <= record.begin);
    const double ms = engine::ms_between(record.begin, record.end);
    EXPECT_NEAR(record.host_before_ms + record.decode_ms + record.host_after_ms, ms, 1e-6 * (1.0 + ms));
  }
}

TEST(StepRecords, ReportsFailedStepsAndIgnoresFailingReceivers) {
  const auto plain = golden("llama");
  const auto model = test::load_with_small(test::golden_dir() / "llama" / "model.gguf",
                                           std::uint64_t{1} << 32, true, {.n_layers = 1});
  test::Conduct& conduct = *dynamic_cast<test::SmallDevice&>(*model->impl().devices.devices[0]).conduct;
  Context context(model, {.n_ctx = 256, .n_sequences = 4, .n_threads = 1});
  int n_failed = 0, n_reported = 0;
  Batcher batcher(context, {.on_step = [&](const StepRecord& record) {
                    ++n_reported;
                    n_failed += record.failed ? 1 : 0;
                    throw 42;
                  }});
  conduct.during = [n = 0]() mutable {
    if (++n % 7 == 0) throw Error(ErrorCode::kDevice, "the device hiccups");
  };
  Collector collector;
  std::mt19937_64 random(2);
  const Ask ask = random_ask(*plain, random);
  const RequestId id = collector.submit(batcher, ask);
  batcher.run();
  conduct.during = [] {};
  test::expect_same(collector(id), test::alone(plain, ask), "beside failures");
  EXPECT_GT(n_failed, 0);
  EXPECT_EQ(n_failed, batcher.stats().n_failed_steps);
  EXPECT_EQ(n_reported - n_failed, batcher.stats().n_steps);
}

}  // namespace
}  // namespace weft
