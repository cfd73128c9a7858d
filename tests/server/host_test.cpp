#include "http/host.h"

#include <gtest/gtest.h>

namespace weft::server {
namespace {

struct Case {
  const char* text;
  const char* name;  ///< Null: no host.
  bool is_address = false, is_loopback = false;
};

TEST(Host, ParsesNamesAndAddresses) {
  const Case cases[] = {
      {"localhost", "localhost", false, true},
      {"LOCALHOST:8080", "localhost", false, true},
      {"localhost.", "localhost", false, true},
      {"a.localhost", "a.localhost", false, true},
      {"127.0.0.1:18401", "127.0.0.1", true, true},
      {"127.9.8.7", "127.9.8.7", true, true},
      {"127.0.0.1.", "127.0.0.1", true, true},
      {"127.1", "127.0.0.1", true, true},
      {"0x7f000001", "127.0.0.1", true, true},
      {"2130706433", "127.0.0.1", true, true},
      {"0.0.0.0", "0.0.0.0", true, false},
      {"192.168.1.5:80", "192.168.1.5", true, false},
      {"[::1]", "::1", true, true},
      {"[::1]:8080", "::1", true, true},
      {"[0:0:0:0:0:0:0:1]", "::1", true, true},
      {"::1", "::1", true, true},
      {"[::ffff:127.0.0.1]:80", "127.0.0.1", true, true},
      {"[::FFFF:7f00:1]", "127.0.0.1", true, true},
      {"[fe80::1]", "fe80::1", true, false},
      {"[fe80::1%25eth0]:80", "fe80::1", true, false},
      {"Chat.Example.COM.:443", "chat.example.com", false, false},
      {"weft", "weft", false, false},
      {"example.com:", "example.com", false, false},
      // Names that look like this machine.
      {"127.evil.com", "127.evil.com", false, false},
      {"127.0.0.1.nip.io", "127.0.0.1.nip.io", false, false},
      {"localhost.evil.com", "localhost.evil.com", false, false},
      {"notlocalhost", "notlocalhost", false, false},
      {"1.evil", "1.evil", false, false},
  };
  for (const Case& expected : cases) {
    const auto host = parse_host(expected.text);
    ASSERT_TRUE(host) << expected.text;
    EXPECT_EQ(host->name, expected.name) << expected.text;
    EXPECT_EQ(host->is_address, expected.is_address) << expected.text;
    EXPECT_EQ(host->is_loopback, expected.is_loopback) << expected.text;
  }
}

TEST(Host, RefusesInvalidHosts) {
  for (const char* text : {"",
                           ".",
                           "a..b",
                           ".a",
                           "127.0.0.1@evil.com",
                           "localhost@evil.com",
                           "localhost:80:80",
                           "localhost:x",
                           "localhost:99999",
                           "[::1",
                           "[::1]x",
                           "[127.0.0.1]",
                           "[localhost]",
                           "1.2.3.4.5",
                           "300.1.1.1",
                           "127.0.0.1 evil.com",
                           "localhost/evil",
                           "evil.com#localhost",
                           "a b",
                           "\xC3\xA4.com"})
    EXPECT_FALSE(parse_host(text)) << text;
}

TEST(Host, OriginsHaveAScheme) {
  const std::optional<Origin> origin = parse_origin("HTTPS://Example.com:8443");
  ASSERT_TRUE(origin);
  EXPECT_EQ(origin->scheme, "https");
  EXPECT_EQ(origin->host.name, "example.com");
  EXPECT_EQ(origin->port, 8443U);
  EXPECT_EQ(parse_origin("http://[::1]:3000")->host.name, "::1");
  EXPECT_EQ(parse_origin("http://[::1]:3000")->port, 3000U);
  EXPECT_EQ(parse_origin("https://example.com")->port, 443U);
  EXPECT_EQ(parse_origin("http://[::1]")->port, 80U);
  EXPECT_EQ(parse_origin("app://example")->port, 0U);
  for (const char* text : {"null", "", "localhost", "http://", "https://localhost@evil.com"})
    EXPECT_FALSE(parse_origin(text)) << text;
}

TEST(Host, LoopbackIsNotJudgedByItsText) {
  for (const char* text : {"127.0.0.1", "::1", "localhost", "127.1"}) EXPECT_TRUE(is_loopback(text)) << text;
  for (const char* text : {"127.evil.com", "0.0.0.0", "::", "192.168.0.1", "300.1.1.1", "/run/weft.sock"})
    EXPECT_FALSE(is_loopback(text)) << text;
}

}  // namespace
}  // namespace weft::server
