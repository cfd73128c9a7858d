#include "http/proxies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weft/error.h"

namespace weft::server {
namespace {

using Headers = std::vector<std::pair<std::string, std::string>>;

std::string text_of(std::string_view text) {
  const auto address = parse_address(text);
  return address ? address->text() : "none";
}

/// "CLIENT SCHEME" as the server sees it.
std::string way(const char* peer, const Headers& headers, const std::vector<std::string>& trusted) {
  const Forwarded found = read_forwarded(headers, parse_address(peer), TrustedProxies(trusted));
  return (found.client ? found.client->text() : "unix") + (found.scheme.empty() ? "" : " " + found.scheme);
}

TEST(Proxies, ReadsAddressesAsProxiesWriteThem) {
  EXPECT_EQ(text_of("192.0.2.1"), "192.0.2.1");
  EXPECT_EQ(text_of("192.0.2.1:4711"), "192.0.2.1");
  EXPECT_EQ(text_of("2001:db8::1"), "2001:db8::1");
  EXPECT_EQ(text_of("[2001:DB8::1]:4711"), "2001:db8::1");
  EXPECT_EQ(text_of("[::1]"), "::1");
  EXPECT_EQ(text_of("::ffff:192.0.2.1"), "192.0.2.1");
  EXPECT_EQ(text_of("fe80::1%eth0"), "fe80::1");
  for (const char* text : {"", "unknown", "_hidden", "192.0.2", "192.0.2.256", "1.2.3.4.5", "[", "[]", "a:b",
                           "unix", "2001:db8::1::2"})
    EXPECT_EQ(text_of(text), "none") << text;
}

TEST(Proxies, LimitsCountNetworksOfIpv6) {
  EXPECT_EQ(parse_address("2001:db8:1:2:3:4:5:6")->client(), "2001:db8:1:2::");
  EXPECT_EQ(parse_address("::ffff:192.0.2.1")->client(), "192.0.2.1");
}

TEST(Proxies, OnlyTrustedPeersNameTheClient) {
  const Headers headers = {{"X-Forwarded-For", "203.0.113.7"}, {"X-Forwarded-Proto", "https"}};
  EXPECT_EQ(way("127.0.0.1", headers, {}), "127.0.0.1");
  EXPECT_EQ(way("127.0.0.1", headers, {"10.0.0.0/8"}), "127.0.0.1");
  EXPECT_EQ(way("127.0.0.1", headers, {"127.0.0.1"}), "203.0.113.7 https");
  EXPECT_EQ(way("unix", headers, {"127.0.0.1"}), "unix");
  EXPECT_EQ(way("unix", headers, {"unix"}), "203.0.113.7 https");
  EXPECT_EQ(way("127.0.0.1", {}, {"127.0.0.1"}), "127.0.0.1");
}

TEST(Proxies, TheNearestUntrustedAddressIsTheClient) {
  const std::vector<std::string> trusted = {"127.0.0.1", "10.0.0.0/8", "fd00::/8"};
  const auto of = [&](const char* list) { return way("127.0.0.1", {{"x-forwarded-for", list}}, trusted); };
  EXPECT_EQ(of("6.6.6.6, 203.0.113.7"), "203.0.113.7");  // The client invented the first one.
  EXPECT_EQ(of("6.6.6.6, 203.0.113.7, 10.1.2.3, fd00::5"), "203.0.113.7");
  EXPECT_EQ(of("10.1.1.1, 10.2.2.2"), "10.1.1.1");  // All are trusted: the client is in the network.
  EXPECT_EQ(of("203.0.113.7:1234"), "203.0.113.7");
  EXPECT_EQ(of("6.6.6.6, unknown, 10.1.2.3"), "10.1.2.3");
  EXPECT_EQ(of("6.6.6.6, nonsense"), "127.0.0.1");
  EXPECT_EQ(of(""), "127.0.0.1");
  EXPECT_EQ(of(" , ,"), "127.0.0.1");
  EXPECT_EQ(way("127.0.0.1", {{"X-Forwarded-For", "6.6.6.6"}, {"X-Forwarded-For", "203.0.113.7"}}, trusted),
            "203.0.113.7");
}

TEST(Proxies, ReadsForwarded) {
  const auto of = [](const char* text) { return way("127.0.0.1", {{"Forwarded", text}}, {"127.0.0.1"}); };
  EXPECT_EQ(of("for=203.0.113.7"), "203.0.113.7");
  EXPECT_EQ(of("For=\"[2001:db8::17]:4711\";proto=https"), "2001:db8::17 https");
  EXPECT_EQ(of("for=6.6.6.6;proto=http, for=203.0.113.7; proto=HTTPS ;by=10.0.0.1"), "203.0.113.7 https");
  EXPECT_EQ(of("for=_hidden"), "127.0.0.1");
  EXPECT_EQ(of("for=_hidden;proto=https"), "127.0.0.1 https");
  EXPECT_EQ(of("proto=https"), "127.0.0.1 https");
  EXPECT_EQ(of("for=203.0.113.7;proto=gopher"), "203.0.113.7");
  for (const char* text : {"", ";", "=", "for", "for=\"", "for=,"}) EXPECT_EQ(of(text), "127.0.0.1") << text;
  // nginx passes a client's Forwarded on and sets the other.
  EXPECT_EQ(
      way("127.0.0.1", {{"Forwarded", "for=6.6.6.6"}, {"X-Forwarded-For", "203.0.113.7"}}, {"127.0.0.1"}),
      "203.0.113.7");
}

TEST(Proxies, TheSchemeNeedsNoAddress) {
  const auto of = [](Headers headers) { return way("127.0.0.1", headers, {"127.0.0.1"}); };
  EXPECT_EQ(of({{"X-Forwarded-Proto", "https"}}), "127.0.0.1 https");
  EXPECT_EQ(of({{"x-forwarded-proto", "http, HTTPS"}}), "127.0.0.1 https");
  EXPECT_EQ(of({{"X-Forwarded-Proto", "gopher"}}), "127.0.0.1");
  EXPECT_EQ(of({{"X-Forwarded-Proto", ""}}), "127.0.0.1");
  EXPECT_EQ(of({{"X-Forwarded-Proto", "https"}, {"X-Forwarded-For", "unknown"}}), "127.0.0.1 https");
  EXPECT_EQ(of({{"X-Forwarded-Proto", "https"}, {"Forwarded", "for=203.0.113.7"}}), "203.0.113.7 https");
  EXPECT_EQ(of({{"X-Forwarded-For", "203.0.113.7"}, {"Forwarded", "for=6.6.6.6;proto=https"}}),
            "203.0.113.7");
  EXPECT_EQ(way("127.0.0.1", {{"X-Forwarded-Proto", "https"}}, {}), "127.0.0.1");
}

TEST(Proxies, NetworksAreCompared) {
  const auto trusts = [](const char* network, const char* peer) {
    return TrustedProxies({network}).trusts(parse_address(peer));
  };
  EXPECT_TRUE(trusts("10.0.0.0/8", "10.255.1.2"));
  EXPECT_FALSE(trusts("10.0.0.0/8", "11.0.0.1"));
  EXPECT_TRUE(trusts("172.16.0.0/12", "172.31.255.255"));
  EXPECT_FALSE(trusts("172.16.0.0/12", "172.32.0.0"));
  EXPECT_TRUE(trusts("0.0.0.0/0", "192.0.2.1"));
  EXPECT_FALSE(trusts("0.0.0.0/0", "2001:db8::1"));
  EXPECT_TRUE(trusts("::/0", "2001:db8::1"));
  EXPECT_TRUE(trusts("192.0.2.1/32", "::ffff:192.0.2.1"));
  EXPECT_TRUE(trusts("2001:db8::/33", "2001:db8:7fff::"));
  EXPECT_FALSE(trusts("2001:db8::/33", "2001:db8:8000::"));
  for (const char* wrong :
       {"", "proxy", "10.0.0.0/", "10.0.0.0/33", "::/129", "10.0.0.0/8/8", "10.0.0.0/-1", "/8"})
    EXPECT_THROW(TrustedProxies({wrong}), Error) << wrong;
}

}  // namespace
}  // namespace weft::server
