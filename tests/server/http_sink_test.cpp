// Bodies that go to a sink piece by piece.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>
#include <thread>

#include "server/raw_client.h"
#include "server/running_server.h"

namespace weft::server {
namespace {

using testing::HasSubstr;

/// Takes a piece only when the test allows it.
class HeldSink final : public BodySink {
 public:
  std::uint64_t max_bytes() const override { return 8 << 20; }
  void put(std::string piece, std::function<void()> taken) override {
    const std::lock_guard lock(mutex_);
    EXPECT_EQ(taken_, nullptr) << "the last piece was not taken";
    body_ += piece;
    ++n_pieces_;
    taken_ = std::move(taken);
  }
  /// False if no piece waits.
  bool take() {
    std::function<void()> taken;
    {
      const std::lock_guard lock(mutex_);
      taken = std::exchange(taken_, nullptr);
    }
    if (taken) taken();
    return taken != nullptr;
  }
  std::string body() const {
    const std::lock_guard lock(mutex_);
    return body_;
  }
  int n_pieces() const {
    const std::lock_guard lock(mutex_);
    return n_pieces_;
  }

 private:
  mutable std::mutex mutex_;
  std::string body_;
  int n_pieces_ = 0;
  std::function<void()> taken_;
};

class HttpSink : public testing::Test {
 protected:
  HttpParams params() {
    return {.body_bytes = 1 << 20,
            .all_bodies_bytes = 2 << 20,
            .body_sink = [this](const HttpRequest& head) -> std::shared_ptr<BodySink> {
              if (head.path != "/upload") return nullptr;
              auto made = std::make_shared<HeldSink>();
              const std::lock_guard lock(mutex);
              sink = made;
              all.push_back(made);
              return made;
            }};
  }
  std::shared_ptr<HeldSink> sink_now() {
    EXPECT_TRUE(eventually([&] { return std::lock_guard(mutex), sink != nullptr; }));
    const std::lock_guard lock(mutex);
    return sink;
  }
  static void respond(const std::shared_ptr<Exchange>& exchange) {
    const HttpRequest& request = exchange->request();
    const auto* const sink = dynamic_cast<const HeldSink*>(request.sink.get());
    exchange->send({.body = std::to_string(request.body.size()) + " held, " +
                            std::to_string(sink != nullptr ? sink->body().size() : 0) + " in the sink"});
  }

  std::mutex mutex;
  std::shared_ptr<HeldSink> sink;
  std::vector<std::weak_ptr<HeldSink>> all;
  RunningServer server{respond, params()};
};

std::string large_body() {
  std::string body;
  for (int i = 0; body.size() < (5 << 20); ++i) body += std::to_string(i) + ",";
  return body;
}

void take_all(HeldSink& sink, std::size_t bytes) {
  while (sink.body().size() < bytes) sink.take();
  sink.take();  // The last piece, unless the loop has taken it.
}

TEST_F(HttpSink, GetsABodyLargerThanMemoryAllows) {
  RawClient client(server.port());
  const std::string body = large_body();
  std::thread sender([&] { client.send(post("/upload", body)); });
  const auto got = sink_now();
  take_all(*got, body.size());
  sender.join();
  EXPECT_EQ(client.read_response().body, "0 held, " + std::to_string(body.size()) + " in the sink");
  EXPECT_EQ(got->body(), body);
  EXPECT_GT(got->n_pieces(), 4);
  client.send(post("/other", "abc"));  // The connection is kept, and has no sink then.
  EXPECT_EQ(client.read_response().body, "3 held, 0 in the sink");
}

TEST_F(HttpSink, ASlowSinkStopsItsClientOnly) {
  RawClient client(server.port()), other(server.port());
  std::thread sender([&] { client.send(post("/upload", large_body())); });
  const auto got = sink_now();
  EXPECT_TRUE(eventually([&] { return got->n_pieces() == 1; }));
  other.send(post("/other", "abc"));
  EXPECT_EQ(other.read_response().status, 200);
  EXPECT_EQ(got->n_pieces(), 1);
  take_all(*got, large_body().size());
  sender.join();
  EXPECT_EQ(client.read_response().status, 200);
}

TEST_F(HttpSink, TakesChunkedAndEmptyBodies) {
  RawClient client(server.port());
  client.send(
      "POST /upload HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: "
      "chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
  const auto got = sink_now();
  EXPECT_TRUE(eventually([&] { return got->take(); }));
  EXPECT_EQ(client.read_response().body, "0 held, 5 in the sink");
  client.send(post("/upload", ""));
  EXPECT_EQ(client.read_response().body, "0 held, 0 in the sink");
}

TEST_F(HttpSink, TooLargeBodiesAreRefused) {
  RawClient announced(server.port()), chunked(server.port()), other(server.port());
  announced.send("POST /upload HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999\r\n\r\n");
  const auto answer = announced.read_response();
  EXPECT_EQ(answer.status, 413);
  EXPECT_THAT(answer.body, HasSubstr(std::to_string(8 << 20)));
  chunked.send("POST /upload HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1000000\r\n");
  EXPECT_EQ(chunked.read_response().status, 413);
  other.send("POST /other HTTP/1.1\r\nHost: a\r\nContent-Length: 1048577\r\n\r\n");
  EXPECT_EQ(other.read_response().status, 413);
}

TEST_F(HttpSink, ClientsThatGoDropTheirSink) {
  {
    RawClient client(server.port());
    client.send("POST /upload HTTP/1.1\r\nHost: a\r\nContent-Length: 400000\r\n\r\n" +
                std::string(300'000, 'a'));
    const auto got = sink_now();
    EXPECT_TRUE(eventually([&] { return got->n_pieces() == 1; }));
    client.close(true);
    got->take();
    const std::lock_guard lock(mutex);
    sink.reset();
  }
  EXPECT_TRUE(eventually([&] { return std::lock_guard(mutex), all.back().expired(); }));
}

TEST_F(HttpSink, TheServerEndsWhileASinkIsSlow) {
  RawClient client(server.port());
  client.send("POST /upload HTTP/1.1\r\nHost: a\r\nContent-Length: 300000\r\n\r\n" +
              std::string(300'000, 'a'));
  const auto got = sink_now();
  EXPECT_TRUE(eventually([&] { return got->n_pieces() == 1; }));
  server.stop();
  EXPECT_TRUE(got->take());  // Too late.
}

}  // namespace
}  // namespace weft::server
