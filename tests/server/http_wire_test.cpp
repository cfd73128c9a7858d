// The wire format: how the server parses requests, and the bytes that it sends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>

#include "server/raw_client.h"
#include "server/running_server.h"

namespace weft::server {
namespace {

using namespace std::string_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

/// Responds with the request as it arrived.
void echo_request(const std::shared_ptr<Exchange>& exchange) {
  const HttpRequest& request = exchange->request();
  exchange->send({.body = request.method + " " + request.path + " [" + request.query + "] " + request.body,
                  .content_type = "text/plain"});
}

/// Three pieces, as a stream.
void stream(const std::shared_ptr<Exchange>& exchange) {
  exchange->begin(200, "text/event-stream", {{"X-Accel-Buffering", "no"}});
  exchange->write("one,");
  exchange->write("");
  exchange->write(std::string(1000, 'x'));
  exchange->write(",three");
  exchange->end();
}

void answer(const std::shared_ptr<Exchange>& exchange) {
  exchange->request().path == "/stream" ? stream(exchange) : echo_request(exchange);
}

const std::string kStreamed = "one," + std::string(1000, 'x') + ",three";

class HttpWire : public testing::Test {
 protected:
  RunningServer server{answer, HttpParams{.header_bytes = 4096, .body_bytes = 1 << 20}};
  RawClient client{server.port()};

  /// The status of the response to these bytes. The server must close the connection after it.
  int refusal_of(const std::string& bytes) {
    RawClient one(server.port());
    one.send(bytes);
    one.end_sending();
    const RawClient::Response answer = one.read_response();
    EXPECT_TRUE(answer.complete) << bytes;
    EXPECT_EQ(answer.headers.at("connection"), "close") << bytes;
    EXPECT_TRUE(one.at_end()) << bytes;
    return answer.status;
  }
};

TEST_F(HttpWire, ResponsesHaveALength) {
  client.send(get("/a%20b?c=d"));
  const auto got = client.read_response();
  EXPECT_EQ(got.status, 200);
  EXPECT_EQ(got.body, "GET /a b [c=d] ");
  EXPECT_EQ(got.headers.at("content-type"), "text/plain");
  EXPECT_EQ(got.headers.count("connection"), 0U);
  EXPECT_EQ(got.headers.at("date").size(), 29U);
}

TEST_F(HttpWire, ConnectionsAreKept) {
  for (int i = 0; i < 5; ++i) {
    client.send(post("/x", std::to_string(i)));
    EXPECT_EQ(client.read_response().body, "POST /x [] " + std::to_string(i));
  }
  EXPECT_EQ(server->counts().n_accepted, 1);
  EXPECT_EQ(server->counts().n_requests, 5);
}

TEST_F(HttpWire, ConnectionsEndWhereTheClientSaysSo) {
  client.send(get("/x", "Connection: close\r\n"));
  EXPECT_EQ(client.read_response().headers.at("connection"), "close");
  EXPECT_TRUE(client.at_end());
}

TEST_F(HttpWire, BytesMayComeOneByOne) {
  for (const char c : post("/x", "body") + get("/y")) client.send({&c, 1});
  EXPECT_EQ(client.read_response().body, "POST /x [] body");
  EXPECT_EQ(client.read_response().body, "GET /y [] ");
}

TEST_F(HttpWire, PipelinedRequestsGetResponsesInOrder) {
  std::string bytes;
  for (int i = 0; i < 100; ++i) bytes += i % 3 == 0 ? get("/stream") : post("/x", std::to_string(i));
  client.send(bytes);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(client.read_response().body, i % 3 == 0 ? kStreamed : "POST /x [] " + std::to_string(i));
  }
}

TEST_F(HttpWire, StreamsAreChunks) {
  client.send(get("/stream"));
  const std::string head = client.read_until("\r\n\r\n");
  EXPECT_THAT(head, HasSubstr("Transfer-Encoding: chunked\r\n"));
  EXPECT_THAT(head, HasSubstr("X-Accel-Buffering: no\r\n"));
  EXPECT_EQ(client.read_until("0\r\n\r\n"),
            "4\r\none,\r\n3e8\r\n" + std::string(1000, 'x') + "\r\n6\r\n,three\r\n0\r\n\r\n");
}

TEST_F(HttpWire, OldClientsGetNoChunksAndAnEnd) {
  client.send("GET /stream HTTP/1.0\r\n\r\n");
  const auto got = client.read_response();
  EXPECT_EQ(got.headers.count("transfer-encoding"), 0U);
  EXPECT_EQ(got.headers.at("connection"), "close");
  EXPECT_EQ(got.body, kStreamed);
}

TEST_F(HttpWire, OldClientsKeepConnectionsWhereTheyAsk) {
  for (int i = 0; i < 3; ++i) {
    client.send("GET /x HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    EXPECT_EQ(client.read_response().headers.at("connection"), "keep-alive");
  }
  client.send("GET /x HTTP/1.0\r\n\r\n");
  EXPECT_EQ(client.read_response().headers.at("connection"), "close");
  EXPECT_TRUE(client.at_end());
}

TEST_F(HttpWire, HeadHasTheHeadOfGet) {
  client.send("HEAD /x HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_EQ(client.read_response(true).headers.at("content-length"), "11");
  client.send("HEAD /stream HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_EQ(client.read_response(true).headers.at("transfer-encoding"), "chunked");
  client.send(get("/y"));
  EXPECT_EQ(client.read_response().body, "GET /y [] ");
}

TEST_F(HttpWire, ChunkedBodiesAreRead) {
  client.send(
      "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\n"
      "5\r\nhello\r\n1;ext=\"v\"\r\n \r\n05\r\nworld\r\n0\r\nAuthorization: none\r\n\r\n" +
      get("/next"));
  EXPECT_EQ(client.read_response().body, "POST /x [] hello world");
  EXPECT_EQ(client.read_response().body, "GET /next [] ");
}

TEST_F(HttpWire, TrailerFieldsAreNotHeaders) {
  std::mutex mutex;
  std::vector<std::string> seen;
  RunningServer other([&](const std::shared_ptr<Exchange>& exchange) {
    const std::lock_guard lock(mutex);
    for (const auto& [name, value] : exchange->request().headers) seen.push_back(name);
    exchange->send({});
  });
  RawClient one(other.port());
  one.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nAuthorization: x\r\n\r\n");
  EXPECT_EQ(one.read_response().status, 200);
  const std::lock_guard lock(mutex);
  EXPECT_THAT(seen, ElementsAre("Host", "Transfer-Encoding"));
}

TEST_F(HttpWire, ContinueIsSentBeforeBodies) {
  client.send("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.read_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.send("body");
  EXPECT_EQ(client.read_response().body, "POST /x [] body");
}

TEST_F(HttpWire, NoContinueForBodiesThatAreTooLarge) {
  client.send("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 1048577\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.read_response().status, 413);
}

TEST_F(HttpWire, EmptyLinesBetweenRequestsAreSkipped) {
  client.send("\r\n\r\n" + post("/x", "1") + "\r\n" + get("/y"));
  EXPECT_EQ(client.read_response().body, "POST /x [] 1");
  EXPECT_EQ(client.read_response().body, "GET /y [] ");
}

TEST_F(HttpWire, BodiesMayBeAsLargeAsTheBound) {
  const std::string body(1 << 20, 'b');
  client.send(post("/x", body));
  EXPECT_EQ(client.read_response().body, "POST /x [] " + body);
}

TEST_F(HttpWire, TooLargeRequestsAreRefused) {
  EXPECT_EQ(refusal_of(get("/" + std::string(5000, 'a'))), 431);
  EXPECT_EQ(refusal_of(get("/", "X: " + std::string(5000, 'a') + "\r\n")), 431);
  EXPECT_EQ(refusal_of(post("/", std::string((1 << 20) + 1, 'b'))), 413);
  const std::string chunk = "80000\r\n" + std::string(0x80000, 'c') + "\r\n";
  EXPECT_EQ(refusal_of("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk + chunk +
                       "1\r\nc\r\n0\r\n\r\n"),
            413);
  EXPECT_EQ(refusal_of("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999999\r\n\r\n"), 400);
  EXPECT_EQ(refusal_of("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1;" +
                       std::string(1 << 17, 'e')),
            400);
  EXPECT_EQ(server->counts().n_malformed, 6);
  EXPECT_EQ(server->counts().n_requests, 0);
}

TEST_F(HttpWire, TwoEndsOfABodyAreRefused) {
  const std::string head = "POST / HTTP/1.1\r\nHost: a\r\n";
  const std::string end = "\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";
  EXPECT_EQ(refusal_of(head + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n" + end), 400);
  EXPECT_EQ(refusal_of(head + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n" + end), 400);
  EXPECT_EQ(refusal_of(head + "Content-Length: 5\r\nContent-Length: 5\r\n" + end), 400);
  EXPECT_EQ(refusal_of(head + "Content-Length: 5\r\nContent-Length: 6\r\n" + end), 400);
  EXPECT_EQ(refusal_of(head + "Content-Length: 5, 5\r\n" + end), 400);
  EXPECT_EQ(refusal_of(head + "Content-Length: +5\r\n" + end), 400);
  EXPECT_EQ(refusal_of(head + "Content-Length: 5 5\r\n" + end), 400);
  EXPECT_EQ(refusal_of(head + "Content-Length: 0x5\r\n" + end), 400);
  EXPECT_EQ(refusal_of(head + "Content-Length: -1\r\n" + end), 400);
  EXPECT_EQ(refusal_of(head + "Content-Length:\r\n" + end), 400);
  EXPECT_EQ(refusal_of(head + "Transfer-Encoding: gzip\r\n" + end), 501);
  EXPECT_EQ(refusal_of(head + "Transfer-Encoding: xchunked\r\n" + end), 501);
  EXPECT_EQ(refusal_of(head + "Transfer-Encoding: gzip, chunked\r\n" + end), 501);
  EXPECT_EQ(refusal_of(head + "Transfer-Encoding: chunked, gzip\r\n" + end), 501);
  EXPECT_EQ(refusal_of(head + "Transfer-Encoding: gzip\r\nContent-Length: 5\r\n" + end), 400);
  EXPECT_NE(refusal_of(head + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n" + end), 200);
  EXPECT_EQ(refusal_of("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n" + end), 400);
  EXPECT_EQ(refusal_of(head + "Transfer-Encoding : chunked\r\n" + end), 400);
  EXPECT_EQ(server->counts().n_requests, 0);
}

TEST_F(HttpWire, MalformedRequestsAreRefused) {
  const std::string host = "Host: a\r\n\r\n";
  for (const std::string& bytes : {
           std::string("hello\r\n\r\n"),
           "GET  / HTTP/1.1\r\n" + host,
           "GET /\r\n" + host,
           "G(T / HTTP/1.1\r\n" + host,
           "GET / HTTP/1.1\n" + host,
           "GET /% HTTP/1.1\r\n" + host,
           "GET /%00 HTTP/1.1\r\n" + host,
           "GET /%0d%0a HTTP/1.1\r\n" + host,
           "GET /#a HTTP/1.1\r\n" + host,
           "GET * HTTP/1.1\r\n" + host,
           "CONNECT a:443 HTTP/1.1\r\n" + host,
           "GET ftp://a/ HTTP/1.1\r\n" + host,
           "GET /\0 HTTP/1.1\r\n"s + host,
           "GET / HTTP/1.1\r\nA: \0\r\n"s + host,
           std::string("GET / HTTP/1.1\r\nA: \x01\r\n") + host,
           "GET / HTTP/1.1\r\nA\0: b\r\n"s + host,
           std::string("GET / HTTP/1.1\r\n: b\r\n") + host,
           std::string("GET / HTTP/1.1\r\nA b\r\n") + host,
           std::string("GET / HTTP/1.1\r\n\r\n"),
           std::string("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"),
           std::string("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n\r\n"),
           std::string("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n\r\n"),
           std::string("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n\r\n"),
       })
    EXPECT_THAT(refusal_of(bytes), testing::AnyOf(400, 505)) << bytes;
  EXPECT_EQ(refusal_of("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 505);
  EXPECT_EQ(refusal_of("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n"s), 400);
  EXPECT_EQ(refusal_of("GET / HTTP/1.1\r\nExpect: more\r\n" + host), 417);
  EXPECT_EQ(server->counts().n_requests, 0);
}

TEST_F(HttpWire, SecondReadingsOfAHeadAreRefused) {
  for (const char* rest : {"Origin: http://localhost\r\nOrigin: http://evil.com", "host: b",
                           "A: b\rContent-Length: 5", "A: b\nContent-Length: 5", "Content-Length : 5",
                           "Content\x01Length: 5", "A: b\x7f", "Content-Length: 5\r\nContent-length: 0"})
    EXPECT_EQ(refusal_of("GET / HTTP/1.1\r\nHost: a\r\n" + std::string(rest) + "\r\n\r\n"), 400) << rest;
}

TEST_F(HttpWire, FoldedHeadersAreOneHeader) {
  client.send("POST /x HTTP/1.1\r\nHost: a\r\nA: b\r\n Content-Length: 30\r\n\r\n" + get("/y"));
  EXPECT_EQ(client.read_response().body, "POST /x [] ");
  EXPECT_EQ(client.read_response().body, "GET /y [] ");
}

TEST_F(HttpWire, ManyHeadersAndPathsUpwardsAreBytes) {
  std::string headers;
  for (int i = 0; i < 500; ++i) headers += "A: \r\n";
  client.send(get("/../../etc/passwd", headers));
  EXPECT_EQ(client.read_response().body, "GET /../../etc/passwd [] ");
  for (int i = 0; i < 5000; ++i) headers += "A: \r\n";
  EXPECT_EQ(refusal_of(get("/", headers)), 431);
}

TEST_F(HttpWire, AbsoluteTargetsAreServed) {
  client.send("GET http://other/x?y HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_EQ(client.read_response().body, "GET /x [y] ");
}

TEST_F(HttpWire, RefusalsHaveTheUsersBody) {
  RunningServer other(answer, {.error_body = [](int status, std::string_view reason) {
                        return "{\"" + std::to_string(status) + "\":\"" + std::string(reason) + "\"}";
                      }});
  RawClient one(other.port());
  one.send("nonsense\r\n\r\n");
  const auto got = one.read_response();
  EXPECT_EQ(got.headers.at("content-type"), "application/json");
  EXPECT_THAT(got.body, StartsWith("{\"400\":\"malformed request"));
}

TEST_F(HttpWire, StatusesWithoutABodyHaveNone) {
  RunningServer other([](const std::shared_ptr<Exchange>& exchange) {
    exchange->send({.status = 204, .body = "none", .content_type = ""});
  });
  RawClient one(other.port());
  for (int i = 0; i < 2; ++i) {
    one.send(get("/"));
    const std::string head = one.read_until("\r\n\r\n");
    EXPECT_THAT(head, StartsWith("HTTP/1.1 204 No Content\r\n"));
    EXPECT_THAT(head, testing::Not(HasSubstr("Content-")));
  }
}

TEST_F(HttpWire, AbortedResponsesHaveNoEnd) {
  RunningServer other([](const std::shared_ptr<Exchange>& exchange) {
    exchange->begin(200, "text/plain");
    exchange->write("some");
    exchange->abort();
  });
  RawClient one(other.port());
  one.send(get("/"));
  const auto got = one.read_response();
  EXPECT_EQ(got.body, "some");
  EXPECT_FALSE(got.complete);
  EXPECT_TRUE(one.at_end());
}

}  // namespace
}  // namespace weft::server
