// Load tests against a fake OpenAI-compatible server, with and without faults.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "bench/load_prompts.h"
#include "bench/load_report.h"
#include "bench/load_response.h"
#include "bench/load_run.h"
#include "http/http_server.h"
#include "weft/error.h"

namespace weft::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// Answers with "max_tokens" words of 5 ms each, or as `trouble` says for the n-th request.
class FakeOpenAi {
 public:
  using Trouble = std::function<bool(int number, server::Exchange& exchange)>;

  explicit FakeOpenAi(Trouble trouble = nullptr)
      : trouble_(std::move(trouble)),
        server_({.port = 0}, [this](const std::shared_ptr<server::Exchange>& exchange) { answer(exchange); }),
        thread_([this] { server_.run(); }) {}
  ~FakeOpenAi() {
    server_.stop();
    thread_.join();
  }
  FakeOpenAi(const FakeOpenAi&) = delete;
  FakeOpenAi& operator=(const FakeOpenAi&) = delete;

  std::string url() const { return server_.addresses().front(); }
  int most_at_once() const { return most_at_once_; }
  std::vector<Json> requests() {
    const std::lock_guard lock(mutex_);
    return requests_;
  }
  std::string authorization;  ///< Of the last request.

 private:
  void answer(const std::shared_ptr<server::Exchange>& exchange) {
    if (exchange->request().path == "/v1/models")
      return exchange->send({.body = R"({"data":[{"id":"fake"}]})"});
    const Json request = Json::parse(exchange->request().body);
    {
      const std::lock_guard lock(mutex_);
      requests_.push_back(request);
      authorization = exchange->request().header("authorization");
    }
    if (trouble_ && trouble_(n_requests_++, *exchange)) return;
    most_at_once_ = std::max<int>(most_at_once_, ++n_at_once_);
    exchange->begin(200, "text/event-stream");
    write_word(exchange, request["max_tokens"].get<int>(),
               exchange->request().path == "/v1/chat/completions");
  }

  void write_word(const std::shared_ptr<server::Exchange>& exchange, int n_left, bool chat) {
    if (n_left == 0) {
      const int n_tokens = Json::parse(exchange->request().body)["max_tokens"].get<int>();
      --n_at_once_;
      exchange->write(
          ": a comment\n\ndata: "
          "{\"choices\":[{\"delta\":{},\"text\":\"\",\"finish_reason\":\"length\"}]}\r\n\r\n");
      exchange->write("data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":" +
                      std::to_string(n_tokens) + "}}\n\ndata: [DONE]\n\n");
      exchange->end();
      return;
    }
    const std::string event =
        chat ? R"({"choices":[{"delta":{"content":"wörd"}}]})" : R"({"choices":[{"text":"wörd"}]})";
    // Events come in pieces as networks make them.
    exchange->write("data: " + event.substr(0, 20));
    exchange->write(event.substr(20) + "\n\n");
    server_.after(std::chrono::milliseconds(5), [=, this] { write_word(exchange, n_left - 1, chat); });
  }

  Trouble trouble_;
  std::mutex mutex_;
  std::vector<Json> requests_;
  std::atomic<int> n_requests_ = 0;
  std::atomic<int> n_at_once_ = 0, most_at_once_ = 0;
  server::HttpServer server_;
  std::thread thread_;
};

LoadPlan plan_for(const FakeOpenAi& fake, std::int64_t n_requests) {
  LoadPlan plan;
  plan.url = fake.url();
  plan.n_requests = n_requests;
  plan.duration = std::chrono::milliseconds(0);
  plan.timeout = std::chrono::seconds(60);
  plan.prompt.choices = {16};
  plan.predict.choices = {4};
  plan.seed = 1;
  return plan;
}

LoadResult run(const LoadPlan& plan, const Arrivals& arrivals) {
  LoadClient client(plan);
  return client.run(arrivals, 0, {[](double) {}, [] { return false; }});
}

std::map<std::string, int> errors_of(const LoadResult& result) {
  std::map<std::string, int> errors;
  for (const LoadRecord& record : result.records) ++errors[record.error];
  return errors;
}

TEST(Load, ClientsSendTheirNextRequestAfterAResponse) {
  FakeOpenAi fake;
  LoadPlan plan = plan_for(fake, 20);
  plan.api_key = "secret";
  plan.n_warm_up = 3;
  const LoadResult result = run(plan, {.concurrency = 4});
  EXPECT_EQ(result.records.size(), 20U);
  EXPECT_EQ(errors_of(result), (std::map<std::string, int>{{"", 20}}));
  EXPECT_EQ(fake.most_at_once(), 4);
  EXPECT_EQ(fake.requests().size(), 23U);
  EXPECT_EQ(fake.authorization, "Bearer secret");
  for (const LoadRecord& record : result.records) {
    EXPECT_EQ(record.n_tokens, 4);
    EXPECT_EQ(record.n_prompt_tokens, 7);
    EXPECT_EQ(record.gaps.size(), 3U);
    EXPECT_GT(record.first, record.start);
    EXPECT_GT(record.token_s(), 0.0);
    EXPECT_LE(record.end, result.seconds);
  }
  const Json request = fake.requests().back();
  EXPECT_EQ(request["model"], "fake");
  EXPECT_EQ(request["stream"], true);
  EXPECT_EQ(request["stream_options"]["include_usage"], true);
  EXPECT_EQ(request["messages"].size(), 1U);
}

TEST(Load, RequestsArriveAtARate) {
  FakeOpenAi fake;
  LoadPlan plan = plan_for(fake, 30);
  plan.chat = false;
  const LoadResult result = run(plan, {.rate = 200.0});
  EXPECT_EQ(errors_of(result), (std::map<std::string, int>{{"", 30}}));
  EXPECT_TRUE(fake.requests().back()["prompt"].is_string());
  // The same seed gives the same random arrivals, in ascending order.
  LoadRandom random(plan.seed + 1);
  double sum = 0.0;
  std::set<double> intervals;
  for (int i = 0; i < 10000; ++i) sum += *intervals.insert(random.interval(200.0)).first;
  EXPECT_NEAR(sum / 10000, 1.0 / 200.0, 2e-4);
  EXPECT_GT(intervals.size(), 9000U);
}

TEST(Load, DurationsEndALoad) {
  FakeOpenAi fake;
  LoadPlan plan = plan_for(fake, 0);
  plan.duration = std::chrono::milliseconds(200);
  const LoadResult result = run(plan, {.concurrency = 2});
  EXPECT_GE(result.records.size(), 2U);
  for (const LoadRecord& record : result.records) EXPECT_LT(record.start, 0.21);
}

TEST(Load, PromptsAreMixed) {
  FakeOpenAi fake;
  LoadPlan plan = plan_for(fake, 1);
  plan.prompt = {.choices = {}, .least = 10, .most = 20};
  plan.predict.choices = {1, 2};
  plan.n_shared = 5;
  plan.long_share = 0.25;
  plan.n_long = 300;
  LoadPrompts prompts(plan, 0), same(plan, 0), other(plan, 1);
  int n_long = 0;
  std::set<std::string> systems, texts;
  std::set<std::size_t> lengths;
  std::set<int> predicted;
  for (int i = 0; i < 400; ++i) {
    const std::string body = prompts.next("m");
    EXPECT_EQ(body, same.next("m"));
    const Json request = Json::parse(body), foreign = Json::parse(other.next("m"));
    ASSERT_EQ(request["messages"].size(), 2U);
    systems.insert(request["messages"][0]["content"]);
    systems.insert(foreign["messages"][0]["content"]);
    const std::string text = request["messages"][1]["content"];
    texts.insert(text);
    texts.insert(foreign["messages"][1]["content"]);
    const auto n_words = static_cast<std::size_t>(std::count(text.begin(), text.end(), ' ')) + 1;
    n_words == 300 ? ++n_long : static_cast<int>(lengths.insert(n_words).second);
    predicted.insert(request["max_tokens"].get<int>());
  }
  EXPECT_EQ(systems.size(), 1U);
  EXPECT_EQ(texts.size(), 800U);
  EXPECT_GT(n_long, 60);
  EXPECT_LT(n_long, 140);
  EXPECT_EQ(*lengths.begin(), 10U);
  EXPECT_EQ(*lengths.rbegin(), 20U);
  EXPECT_THAT(predicted, ElementsAre(1, 2));
}

TEST(Load, RecordedRequestsAreSentAsTheyAre) {
  FakeOpenAi fake;
  LoadPlan plan = plan_for(fake, 3);
  plan.recorded = {
      {.at = 0.0, .messages = Json::parse(R"([{"role":"user","content":"hi"}])"), .n_predict = 1},
      {.at = 0.05, .prompt = "second", .n_predict = 2},
      {.at = 0.1, .n_prompt = 9, .n_predict = 3}};
  const LoadResult result = run(plan, {});
  ASSERT_EQ(result.records.size(), 3U);
  const std::vector<Json> requests = fake.requests();
  EXPECT_EQ(requests[0]["messages"][0]["content"], "hi");
  EXPECT_EQ(requests[1]["messages"][0]["content"], "second");
  EXPECT_EQ(requests[2]["max_tokens"], 3);
  std::vector<double> starts;
  for (const LoadRecord& record : result.records) starts.push_back(record.start);
  std::sort(starts.begin(), starts.end());
  EXPECT_GE(starts[1], 0.049);
  EXPECT_GE(starts[2], 0.099);
}

TEST(Load, CountsKindsOfErrors) {
  const auto trouble = [](int number, server::Exchange& exchange) {
    switch (number) {
      case 0:
        exchange.send({.status = 429, .body = R"({"error":{"message":"queue full"}})"});
        break;
      case 1:
        exchange.abort();
        break;
      case 2:
        exchange.begin(200, "text/event-stream");
        exchange.write("data: {\"error\":{\"message\":\"broke\"}}\n\n");
        exchange.end();
        break;
      case 3:
        exchange.begin(200, "text/event-stream");
        exchange.write("data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n");
        exchange.end();
        break;
      case 4:
        exchange.begin(200, "text/event-stream");
        exchange.write("data: nonsense\n\n");
        exchange.end();
        break;
      case 5:
        exchange.begin(200, "text/event-stream");
        exchange.write("data: [DONE]\n\n");
        exchange.end();
        break;
      case 6:
        exchange.begin(200, "text/event-stream");
        exchange.write("data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n");
        exchange.abort();
        break;
      case 7:
        exchange.send(
            {.body = R"({"choices":[{"message":{"content":"at once"}}],"usage":{"completion_tokens":2}})"});
        break;
      default:
        return false;
    }
    return true;
  };
  FakeOpenAi fake(trouble);
  const LoadPlan plan = plan_for(fake, 10);
  const LoadResult result = run(plan, {.concurrency = 2});
  EXPECT_EQ(errors_of(result), (std::map<std::string, int>{{"", 3},
                                                           {"http 429", 1},
                                                           {"disconnected", 2},
                                                           {"error in the stream", 1},
                                                           {"cut short", 1},
                                                           {"not understood", 1},
                                                           {"no text", 1}}));
  const Json row = load_row(plan, "fake", result);
  EXPECT_EQ(row["requests"], 10);
  EXPECT_EQ(row["failed"], 7);
  EXPECT_EQ(row["complete"], 3);
  EXPECT_THAT(load_errors(Json::array({row})), HasSubstr("2 clients: 1 x http 429: queue full\n"));
}

TEST(Load, TimeoutsAreErrors) {
  std::vector<std::shared_ptr<server::Exchange>> held;
  server::HttpServer silent({.port = 0},
                            [&](std::shared_ptr<server::Exchange> exchange) { held.push_back(exchange); });
  std::thread thread([&] { silent.run(); });
  LoadPlan plan;
  plan.url = silent.addresses().front();
  plan.model = "m";
  plan.n_requests = 2;
  plan.duration = std::chrono::milliseconds(0);
  plan.timeout = std::chrono::milliseconds(100);
  plan.prompt.choices = plan.predict.choices = {4};
  EXPECT_EQ(errors_of(run(plan, {.concurrency = 1})), (std::map<std::string, int>{{"timeout", 2}}));
  silent.stop();
  thread.join();
}

TEST(Load, ConstrainsResponsesToJson) {
  FakeOpenAi fake([](int number, server::Exchange& exchange) {
    exchange.begin(200, "text/event-stream");
    const std::string text = number == 0 ? R"({\"a\":1})" : "oops";
    exchange.write("data: {\"choices\":[{\"delta\":{\"content\":\"" + text +
                   "\"},\"finish_reason\":\"stop\"}]}\n\n");
    exchange.write("data: [DONE]\n\n");
    exchange.end();
    return true;
  });
  LoadPlan plan = plan_for(fake, 2);
  plan.schema = Json::parse(R"({"type":"object"})");
  EXPECT_EQ(errors_of(run(plan, {.concurrency = 1})), (std::map<std::string, int>{{"", 1}, {"no JSON", 1}}));
  EXPECT_EQ(fake.requests()[0]["response_format"]["json_schema"]["schema"]["type"], "object");
}

TEST(Load, RequestsToolCalls) {
  FakeOpenAi fake([](int number, server::Exchange& exchange) {
    exchange.begin(200, "text/event-stream");
    for (const std::string piece : {R"({\"a\")", number == 0 ? ":1}" : "oops"})
      exchange.write("data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"function\":{\"arguments\":\"" +
                     piece + "\"}}]}}]}\n\n");
    exchange.write(
        "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\ndata: [DONE]\n\n");
    exchange.end();
    return true;
  });
  LoadPlan plan = plan_for(fake, 2);
  plan.tools = Json::parse(R"([{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}])");
  EXPECT_EQ(errors_of(run(plan, {.concurrency = 1})), (std::map<std::string, int>{{"", 1}, {"no call", 1}}));
  EXPECT_EQ(fake.requests()[0]["tools"], plan.tools);
  EXPECT_EQ(fake.requests()[0]["tool_choice"], "required");
}

TEST(Load, EndsWhenTheServerIsGone) {
  auto fake = std::make_unique<FakeOpenAi>();
  const LoadPlan plan = plan_for(*fake, 100'000);
  LoadClient client(plan);
  const LoadResult result =
      client.run({.concurrency = 50}, 0, {[&](double) { fake.reset(); }, [] { return false; }});
  EXPECT_TRUE(result.is_lost);
  EXPECT_FALSE(result.interrupted);
  EXPECT_LT(result.records.size(), 100'000U);
}

TEST(Load, StopsWhenAsked) {
  FakeOpenAi fake;
  LoadPlan plan = plan_for(fake, 100'000);
  LoadClient client(plan);
  std::atomic<int> n_asked = 0;
  const LoadResult result = client.run({.concurrency = 3}, 0, {[](double) {}, [&] { return ++n_asked > 6; }});
  EXPECT_TRUE(result.interrupted);
  EXPECT_GT(result.records.size(), 0U);
  EXPECT_EQ(errors_of(result).size(), 1U);
}

TEST(Load, RejectsUnreachableServers) {
  LoadPlan plan;
  plan.url = "http://127.0.0.1:1";
  EXPECT_THROW(LoadClient{plan}, Error);
  plan.url = "nonsense://x";
  EXPECT_THROW(LoadClient{plan}, Error);
}

TEST(Load, PercentilesAreOfTheNearestRank) {
  std::vector<double> values = {4, 1, 3, 2, 5, 6, 7, 8, 9, 10};
  EXPECT_EQ(percentile(values, 0.5), 5);
  EXPECT_EQ(percentile(values, 0.9), 9);
  EXPECT_EQ(percentile(values, 0.99), 10);
  values = {3};
  EXPECT_EQ(percentile(values, 0.5), 3);
  values.clear();
  EXPECT_EQ(percentile(values, 0.5), 0);
}

TEST(Load, ReportsGoodput) {
  LoadPlan plan;
  plan.slo_ttft_ms = 100.0;
  plan.slo_itl_ms = 20.0;
  LoadResult result;
  result.arrivals.rate = 2.5;
  result.seconds = 2.0;
  result.records.resize(4);
  for (LoadRecord& record : result.records)
    record = {
        .start = 1.0, .first = 1.05, .end = 1.15, .gaps = {0.01, 0.02}, .n_prompt_tokens = 10, .n_tokens = 3};
  result.records[1].first = 1.2;
  result.records[2].gaps = {0.1, 0.1};
  result.records[3].error = "timeout";
  const Json row = load_row(plan, "m", result);
  EXPECT_EQ(row["load"], "2.5 /s");
  EXPECT_DOUBLE_EQ(row["requests_per_s"], 1.5);
  EXPECT_DOUBLE_EQ(row["goodput_per_s"], 0.5);
  EXPECT_DOUBLE_EQ(row["within_slo"], 0.25);
  EXPECT_NEAR(row["ttft_ms_p50"], 50.0, 1e-6);
  EXPECT_NEAR(row["ttft_ms_p99"], 200.0, 1e-6);
  EXPECT_NEAR(row["itl_ms_p50"], 20.0, 1e-6);
  EXPECT_NEAR(row["token_ms_p50"], 15.0, 1e-6);
  EXPECT_DOUBLE_EQ(row["generated_per_s"], 6.0);
  const std::string table = to_markdown(Json::array({row}), load_columns(plan));
  EXPECT_THAT(table, HasSubstr("within limits"));
  EXPECT_THAT(to_csv(Json::array({row})), HasSubstr("requests_per_s"));
}

TEST(LoadResponse, ReasoningAndToolCallsCountAsContent) {
  int n_texts = 0;
  LoadResponse answer([&] { ++n_texts; });
  answer.head(200, "text/event-stream; charset=utf-8");
  EXPECT_TRUE(answer.take("data:{\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n"));
  EXPECT_EQ(n_texts, 0);
  EXPECT_TRUE(answer.take("data: {\"choices\":[{\"delta\":{\"reasoning_content\":\"hm\"}}]}\n\n"));
  EXPECT_TRUE(
      answer.take("data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0}]}}]}\n\ndata: [DONE]\n"));
  answer.end();
  EXPECT_EQ(n_texts, 2);
  EXPECT_EQ(answer.error(), "");
  EXPECT_EQ(answer.n_tokens(), 2);
  EXPECT_FALSE(answer.counted());
}

TEST(LoadResponse, AcceptsAnyBytes) {
  for (const char* line :
       {"data: null", "data: []", "data: {\"choices\":{}}", "data: {\"choices\":[null]}",
        "data: {\"choices\":[{\"delta\":[]}]}", "data: {\"usage\":3}", "data: {\"error\":null}",
        "data: {\"usage\":{\"completion_tokens\":\"x\"}}", "data", ":", "id: 3", "\xff"}) {
    LoadResponse answer([] {});
    answer.head(200, "text/event-stream");
    answer.take(std::string(line) + "\n");
    answer.end();
    EXPECT_NE(answer.error(), "") << line;
  }
}

}  // namespace
}  // namespace weft::cli
