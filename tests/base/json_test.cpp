#include "base/json.h"

#include <gtest/gtest.h>

#include <string>

namespace weft::base {
namespace {

using Plain = nlohmann::json;
using Ordered = nlohmann::ordered_json;

std::string error_of(std::string_view text, const JsonLimits& limits = {}) {
  try {
    (void)parse_json<Plain>(text, limits);
  } catch (const JsonError& error) {
    return error.what();
  }
  return "";
}

std::string repeated(std::string_view text, std::size_t n) {
  std::string result;
  for (std::size_t i = 0; i < n; ++i) result += text;
  return result;
}

TEST(Json, LimitsDepthOfEachText) {
  EXPECT_EQ(error_of(repeated("[", 64) + repeated("]", 64)), "");
  EXPECT_EQ(error_of(repeated("[", 65) + repeated("]", 65)), "nested more than 64 levels deep");
  EXPECT_EQ(error_of(repeated(R"({"a":)", 100'000)), "nested more than 64 levels deep");
}

TEST(Json, NamesTheByteOfAnError) {
  EXPECT_EQ(error_of("{\"a\": 1,}"), "invalid JSON at byte 9");
  EXPECT_EQ(error_of(""), "invalid JSON at byte 1");
  EXPECT_EQ(error_of("{} x"), "invalid JSON at byte 4");
  EXPECT_EQ(error_of("[1e999]"), "the number 1e999 is out of range at byte 6");
}

TEST(Json, RefusesTextThatIsNotUtf8) {
  for (const char* text : {"\"\xFF\"", "\"\xC0\xAF\"", R"("\ud800")", R"("\udc00")", "\"a\nb\""})
    EXPECT_NE(error_of(text).find("invalid JSON"), std::string::npos) << text;
}

TEST(Json, LastOfEqualKeysCounts) {
  EXPECT_EQ(parse_json<Plain>(R"({"a": 1, "b": 2, "a": 3})").dump(), R"({"a":3,"b":2})");
  EXPECT_EQ(parse_json<Ordered>(R"({"b": 1, "a": 2, "b": 3})").dump(), R"({"b":3,"a":2})");
  EXPECT_EQ(parse_json<Ordered>(R"([{"b":{"c":1,"c":[2]},"b":{"d":0,"e":1,"d":{}}},{"a":1,"":2,"a":3,"":4}])")
                .dump(),
            R"([{"b":{"d":{},"e":1}},{"a":3,"":4}])");
}

TEST(Json, KeepsOrderAndKindsOfNumbers) {
  const char* text =
      R"([{"z":-9223372036854775808,"a":18446744073709551615,"m":0.5},-1,0,true,null,"é\u0000"])";
  EXPECT_EQ(parse_json<Ordered>(text), Ordered::parse(text));
  EXPECT_EQ(parse_json<Plain>(text), Plain::parse(text));
  EXPECT_EQ(parse_json<Ordered>(text).dump(), Ordered::parse(text).dump());
  EXPECT_TRUE(parse_json<Plain>("-0").is_number_unsigned());
  EXPECT_TRUE(parse_json<Plain>("18446744073709551616").is_number_float());
}

TEST(Json, CountsEachValue) {
  const std::string text = "[" + repeated(R"({"role":"user","content":"a"},)", 1000) + "{}]";
  EXPECT_EQ(error_of(text, {.n_values = 1 + 1000 * 3 + 1}), "");
  EXPECT_EQ(error_of(text, {.n_values = 3001}), "too many values");
}

TEST(Json, CountsTheMembersOfEachObject) {
  EXPECT_EQ(error_of(R"([{"a":1,"b":2},{"a":[],"b":{"c":1}}])", {.n_members = 2}), "");
  EXPECT_EQ(error_of(R"([{"a":1,"b":2,"a":3}])", {.n_members = 2}), "an object has too many members");
}

TEST(Json, ReadsObjectsWithManyMembers) {
  constexpr int kMembers = 50'000;  // With a comparison of each key with all others: 1.2 billion.
  std::string text = "{";
  for (int i = 0; i < kMembers; ++i)
    text += "\"k" + std::to_string(i % (kMembers / 2)) + "\":" + std::to_string(i) + ",";
  const Ordered object = parse_json<Ordered>(text + "\"end\":0}");
  ASSERT_EQ(object.size(), kMembers / 2 + 1U);
  EXPECT_EQ(object.begin().key(), "k0");
  EXPECT_EQ(object.begin().value(), kMembers / 2);
}

TEST(Json, NothingForRefusedDocumentsOfOthers) {
  EXPECT_FALSE(try_parse_json<Plain>("<html>").has_value());
  EXPECT_FALSE(try_parse_json<Plain>("").has_value());
  EXPECT_EQ(try_parse_json<Plain>("\xEF\xBB\xBF[1]"), Plain::array({1}));  // A byte order mark is skipped.
}

}  // namespace
}  // namespace weft::base
