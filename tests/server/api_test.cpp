// The API's decisions that need no model: hosts, keys, limits, clients that have gone.
#include "api/api.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>

#include "server/fake_exchange.h"

namespace weft::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class ApiTest : public testing::Test {
 protected:
  /// With a model that cannot be loaded, and whose loads are counted.
  Api& start(ApiSetup setup = {}) {
    PoolParams pool;
    pool.models.push_back({.name = "m", .path = "/m.gguf"});
    pool.load = [this](const ModelSpec&, const std::function<bool(float)>&) -> std::shared_ptr<ServedModel> {
      ++n_loads_;
      throw Error(ErrorCode::kIo, "there is no file");
    };
    pool_ = std::make_unique<ModelPool>(std::move(pool));
    api_ = std::make_unique<Api>(std::move(setup), *pool_);
    return *api_;
  }
  ~ApiTest() override {
    if (api_ == nullptr) return;
    pool_->stop();
    pool_->end();
    pool_->join();
    api_->stop();
  }

  static std::shared_ptr<FakeExchange> exchange(std::string path, std::string body = "",
                                                HttpHeaders headers = {}, std::string client = "127.0.0.1") {
    return std::make_shared<FakeExchange>(HttpRequest{.method = body.empty() ? "GET" : "POST",
                                                      .path = std::move(path),
                                                      .body = std::move(body),
                                                      .client = std::move(client),
                                                      .headers = std::move(headers)});
  }
  /// The lines of the access log.
  static std::vector<Json> lines(const std::string& log) {
    std::vector<Json> result;
    std::ifstream file(log);
    for (std::string line; std::getline(file, line);) result.push_back(Json::parse(line));
    return result;
  }
  static int status(Api& api, const std::shared_ptr<FakeExchange>& exchange) {
    api.handle(exchange);
    return exchange->answer().status;
  }

  std::atomic<int> n_loads_ = 0;

 private:
  std::unique_ptr<ModelPool> pool_;
  std::unique_ptr<Api> api_;
};

TEST_F(ApiTest, RightKeyMakesTheHostIrrelevant) {
  Api& api = start({.keys = {{"secret", "alice"}}, .origins = {.all = true}});
  const HttpHeaders headers = {{"Host", "chat.example.com"}, {"Authorization", "Bearer secret"}};
  EXPECT_EQ(status(api, exchange("/v1/models", "", headers)), 200);
  EXPECT_EQ(status(api, exchange("/v1/models", "", {{"Authorization", "Bearer wrong"}})), 401);
}

TEST_F(ApiTest, ForeignHostsReachNoRoute) {
  Api& api = start();
  for (const char* path : {"/", "/health", "/v1/models", "/props", "/v1/chat/completions", "/nothing"})
    EXPECT_EQ(status(api, exchange(path, "", {{"Host", "127.evil.com"}})), 403) << path;
}

TEST_F(ApiTest, ClientsThatHaveGoneCostNothing) {
  Api& api = start();
  const auto gone = exchange("/v1/completions", "{\"prompt\": \"a\"}");
  gone->close();
  EXPECT_EQ(status(api, gone), 499);
  EXPECT_EQ(n_loads_, 0);
}

TEST_F(ApiTest, LargeBodiesAreBoundedByWork) {
  Api& api = start();
  std::string members;
  for (int i = 0; i < 20'000; ++i) members += ",\"k" + std::to_string(i) + "\":0";
  const auto large = exchange("/v1/completions", "{\"prompt\":\"a\"" + members + "}");
  api.handle(large);
  const HttpResponse answer = large->answer();
  EXPECT_EQ(answer.status, 400);
  EXPECT_THAT(answer.body, HasSubstr("too many members"));
}

TEST_F(ApiTest, TenantsDoNotSeeEachOthersRequests) {
  const std::vector<ApiKey> keys = {{"a", "alice"}, {"b", "bob"}};
  const HttpHeaders alice = {{"X-Api-Key", "a"}};
  EXPECT_EQ(status(start({.keys = keys}), exchange("/live", "", alice)), 403);
}

TEST_F(ApiTest, TenantsSeeEachOthersRequestsWhereAsked) {
  const std::vector<ApiKey> keys = {{"a", "alice"}, {"b", "bob"}};
  EXPECT_EQ(status(start({.keys = keys, .share_slots = true}), exchange("/live", "", {{"X-Api-Key", "a"}})),
            503);
}

TEST_F(ApiTest, TheAccessLogHasAllRequestsWithTheirStatus) {
  const std::string log =
      (std::filesystem::temp_directory_path() / ("weft_api_log_" + std::to_string(::getpid()))).string();
  std::filesystem::remove(log);
  Api& api = start({.access_log = log});
  EXPECT_EQ(status(api, exchange("/health")), 200);
  EXPECT_EQ(status(api, exchange("/")), 200);
  const auto preflight = std::make_shared<FakeExchange>(
      HttpRequest{.method = "OPTIONS", .path = "/v1/completions", .client = "127.0.0.1"});
  EXPECT_EQ(status(api, preflight), 204);
  api.leave();
  EXPECT_EQ(status(api, exchange("/health")), 503);
  const std::vector<Json> all = lines(log);
  std::filesystem::remove(log);
  std::vector<int> logged;
  for (const Json& line : all) logged.push_back(line["status"].get<int>());
  EXPECT_THAT(logged, ElementsAre(200, 200, 204, 503));
}

TEST_F(ApiTest, BrowsersGetThePageAndClientsOfOllamaALine) {
  Api& api = start();
  const auto body_for = [&](const HttpHeaders& headers) {
    const auto asked = exchange("/", "", headers);
    api.handle(asked);
    return asked->answer().body;
  };
  EXPECT_EQ(body_for({{"Accept", "*/*"}}), "Ollama is running");
  EXPECT_THAT(body_for({{"Accept", "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8"}}), HasSubstr("<html"));
  EXPECT_THAT(body_for({}), HasSubstr("<html"));
}

TEST_F(ApiTest, ErrorsOfOllamasApiAreStrings) {
  Api& api = start({.keys = {{"secret", "alice"}}});
  for (const char* path : {"/api/tags", "/api/nothing"}) {
    const auto asked = exchange(path);
    api.handle(asked);
    EXPECT_TRUE(Json::parse(asked->answer().body)["error"].is_string()) << path;
  }
}

TEST_F(ApiTest, AModelThatIsNotLoadedIsUnloadedWithoutLoadingIt) {
  Api& api = start();
  for (const char* path : {"/api/chat", "/api/generate"}) {
    const auto asked = exchange(path, R"({"model": "m", "keep_alive": 0})");
    api.handle(asked);
    EXPECT_EQ(Json::parse(asked->answer().body)["done_reason"], "unload");
    // Any name generates with the only model, but does not unload it.
    EXPECT_EQ(status(api, exchange(path, R"({"model": "typo", "keep_alive": 0})")), 404);
  }
  EXPECT_EQ(n_loads_, 0);
}

TEST(RequestCounts, BoundEachClient) {
  const auto counts = std::make_shared<RequestCounts>(2);
  const auto any = std::make_shared<FakeExchange>(HttpRequest{});
  auto first = counts->add("a", any);
  auto copy = first;
  auto second = counts->add("a", any);
  EXPECT_EQ(counts->add("a", any), nullptr);
  EXPECT_NE(counts->add("b", any), nullptr);
  first.reset();
  EXPECT_EQ(counts->add("a", any), nullptr);  // The copy is under way still.
  copy.reset();
  EXPECT_NE(counts->add("a", any), nullptr);
}

TEST(RequestCounts, WithoutABoundCountNothing) {
  const auto any = std::make_shared<FakeExchange>(HttpRequest{});
  EXPECT_EQ(std::make_shared<RequestCounts>(0)->add("a", any), any);
}

}  // namespace
}  // namespace weft::server
