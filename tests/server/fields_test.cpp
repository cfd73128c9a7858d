// Fields of requests: read, ignored with a note, or refused.
#include "api/fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/chat_order.h"
#include "api/error.h"
#include "api/request_tools.h"

namespace weft::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string refusal(const std::function<void()>& act) {
  try {
    act();
    return "";
  } catch (const ApiError& error) {
    EXPECT_EQ(error.status, 400);
    return error.what();
  }
}

/// The notes of an object of which "temperature", "stream" and "store" are known.
std::vector<std::string> notes_of(const char* json, const std::string& path = "") {
  const Json object = Json::parse(json);
  Ignored ignored;
  Fields fields(object, path, &ignored);
  fields.find("temperature");
  fields.find("stream");
  fields.without_effect("top_a", 0);
  fields.ignore({"user"});
  fields.done();
  return ignored.names();
}

TEST(Fields, UnknownFieldsAreNoted) {
  EXPECT_THAT(notes_of(R"({"stream": true, "keep_alive": 5, "options": {"num_ctx": 1}})"),
              ElementsAre("keep_alive", "options"));
  EXPECT_THAT(notes_of(R"({"kv": 1})", "messages[3].content[0]"), ElementsAre("messages.content.kv"));
}

TEST(Fields, PartsOfAConversationAreCounted) {
  for (const char* member : {"content", "output", "tools", "tool_calls"}) {
    const Json message = {{member, Json::array_t(40000)}};
    const Json body = {{"one", Json::array({message})}, {"two", Json::array({message, message})}};
    Fields fields(body);
    EXPECT_NE(read_conversation(fields, "one"), nullptr);
    EXPECT_THAT(refusal([&] { read_conversation(fields, "two"); }), HasSubstr("65536 parts")) << member;
  }
}

TEST(Fields, ValuesThatAskForNothingPass) {
  EXPECT_THAT(notes_of(R"({"a": null, "b": false, "c": "", "d": [], "e": {}, "user": "me", "top_a": 0})"),
              IsEmpty());
  EXPECT_THAT(notes_of(R"({"top_a": 0.5, "n": 0})"), ElementsAre("top_a", "n"));
}

TEST(Fields, BitsHoldAllIntegersOf64Bits) {
  const auto bits = [](const char* json) {
    const Json object = Json::parse(json);
    return Fields(object).bits("seed", 7);
  };
  EXPECT_EQ(bits(R"({"seed": 18446744073709551614})"), 18446744073709551614U);
  EXPECT_EQ(bits(R"({"seed": 4611686018427387905})"), 4611686018427387905U);
  EXPECT_EQ(bits(R"({"seed": -9223372036854775808})"), std::uint64_t{1} << 63);
  EXPECT_EQ(bits(R"({"seed": 5.0})"), 5U);
  EXPECT_EQ(bits("{}"), 7U);
  EXPECT_EQ(refusal([&] { bits(R"({"seed": 0.5})"); }), "'seed' must be an integer, not number");
}

TEST(Fields, NamesThatResembleKnownOnesAreRefused) {
  const auto error = [](const char* json) { return refusal([json] { notes_of(json); }); };
  EXPECT_THAT(error(R"({"temprature": 0})"), HasSubstr("did you mean 'temperature'?"));
  EXPECT_THAT(error(R"({"steam": false})"), HasSubstr("did you mean 'stream'?"));
  EXPECT_EQ(error(R"({"temprature": null})"), "");
  EXPECT_EQ(error(R"({"top_a": 1, "users": 1, "top_b": 1})"), "");  // Those have no effect.
}

TEST(Fields, LargeNumbersWithoutABoundAreTheLargest) {
  const Json object = Json::parse(R"({"max_tokens": 4294967296, "n": 4294967296, "seed": 1e300})");
  Fields fields(object);
  EXPECT_EQ(fields.integer("max_tokens", 1, -1), std::numeric_limits<int>::max());
  EXPECT_THAT(refusal([&] { fields.integer("n", 1, 1, 8); }), HasSubstr("from 1 to 8"));
  EXPECT_THAT(refusal([&] { fields.integer("seed", 1, 1); }), HasSubstr("an integer"));
}

TEST(Ignored, NamesAreCleanAndBounded) {
  Ignored ignored;
  EXPECT_EQ(ignored.header(), "");
  for (const char* path : {"a\r\nSet-Cookie: x", "tools[12].web_search", "tools[13].web_search", "", "ü"})
    ignored.add(path);
  EXPECT_EQ(ignored.header(), "a__Set-Cookie__x, tools.web_search, _, __");
  for (int i = 0; i < 1000; ++i) ignored.add("field" + std::to_string(i) + std::string(1000, 'x'));
  EXPECT_EQ(ignored.names().size(), Ignored::kMostNames);
  EXPECT_LE(ignored.header().size(), Ignored::kMostNames * (Ignored::kMostBytes + 2) + 5);
  EXPECT_TRUE(ignored.header().ends_with(", ..."));
}

struct ReadTools {
  explicit ReadTools(const std::string& json)
      : body(Json::parse("{\"tools\": " + json + "}")), fields(body, "", &ignored), tools(fields) {}

  std::vector<std::string> names() const {
    std::vector<std::string> all;
    if (tools.empty()) return all;
    for (const Json& tool : Json::parse(tools.json())) all.push_back(tool["function"]["name"]);
    return all;
  }

  const Json body;
  Ignored ignored;
  Fields fields;
  RequestTools tools;
};

TEST(RequestTools, AreFunctionsInAllForms) {
  const ReadTools read(R"([{"type": "function", "function": {"name": "chat", "parameters": {}}},
    {"function": {"name": "untyped"}}, {"type": "function", "name": "flat", "parameters": {"type": "object"}},
    {"name": "anthropic", "input_schema": {"type": "object"}}, {"type": "custom", "name": "typed", "input_schema": {}},
    {"type": "custom", "name": "patch", "format": {"type": "grammar", "syntax": "lark", "definition": "start: x"}},
    {"type": "custom", "custom": {"name": "nested"}},
    {"type": "namespace", "name": "mcp__fs", "tools": [{"type": "function", "name": "read"}]},
    {"type": "namespace", "name": "functions", "tools": [{"type": "custom", "name": "exec"}]}])");
  EXPECT_THAT(read.names(), ElementsAre("chat", "untyped", "flat", "anthropic", "typed", "patch", "nested",
                                        "mcp__fs__read", "exec"));
  EXPECT_TRUE(read.tools.origin_of("patch").is_custom);
  EXPECT_TRUE(read.tools.origin_of("exec").is_custom);
  EXPECT_FALSE(read.tools.origin_of("typed").is_custom);
  EXPECT_EQ(read.tools.origin_of("mcp__fs__read").name, "read");
  EXPECT_EQ(read.tools.origin_of("mcp__fs__read").name_space, "mcp__fs");
  EXPECT_EQ(read.tools.origin_of("chat").name, "chat");
  EXPECT_THAT(read.tools.json(), HasSubstr("start: x"));
}

TEST(RequestTools, ServerSideToolsAreNoted) {
  const ReadTools read(R"([{"type": "web_search"}, {"type": "local_shell"}, {"type": "image_generation"},
    {"type": "web_search_20250305", "name": "web_search"}, {"type": "tool_search", "execution": "server"},
    {"type": "mcp", "server_label": "x"}])");
  EXPECT_TRUE(read.tools.empty());
  EXPECT_EQ(read.tools.json(), "");
  EXPECT_EQ(read.ignored.names().front(), "tools.web_search");
  EXPECT_EQ(read.ignored.names().size(), 6u);
}

TEST(RequestTools, SearchesOfTheClientAreFunctions) {
  const ReadTools read(R"([{"type": "tool_search", "execution": "client", "description": "Finds tools.",
    "parameters": {"type": "object"}}])");
  EXPECT_THAT(read.names(), ElementsAre("tool_search"));
  EXPECT_TRUE(read.tools.origin_of("tool_search").is_search);
  EXPECT_TRUE(read.ignored.names().empty());
}

TEST(RequestTools, ChangesAddAndRemoveFunctions) {
  const Json body =
      Json::parse(R"({"tools": [{"type": "function", "name": "a"}, {"type": "function", "name": "b"}],
    "more": [{"type": "function", "name": "b", "description": "again"},
             {"type": "namespace", "name": "s", "tools": [{"type": "function", "name": "c"}]}]})");
  Ignored ignored;
  Fields fields(body, "", &ignored);
  std::vector<ToolChange> changes = {{ToolChange::Kind::kRemove, fields, "a"}};
  for (const Json& tool : body["more"])
    changes.push_back({ToolChange::Kind::kDefine, fields.within(tool, "more")});
  const RequestTools tools(fields, changes);
  const Json functions = Json::parse(tools.json());
  ASSERT_EQ(functions.size(), 2u);
  EXPECT_EQ(functions[0]["function"]["name"], "b");
  EXPECT_EQ(functions[0]["function"]["description"], "");
  EXPECT_EQ(functions[1]["function"]["name"], "s__c");
  EXPECT_EQ(functions.dump().find("again"), std::string::npos);
}

TEST(RequestTools, AppliesChangesInTheirOrder) {
  using enum ToolChange::Kind;
  const Json body =
      Json::parse(R"({"tools": [{"name": "a", "input_schema": {}}, {"name": "b", "input_schema": {}}],
    "new": {"name": "a", "description": "new", "input_schema": {}}})");
  Ignored ignored;
  Fields fields(body, "", &ignored);
  const Fields block = fields.within(body, "block"), again = fields.within(body["new"], "new");
  const auto after = [&](const std::vector<ToolChange>& changes) {
    const RequestTools tools(fields, changes);
    std::string all;
    for (const Json& tool : Json::parse(tools.json()))
      all += tool["function"]["name"].get<std::string>() + tool["function"]["description"].get<std::string>();
    EXPECT_EQ(tools.has("a"), all.starts_with('a'));
    return all;
  };
  EXPECT_EQ(after({{kRemove, block, "a"}}), "b");
  EXPECT_EQ(after({{kDefine, again}, {kRemove, block, "a"}}), "b");
  EXPECT_EQ(after({{kRestore, block, "a"}, {kRemove, block, "a"}}), "b");
  EXPECT_EQ(after({{kRemove, block, "a"}, {kRestore, block, "a"}}), "ab");
  EXPECT_EQ(after({{kRemove, block, "a"}, {kDefine, again}}), "anewb");
  EXPECT_EQ(after({{kRemove, block, "a"}, {kDefine, again}, {kRemove, block, "a"}}), "b");
  EXPECT_EQ(after({{kDefine, again}}), "ab");
  EXPECT_TRUE(ignored.names().empty());
  EXPECT_EQ(after({{kRestore, block, "c"}, {kRemove, block, "d"}}), "ab");
  EXPECT_THAT(ignored.names(), ElementsAre("block.tool_addition", "block.tool_removal"));
}

TEST(RequestTools, FunctionsKnowTheirPlacesInTheRequest) {
  const Json body = Json::parse(R"({"tools": [
      {"type": "web_search"}, {"type": "function", "name": "a"}, {"type": "custom", "name": "b"},
      {"type": "namespace", "name": "s", "tools": [{"type": "mcp"}, {"type": "function", "name": "c"}]}]})");
  Ignored ignored;
  Fields fields(body, "", &ignored);
  RequestTools tools(fields);
  EXPECT_THAT(tools.paths(), ElementsAre("tools[1]", "tools[2]", "tools[3].tools[1]"));
  EXPECT_TRUE(tools.has("s__c"));
  tools.keep_only({"b", "s__c"});
  EXPECT_THAT(tools.paths(), ElementsAre("tools[2]", "tools[3].tools[1]"));
  EXPECT_FALSE(tools.has("c"));
}

TEST(RequestTools, MalformedToolsAreRefused) {
  EXPECT_THAT(refusal([] { ReadTools("[1]"); }), HasSubstr("'tools[0]' must be an object"));
  EXPECT_THAT(refusal([] { ReadTools("{}"); }), HasSubstr("'tools' must be an array"));
  EXPECT_THAT(refusal([] { ReadTools(R"([{"type": "function", "name": "f", "parmeters": {}}])"); }),
              HasSubstr("did you mean 'parameters'?"));
}

TEST(RequestTools, NamespacesDoNotExceedTheLimit) {
  std::string inner;
  for (std::size_t i = 0; i <= RequestTools::kMost; ++i) inner += (i == 0 ? "{}" : ",{}");
  const auto list = [&] { return R"([{"type": "namespace", "name": "s", "tools": [)" + inner + "]}]"; };
  EXPECT_THAT(refusal([&] { ReadTools read(list()); }),
              HasSubstr("'tools[0].tools[2048]': a request may have at most 2048 functions"));
  inner.resize(inner.size() - 3);
  EXPECT_EQ(ReadTools(list()).names().size(), RequestTools::kMost);
}

TEST(RequestTools, InputsAreFoundInArguments) {
  EXPECT_EQ(RequestTools::input_of(R"({"input": "a\nb"})"), "a\nb");
  EXPECT_EQ(RequestTools::input_of(R"({"input": "a\nb)"), "a\nb");
  EXPECT_EQ(RequestTools::input_of(R"({"input": "a")"), "a");
  EXPECT_EQ(RequestTools::input_of(R"({"input": "a\)"), "a");
  EXPECT_EQ(RequestTools::input_of(R"({"input": "a\u00)"), "a");
  for (const char* cut : {"{", R"({"inp)", R"({"input")", R"({"input": )"})
    EXPECT_EQ(RequestTools::input_of(cut), "") << cut;
  EXPECT_EQ(RequestTools::input_of("plain"), "plain");
  EXPECT_EQ(RequestTools::input_of(R"({"other": 1})"), R"({"other": 1})");
}

TEST(Errors, PromptsThatAreTooLongHaveTheirCounts) {
  const ApiError error = prompt_too_long("messages", "too long", 300, 255, 256);
  const Json openai = error_json(error, ErrorShape::kOpenAi)["error"];
  EXPECT_EQ(openai["code"], "context_length_exceeded");
  EXPECT_EQ(openai["n_prompt_tokens"], 300);
  EXPECT_EQ(openai["n_ctx"], 256);
  EXPECT_EQ(error_json(error, ErrorShape::kAnthropic)["error"]["message"],
            "prompt is too long: 300 tokens > 255 maximum");
  EXPECT_FALSE(error_json(bad_request("a", "b"), ErrorShape::kOpenAi)["error"].contains("n_ctx"));
}

TEST(Json, NamesALoneSurrogate) {
  EXPECT_THAT(refusal([] { parse_json(R"({"a": "\ud83d x"})"); }), HasSubstr("lone surrogate"));
  EXPECT_THAT(refusal([] { parse_json("{\"a\" 1}"); }), testing::Not(HasSubstr("surrogate")));
}

}  // namespace
}  // namespace weft::server
