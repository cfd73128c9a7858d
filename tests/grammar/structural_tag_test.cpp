// Structural tags, compared with xgrammar (scripts/make_structural_tag_vectors.py).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "grammar/grammar_testing.h"

namespace weft::grammar {
namespace {

using testing::HasSubstr;

std::string refusal(std::string_view tag) {
  try {
    (void)compiled(Grammar::structural_tag(tag));
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(StructuralTag, AcceptsTheTextsThatXgrammarAccepts) {
  std::ifstream file(std::string(WEFT_TEST_DATA) + "/grammar/structural_tags.json");
  int n_texts = 0;
  for (const nlohmann::ordered_json& row : nlohmann::ordered_json::parse(file)) {
    const std::string tag = row["tag"].dump();
    SCOPED_TRACE(tag);
    if (row.contains("refused")) {
      EXPECT_NE(refusal(tag), "accepted");
      continue;
    }
    const auto grammar = compiled(Grammar::structural_tag(tag));
    for (const auto& text : row["texts"]) {
      EXPECT_EQ(grammar->allows_text(text[0].get<std::string>()), text[1].get<bool>()) << text[0];
      ++n_texts;
    }
  }
  EXPECT_GT(n_texts, 150);
}

TEST(StructuralTag, TheOlderFormIsTriggeredTags) {
  const auto grammar = compiled(Grammar::structural_tag(
      R"({"type": "structural_tag", "structures": [{"begin": "<f=a>", "schema": {"type": "integer"}, "end": "</f>"},
          {"begin": "<f=b>", "schema": {"type": "boolean"}, "end": "</f>"}], "triggers": ["<f="]})"));
  EXPECT_TRUE(grammar->allows_text("a<f=a>1</f>b<f=b>true</f>"));
  EXPECT_TRUE(grammar->allows_text(""));
  EXPECT_FALSE(grammar->allows_text("<f=a>true</f>"));
  EXPECT_FALSE(grammar->allows_text("<f=c>1</f>"));
}

TEST(StructuralTag, TagsMayBeSpecialTokens) {
  const auto grammar = compiled(Grammar::structural_tag(
      R"({"format": {"type": "triggered_tags", "triggers": ["<call>"], "tags": [{"begin": "<call>",
          "content": {"type": "json_schema", "json_schema": {"type": "integer"}}, "end": "</call>"}]}})"));
  EXPECT_TRUE(grammar->allows_text("x<call>12</call>y"));
  EXPECT_FALSE(grammar->allows_text("x<call>a</call>y"));
  const auto token = compiled(Grammar::structural_tag(
      R"({"format": {"type": "tag", "begin": {"type": "token", "token": "<call>"},
          "content": {"type": "any_text"}, "end": {"type": "token", "token": "</call>"}}})"));
  EXPECT_TRUE(token->allows_text("<call>ab</call>"));
}

TEST(StructuralTag, ErrorsNameThePlace) {
  EXPECT_THAT(
      refusal(R"({"format": {"type": "sequence", "elements": [{"type": "any_text"}, {"type": "regex"}]}})"),
      HasSubstr("'format.elements[1].pattern' is missing"));
  EXPECT_THAT(
      refusal(R"({"format": {"type": "tag", "begin": "<a>", "content": {"type": "nope"}, "end": "b"}})"),
      HasSubstr("'format.content.type' is \"nope\""));
  EXPECT_THAT(refusal(R"({"format": {"type": "regex", "pattern": "["}})"),
              HasSubstr("'format.pattern' is refused"));
  EXPECT_THAT(refusal(R"({"format": {"type": "json_schema", "json_schema": {"type": "what"}}})"),
              HasSubstr("'format.json_schema' is refused"));
  EXPECT_THAT(refusal(R"({"format": {"type": "any_text", "max_tokens": 3}})"),
              HasSubstr("'format.max_tokens'"));
  EXPECT_THAT(refusal(R"({"structures": [{"begin": "a", "end": "b"}], "triggers": ["a"]})"),
              HasSubstr("'structures[0].schema' is missing"));
  EXPECT_THAT(refusal("{}"), HasSubstr("neither"));
  EXPECT_THAT(refusal("[1"), HasSubstr("invalid JSON"));
}

TEST(StructuralTag, LimitsHoldForTheWhole) {
  std::string deep;
  for (int i = 0; i < 200; ++i) deep += R"({"type": "optional", "content": )";
  deep += R"({"type": "any_text"})" + std::string(200, '}');
  EXPECT_NE(refusal(R"({"format": )" + deep + "}"), "accepted");
  // Parts that are written once do not double with each level.
  std::string nested = R"({"type": "const_string", "value": "x"})";
  for (int i = 0; i < 24; ++i)
    nested = R"({"type": "triggered_tags", "triggers": ["<"], "at_least_one": true, "tags": [{"begin": "<)" +
             std::to_string(i) + R"(>", "content": )" + nested + R"(, "end": "</)" + std::to_string(i) +
             R"(>"}]})";
  EXPECT_EQ(refusal(R"({"format": )" + nested + "}"), "accepted");
  std::string repeated = R"({"type": "sequence", "elements": [)";
  for (int i = 0; i < 40; ++i)
    repeated += std::string(i == 0 ? "" : ", ") +
                R"({"type": "repeat", "min": 65000, "max": 65000, "content": {"value": "xy"}})";
  repeated += "]}";
  EXPECT_THAT(refusal(R"({"format": )" + repeated + "}"), HasSubstr("more than"));
}

/// A tag with `n` ends, whose content is one of `n` outputs.
Grammar ends_times(int n, const std::string& output) {
  std::string ends, outputs;
  for (int i = 0; i < n; ++i) {
    ends += (i == 0 ? "\"" : ", \"") + std::to_string(i) + "\"";
    outputs += (i == 0 ? "" : ", ") + output;
  }
  return Grammar::structural_tag(
      R"({"format": {"type": "tag", "begin": "<a>", "content": {"type": "or", "elements": [)" + outputs +
      R"(]}, "end": [)" + ends + "]}}");
}

TEST(StructuralTag, FreeOutputsTimesEndsAreBoundedBeforeCompiling) {
  for (const char* output :
       {R"({"type": "any_text"})",
        R"({"type": "triggered_tags", "triggers": ["x"], "tags": [{"begin": "x", "content": {"value": "y"},
            "end": ""}]})"}) {
    EXPECT_THROW((void)ends_times(1000, output), Error);
    EXPECT_TRUE(compiled(ends_times(10, output))->allows_text("<a>free3"));
    EXPECT_FALSE(compiled(ends_times(10, output))->allows_text("<a>free3 4"));
  }
}

}  // namespace
}  // namespace weft::grammar
