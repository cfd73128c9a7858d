// Reads back generated messages: tests/data/chat/transcripts.json has responses in each format.
#include <gtest/gtest.h>

#include "chat/chat_testing.h"

namespace weft {
namespace {

TEST(ResponseReader, ReadsAllTranscripts) {
  for (const Transcript& transcript : transcripts()) {
    ResponseReader reader = reader_of(transcript);
    EventLog log;
    log.add(reader.push(transcript.text));
    log.add(reader.finish());
    EXPECT_EQ(log.rows(), transcript.events) << transcript.format << ": " << transcript.text;
  }
}

TEST(ResponseReader, EveryFormatHasTranscripts) {
  const std::vector<Transcript> all = transcripts();
  for (const std::string& name : Chat::formats()) {
    EXPECT_TRUE(std::any_of(all.begin(), all.end(), [&](const Transcript& t) { return t.format == name; }))
        << name;
  }
}

TEST(ResponseReader, AnyCutGivesTheSame) {
  for (const Transcript& transcript : transcripts()) {
    const ResponseReader fresh = reader_of(transcript);
    for (std::size_t cut = 0; cut <= transcript.text.size(); ++cut) {
      ResponseReader reader = fresh;
      EventLog log;
      log.add(reader.push(transcript.text.substr(0, cut)));
      log.add(reader.push(transcript.text.substr(cut)));
      log.add(reader.finish());
      ASSERT_EQ(log.rows(), transcript.events)
          << transcript.format << " cut at " << cut << ": " << transcript.text;
    }
    for (std::size_t step : {1, 2, 3, 5}) {
      ResponseReader reader = fresh;
      EventLog log;
      for (std::size_t at = 0; at < transcript.text.size(); at += step) {
        log.add(reader.push(transcript.text.substr(at, step)));
      }
      log.add(reader.finish());
      ASSERT_EQ(log.rows(), transcript.events) << transcript.format << " in steps of " << step;
    }
  }
}

TEST(ResponseReader, CopiesGoOnAlone) {
  for (const Transcript& transcript : transcripts()) {
    const std::size_t half = transcript.text.size() / 2;
    ResponseReader reader = reader_of(transcript);
    EventLog log;
    log.add(reader.push(transcript.text.substr(0, half)));
    ResponseReader copy = reader;
    reader.push("something else <tool_call>");
    log.add(copy.push(transcript.text.substr(half)));
    log.add(copy.finish());
    EXPECT_EQ(log.rows(), transcript.events) << transcript.format << ": " << transcript.text;
  }
}

TEST(ResponseReader, ReportsContentAtOnce) {
  ResponseReader reader = reader_of({"hermes", "", "", true, {}});
  const auto text_of = [](const std::vector<ResponseEvent>& events) {
    std::string text;
    for (const ResponseEvent& event : events) text += event.text;
    return text;
  };
  EXPECT_EQ(text_of(reader.push("Hello")), "Hello");
  EXPECT_EQ(text_of(reader.push(" <")), "");
  EXPECT_EQ(text_of(reader.push("b>")), " <b>");
  EXPECT_EQ(text_of(reader.push("\n<tool_call>\n{\"name\": \"get_weather\", ")), "");
  EXPECT_EQ(reader.n_calls(), 0);
  const std::vector<ResponseEvent> events = reader.push("\"arguments\": {\"city\": \"Ro");
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].kind, ResponseEvent::Kind::kToolCall);
  EXPECT_EQ(events[0].name, "get_weather");
  EXPECT_EQ(events[1].text, "{\"city\": \"Ro");
  EXPECT_EQ(reader.n_calls(), 1);
  EXPECT_EQ(text_of(reader.push("me")), "me");
}

/// The events that a reader returns for the whole message; byte by byte they must be the same.
nlohmann::json read_back(const std::string& format, const std::string& tools, const std::string& text) {
  ChatTurn turn;
  turn.messages_json = R"([{"role": "user", "content": "Hi"}])";
  turn.tools_json = tools;
  const ResponseReader fresh = Chat(ChatTemplate("{{ messages[0].content }}"), format).open(turn).reader;
  ResponseReader whole = fresh, bytes = fresh;
  EventLog log, other;
  log.add(whole.push(text));
  log.add(whole.finish());
  for (const char c : text) other.add(bytes.push(std::string(1, c)));
  other.add(bytes.finish());
  EXPECT_EQ(log.rows(), other.rows()) << text;
  return log.rows();
}

TEST(ResponseReader, TypesOfParametersAreThoseOfTheResolvedSchema) {
  const char* const only_text[] = {
      R"({"type": "string"})",
      R"({"type": ["string", "null"]})",
      R"({"anyOf": [{"type": "string"}, {"type": "null"}]})",
      R"({"oneOf": [{"type": "string"}, {"type": "null"}], "default": null})",
      R"({"$ref": "#/$defs/name"})",
      R"({"$ref": "#/$defs/choice"})",
      R"({"allOf": [{"$ref": "#/$defs/name"}], "description": "x"})",
      R"({"anyOf": [{"$ref": "#/$defs/choice"}, {"type": "null"}]})",
      R"({"enum": ["1", "true", "{\"a\": 1}"]})",
      R"({"const": "1"})",
      R"({"oneOf": [{"const": "1"}, {"const": "true"}]})",
      R"({"pattern": "^.*$"})",
      R"({"type": "string", "nullable": true})",
      R"({"type": "string", "format": "date"})",
      R"({"allOf": [{"type": ["string", "integer"]}, {"type": ["string", "boolean"]}]})",
  };
  const std::string defs =
      R"("$defs": {"name": {"type": "string", "minLength": 1}, "choice": {"enum": ["1", "true"], "type": "string"}})";
  const auto call_of = [](const std::string& format, const std::string& value) {
    if (format == "glm")
      return "<tool_call>f\n<arg_key>p</arg_key>\n<arg_value>" + value + "</arg_value>\n</tool_call>";
    if (format == "minimax-m2")
      return "<minimax:tool_call>\n<invoke name=\"f\">\n<parameter name=\"p\">" + value +
             "</parameter>\n</invoke>\n</minimax:tool_call>";
    return "<tool_call>\n<function=f>\n<parameter=p>\n" + value + "\n</parameter>\n</function>\n</tool_call>";
  };
  const auto read = [&](const std::string& format, const std::string& schema, const std::string& value) {
    const std::string tools =
        R"([{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {"p": )" +
        schema + "}, " + defs + "}}}]";
    const nlohmann::json rows = read_back(format, tools, call_of(format, value));
    return rows.size() == 1 ? nlohmann::json::parse(rows[0][3].get<std::string>())["p"] : rows;
  };
  for (const char* format : {"qwen3-coder", "glm", "minimax-m2"}) {
    for (const char* schema : only_text)
      for (const char* value : {"1", "true", R"({"a": 1})", "null and void", "\"quoted\"", ""})
        EXPECT_EQ(read(format, schema, value), nlohmann::json(value)) << format << ": " << schema;
    EXPECT_EQ(read(format, R"({"type": ["string", "null"]})", "null"), nlohmann::json(nullptr)) << format;
    EXPECT_EQ(read(format, R"({"type": "string"})", "null"), nlohmann::json("null")) << format;
    // A value that may be either is JSON where it is JSON of an allowed type.
    EXPECT_EQ(read(format, R"({"type": ["string", "integer"]})", "1"), nlohmann::json(1)) << format;
    EXPECT_EQ(read(format, R"({"type": ["string", "integer"]})", "true"), nlohmann::json("true")) << format;
    EXPECT_EQ(read(format, R"({"type": ["string", "object"]})", "{\"a\": 1}"), nlohmann::json({{"a", 1}}))
        << format;
    EXPECT_EQ(read(format, R"({"type": ["string", "array"]})", "{\"a\": 1}"), nlohmann::json("{\"a\": 1}"))
        << format;
    EXPECT_EQ(read(format, R"({"$ref": "#/$defs/none"})", "1"), nlohmann::json(1)) << format;
    EXPECT_EQ(read(format, R"({"type": "number"})", "1.5"), nlohmann::json(1.5)) << format;
  }
}

TEST(ResponseReader, CallsThatAreNotJsonAreWholeOrContent) {
  struct Case {
    std::string text, rows;
  };
  const Case cases[] = {
      // The call was already reported: its arguments are completed, and the rest is dropped.
      {R"(<tool_call>{"name":"get_weather","arguments":{"city": }</tool_call>)",
       R"([["call", "get_weather", "", "{\"city\": null}"]])"},
      {R"(<tool_call>{"name":"get_weather","arguments":{"city": Rome}}</tool_call> Done.)",
       R"([["call", "get_weather", "", "{\"city\": null}"], ["content", "Done."]])"},
      {R"(<tool_call>{"name":"get_weather","arguments":{"city": "Rome",}}</tool_call>)",
       R"([["call", "get_weather", "", "{\"city\": \"Rome\"}"]])"},
      {R"(<tool_call>{"name":"get_weather","arguments":{"city": "Rome", n: 3}}</tool_call>)",
       R"([["call", "get_weather", "", "{\"city\": \"Rome\"}"]])"},
      {R"(<tool_call>{"name":"get_weather","arguments":{"n": [1, 2,]}}</tool_call>)",
       R"([["call", "get_weather", "", "{\"n\": [1, 2]}"]])"},
      {R"(<tool_call>{"name":"get_weather","arguments":{"city": "a" "n": 3}}</tool_call>
<tool_call>{"name":"now","arguments":{}}</tool_call>)",
       R"([["call", "get_weather", "", "{\"city\": \"a\" }"], ["call", "now", "", "{}"]])"},
      {R"(<tool_call>{"name":"get_weather","arguments":{"city": "Rome"}, junk}</tool_call>)",
       R"([["call", "get_weather", "", "{\"city\": \"Rome\"}"]])"},
      {R"(<tool_call>{"name":"get_weather","arguments":{"city": "\d+\'s"}}</tool_call>)",
       R"([["call", "get_weather", "", "{\"city\": \"\\\\d+\\u0027s\"}"]])"},
      // It was not: all of it is content.
      {R"(<tool_call>{"name":"get_weather","arguments":{'city': 'Rome'}}</tool_call>)",
       R"([["content", "<tool_call>{\"name\":\"get_weather\",\"arguments\":{'city': 'Rome'}}</tool_call>"]])"},
      {R"(<tool_call>{"name":"get_weather","arguments":[1]}</tool_call>)",
       R"([["content", "<tool_call>{\"name\":\"get_weather\",\"arguments\":[1]}</tool_call>"]])"},
      {R"(<tool_call>get_weather(city="Rome")</tool_call>)",
       R"([["content", "<tool_call>get_weather(city=\"Rome\")</tool_call>"]])"},
  };
  for (const Case& c : cases)
    EXPECT_EQ(read_back("hermes", test_tools(), c.text), nlohmann::json::parse(c.rows)) << c.text;
}

TEST(ResponseReader, WithoutAFormatAllIsContent) {
  ResponseReader reader;
  EventLog log;
  log.add(reader.push("<tool_call> {"));
  log.add(reader.push(" \n"));
  log.add(reader.finish());
  EXPECT_EQ(log.rows(), nlohmann::json::parse(R"([["content", "<tool_call> { \n"]])"));
}

}  // namespace
}  // namespace weft
