// Parsing of URLs. test_cli.py tests responses with a server.
#include "serving/http_probe.h"

#include <gtest/gtest.h>

#include <string>

#include "commands/command.h"

namespace weft::cli {
namespace {

std::string read(std::string_view url) {
  try {
    return parse_probe_url(url).url();
  } catch (const UsageError&) {
    return "refused";
  }
}

TEST(ProbeUrl, MissingPartsHaveDefaults) {
  EXPECT_EQ(read("http://127.0.0.1:8080/health"), "http://127.0.0.1:8080/health");
  EXPECT_EQ(read("http://localhost"), "http://localhost:8080/health");
  EXPECT_EQ(read("http://localhost/"), "http://localhost:8080/health");
  EXPECT_EQ(read("localhost:9000"), "http://localhost:9000/health");
  EXPECT_EQ(read("localhost:9000/v1/models?x=1"), "http://localhost:9000/v1/models?x=1");
  EXPECT_EQ(read("http://[::1]:9000"), "http://[::1]:9000/health");
  EXPECT_EQ(read("[::1]"), "http://[::1]:8080/health");
  EXPECT_EQ(read("unix:/run/weft.sock"), "unix:/run/weft.sock");
}

TEST(ProbeUrl, RejectsInvalidUrls) {
  for (const char* url :
       {"", "http://", ":80", "https://", "http://localhost:", "http://localhost:0", "http://localhost:65536",
        "http://localhost:8x", "http://[::1", "http://[]:1", "[::1]8080", "http://a b", "http://a/\r\nX: y",
        "unix:", "unix:name", "http://\xc3\xa4"})
    EXPECT_EQ(read(url), "refused") << url;
}

}  // namespace
}  // namespace weft::cli
