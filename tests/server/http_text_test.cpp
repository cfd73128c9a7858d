// Targets, heads of responses, dates.
#include "http/http_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weft::server {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(HttpText, TargetsAreDecodedAndSplit) {
  const auto target = parse_target("/a%20b/%C3%A9?x=1&y=a%26b+c");
  ASSERT_TRUE(target);
  EXPECT_EQ(target->path, "/a b/\xc3\xa9");
  EXPECT_EQ(target->query, "x=1&y=a%26b+c");
  HttpRequest request;
  request.query = target->query;
  EXPECT_EQ(request.query_value("x"), "1");
  EXPECT_EQ(request.query_value("y"), "a&b c");
  EXPECT_EQ(request.query_value("z"), "");
}

TEST(HttpText, AbsoluteTargetsLoseTheirHost) {
  EXPECT_EQ(parse_target("http://host:80/v1?q")->path, "/v1");
  EXPECT_EQ(parse_target("HTTPS://host")->path, "/");
  EXPECT_EQ(parse_target("http://host?q=1")->query, "q=1");
}

TEST(HttpText, MalformedTargetsAreRefused) {
  for (const char* target : {"", "*", "host:443", "a/b", "ftp://host/", "http://", "http:///x", "/%", "/%4",
                             "/%4g", "/%00", "/%0a", "/x%7f", "/a#b", "/a?b=%zz"})
    EXPECT_FALSE(parse_target(target)) << target;
}

TEST(HttpText, DatesAreThoseOfTheStandard) {
  EXPECT_EQ(http_date(784111777), "Sun, 06 Nov 1994 08:49:37 GMT");
}

TEST(HttpText, HeadsCannotBeSplit) {
  const HttpHeaders headers = {
      {"X-A", "1\r\nX-Evil: 2"}, {"Bad Name", "3"}, {"Content-Length", "9"}, {"X-B", "4"}};
  const std::string head = head_text({.content_type = "text/plain", .headers = &headers, .length = 5});
  EXPECT_THAT(head, HasSubstr("X-A: 1  X-Evil: 2\r\n"));
  EXPECT_THAT(head, HasSubstr("X-B: 4\r\n"));
  EXPECT_THAT(head, HasSubstr("Content-Length: 5\r\n"));
  EXPECT_THAT(head, Not(HasSubstr("Bad Name")));
  EXPECT_THAT(head, Not(HasSubstr("Content-Length: 9")));
}

TEST(HttpText, HeadersAreFoundInAnyCase) {
  HttpRequest request;
  request.headers = {{"Authorization", "Bearer x"}};
  EXPECT_EQ(request.header("authorization"), "Bearer x");
  EXPECT_EQ(request.header("author"), "");
}

}  // namespace
}  // namespace weft::server
