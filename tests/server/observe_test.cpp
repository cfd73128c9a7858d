// The access log and the trace, also on a full disk.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "observe/access_log.h"
#include "observe/trace.h"

namespace weft::server {
namespace {

class Observe : public testing::Test {
 protected:
  Observe() { std::filesystem::create_directories(folder_); }
  ~Observe() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  static std::string content(const std::string& path) {
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }

 private:
  const std::filesystem::path folder_ = std::filesystem::temp_directory_path() /
                                        ("weft_observe_" + std::to_string(::getpid()) + "_" +
                                         testing::UnitTest::GetInstance()->current_test_info()->name());
};

TEST_F(Observe, AccessLogDistinguishesClients) {
  const HttpRequest request{.method = "POST",
                            .path = "/v1/completions",
                            .body = "12345",
                            .peer = "127.0.0.1:5",
                            .headers = {{"X-Forwarded-For", "203.0.113.7, 10.0.0.1"}}};
  AccessLog(path("log")).add({.request = request, .id = "r", .key = "alice", .n_bytes = 77, .outcome = {}});
  const Json line = Json::parse(content(path("log")));
  EXPECT_EQ(line["key"], "alice");
  EXPECT_EQ(line["forwarded_for"], "203.0.113.7, 10.0.0.1");
  EXPECT_EQ(line["bytes_in"], 5);
  EXPECT_EQ(line["bytes_out"], 77);
}

TEST_F(Observe, FullDiskIsReportedOnce) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  std::vector<std::string> warnings;
  const auto warn = [&](const std::string& text) { warnings.push_back(text); };
  const HttpRequest request;
  AccessLog log("/dev/full", warn);
  for (int i = 0; i < 3; ++i) log.add({.request = request, .outcome = {}});
  EXPECT_EQ(warnings.size(), 1U);
}

TEST_F(Observe, TraceIsJsonAfterEachEvent) {
  Trace trace(path("trace"));
  EXPECT_EQ(Json::parse(content(path("trace"))).size(), 2U);
  for (std::size_t i = 1; i <= 3; ++i) {
    trace.step("m", {});
    EXPECT_EQ(Json::parse(content(path("trace"))).size(), 2U + i);
  }
  trace.request("id", "/v1/completions", "m", std::chrono::steady_clock::now(), {.status = 499});
  EXPECT_EQ(Json::parse(content(path("trace"))).back()["args"]["status"], 499);
}

TEST_F(Observe, TraceIsBounded) {
  constexpr std::int64_t kMost = 4096;
  Trace trace(path("trace"), nullptr, kMost);
  for (int i = 0; i < 200; ++i) trace.step("m", {});
  for (const char* name : {"trace", "trace.old"}) {
    EXPECT_FALSE(Json::parse(content(path(name))).empty()) << name;
    EXPECT_LT(std::filesystem::file_size(path(name)), kMost + 1024U) << name;
  }
}

TEST_F(Observe, TraceThatCannotBeContinuedIsReportedOnce) {
  std::vector<std::string> warnings;
  Trace trace(path("trace"), [&](const std::string& text) { warnings.push_back(text); }, 1024);
  std::filesystem::create_directories(path("trace.old") +
                                      "/x");  // A folder: the full file cannot take its place.
  for (int i = 0; i < 20; ++i) trace.step("m", {});
  EXPECT_EQ(warnings.size(), 1U);
  EXPECT_TRUE(Json::accept(content(path("trace"))));
}

}  // namespace
}  // namespace weft::server
