// A server's addresses, its shutdown, and load and damaged requests.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <future>
#include <random>
#include <thread>

#include "http/listening.h"
#include "server/held_exchanges.h"
#include "server/raw_client.h"
#include "server/running_server.h"
#include "weft/error.h"

namespace weft::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

void say_hello(const std::shared_ptr<Exchange>& exchange) { exchange->send({.body = "hello"}); }

std::string socket_path() {
  return (std::filesystem::temp_directory_path() / ("weft_http_" + std::to_string(::getpid()) + ".sock"))
      .string();
}

TEST(HttpLife, ListensAtTheAddressThatItReports) {
  RunningServer server(say_hello);
  EXPECT_EQ(server->addresses().front(), "http://127.0.0.1:" + std::to_string(server.port()));
  RawClient client(server.port());
  client.send(get("/"));
  EXPECT_EQ(client.read_response().body, "hello");
}

TEST(HttpLife, PeersAreNamed) {
  HeldExchanges held;
  RunningServer server(held.handler());
  RawClient client(server.port());
  client.send(get("/"));
  EXPECT_THAT(held.take()->request().peer, StartsWith("127.0.0.1:"));
}

TEST(HttpLife, AddressesInUseAreErrors) {
  RunningServer server(say_hello);
  try {
    HttpServer second({.port = server.port()}, say_hello);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kIo);
    EXPECT_THAT(error.what(), HasSubstr("choose another port"));
  }
  EXPECT_THROW(HttpServer({.host = "203.0.113.1"}, say_hello), Error);
  EXPECT_THROW(HttpServer({.host = "no such host"}, say_hello), Error);
  EXPECT_THROW(HttpServer({.host = "/no/such/folder/a.sock"}, say_hello), Error);
  EXPECT_THROW(HttpServer({.host = "/" + std::string(200, 'x')}, say_hello), Error);
  EXPECT_THROW(HttpServer({.listening = {0}}, say_hello), Error);
}

TEST(HttpLife, UnixSocketsAreMadeAndRemoved) {
  const std::string path = socket_path();
  {
    RunningServer server(say_hello, {.host = path});
    EXPECT_EQ(server->addresses().front(), "unix:" + path);
    RawClient client(path);
    client.send(get("/"));
    EXPECT_EQ(client.read_response().body, "hello");
    // A running server is not replaced.
    EXPECT_THROW(HttpServer({.host = path}, say_hello), Error);
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(HttpLife, ListensAtSeveralHosts) {
  const std::string path = socket_path();
  {
    RunningServer server(say_hello, {.host = "127.0.0.1," + path + ",127.0.0.2,localhost"});
    const std::string port = std::to_string(server.port());
    EXPECT_THAT(server->addresses(), ElementsAre("http://127.0.0.1:" + port, "unix:" + path,
                                                 "http://127.0.0.2:" + port, "http://localhost:" + port));
    RawClient by_port(server.port()), by_path(path);
    for (RawClient* client : {&by_port, &by_path}) {
      client->send(get("/"));
      EXPECT_EQ(client->read_response().body, "hello");
    }
  }
  EXPECT_FALSE(std::filesystem::exists(path));
  // Nothing stays behind where one host fails.
  for (const std::string& wrong : {path + ",no such host", path + ",", path + ",/no/such/folder/a.sock"})
    EXPECT_THROW(HttpServer({.host = wrong, .port = 0}, say_hello), Error) << wrong;
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(HttpLife, AHostMayIncludeOthers) {
  for (const auto& [hosts, n] : {std::pair("0.0.0.0,127.0.0.1", 1u), std::pair("127.0.0.1,0.0.0.0", 1u),
                                 std::pair("127.0.0.2,0.0.0.0,127.0.0.1", 2u), std::pair("0.0.0.0", 0u)}) {
    RunningServer server(say_hello, {.host = hosts});
    EXPECT_EQ(server->included_hosts().size(), n) << hosts;
    RawClient client(server.port());
    client.send(get("/"));
    EXPECT_EQ(client.read_response().body, "hello");
  }
  const ListeningSockets sockets("127.0.0.1,0.0.0.0", 0);
  const std::string port = ":" + std::to_string(sockets.port());
  EXPECT_THAT(sockets.addresses(), ElementsAre("http://127.0.0.1" + port, "http://0.0.0.0" + port));
  EXPECT_THAT(sockets.included(), ElementsAre("127.0.0.1"));
}

TEST(HttpLife, AllHostsHaveOneFreePort) {
  // The system finds a port that is free at the first host. Many are taken at the second.
  raise_descriptor_limit();
  std::vector<ListeningSockets> others;
  for (int i = 0; i < 800; ++i) others.emplace_back("127.0.0.2", 0);
  for (int i = 0; i < 100; ++i) {
    ListeningSockets both("127.0.0.1,127.0.0.2", 0);
    const std::string port = ":" + std::to_string(both.port());
    EXPECT_THAT(both.addresses(), ElementsAre("http://127.0.0.1" + port, "http://127.0.0.2" + port));
  }
}

TEST(HttpLife, AddressesOfOtherProgramsAreErrors) {
  const ListeningSockets other("127.0.0.2", 0);
  EXPECT_THROW(HttpServer({.host = "127.0.0.1,::,127.0.0.2", .port = other.port()}, say_hello), Error);
}

TEST(HttpLife, UnixSocketsThatWereLeftAreReplaced) {
  const std::string path = socket_path();
  const int left = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  ASSERT_EQ(::bind(left, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  ::close(left);
  RunningServer server(say_hello, {.host = path});
  RawClient client(path);
  client.send(get("/"));
  EXPECT_EQ(client.read_response().body, "hello");
}

TEST(HttpLife, OtherFilesAreNotReplaced) {
  const std::string path = socket_path();
  ::close(::open(path.c_str(), O_CREAT | O_WRONLY, 0600));
  EXPECT_THROW(HttpServer({.host = path}, say_hello), Error);
  EXPECT_TRUE(std::filesystem::remove(path));
}

TEST(HttpLife, SocketsAreInherited) {
  ListeningSockets sockets("127.0.0.1", 0);
  RunningServer server(say_hello, {.listening = sockets.release()});
  EXPECT_EQ(server.port(), sockets.port());
  RawClient client(server.port());
  client.send(get("/"));
  EXPECT_EQ(client.read_response().body, "hello");
}

TEST(HttpLife, RequestsWaitForRun) {
  HttpServer server({.port = 0}, say_hello);
  RawClient client(server.port());
  client.send(get("/"));
  std::thread thread([&] { server.run(); });
  EXPECT_EQ(client.read_response().body, "hello");
  server.stop();
  thread.join();
}

TEST(HttpLife, ServersMayEndWithoutHavingRun) {
  HttpServer server({.port = 0}, say_hello);
  RawClient client(server.port());
  client.send(get("/"));
  server.post([] { FAIL(); });
}

TEST(HttpLife, DrainsRequestsInProgress) {
  HeldExchanges held;
  RunningServer server(held.handler());
  RawClient idle(server.port()), waiting(server.port()), streaming(server.port()), reading(server.port());
  waiting.send(get("/"));
  const auto first = held.take();
  streaming.send(get("/"));
  const auto second = held.take();
  second->begin(200, "text/plain");
  streaming.read_until("\r\n\r\n");
  reading.send(get("/").substr(0, 10));
  EXPECT_TRUE(eventually([&] { return server->counts().n_open == 4 && server->counts().n_busy == 3; }));

  server->stop_accepting();
  EXPECT_TRUE(idle.at_end());
  EXPECT_TRUE(eventually([&] { return !RawClient().connect(server.port()); }));
  reading.send(get("/").substr(10));
  held.take()->send({.body = "read"});
  const auto got = reading.read_response();
  EXPECT_EQ(got.body, "read");
  EXPECT_EQ(got.headers.at("connection"), "close");
  first->send({.body = "waited"});
  EXPECT_EQ(waiting.read_response().headers.at("connection"), "close");
  EXPECT_TRUE(waiting.at_end());
  second->write("last");
  second->end();
  EXPECT_EQ(streaming.read_until("0\r\n\r\n"), "4\r\nlast\r\n0\r\n\r\n");
  EXPECT_TRUE(streaming.at_end());
  EXPECT_TRUE(eventually([&] { return server->counts().n_busy == 0; }));
}

TEST(HttpLife, DrainingServesAllAcceptedConnections) {
  std::atomic<int> n_handled = 0;
  RunningServer server([&](const std::shared_ptr<Exchange>& exchange) {
    ++n_handled;
    say_hello(exchange);
  });
  // The system accepts them while the server's thread is held.
  std::promise<void> goes_on;
  server->post([held = goes_on.get_future().share()] { held.wait(); });
  std::vector<RawClient> clients;
  for (int i = 0; i < 50; ++i) {
    clients.emplace_back(server.port());
    clients.back().send(get("/"));
  }
  server->stop_accepting();
  goes_on.set_value();
  for (RawClient& client : clients) EXPECT_EQ(client.read_response().body, "hello");
  EXPECT_EQ(n_handled, 50);
}

TEST(HttpLife, StopsAtOnce) {
  for (int round = 0; round < 20; ++round) {
    HeldExchanges held;
    RunningServer server(held.handler());
    std::vector<RawClient> clients;
    std::vector<std::shared_ptr<Exchange>> exchanges;
    std::atomic<int> n_calls = 0;
    for (int i = 0; i < 20; ++i) {
      clients.emplace_back(server.port());
      clients.back().send(i % 3 == 0 ? "GET /" : get("/"));
      if (i % 3 == 0) continue;
      exchanges.push_back(held.take());
      exchanges.back()->on_closed([&] { ++n_calls; });
      if (i % 3 == 1) exchanges.back()->begin(200, "text/plain");
    }
    std::thread writer([&] {
      for (int i = 0; i < 100; ++i)
        for (const auto& exchange : exchanges) exchange->write("piece");
    });
    server.stop();
    writer.join();
    EXPECT_EQ(n_calls, static_cast<int>(exchanges.size()));
    for (RawClient& client : clients) {
      client.read_response();
      EXPECT_TRUE(client.at_end());
    }
    EXPECT_EQ(server->counts().n_open, 0);
  }
}

/// Sets the limit of open files for a test, and restores it.
class DescriptorLimit {
 public:
  explicit DescriptorLimit(rlim_t limit) {
    ::getrlimit(RLIMIT_NOFILE, &old_);
    const rlimit wanted{limit, old_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &wanted);
  }
  ~DescriptorLimit() { ::setrlimit(RLIMIT_NOFILE, &old_); }
  DescriptorLimit(const DescriptorLimit&) = delete;
  DescriptorLimit& operator=(const DescriptorLimit&) = delete;

 private:
  rlimit old_{};
};

TEST(HttpLife, WithoutDescriptorsConnectionsWait) {
  RunningServer server(say_hello);
  RawClient served(server.port()), waiting;
  served.send(get("/"));
  EXPECT_EQ(served.read_response().body, "hello");
  const int next = ::dup(0);
  {
    const DescriptorLimit limit(static_cast<rlim_t>(next) + 1);
    ASSERT_EQ(::dup(0), -1);
    ASSERT_TRUE(waiting.connect(server.port()));
    waiting.send(get("/"));
    for (int i = 0; i < 100; ++i) {
      served.send(get("/"));
      EXPECT_EQ(served.read_response().body, "hello");
    }
    EXPECT_EQ(server->counts().n_accepted, 1);
  }
  ::close(next);
  EXPECT_EQ(waiting.read_response().body, "hello");
}

TEST(HttpLife, ThousandsOfStreamsAndIdleConnections) {
  constexpr int kIdle = 4000, kStreams = 1000, kPieces = 20, kThreads = 4;
  HeldExchanges held;
  RunningServer server(held.handler(), {.n_connections_each = 0,
                                        .first_timeout = std::chrono::seconds(600)});  // Raises the limit.
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur < 2 * (kIdle + kStreams) + 100)
    GTEST_SKIP() << "this process may not open so many files";
  std::vector<RawClient> idle, streaming;
  for (int i = 0; i < kIdle; ++i) {
    idle.emplace_back(server.port());
    ASSERT_TRUE(idle.back().connected());
  }
  for (int i = 0; i < kStreams; ++i) {
    streaming.emplace_back(server.port());
    streaming.back().send(get("/" + std::to_string(i)));
  }
  EXPECT_TRUE(eventually([&] { return held.size() == kStreams; }));
  EXPECT_EQ(server->counts().n_open, kIdle + kStreams);
  EXPECT_EQ(server->counts().n_busy, kStreams);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      std::vector<std::shared_ptr<Exchange>> exchanges;
      for (int i = 0; i < kStreams / kThreads; ++i) exchanges.push_back(held.take());
      for (const auto& exchange : exchanges) exchange->begin(200, "text/event-stream");
      for (int p = 0; p < kPieces; ++p)
        for (const auto& exchange : exchanges) exchange->write(exchange->request().path);
      for (const auto& exchange : exchanges) exchange->end();
    });
  }
  for (int i = 0; i < kStreams; ++i) {
    const auto got = streaming[static_cast<std::size_t>(i)].read_response();
    ASSERT_TRUE(got.complete);
    std::string expected;
    for (int p = 0; p < kPieces; ++p) expected += "/" + std::to_string(i);
    ASSERT_EQ(got.body, expected);
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(eventually([&] { return server->counts().n_busy == 0; }));
  // All are kept, and any of them is served.
  idle[1234].send(get("/"));
  held.take()->send({.body = "awake"});
  EXPECT_EQ(idle[1234].read_response().body, "awake");
  EXPECT_EQ(server->counts().n_accepted, kIdle + kStreams);
}

/// Requests that are damaged in any way: bytes changed, cut out, put in, doubled; and noise.
std::string damaged_request(std::mt19937& random) {
  const auto below = [&](std::size_t bound) { return random() % bound; };
  static const std::vector<std::string> kWhole = {
      get("/a?b=c"),
      post("/x", "{\"model\": \"m\"}", "Content-Type: application/json\r\n"),
      "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
      "GET http://a/b HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
      get("/1") + get("/2"),
      "HEAD / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc",
  };
  static const std::vector<std::string> kPieces = {
      "\r\n", "\n",     "\r", std::string(1, '\0'),       "%00",  ": ",     "Content-Length: 5\r\n",
      "0",    "ffffff", "-1", "Transfer-Encoding: x\r\n", "\x80", " ",      "HTTP/1.1",
      "%",    ",",      ";;", "18446744073709551616",     "\t",   "chunked"};
  std::string bytes = kWhole[below(kWhole.size())];
  const std::size_t n_changes = 1 + below(4);
  for (std::size_t i = 0; i < n_changes && !bytes.empty(); ++i) {
    const std::size_t at = below(bytes.size());
    switch (below(6)) {
      case 0:
        bytes[at] = static_cast<char>(random());
        break;
      case 1:
        bytes.erase(at, 1 + below(8));
        break;
      case 2:
        bytes.insert(at, kPieces[below(kPieces.size())]);
        break;
      case 3:
        bytes.insert(at, bytes.substr(at, below(40)));
        break;
      case 4:
        bytes.resize(at);
        break;
      default:
        bytes.insert(at, std::string(1 + below(3000), static_cast<char>(random())));
        break;
    }
  }
  return bytes;
}

TEST(HttpLife, DamagedRequestsGetAResponseOrAnEnd) {
  constexpr int kRequests = 20'000;
  RunningServer server(say_hello, {.header_bytes = 2048, .body_bytes = 4096});
  std::mt19937 random(1);
  std::int64_t n_served = 0, n_refused = 0, n_silent = 0;
  for (int i = 0; i < kRequests; ++i) {
    RawClient client(server.port());
    ASSERT_TRUE(client.connected());
    client.send(damaged_request(random));
    client.end_sending();
    int n_answers = 0;
    for (;;) {
      const std::string head = client.read_until("\r\n\r\n");
      if (head.empty()) break;
      ASSERT_THAT(head, StartsWith("HTTP/1.1 ")) << i;
      const int status = std::atoi(head.c_str() + 9);
      if (status == 100) continue;
      ++n_answers;
      const bool is_hello = head.find("Content-Length: 5\r\n") != head.npos && status == 200;
      ++(is_hello ? n_served : n_refused);
      // HEAD's response has no body, so the next bytes are another head, or the end.
      if (client.peek(1).starts_with("h")) client.read_until("hello");
      if (!is_hello) client.read_until("\n");
    }
    n_silent += n_answers == 0 ? 1 : 0;
    ASSERT_TRUE(client.at_end());
  }
  EXPECT_EQ(server->counts().n_requests, n_served);
  EXPECT_EQ(server->counts().n_malformed, n_refused);
  // The generator makes all three kinds: served as they are still right, refused, and cut short.
  EXPECT_GT(n_served, kRequests / 20);
  EXPECT_GT(n_refused, kRequests / 5);
  EXPECT_GT(n_silent, kRequests / 20);
  EXPECT_TRUE(eventually([&] { return server->counts().n_open == 0; }));
  EXPECT_EQ(server->counts().n_busy, 0);
  RawClient client(server.port());
  client.send(get("/"));
  EXPECT_EQ(client.read_response().body, "hello");
}

}  // namespace
}  // namespace weft::server
