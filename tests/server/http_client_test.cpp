// The client with the server, and with malformed responses.
#include "http/http_client.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <map>
#include <thread>

#include "http/listening.h"
#include "server/held_exchanges.h"
#include "server/running_server.h"
#include "weft/error.h"

namespace weft::server {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

struct Got {
  int status = 0;
  std::string body, reason;
  HttpEnd end = HttpEnd::kCancelled;
  int n_ends = 0, n_pieces = 0;
};

HttpCall call_into(Got& got, const std::string& path, const std::string& body = "") {
  return {.method = body.empty() ? "GET" : "POST",
          .path = path,
          .body = body,
          .on_head = [&got](int status, const HttpHeaders&) { got.status = status; },
          .on_body =
              [&got](std::string_view piece) {
                got.body += piece;
                ++got.n_pieces;
                return true;
              },
          .on_end =
              [&got](HttpEnd end, const std::string& reason) {
                got.end = end;
                got.reason = reason;
                ++got.n_ends;
              }};
}

HttpUrl url_of(const RunningServer& server) { return {.host = "127.0.0.1", .port = server.port()}; }

void echo(const std::shared_ptr<Exchange>& exchange) {
  const HttpRequest& request = exchange->request();
  if (request.path == "/stream") {
    exchange->begin(200, "text/plain");
    for (int i = 0; i < 10; ++i) exchange->write(std::to_string(i));
    exchange->end();
  } else {
    exchange->send({.body = request.path + request.body});
  }
}

TEST(HttpClient, UrlsAreRead) {
  const HttpUrl plain = parse_url("http://localhost:8080/v1/");
  EXPECT_EQ(plain.host, "localhost");
  EXPECT_EQ(plain.port, 8080);
  EXPECT_EQ(plain.path, "/v1");
  EXPECT_EQ(parse_url("127.0.0.1").port, 80);
  EXPECT_FALSE(plain.tls);
  const HttpUrl secure = parse_url("https://localhost");
  EXPECT_TRUE(secure.tls);
  EXPECT_EQ(secure.port, 443);
  EXPECT_EQ(parse_url("http://[::1]:99").host, "::1");
  EXPECT_EQ(parse_url("http://[::1]:99").port, 99);
  EXPECT_EQ(parse_url("unix:/run/x.sock").host, "/run/x.sock");
  for (const char* url : {"", "http://", "http://:80", "http://a:0", "http://a:99999", "http://a:x",
                          "http://[::1", "http://[::1]x", "ftp://a", "https://", "unix:x"})
    EXPECT_THROW(parse_url(url), Error) << url;
}

TEST(HttpClient, ResponsesComeWholeAndInPieces) {
  RunningServer server(echo);
  HttpClient client(url_of(server));
  Got whole, streamed;
  client.start(call_into(whole, "/a", "body"));
  client.start(call_into(streamed, "/stream"));
  client.run();
  EXPECT_EQ(whole.status, 200);
  EXPECT_EQ(whole.body, "/abody");
  EXPECT_EQ(whole.end, HttpEnd::kComplete);
  EXPECT_EQ(streamed.body, "0123456789");
  EXPECT_EQ(streamed.n_pieces, 10);
  EXPECT_EQ(streamed.end, HttpEnd::kComplete);
  EXPECT_EQ(whole.n_ends + streamed.n_ends, 2);
}

TEST(HttpClient, ConnectionsAreUsedAgain) {
  RunningServer server(echo);
  HttpClient client(url_of(server));
  std::array<Got, 20> got;
  int next = 0;
  std::function<void()> start_next = [&] {
    HttpCall call = call_into(got[static_cast<std::size_t>(next)], "/" + std::to_string(next));
    ++next;
    call.on_end = [&, end = call.on_end](HttpEnd how, const std::string& reason) {
      end(how, reason);
      if (next < 20) start_next();
    };
    client.start(std::move(call));
  };
  start_next();
  start_next();
  client.run();
  for (int i = 0; i < 20; ++i) EXPECT_EQ(got[static_cast<std::size_t>(i)].body, "/" + std::to_string(i));
  EXPECT_EQ(server->counts().n_accepted, 2);
  EXPECT_EQ(client.n_open(), 2);
}

TEST(HttpClient, ConnectionsThatWereClosedAreReplaced) {
  RunningServer server(echo, {.idle_timeout = std::chrono::seconds(1)});
  HttpClient client(url_of(server));
  Got first, second;
  client.start(call_into(first, "/first"));
  client.run();
  EXPECT_TRUE(eventually([&] { return server->counts().n_open == 0; }));
  client.start(call_into(second, "/second"));
  client.run();
  EXPECT_EQ(second.body, "/second");
  EXPECT_EQ(server->counts().n_accepted, 2);
}

TEST(HttpClient, ManyRequestsAtTheSameTime) {
  RunningServer server(echo);
  HttpClient client(url_of(server));
  std::vector<Got> got(500);
  for (std::size_t i = 0; i < got.size(); ++i) client.start(call_into(got[i], "/" + std::to_string(i)));
  client.run();
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i].body, "/" + std::to_string(i));
}

TEST(HttpClient, ServerNoticesHangUps) {
  HeldExchanges held;
  RunningServer server(held.handler());
  std::thread writer([&] {
    const auto exchange = held.take();
    exchange->begin(200, "text/plain");
    exchange->write("one");
    EXPECT_TRUE(eventually([&] { return exchange->closed(); }));
  });
  HttpClient client(url_of(server));
  Got got;
  HttpCall call = call_into(got, "/");
  call.on_body = [](std::string_view) { return false; };
  client.start(std::move(call));
  client.run();
  writer.join();
  EXPECT_EQ(got.end, HttpEnd::kCancelled);
  EXPECT_EQ(got.n_ends, 1);
}

TEST(HttpClient, RequestsMayTakeTooLong) {
  HeldExchanges held;
  RunningServer server(held.handler());
  HttpClient client(url_of(server));
  Got got;
  HttpCall call = call_into(got, "/");
  call.timeout = milliseconds(100);
  client.start(std::move(call));
  client.run();
  EXPECT_EQ(got.end, HttpEnd::kTimeout);
}

TEST(HttpClient, StopsEverything) {
  HeldExchanges held;
  RunningServer server(held.handler());
  HttpClient client(url_of(server));
  std::vector<Got> got(10);
  for (Got& one : got) client.start(call_into(one, "/"));
  bool called = false;
  client.after(std::chrono::hours(1), [&] { called = true; });
  std::thread stopper([&] {
    EXPECT_TRUE(eventually([&] { return held.size() == got.size(); }));
    client.stop();
  });
  client.run();
  stopper.join();
  for (const Got& one : got) EXPECT_EQ(one.end, HttpEnd::kCancelled);
  EXPECT_FALSE(called);
  Got late;
  client.start(call_into(late, "/"));
  client.run();
  EXPECT_EQ(late.n_ends, 1);
  EXPECT_EQ(late.end, HttpEnd::kCancelled);
}

TEST(HttpClient, WithoutAServerThereIsNoConnection) {
  std::uint16_t port = 0;
  {
    const ListeningSockets closed("127.0.0.1", 0);
    port = closed.port();
  }
  HttpClient client({.host = "127.0.0.1", .port = port});
  Got got;
  client.start(call_into(got, "/"));
  client.run();
  EXPECT_EQ(got.end, HttpEnd::kConnect);
  EXPECT_THAT(got.reason, HasSubstr("cannot connect"));
  EXPECT_THROW(HttpClient({.host = "no such host"}), Error);
}

/// A server that sends these bytes to each connection, and closes.
Got response_to(const std::string& bytes, HttpClientParams params = {}) {
  ListeningSockets sockets("127.0.0.1", 0);
  const int listening = sockets.release().front();
  ::fcntl(listening, F_SETFL, 0);
  std::thread server([&] {
    const int one = ::accept(listening, nullptr, nullptr);
    std::array<char, 4096> request{};
    if (::recv(one, request.data(), request.size(), 0) > 0)
      ::send(one, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    ::shutdown(one, SHUT_WR);
    while (::recv(one, request.data(), request.size(), 0) > 0) {
    }
    ::close(one);
  });
  Got got;
  {
    HttpClient client({.host = "127.0.0.1", .port = sockets.port()}, params);
    client.start(call_into(got, "/"));
    client.run();
  }
  server.join();
  ::close(listening);
  return got;
}

TEST(HttpClient, ResponsesMayEndWithTheirConnection) {
  const Got got = response_to("HTTP/1.0 200 OK\r\n\r\nall of it");
  EXPECT_EQ(got.end, HttpEnd::kComplete);
  EXPECT_EQ(got.body, "all of it");
}

TEST(HttpClient, InterimResponsesAreSkipped) {
  const Got got =
      response_to("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\nok");
  EXPECT_EQ(got.status, 201);
  EXPECT_EQ(got.body, "ok");
}

TEST(HttpClient, ResponsesWithoutABodyAreComplete) {
  const Got got = response_to("HTTP/1.1 204 No Content\r\n\r\n");
  EXPECT_EQ(got.end, HttpEnd::kComplete);
  EXPECT_EQ(got.status, 204);
}

TEST(HttpClient, TruncatedAndMalformedResponsesAreDistinguished) {
  EXPECT_EQ(response_to("").end, HttpEnd::kClosed);
  EXPECT_EQ(response_to("HTTP/1.1 200 OK\r\n").end, HttpEnd::kClosed);
  EXPECT_EQ(response_to("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc").end, HttpEnd::kClosed);
  EXPECT_EQ(response_to("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n").end,
            HttpEnd::kClosed);
  EXPECT_EQ(response_to("SSH-2.0-OpenSSH\r\n\r\n").end, HttpEnd::kMalformed);
  EXPECT_EQ(response_to("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n").end,
            HttpEnd::kMalformed);
  EXPECT_EQ(
      response_to("HTTP/1.1 200 OK\r\nA: " + std::string(5000, 'a') + "\r\n\r\n", {.head_bytes = 1000}).end,
      HttpEnd::kMalformed);
  EXPECT_EQ(response_to("HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n", {.body_bytes = 10}).end,
            HttpEnd::kMalformed);
}

}  // namespace
}  // namespace weft::server
