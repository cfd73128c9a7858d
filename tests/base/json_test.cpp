#include "base/json.h"

#include <gtest/gtest.h>

#include <string>

namespace weft::base {
namespace {

using Plain = nlohmann::json;
using Ordered = nlohmann::ordered_json;

template <typename Json = Plain>
std::string error_of(std::string_view text, JsonBudget budget = {}) {
  try {
    (void)parse_json<Json>(text, budget);
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
}

TEST(Json, SpendsOneValueForEachElement) {
  const std::string text = "[" + repeated(R"({"role":"user","content":"a"},)", 1000) + "{}]";
  JsonBudget budget{.n_values = 10'000};
  (void)parse_json<Ordered>(text, budget);
  EXPECT_EQ(budget.n_values, 10'000U - (1 + 1000 * 3 + 1));
  EXPECT_EQ(error_of(text, {.n_values = 3001}), "too many values");
}

TEST(Json, ComparisonsGrowLinearlyWithTheLengthOfArrays) {
  const auto n_comparisons = [](std::size_t n) {
    JsonBudget budget{.n_comparisons = std::size_t{1} << 40};
    (void)parse_json<Ordered>("[" + repeated(R"({"role":"user","content":"a"},)", n) + "0]", budget);
    return (std::size_t{1} << 40) - budget.n_comparisons;
  };
  EXPECT_EQ(n_comparisons(1000), 1000U);
  EXPECT_EQ(n_comparisons(100'000), 100'000U);
}

TEST(Json, TextsShareABudget) {
  const std::string text = R"({"a": 1, "b": 2, "c": 3})";  // Three comparisons.
  JsonBudget budget{.n_comparisons = 7};
  (void)parse_json<Ordered>(text, budget);
  (void)parse_json<Ordered>(text, budget);
  EXPECT_THROW((void)parse_json<Ordered>(text, budget), JsonError);
}

}  // namespace
}  // namespace weft::base
