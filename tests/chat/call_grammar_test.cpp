// Grammars of responses: whatever they allow is read back as valid calls, and nothing else passes.
#include <gtest/gtest.h>

#include "chat/call_writer.h"
#include "chat/chat_testing.h"
#include "chat/format.h"
#include "chat/json_scanner.h"
#include "text/encoder.h"
#include "text/vocabulary.h"
#include "weft/error.h"

namespace weft {
namespace {

/// The bytes, and some tags as special tokens.
const Tokenizer& tokenizer() {
  static const Tokenizer made = [] {
    text::Vocabulary v;
    v.kind = text::VocabularyKind::kBpe;
    v.pre = "gpt-2";
    for (int b = 0; b < 256; ++b) {
      v.tokens.push_back(std::string(text::alphabet_of_byte(static_cast<unsigned char>(b))));
      v.kinds.push_back(TokenKind::kNormal);
    }
    for (const char* tag :
         {"[TOOL_CALLS]", "<|channel|>", "<|message|>", "<tool_call>", "<|call|>", "<eos>"}) {
      v.tokens.emplace_back(tag);
      v.kinds.push_back(TokenKind::kControl);
    }
    v.eos = static_cast<Token>(v.tokens.size() - 1);
    return Tokenizer(std::move(v));
  }();
  return made;
}

bool allows(const Grammar& grammar, std::string_view text) {
  static const GrammarCompiler compiler(tokenizer());
  return compiler.compile(grammar)->allows_text(text);
}

Chat chat_of(const std::string& format, const std::string& prompt_end = {}) {
  return Chat(
      ChatTemplate("{{ messages[0].content }}{% if add_generation_prompt %}" + prompt_end + "{% endif %}"),
      format);
}

ChatTurn turn_with(const std::string& tools, ToolChoice choice) {
  ChatTurn turn;
  turn.messages_json = R"([{"role": "user", "content": "How is the weather?"}])";
  turn.tools_json = tools;
  turn.tool_choice = choice;
  return turn;
}

/// One function whose arguments are held, and one without.
std::string tools(bool strict) {
  return std::string(R"([{"type": "function", "function": {"name": "get_weather", "strict": )") +
         (strict ? "true" : "false") +
         R"(, "parameters": {"type": "object", "properties": {"city": {"type": "string"},
            "unit": {"type": "string", "enum": ["C", "F"]}, "n": {"type": "integer"}}, "required": ["city", "n"],
            "additionalProperties": false}}},
            {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {},
            "additionalProperties": false}}}])";
}

std::string replaced(std::string text, std::string_view part, std::string_view by) {
  if (const std::size_t at = text.find(part); at != text.npos) text.replace(at, part.size(), by);
  return text;
}

/// A call as the format writes it, with spaces where models have them.
std::string written(const chat::Format& format, const std::vector<std::string>& calls) {
  if (format.channels)
    return "<|channel|>commentary to=functions." + calls.at(0) + " <|constrain|>json<|message|>" +
           (calls.at(0) == "now" ? "{}" : R"({"city": "Rome", "n": 3})");
  std::vector<chat::HistoryCall> all;
  for (const std::string& name : calls) {
    chat::HistoryCall call{.id = "1", .name = name};
    if (name != "now") call.arguments = {{"city", "Rome"}, {"n", 3}};
    all.push_back(std::move(call));
  }
  chat::CallFormat writes = format.calls.front();
  if (format.bare_object) writes.section_begin.clear();
  std::string text = chat::write_calls(writes, all);
  const bool json = writes.style == chat::CallStyle::kObject || writes.style == chat::CallStyle::kNamed;
  if (!json) return text;
  // As a compact object with ", " and ": ".
  std::string spaced;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') in_string = !in_string;
    spaced += text[i];
    const bool separates = text[i] == ',' || (text[i] == ':' && i > 0 && text[i - 1] == '"');
    if (!in_string && separates && i + 1 < text.size() && !chat::is_space(text[i + 1])) spaced += ' ';
  }
  return spaced;
}

TEST(CallGrammar, RequiredCallsAreAllowedAsTheFormatWritesThem) {
  for (const chat::Format& format : chat::known_formats()) {
    const Chat chat = chat_of(format.name);
    ChatTurn turn = turn_with(tools(false), ToolChoice::kRequired);
    turn.parallel_tool_calls = true;
    const ChatOpening opening = chat.open(turn);
    ASSERT_TRUE(opening.grammar) << format.name;
    std::vector<std::vector<std::string>> answers = {{"get_weather"}, {"now"}};
    if (!format.channels && format.calls.front().style != chat::CallStyle::kNamed)
      answers.push_back({"get_weather", "now"});
    for (const std::vector<std::string>& calls : answers) {
      const std::string text = written(format, calls);
      EXPECT_TRUE(allows(*opening.grammar, text)) << format.name << ": " << text;
      ResponseReader reader = opening.reader;
      EventLog log;
      log.add(reader.push(text));
      log.add(reader.finish());
      ASSERT_EQ(log.all().size(), calls.size()) << format.name << ": " << text << log.rows();
      for (std::size_t i = 0; i < calls.size(); ++i) {
        EXPECT_EQ(log.all()[i].kind, "call") << format.name << ": " << text;
        EXPECT_EQ(log.all()[i].name, calls[i]);
      }
      EXPECT_FALSE(allows(*opening.grammar, "Hello." + text)) << format.name;
      EXPECT_FALSE(allows(*opening.grammar, text + "Hello.")) << format.name;
      EXPECT_FALSE(allows(*opening.grammar, replaced(text, calls[0], "other"))) << format.name;
      if (calls[0] == "get_weather") {
        EXPECT_FALSE(allows(*opening.grammar, replaced(text, "3", "x"))) << format.name << ": " << text;
        EXPECT_FALSE(allows(*opening.grammar, replaced(text, "city", "town"))) << format.name << ": " << text;
      }
    }
    EXPECT_FALSE(allows(*opening.grammar, "Hello.")) << format.name;
    EXPECT_FALSE(allows(*opening.grammar, "")) << format.name;
  }
}

/// The numbers of calls that a response may have, up to one more than the bound.
std::vector<int> allowed_counts(const chat::Format& format, const ChatTurn& turn) {
  const auto compiled = GrammarCompiler(tokenizer()).compile(*chat_of(format.name).open(turn).grammar);
  std::vector<int> counts;
  for (const int n : {1, 2, ChatTurn::kMostCalls, ChatTurn::kMostCalls + 1}) {
    const std::vector<std::string> calls(static_cast<std::size_t>(n), "now");
    if (compiled->allows_text(written(format, calls))) counts.push_back(n);
  }
  return counts;
}

TEST(CallGrammar, CallsAreBounded) {
  constexpr int kMost = ChatTurn::kMostCalls;
  for (const chat::Format& format : chat::known_formats()) {
    if (format.channels || format.calls.front().style == chat::CallStyle::kNamed) continue;
    ChatTurn turn = turn_with(tools(false), ToolChoice::kRequired);
    EXPECT_EQ(allowed_counts(format, turn), std::vector{1}) << format.name;
    turn.parallel_tool_calls = false;
    EXPECT_EQ(allowed_counts(format, turn), std::vector{1}) << format.name;
    turn.parallel_tool_calls = true;
    EXPECT_EQ(allowed_counts(format, turn), (std::vector{1, 2, kMost})) << format.name;
    turn.tool_choice = ToolChoice::kNamed;
    turn.tool_name = "now";
    EXPECT_EQ(allowed_counts(format, turn), std::vector{1}) << format.name;
    turn = turn_with(tools(true), ToolChoice::kAuto);
    EXPECT_EQ(allowed_counts(format, turn), (std::vector{1, 2, kMost})) << format.name;
    turn.parallel_tool_calls = false;
    EXPECT_EQ(allowed_counts(format, turn), std::vector{1}) << format.name;
  }
}

TEST(CallGrammar, ANamedFunctionAloneIsAllowed) {
  ChatTurn turn = turn_with(tools(false), ToolChoice::kNamed);
  turn.tool_name = "now";
  const Grammar grammar = *chat_of("hermes").open(turn).grammar;
  EXPECT_TRUE(allows(grammar, "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>"));
  EXPECT_FALSE(allows(grammar,
                      "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Rome\", \"n\": "
                      "3}}\n</tool_call>"));
}

TEST(CallGrammar, UnquotedParametersAreConstrained) {
  const Grammar grammar =
      *chat_of("qwen3-coder").open(turn_with(tools(false), ToolChoice::kRequired)).grammar;
  const auto call = [](const std::string& unit, const std::string& n) {
    return "<tool_call>\n<function=get_weather>\n<parameter=city>\nRo<me\n</parameter>\n<parameter=unit>\n" +
           unit + "\n</parameter>\n<parameter=n>\n" + n + "\n</parameter>\n</function>\n</tool_call>";
  };
  EXPECT_TRUE(allows(grammar, call("C", "3")));
  EXPECT_FALSE(allows(grammar, call("K", "3")));
  EXPECT_FALSE(allows(grammar, call("C", "three")));
}

TEST(CallGrammar, StrictToolsConstrainCalls) {
  EXPECT_FALSE(chat_of("hermes").open(turn_with(tools(false), ToolChoice::kAuto)).grammar);
  for (const char* name : {"hermes", "llama3", "mistral", "harmony", "command-r7b"}) {
    const chat::Format& format = *std::find_if(chat::known_formats().begin(), chat::known_formats().end(),
                                               [&](const chat::Format& each) { return each.name == name; });
    const ChatOpening opening = chat_of(name).open(turn_with(tools(true), ToolChoice::kAuto));
    ASSERT_TRUE(opening.grammar) << name;
    const std::string call = written(format, {"get_weather"});
    EXPECT_TRUE(allows(*opening.grammar, call)) << name << ": " << call;
    EXPECT_FALSE(allows(*opening.grammar, replaced(call, "3", "\"x\""))) << name;
    const std::string text = "Just [text] with a < in it.";
    EXPECT_TRUE(allows(*opening.grammar, format.channels ? "<|channel|>final<|message|>" + text : text))
        << name;
  }
  const Grammar grammar = *chat_of("hermes").open(turn_with(tools(true), ToolChoice::kAuto)).grammar;
  const std::string call =
      "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Rome\", \"n\": 3}}\n</tool_call>";
  EXPECT_TRUE(allows(grammar, "I look.\n" + call + "\n" + call + "\n"));
  EXPECT_FALSE(
      allows(grammar, "I look.\n<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {}}\n</tool_call>"));
}

TEST(CallGrammar, ReasoningPrecedesConstrainedContent) {
  const std::string call = "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>";
  const Grammar open =
      *chat_of("hermes", "<think>\n").open(turn_with(tools(false), ToolChoice::kRequired)).grammar;
  EXPECT_TRUE(allows(open, "Which < time?\n</think>\n\n" + call));
  EXPECT_FALSE(allows(open, call));
  EXPECT_FALSE(allows(open, "I think.\n</think>\n\nHello."));

  ChatTurn turn = turn_with("", ToolChoice::kAuto);
  turn.content_grammar = Grammar::literal("{\"a\": 1}");
  const Grammar content = *chat_of("hermes", "<think>\n").open(turn).grammar;
  EXPECT_TRUE(allows(content, "Hm.\n</think>\n\n{\"a\": 1}"));
  EXPECT_FALSE(allows(content, "Hm.\n</think>\n\n{\"a\": 2}"));
  const Grammar harmony = *chat_of("harmony").open(turn).grammar;
  EXPECT_TRUE(allows(
      harmony,
      "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>{\"a\": 1}"));
  EXPECT_TRUE(allows(harmony, "<|channel|>final<|message|>{\"a\": 1}"));
  EXPECT_FALSE(allows(harmony, "{\"a\": 1}"));
  const Grammar plain = *chat_of("gemma").open(turn).grammar;
  EXPECT_TRUE(allows(plain, "{\"a\": 1}"));
  EXPECT_FALSE(allows(plain, "Well: {\"a\": 1}"));
}

std::string tool_of(const std::string& parameters, bool strict) {
  return R"([{"type": "function", "function": {"name": "other"}}, {"type": "function", "function": {"name": "f", "strict": )" +
         std::string(strict ? "true" : "false") + R"(, "parameters": )" + parameters + "}}]";
}

TEST(CallGrammar, UnenforceableSchemasAreFreeUnlessStrict) {
  const std::string unique =
      R"({"type": "object", "properties": {"t": {"type": "array", "items": {"type": "integer"}, "uniqueItems": true}}})";
  const std::string unknown = R"({"type": "object", "properties": {"t": {"type": "nothing"}}})";
  const std::string large =
      R"({"type": "object", "properties": {"t": {"type": "string", "pattern": "^(a|b)*a(a|b){40}$"}}})";
  for (const std::string& parameters : {unique, unknown}) {
    const ChatOpening free =
        chat_of("hermes").open(turn_with(tool_of(parameters, false), ToolChoice::kRequired));
    ASSERT_EQ(free.warnings.size(), 1u) << parameters;
    EXPECT_NE(free.warnings[0].find("\"f\": #/properties/t"), std::string::npos) << free.warnings[0];
    EXPECT_TRUE(allows(*free.grammar,
                       "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"t\": [1, 1]}}\n</tool_call>"));
    EXPECT_FALSE(
        allows(*free.grammar, "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"u\": 1}}\n</tool_call>"));
    for (const ToolChoice choice : {ToolChoice::kRequired, ToolChoice::kAuto}) {
      try {
        chat_of("hermes").open(turn_with(tool_of(parameters, true), choice));
        FAIL() << "no error";
      } catch (const ToolSchemaError& error) {
        EXPECT_EQ(error.tool, 1u);
        EXPECT_NE(std::string(error.what()).find("\"f\""), std::string::npos) << error.what();
        EXPECT_NE(std::string(error.what()).find("#/properties/t"), std::string::npos) << error.what();
      }
    }
  }
  // A schema that is too much to compile can be left free as a whole.
  ChatTurn turn = turn_with(tool_of(large, false), ToolChoice::kRequired);
  EXPECT_THROW(allows(*chat_of("hermes").open(turn).grammar, ""), Error);
  turn.hold_arguments = false;
  EXPECT_TRUE(allows(*chat_of("hermes").open(turn).grammar,
                     "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"t\": \"x\"}}\n</tool_call>"));
}

/// All that the format writes of a call of f with the parameter p.
std::string parameter_call(const std::string& value) {
  return "<tool_call>\n<function=f>\n<parameter=p>\n" + value + "\n</parameter>\n</function>\n</tool_call>";
}

TEST(CallGrammar, TextIsEnforcedWithoutQuotesAndReadBackAsText) {
  struct Case {
    std::string schema, good, json, bad;
  };
  const Case cases[] = {
      {R"({"type": ["string", "null"]})", "1", R"("1")", "a\n</parameter>\nb"},
      {R"({"anyOf": [{"type": "string"}, {"type": "null"}]})", "null", "null", "a\n</parameter>\nb"},
      {R"({"$ref": "#/$defs/word"})", "true", R"("true")", "false"},
      {R"({"oneOf": [{"const": "1"}, {"const": "2"}]})", "1", R"("1")", "3"},
      {R"({"type": "string", "pattern": "^[0-9]+$"})", "12", R"("12")", "x"},
      {R"({"type": "string", "maxLength": 3})", "{}", R"("{}")", "abcd"},
      {R"({"anyOf": [{"type": "string"}, {"type": "integer"}]})", "\"1\"", R"("1")", "abc"},
      {R"({"type": "integer"})", "1", "1", "abc"},
  };
  for (const Case& c : cases) {
    ChatTurn turn =
        turn_with(tool_of(R"({"type": "object", "properties": {"p": )" + c.schema +
                              R"(}, "required": ["p"], "$defs": {"word": {"enum": ["true", "no"]}}})",
                          true),
                  ToolChoice::kNamed);
    turn.tool_name = "f";
    const ChatOpening opening = chat_of("qwen3-coder").open(turn);
    EXPECT_TRUE(allows(*opening.grammar, parameter_call(c.good))) << c.schema;
    EXPECT_FALSE(allows(*opening.grammar, parameter_call(c.bad))) << c.schema;
    ResponseReader reader = opening.reader;
    EventLog log;
    log.add(reader.push(parameter_call(c.good)));
    log.add(reader.finish());
    ASSERT_EQ(log.all().size(), 1u) << log.rows();
    EXPECT_EQ(log.all()[0].text, "{\"p\": " + c.json + "}") << c.schema;
  }
}

/// A function f of n parameters p0, p1 ... of one schema.
std::string tool_with_parameters(int n, const std::string& schema) {
  std::string parameters = R"({"type": "object", "properties": {)";
  for (int i = 0; i < n; ++i) parameters += (i > 0 ? ", \"p" : "\"p") + std::to_string(i) + "\": " + schema;
  return tool_of(parameters + "}}", false);
}

TEST(CallGrammar, GrammarsGrowAsTheListOfParameters) {
  for (const char* format : {"lfm2", "olmo3", "functiongemma", "gemma4", "qwen3-coder"}) {
    for (const bool hold : {true, false}) {
      const auto bytes = [&](int n) {
        ChatTurn turn = turn_with(tool_with_parameters(n, "{}"), ToolChoice::kRequired);
        turn.hold_arguments = hold;
        return GrammarCompiler(tokenizer()).compile(*chat_of(format).open(turn).grammar)->bytes();
      };
      const std::size_t few = bytes(10);
      EXPECT_LE(bytes(80) - few, (bytes(40) - few) * 5 / 2) << format << ", held: " << hold;
    }
  }
}

TEST(CallGrammar, OptionalParametersKeepTheirOrderAndCommas) {
  ChatTurn turn = turn_with(
      tool_of(R"({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"},
                  "c": {"type": "integer"}}})",
              false),
      ToolChoice::kNamed);
  turn.tool_name = "f";
  const Grammar grammar = *chat_of("lfm2").open(turn).grammar;
  const auto call = [](const std::string& list) {
    return "<|tool_call_start|>[f(" + list + ")]<|tool_call_end|>";
  };
  for (const char* list : {"", "a=1", "b=1", "c=1", "a=1, b=2", "a=1, c=2", "b=1, c=2", "a=1, b=2, c=3"})
    EXPECT_TRUE(allows(grammar, call(list))) << list;
  for (const char* list : {", a=1", "a=1, ", "b=1, a=2", "a=1, a=2", "a=1b=2"})
    EXPECT_FALSE(allows(grammar, call(list))) << list;
}

TEST(CallGrammar, FunctionsBeyondTheLimitsAreOpenUnlessStrict) {
  // Each parameter writes the same chain of schemas.
  std::string parameters = R"({"type": "object", "$defs": {"d300": {}, "d)";
  for (int i = 0; i < 300; ++i)
    parameters += std::to_string(i) + R"(": {"properties": {"next": {"$ref": "#/$defs/d)" +
                  std::to_string(i + 1) + (i < 299 ? R"("}}}, "d)" : R"("}}}}, "properties": {"p)");
  for (int i = 0; i < 1000; ++i)
    parameters += std::to_string(i) + (i < 999 ? R"(": {"$ref": "#/$defs/d0"}, "p)" : R"(": {}}})");
  const ChatOpening opening =
      chat_of("lfm2").open(turn_with(tool_of(parameters, false), ToolChoice::kRequired));
  ASSERT_EQ(opening.warnings.size(), 1u);
  EXPECT_NE(opening.warnings[0].find("steps"), std::string::npos) << opening.warnings[0];
  EXPECT_TRUE(allows(*opening.grammar, "<|tool_call_start|>[f(p1=\"x\")]<|tool_call_end|>"));
  EXPECT_THROW(chat_of("lfm2").open(turn_with(tool_of(parameters, true), ToolChoice::kRequired)),
               ToolSchemaError);
}

TEST(CallGrammar, OpenFunctionsAreBounded) {
  std::string all = "[";
  for (int i = 0; i < 20'000; ++i)
    all += std::string(i > 0 ? "," : "") + R"({"type": "function", "function": {"name": "f)" +
           std::to_string(i) + "\"}}";
  for (const char* format : {"lfm2", "hermes", "qwen3-coder", "harmony"})
    EXPECT_THROW(chat_of(format).open(turn_with(all + "]", ToolChoice::kRequired)), Error) << format;
}

// tests/data/chat/client_tools.json: tools as clients make them of Python's types, and schemas of public
// reports.
TEST(CallGrammar, AcceptsToolsOfCommonClients) {
  for (const nlohmann::ordered_json& row :
       nlohmann::ordered_json::parse(read_test_file("chat/client_tools.json"))) {
    for (const char* format : {"hermes", "qwen3-coder", "llama3", "lfm2"}) {
      ChatTurn turn = turn_with(nlohmann::ordered_json::array({row["tool"]}).dump(), ToolChoice::kRequired);
      const ChatOpening opening = chat_of(format).open(turn);
      const auto compiled = GrammarCompiler(tokenizer()).compile(*opening.grammar);
      if (std::string_view(format) != "hermes") continue;
      std::vector<std::string> left_free;
      for (const std::string& warning : opening.warnings) {
        const std::size_t at = warning.find('#');
        left_free.push_back(warning.substr(at, warning.find(": ", at) - at));
      }
      std::vector<std::string> expected = row["left_free"];
      std::sort(left_free.begin(), left_free.end());
      std::sort(expected.begin(), expected.end());
      EXPECT_EQ(left_free, expected) << row["from"];
      const std::string call = "<tool_call>\n{\"name\": " + row["tool"]["function"]["name"].dump() +
                               ", \"arguments\": " + row["arguments"].get<std::string>() + "}\n</tool_call>";
      EXPECT_TRUE(compiled->allows_text(call)) << row["from"] << call;
    }
  }
}

}  // namespace
}  // namespace weft
