// Clients that vanish, stall, are slow or are many.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <stdexcept>
#include <thread>

#include "server/held_exchanges.h"
#include "server/raw_client.h"
#include "server/running_server.h"

namespace weft::server {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;
using testing::StartsWith;

/// How a client disconnects.
enum class Going { kClose, kReset };

void go(RawClient& client, Going how) { client.close(how == Going::kReset); }

std::string name_of_going(const testing::TestParamInfo<Going>& how) {
  return how.param == Going::kReset ? "Reset" : "Close";
}

class VanishedClients : public testing::TestWithParam<Going> {
 protected:
  HeldExchanges held;
  RunningServer server{held.handler(), HttpParams{.header_bytes = 4096}};
  std::atomic<int> n_calls = 0;

  std::shared_ptr<Exchange> watched() {
    auto exchange = held.take();
    exchange->on_closed([this] { ++n_calls; });
    return exchange;
  }
  void expect_gone(const std::shared_ptr<Exchange>& exchange) {
    EXPECT_TRUE(eventually([&] { return n_calls > 0; }));
    EXPECT_TRUE(exchange->closed());
    EXPECT_EQ(exchange->n_unsent(), 0U);
    // Bytes written now are dropped.
    exchange->begin(200, "text/plain");
    exchange->write("x");
    exchange->end();
    EXPECT_EQ(exchange->n_unsent(), 0U);
    EXPECT_TRUE(eventually([&] { return server->counts().n_open == 0; }));
    EXPECT_EQ(server->counts().n_busy, 0);
    EXPECT_EQ(n_calls, 1);
  }
};

TEST_P(VanishedClients, AreNoticedBeforeTheResponse) {
  RawClient client(server.port());
  client.send(get("/"));
  const auto exchange = watched();
  go(client, GetParam());
  expect_gone(exchange);
}

TEST_P(VanishedClients, AreNoticedDuringAStream) {
  RawClient client(server.port());
  client.send(get("/"));
  const auto exchange = watched();
  exchange->begin(200, "text/plain");
  exchange->write("hello");
  client.read_until("hello\r\n");
  go(client, GetParam());
  expect_gone(exchange);
}

TEST_P(VanishedClients, AreNoticedAfterPipelinedRequests) {
  RawClient client(server.port());
  client.send(get("/") + get("/second"));
  const auto exchange = watched();
  go(client, GetParam());
  expect_gone(exchange);
  EXPECT_EQ(held.size(), 0U);
}

TEST_P(VanishedClients, AreNoticedAfterMoreThanTheReadAhead) {
  RawClient client(server.port());
  client.send(get("/") + std::string(100'000, 'x'));
  const auto exchange = watched();
  go(client, GetParam());
  expect_gone(exchange);
}

TEST_P(VanishedClients, AreNoticedWhileTheyReadNothing) {
  RawClient client(server.port(), 4096);
  client.send(get("/"));
  const auto exchange = watched();
  exchange->begin(200, "text/plain");
  exchange->write(std::string(8 << 20, 'x'));
  EXPECT_TRUE(eventually([&] { return exchange->n_unsent() > 0 && exchange->n_unsent() < (8 << 20); }));
  go(client, GetParam());
  expect_gone(exchange);
}

TEST_P(VanishedClients, AreReportedToLateCallbacks) {
  RawClient client(server.port());
  client.send(get("/"));
  const auto exchange = held.take();
  go(client, GetParam());
  EXPECT_TRUE(eventually([&] { return exchange->closed(); }));
  exchange->on_closed([this] { ++n_calls; });
  expect_gone(exchange);
}

TEST_P(VanishedClients, MayGoInTheMiddleOfARequest) {
  for (const std::string& part : {get("/").substr(0, 9), post("/", "body").substr(0, 52)}) {
    RawClient client(server.port());
    client.send(part);
    EXPECT_TRUE(eventually([&] { return server->counts().n_busy == 1; }));
    go(client, GetParam());
    EXPECT_TRUE(eventually([&] { return server->counts().n_open == 0; }));
    EXPECT_EQ(server->counts().n_busy, 0);
  }
  EXPECT_EQ(server->counts().n_requests, 0);
}

INSTANTIATE_TEST_SUITE_P(Each, VanishedClients, testing::Values(Going::kClose, Going::kReset), name_of_going);

constexpr const char* kInterim = "HTTP/1.1 100 Continue\r\n\r\n";

TEST(HttpClients, HalfClosedClientsGetTheirResponses) {
  HeldExchanges held;
  RunningServer server(held.handler());
  RawClient client(server.port());
  client.send(get("/first") + get("/second"));
  client.end_sending();
  for (const char* body : {"first", "second"}) {
    const auto exchange = held.take();
    EXPECT_THAT(client.read_until(kInterim), testing::EndsWith(kInterim));
    EXPECT_FALSE(exchange->closed());
    exchange->send({.body = body});
    EXPECT_EQ(client.read_response().body, body);
  }
  EXPECT_TRUE(client.at_end());
}

TEST(HttpClients, HalfClosedClientsGetTheRestOfStreams) {
  HeldExchanges held;
  RunningServer server(held.handler());
  RawClient client(server.port());
  client.send(get("/"));
  const auto exchange = held.take();
  exchange->begin(200, "text/plain");
  exchange->write("begin ");
  client.read_until("begin \r\n");
  client.end_sending();
  EXPECT_EQ(client.peek(1), "0");  // A digit of the next chunk's size.
  exchange->write("end");
  exchange->end();
  EXPECT_EQ(client.read_until("0\r\n\r\n"), "03\r\nend\r\n0\r\n\r\n");
  EXPECT_TRUE(client.at_end());
}

TEST(HttpClients, HalfClosedHttp10ClientsHaveGone) {
  HeldExchanges held;
  RunningServer server(held.handler());
  RawClient client(server.port());
  client.send("GET / HTTP/1.0\r\n\r\n");
  const auto exchange = held.take();
  client.end_sending();
  EXPECT_TRUE(eventually([&] { return exchange->closed(); }));
}

TEST(HttpClients, ConnectedClientsAreNotReportedGone) {
  HeldExchanges held;
  RunningServer server(held.handler());
  std::atomic<int> n_calls = 0;
  RawClient client(server.port());
  for (int i = 0; i < 3; ++i) {
    client.send(get("/"));
    auto exchange = held.take();
    exchange->on_closed([&] { ++n_calls; });
    exchange->send({.body = "here"});
    EXPECT_EQ(client.read_response().body, "here");
  }
  client.close();
  EXPECT_TRUE(eventually([&] { return server->counts().n_open == 0; }));
  server.stop();
  EXPECT_EQ(n_calls, 0);
}

TEST(HttpClients, EndedResponsesReachHalfClosedClients) {
  HeldExchanges held;
  RunningServer server(held.handler());
  RawClient client(server.port(), 4096);
  const std::string body(4 << 20, 'x');
  client.send(get("/"));
  held.take()->send({.body = body});
  client.end_sending();
  EXPECT_EQ(client.read_response().body, body);
  EXPECT_TRUE(client.at_end());
}

TEST(HttpClients, EndedResponsesReachClientsBeyondTheReadAhead) {
  HeldExchanges held;
  RunningServer server(held.handler(), {.header_bytes = 4096, .first_timeout = seconds(1)});
  RawClient client(server.port(), 4096);
  const std::string body(8 << 20, 'x');
  client.send(get("/") + std::string(100'000, 'x'));
  held.take()->send({.body = body});
  client.end_sending();
  // The sweep that closes this connection also looks for clients that have gone.
  EXPECT_TRUE(RawClient(server.port()).at_end());
  EXPECT_EQ(client.read_response().body, body);
}

TEST(HttpClients, DroppedExchangesGetAnError) {
  HeldExchanges held;
  RunningServer server(held.handler());
  RawClient client(server.port());
  client.send(get("/") + get("/"));
  held.take().reset();
  EXPECT_EQ(client.read_response().status, 500);
  held.take()->begin(200, "text/plain");
  const auto got = client.read_response();
  EXPECT_EQ(got.status, 200);
  EXPECT_FALSE(got.complete);
  EXPECT_TRUE(client.at_end());
}

TEST(HttpClients, HandlersThatThrowGiveAnError) {
  std::vector<std::shared_ptr<Exchange>> kept;
  RunningServer server([&](std::shared_ptr<Exchange> exchange) {
    kept.push_back(exchange);
    throw std::runtime_error("nothing to say");
  });
  RawClient client(server.port());
  for (int i = 0; i < 2; ++i) {
    client.send(get("/"));
    EXPECT_EQ(client.read_response().status, 500);
  }
  server.stop();
}

TEST(HttpClients, ExchangesOutliveTheServer) {
  HeldExchanges held;
  std::shared_ptr<Exchange> first, second;
  std::atomic<int> n_calls = 0;
  RawClient one, two;
  {
    RunningServer server(held.handler());
    one.connect(server.port());
    one.send(get("/"));
    first = held.take();
    first->begin(200, "text/plain");
    first->on_closed([&] { ++n_calls; });
    two.connect(server.port());
    two.send(get("/"));
    second = held.take();
  }
  EXPECT_EQ(n_calls, 1);
  first->write("late");
  first->end();
  first->on_closed([&] { ++n_calls; });
  second->send({});
  EXPECT_TRUE(first->closed());
  EXPECT_TRUE(second->closed());
}

TEST(HttpClients, ManyThreadsWriteOneResponseWithoutLoss) {
  HeldExchanges held;
  RunningServer server(held.handler());
  RawClient client(server.port());
  client.send(get("/"));
  const auto exchange = held.take();
  exchange->begin(200, "text/plain");
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 1000; ++i) exchange->write(std::to_string(t) + ":" + std::to_string(i) + "\n");
    });
  }
  for (std::thread& thread : threads) thread.join();
  exchange->end();
  const auto got = client.read_response();
  EXPECT_TRUE(got.complete);
  std::array<int, 4> next{};
  std::size_t n_lines = 0;
  for (std::size_t at = 0; at < got.body.size(); ++n_lines) {
    const std::size_t end = got.body.find('\n', at);
    const std::string line = got.body.substr(at, end - at);
    EXPECT_EQ(line.substr(2), std::to_string(next[static_cast<std::size_t>(line[0] - '0')]++));
    at = end + 1;
  }
  EXPECT_EQ(n_lines, 4000U);
  EXPECT_TRUE(eventually([&] { return exchange->n_unsent() == 0; }));
}

TEST(HttpClients, SlowReadersDelayOnlyTheirOwnResponse) {
  HeldExchanges held;
  RunningServer server(held.handler(), {.low_water = 10'000, .high_water = 100'000});
  RawClient slow(server.port(), 4096);
  slow.send(get("/"));
  const auto exchange = held.take();
  std::atomic<int> n_drained = 0;
  exchange->on_drained([&] { ++n_drained; });
  exchange->begin(200, "text/plain");
  const std::string piece(10'000, 'p');
  std::size_t n_pieces = 0;
  RawClient other(server.port());
  const auto serve_other = [&] {
    other.send(get("/"));
    held.take()->send({.body = "quick"});
    EXPECT_EQ(other.read_response().body, "quick");
  };
  // The kernel takes some of it. Another client's response shows that the server's thread has handed over
  // what fits.
  do {
    n_drained = 0;
    for (; exchange->n_unsent() <= 100'000; ++n_pieces) exchange->write(piece);
    serve_other();
  } while (exchange->n_unsent() <= 100'000);
  EXPECT_LE(exchange->n_unsent(), 120'000U);
  EXPECT_EQ(n_drained, 0);
  serve_other();
  EXPECT_EQ(n_drained, 0);
  slow.peek(n_pieces * piece.size() - 50'000);
  EXPECT_TRUE(eventually([&] { return n_drained == 1; }));
  EXPECT_LT(exchange->n_unsent(), 10'000U);
  exchange->end();
  EXPECT_EQ(slow.read_response().body.size(), n_pieces * piece.size());
  EXPECT_EQ(n_drained, 1);
}

TEST(HttpClients, ClientsThatReadNothingForTooLongHaveGone) {
  HeldExchanges held;
  RunningServer server(held.handler(), {.write_timeout = seconds(1)});
  RawClient client(server.port(), 4096);
  client.send(get("/"));
  const auto exchange = held.take();
  std::atomic<int> n_calls = 0;
  exchange->on_closed([&] { ++n_calls; });
  exchange->begin(200, "text/plain");
  exchange->write(std::string(8 << 20, 'x'));
  EXPECT_TRUE(eventually([&] { return n_calls == 1; }));
  EXPECT_TRUE(exchange->closed());
  EXPECT_TRUE(eventually([&] { return server->counts().n_open == 0; }));
}

TEST(HttpClients, ResponsesMayTakeLongerThanAnyTimeout) {
  HeldExchanges held;
  RunningServer server(held.handler(), {.header_timeout = seconds(1),
                                        .body_timeout = seconds(1),
                                        .first_timeout = seconds(1),
                                        .idle_timeout = seconds(1),
                                        .write_timeout = seconds(1)});
  RawClient client(server.port());
  client.send(get("/"));
  const auto exchange = held.take();
  // Connections that send nothing are closed after the same time.
  EXPECT_TRUE(RawClient(server.port()).at_end());
  exchange->begin(200, "text/plain");
  EXPECT_TRUE(RawClient(server.port()).at_end());
  EXPECT_FALSE(exchange->closed());
  exchange->end();
  EXPECT_TRUE(client.read_response().complete);
}

TEST(HttpClients, RequestsThatComeTooSlowlyAreRefused) {
  HeldExchanges held;
  RunningServer server(held.handler(), {.header_timeout = seconds(1),
                                        .body_timeout = seconds(1),
                                        .first_timeout = seconds(1),
                                        .idle_timeout = seconds(1)});
  RawClient head(server.port()), body(server.port()), idle(server.port()), late(server.port());
  head.send(get("/").substr(0, 20));
  body.send(post("/", "body").substr(0, 50));
  late.send(get("/"));
  held.take()->send({});
  EXPECT_EQ(late.read_response().status, 200);
  EXPECT_EQ(head.read_response().status, 408);
  EXPECT_EQ(body.read_response().status, 408);
  EXPECT_TRUE(head.at_end());
  EXPECT_TRUE(body.at_end());
  EXPECT_TRUE(idle.at_end());
  EXPECT_TRUE(late.at_end());
  EXPECT_EQ(server->counts().n_malformed, 2);
}

TEST(HttpClients, BytesThatDripDoNotPutOffTheDeadline) {
  HeldExchanges held;
  RunningServer server(held.handler(), {.header_timeout = seconds(1)});
  RawClient client(server.port());
  client.send("GET / HTTP/1.1\r\n");
  while (client.send("X: y\r\n") && server->counts().n_malformed == 0)
    std::this_thread::sleep_for(milliseconds(20));
  EXPECT_EQ(server->counts().n_malformed, 1);
  EXPECT_EQ(client.read_response().status, 408);
}

TEST(HttpClients, TooManyConnectionsAreRefused) {
  HeldExchanges held;
  RunningServer server(held.handler(), {.n_connections = 3});
  std::vector<RawClient> clients;
  for (int i = 0; i < 3; ++i) clients.emplace_back(server.port());
  EXPECT_TRUE(eventually([&] { return server->counts().n_open == 3; }));
  {
    RawClient fourth(server.port());
    fourth.send(get("/"));
    EXPECT_EQ(fourth.read_response().status, 503);
    EXPECT_TRUE(fourth.at_end());
  }
  EXPECT_EQ(server->counts().n_refused, 1);
  EXPECT_EQ(server->counts().n_malformed, 0);
  clients.pop_back();
  EXPECT_TRUE(eventually([&] { return server->counts().n_open == 2; }));
  RawClient next(server.port());
  next.send(get("/"));
  held.take()->send({});
  EXPECT_EQ(next.read_response().status, 200);
}

TEST(HttpClients, OneAddressDoesNotShutOutOthers) {
  HeldExchanges held;
  std::vector<int> refused;
  RunningServer server(
      held.handler(),
      {.n_connections = 16, .n_connections_each = 2, .on_refused = [&](const RefusedRequest& request) {
         refused.push_back(request.status);
       }});
  RawClient first(server.port()), second(server.port());
  EXPECT_TRUE(eventually([&] { return server->counts().n_open == 2; }));
  {
    RawClient third(server.port());
    const RawClient::Response answer = third.read_response();
    EXPECT_EQ(answer.status, 503);
    EXPECT_THAT(answer.body, HasSubstr("from this address"));
    EXPECT_TRUE(third.at_end());
  }
  EXPECT_EQ(server->counts().n_open, 2);  // Refused connections do not count.
  RawClient other(server.port(), 0, "127.0.0.2");
  other.send(get("/"));
  held.take()->send({});
  EXPECT_EQ(other.read_response().status, 200);
  first.close();
  EXPECT_TRUE(eventually([&] { return server->counts().n_open == 2; }));
  RawClient next(server.port());
  next.send(get("/"));
  held.take()->send({});
  EXPECT_EQ(next.read_response().status, 200);
  server.stop();
  EXPECT_EQ(refused, std::vector<int>{503});
}

TEST(HttpClients, ConnectionsWithoutARequestEndEarly) {
  HeldExchanges held;
  RunningServer server(held.handler(), {.first_timeout = seconds(0), .idle_timeout = seconds(600)});
  RawClient silent(server.port());
  EXPECT_TRUE(silent.at_end());
}

TEST(HttpClients, BodiesAreBoundedTogether) {
  HeldExchanges held;
  RunningServer server(held.handler(), {.body_bytes = 1000, .all_bodies_bytes = 1500});
  RawClient first(server.port()), second(server.port()), third(server.port());
  first.send(post("/", std::string(1000, 'a')));
  auto exchange = held.take();
  second.send(post("/", std::string(1000, 'b')));
  EXPECT_EQ(second.read_response().status, 503);
  exchange->send({});
  EXPECT_EQ(first.read_response().status, 200);
  exchange.reset();
  EXPECT_TRUE(eventually([&] { return server->counts().n_busy == 0; }));
  third.send(post("/", std::string(1000, 'c')));
  held.take()->send({});
  EXPECT_EQ(third.read_response().status, 200);
}

TEST(HttpClients, PostedCallsRunInOrderOnTheServersThread) {
  RunningServer server([](const std::shared_ptr<Exchange>&) {});
  std::vector<int> order;
  std::atomic<bool> done = false;
  server->after(milliseconds(50), [&] {
    order.push_back(2);
    done = true;
  });
  server->post([&] { order.push_back(0); });
  server->post([&] {
    order.push_back(1);
    throw std::runtime_error("ignored");
  });
  EXPECT_TRUE(eventually([&] { return done.load(); }));
  EXPECT_THAT(order, testing::ElementsAre(0, 1, 2));
}

}  // namespace
}  // namespace weft::server
