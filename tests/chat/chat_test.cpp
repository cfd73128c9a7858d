// Conversations to prompts: what weft makes of a request against what Jinja2 makes of messages that were made
// ready by hand (scripts/make_chat_vectors.py).
#include "weft/chat.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "chat/abilities.h"
#include "chat/chat_testing.h"
#include "chat/derived_format.h"
#include "weft/error.h"

namespace weft {
namespace {

using nlohmann::ordered_json;
using ::testing::HasSubstr;

ChatTemplate test_template(const std::string& name) {
  return ChatTemplate(read_test_file("chat/templates/" + name + ".jinja"), "<s>", "</s>");
}

ChatTurn turn_of(const std::string& messages, bool tools = false) {
  ChatTurn turn;
  turn.messages_json = messages;
  if (tools) turn.tools_json = test_tools();
  return turn;
}

std::string prompt_of(const Chat& chat, const ChatTurn& turn) { return join(chat.open(turn).prompt); }

std::string error_of(const Chat& chat, const ChatTurn& turn) {
  try {
    chat.open(turn);
    return "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.what();
  }
}

nlohmann::json answer(const Chat& chat, const ChatTurn& turn, const std::string& text) {
  ResponseReader reader = chat.open(turn).reader;
  EventLog log;
  log.add(reader.push(text));
  log.add(reader.finish());
  return log.rows();
}

TEST(Chat, MakesThePromptsThatJinjaMakes) {
  for (const ordered_json& row : ordered_json::parse(read_test_file("chat/prompts.json"))) {
    const Chat chat(test_template(row["template"]));
    ChatTurn turn = turn_of(row["messages"].dump(), row["tools"]);
    turn.reasoning_effort = row.value("reasoning_effort", "");
    EXPECT_EQ(prompt_of(chat, turn), row["prompt"].get<std::string>()) << row["template"];
  }
}

TEST(Chat, FindsFormatsAndAbilities) {
  struct Expected {
    const char* name;
    const char* format;
    bool tools, reasoning;
  };
  for (const Expected& expected : {Expected{"tags", "hermes", true, true},
                                   {"alternating", "gemma", false, false},
                                   {"nine", "mistral-v3", true, false},
                                   {"strings", "deepseek-r1", false, true},
                                   {"one_call", "llama3", true, false},
                                   {"unknown_tags", "derived", true, false}}) {
    const Chat chat(test_template(expected.name));
    EXPECT_EQ(chat.format(), expected.format) << expected.name;
    EXPECT_EQ(chat.has_tools(), expected.tools) << expected.name;
    EXPECT_EQ(chat.has_reasoning(), expected.reasoning) << expected.name;
  }
}

/// A template's rendering of an earlier response is read as that response.
TEST(Chat, ReadsWhatItsTemplateWrites) {
  for (const char* name : {"tags", "nine", "strings", "one_call", "unknown_tags"}) {
    const ChatTemplate source = test_template(name);
    const auto written = chat::write_probe_calls(source, chat::find_abilities(source));
    ASSERT_TRUE(written) << name;
    const std::string format(Chat(source).format());
    bool known = false;
    for (const chat::Format& each : chat::known_formats()) {
      if (each.name != format) continue;
      known = true;
      EXPECT_TRUE(chat::reads_back(each, *written)) << name << ": " << written->one << written->two;
    }
    EXPECT_EQ(known, format != "derived");
    if (!known) {
      EXPECT_TRUE(chat::derive_format(*written)) << name;
    }
  }
}

TEST(Chat, LearnsAFormatFromItsTemplate) {
  const Chat chat(test_template("unknown_tags"));
  const ChatTurn turn = turn_of(R"([{"role": "user", "content": "How is the weather?"}])", true);
  EXPECT_EQ(
      answer(chat, turn,
             "I look.<all_calls:x>\n<one:x>get_weather<with:x>\n<key:x>city</key:x><value:x>Rome</value:x>\n"
             "<key:x>n</key:x><value:x>3</value:x>\n</one:x>\n<one:x>now<with:x>\n</one:x>\n</all_calls:x>"),
      nlohmann::json::parse(R"x([["content", "I look."],
              ["call", "get_weather", "", "{\"city\": \"Rome\", \"n\": 3}"], ["call", "now", "", "{}"]])x"));
}

TEST(Chat, ReasoningThatThePromptOpensIsRead) {
  const Chat chat(test_template("strings"));
  const ChatTurn turn = turn_of(R"([{"role": "user", "content": "Hi"}])");
  EXPECT_EQ(answer(chat, turn, "A greeting.\n</think>\n\nHello!"),
            nlohmann::json::parse(R"([["reasoning", "A greeting."], ["content", "Hello!"]])"));
}

TEST(Chat, OmitsToolsThatMayNotBeCalled) {
  const Chat chat(test_template("tags"));
  ChatTurn turn = turn_of(R"([{"role": "user", "content": "Hi"}])", true);
  EXPECT_THAT(prompt_of(chat, turn), HasSubstr("get_weather"));
  turn.tool_choice = ToolChoice::kNone;
  EXPECT_EQ(prompt_of(chat, turn), prompt_of(chat, turn_of(turn.messages_json)));
  const std::string call = R"(<tool_call>{"name": "now", "arguments": {}}</tool_call>)";
  EXPECT_EQ(answer(chat, turn, call), nlohmann::json::array({{"content", call}}));
}

TEST(Chat, ResultsFollowTheirCalls) {
  const Chat chat(ChatTemplate(
      "{% for m in messages %}{% if m.tool_calls %}{% if m.tool_calls | length > 1 %}"
      "{{ raise_exception('one call at a time') }}{% endif %}"
      "[{{ m.tool_calls[0].function.name }}{{ m.tool_calls[0].function.arguments | tojson }}]"
      "{% elif m.role == 'tool' %}({{ m.content }}){% else %}{{ m.content }}{% endif %}{% endfor %}"));
  const auto prompt = [&](const std::string& results) {
    return prompt_of(chat, turn_of(R"([{"role": "user", "content": "?"}, {"role": "assistant", "tool_calls": [
      {"id": "a", "type": "function", "function": {"name": "first", "arguments": "{}"}},
      {"id": "b", "type": "function", "function": {"name": "second", "arguments": "{}"}}]}, )" +
                                   results + "]"));
  };
  const auto result = [](const std::string& id, const std::string& content) {
    return R"({"role": "tool", )" + (id.empty() ? "" : R"("tool_call_id": ")" + id + R"(", )") +
           R"("content": ")" + content + R"("})";
  };
  const std::string expected = "?[first{}](one)[second{}](two)";
  EXPECT_EQ(prompt(result("a", "one") + "," + result("b", "two")), expected);
  EXPECT_EQ(prompt(result("b", "two") + "," + result("a", "one")), expected);
  EXPECT_EQ(prompt(result("", "one") + "," + result("", "two")), expected);
  EXPECT_EQ(prompt(result("x", "one") + "," + result("y", "two")), expected);
  EXPECT_EQ(prompt(result("b", "two")), "?[first{}][second{}](two)");
}

TEST(Chat, ContinuesTheLastMessage) {
  for (const char* name : {"tags", "alternating", "nine", "strings", "one_call", "unknown_tags", "parts"}) {
    const Chat chat(test_template(name));
    ChatTurn turn =
        turn_of(R"([{"role": "user", "content": "Count."}, {"role": "assistant", "content": "one, two, "}])");
    turn.add_generation_prompt = false;
    EXPECT_TRUE(prompt_of(chat, turn).ends_with("one, two, ")) << name << ": " << prompt_of(chat, turn);
  }
}

/// What models wrote comes back in conversations, which clients cannot mend.
TEST(Chat, ArgumentsOfEarlierCallsAreObjects) {
  const Chat chat(
      ChatTemplate("{% for m in messages %}{% for c in m.tool_calls %}{{ c.function.name }}{{ "
                   "c.function.arguments | tojson }}"
                   "{% endfor %}{% if not m.tool_calls %}{{ m.content }}{% endif %}{% endfor %}"));
  const auto written = [&](const ordered_json& arguments) {
    const ordered_json call = {{"id", "a"}, {"function", {{"name", "f"}, {"arguments", arguments}}}};
    const ordered_json messages = {{{"role", "user"}, {"content", "?"}},
                                   {{"role", "assistant"}, {"tool_calls", ordered_json::array({call})}}};
    const std::string prompt = prompt_of(chat, turn_of(messages.dump()));
    return ordered_json::parse(prompt.substr(2));
  };
  const auto json = [](const char* text) { return ordered_json::parse(text); };
  for (const auto& [arguments, expected] : std::vector<std::pair<ordered_json, ordered_json>>{
           {"", json("{}")},
           {"  ", json("{}")},
           {nullptr, json("{}")},
           {"null", json("{}")},
           {"[]", json("{}")},
           {ordered_json::array(), json("{}")},
           {R"({"a": 1})", json(R"({"a": 1})")},
           {json(R"({"a": 1})"), json(R"({"a": 1})")},
           {R"("{\"a\": 1}")", json(R"({"a": 1})")},
           {R"({"a": 1}{"b": 2})", json(R"({"a": 1, "b": 2})")},
           {R"({}{"city": "Rome"})", json(R"({"city": "Rome"})")},
           {R"({"a": 1}</tool_call>)", json(R"({"a": 1})")},
           {"{\"a\": \"one\ntwo\"}", json(R"({"a": "one\ntwo"})")},
           {R"({"text": "value 123}}</tool_call>)", json(R"({"text": "value 123}}</tool_call>"})")},
           {"{", json("{}")},
           {R"({"a)", json(R"({"a": null})")},
           {R"({"a")", json(R"({"a": null})")},
           {R"({"a":)", json(R"({"a": null})")},
           {R"({"a": tr)", json(R"({"a": true})")},
           {R"({"a": -)", json(R"({"a": 0})")},
           {R"({"a": 1.)", json(R"({"a": 1.0})")},
           {R"({"a": 1, )", json(R"({"a": 1})")},
           {R"({"a": [1, )", json(R"({"a": [1]})")},
           {R"({"a": [)", json(R"({"a": []})")},
           {R"({"a": {"b": "x\)", json(R"({"a": {"b": "x\\"}})")},
           {R"({"a": "x\u00)", json(R"({"a": "x"})")},
           {R"({"a": "\ud83d)", json(R"({"a": ""})")},
           {R"("x")", json(R"({"input": "\"x\""})")},
           {"ls -l", json(R"({"input": "ls -l"})")},
           {7, json(R"({"input": "7"})")},
           {R"({"path": "a", "text": "He said "hi" and left"})",
            json(R"({"input": "{\"path\": \"a\", \"text\": \"He said \"hi\" and left\"}"})")},
           {"{{", json(R"({"input": "{{"})")},
       }) {
    EXPECT_EQ(written(arguments), expected) << arguments;
  }
}

TEST(Chat, ManyObjectsInARowTakeBoundedWork) {
  const Chat chat(ChatTemplate("{{ messages[0].content }}"));
  std::string rows;
  for (int i = 0; i < 60'000; ++i) rows += "{\"k" + std::to_string(i) + "\":1}";
  const ordered_json call = {{"function", {{"name", "f"}, {"arguments", rows}}}};
  const ordered_json messages = {{{"role", "user"}, {"content", "?"}},
                                 {{"role", "assistant"}, {"tool_calls", ordered_json::array({call})}}};
  EXPECT_EQ(prompt_of(chat, turn_of(messages.dump())), "?");
}

TEST(Chat, OlderAndOtherFormsOfCallsAreRead) {
  const Chat chat(ChatTemplate(
      "{% for m in messages %}{% for c in m.tool_calls %}[{{ c.function.name }}{{ "
      "c.function.arguments | tojson }}]"
      "{% endfor %}{% if m.role == 'tool' %}({{ m.content }}){% elif m.role == 'user' %}{{ m.content }}"
      "{% endif %}{% endfor %}"));
  const auto call_of = [&](const std::string& members) {
    return prompt_of(chat,
                     turn_of(R"([{"role": "user", "content": "?"}, {"role": "assistant", "content": null, )" +
                             members + R"(}, {"role": "function", "name": "f", "content": "one"},
                                   {"role": "tool", "content": null}])"));
  };
  EXPECT_EQ(call_of(R"("function_call": {"name": "f", "arguments": "{}"})"), "?[f{}](one)()");
  EXPECT_EQ(call_of(R"("tool_calls": [{"type": "custom", "custom": {"name": "patch", "input": "*** x"}}])"),
            R"(?[patch{"input": "*** x"}](one)())");
  EXPECT_EQ(call_of(R"("tool_calls": [{"function": {"name": "ru n!", "arguments": {}}}])"),
            "?[ru_n_{}](one)()");
  EXPECT_EQ(call_of(R"("tool_calls": [{"function": {"arguments": {}}}])"), "?[unknown{}](one)()");
}

TEST(Chat, RolesOfOtherNamesAreKnownOnes) {
  const Chat chat(ChatTemplate("{% for m in messages %}{{ m.role }}:{{ m.content }},{% endfor %}"));
  const auto role_of = [&](const std::string& role) {
    return prompt_of(
        chat, turn_of(R"([{"role": "user", "content": "a"}, {"role": ")" + role + R"(", "content": "b"}])"));
  };
  EXPECT_EQ(role_of("developer"), "user:a,system:b,");
  EXPECT_EQ(role_of("model"), "user:a,assistant:b,");
  EXPECT_EQ(role_of("function"), "user:a,tool:b,");
  EXPECT_EQ(role_of("observation"), "user:a,tool:b,");
  EXPECT_EQ(role_of("human"), "user:a,user:b,");
  EXPECT_EQ(role_of("king"), "user:a,user:b,");
}

TEST(Chat, UnknownRolesGiveOneWarningEach) {
  const Chat chat(ChatTemplate("{% for m in messages %}{{ m.role }}:{{ m.content }},{% endfor %}"));
  const auto warnings_of = [&](const std::string& first, const std::string& second) {
    return chat
        .open(turn_of(R"([{"role": ")" + first + R"(", "content": "a"}, {"role": ")" + second +
                      R"(", "content": "b"}, {"role": "user", "content": "c"}])"))
        .warnings;
  };
  EXPECT_TRUE(warnings_of("human", "developer").empty());
  for (const auto& [second, n] : {std::pair("king", 1u), std::pair("queen", 2u)}) {
    const std::vector<std::string> warnings = warnings_of("king", second);
    ASSERT_EQ(warnings.size(), n);
    EXPECT_TRUE(warnings.front().starts_with("the role \"king\" is unknown"));
  }
}

TEST(Chat, PartsWithThoughtsAreReasoning) {
  const Chat chat(test_template("tags"));
  const std::string user = R"({"role": "user", "content": "?"})";
  const auto prompt = [&](const std::string& answer) {
    return prompt_of(chat, turn_of("[" + user + "," + answer + "]"));
  };
  const std::string expected = prompt(R"({"role": "assistant", "content": "b", "reasoning_content": "a"})");
  EXPECT_EQ(prompt(R"({"role": "assistant", "content": [{"type": "thinking", "thinking":
    [{"type": "text", "text": "a"}]}, {"type": "text", "text": "b"}]})"),
            expected);
  EXPECT_EQ(
      prompt(
          R"({"role": "assistant", "content": [{"type": "reasoning", "text": "a"}, {"type": "text", "text": "b"}]})"),
      expected);
}

/// Templates like Mistral's count neither calls nor results as a turn.
TEST(Chat, RolesTakeTurnsAroundCalls) {
  const Chat chat(ChatTemplate(read_test_file("templates/families/ministral3.jinja"), "<s>", "</s>"));
  const std::string user = R"({"role": "user", "content": "u"})",
                    text = R"({"role": "assistant", "content": "a"})",
                    result = R"({"role": "tool", "tool_call_id": "abcdefghi", "content": "r"})",
                    call =
                        R"({"role": "assistant", "tool_calls": [{"id": "abcdefghi", "function": {"name": "f",
                      "arguments": "{}"}}]})";
  const auto prompt = [&](const std::vector<std::string>& parts) {
    std::string all;
    for (const std::string& part : parts) all += (all.empty() ? "" : ",") + part;
    return prompt_of(chat, turn_of("[" + all + "]"));
  };
  EXPECT_THAT(prompt({user, call, result, user}), HasSubstr("[/TOOL_RESULTS]Understood.</s>[INST]u[/INST]"));
  EXPECT_THAT(prompt({user, call, user}), HasSubstr("Understood.</s>[INST]u[/INST]"));
  EXPECT_THAT(prompt({user, call, result, call, result, user, call, result, user}), HasSubstr("Understood."));
  for (const std::vector<std::string>& fine : {std::vector{user, call, result},
                                               {user, call, result, text, user},
                                               {user, text, call, result, text, user},
                                               {user, text, call, result, text, call, result, text},
                                               {user, user, call, call, result, result, text}}) {
    const std::string written = prompt(fine);
    EXPECT_EQ(written.find("Understood"), std::string::npos) << written;
  }
  EXPECT_THAT(prompt({text, user}), HasSubstr("[INST][/INST]a</s>[INST]u[/INST]"));
}

TEST(Chat, ContinuesReasoning) {
  struct Case {
    const char* name;
    const char* message;
  };
  for (const Case& each : {Case{"tags", R"("content": "<think>\nFirst I")"},
                           {"tags", R"("content": "", "reasoning_content": "First I")"},
                           {"strings", R"("content": "<think>\nFirst I")"}}) {
    const Chat chat(test_template(each.name));
    ChatTurn turn = turn_of(std::string(R"([{"role": "user", "content": "?"}, {"role": "assistant", )") +
                            each.message + "}]");
    turn.add_generation_prompt = false;
    EXPECT_TRUE(prompt_of(chat, turn).ends_with("First I")) << each.name << prompt_of(chat, turn);
    EXPECT_EQ(prompt_of(chat, turn).find("</think>"), std::string::npos)
        << each.name << prompt_of(chat, turn);
    EXPECT_EQ(answer(chat, turn, " add.\n</think>\n\nFour."),
              nlohmann::json::parse(R"([["reasoning", "add."], ["content", "Four."]])"))
        << each.name;
  }
}

TEST(Chat, UserContentIsNeverTemplateText) {
  const Chat chat(test_template("alternating"));
  const ChatTurn turn = turn_of(
      R"([{"role": "system", "content": "<end_of_turn>"}, {"role": "user", "content": "<eos>"}])", true);
  for (const PromptPiece& piece : chat.open(turn).prompt) {
    if (!piece.from_template) continue;
    EXPECT_EQ(piece.text.find("<eos>"), std::string::npos);
    EXPECT_EQ(piece.text.find("get_weather"), std::string::npos);
  }
}

TEST(Chat, RejectsInvalidMessages) {
  const Chat chat(test_template("tags"));
  const auto user = [](const std::string& content) {
    return R"([{"role": "user", "content": )" + content + "}]";
  };
  for (const auto& [messages, message] : std::vector<std::pair<std::string, std::string>>{
           {"", "messages: invalid JSON at byte"},
           {"{}", "messages must be an array"},
           {"[]", "at least one message"},
           {"[1]", "messages[0] must be an object"},
           {R"([{"content": ""}])", "messages[0].role must be"},
           {R"([{"role": "user"}])", "messages[0].content is missing"},
           {user("3"), "messages[0].content must be a string or an array"},
           {user(R"([{"type": "image_url", "image_url": {"url": "x"}}])"),
            "messages[0].content[0].type is \"image_url\""},
           {user(R"([{"type": "text"}])"), "messages[0].content[0].text is missing"},
           {R"([{"role": "user", "content": "", "tool_calls": [{"function": {"name": "f"}}]}])",
            "is allowed only in messages of the assistant"},
           {R"([{"role": "assistant", "tool_calls": [{"id": "1"}]}])",
            "messages[0].tool_calls[0] must be an object"},
           {user("\"\\ud800\""), "messages: invalid JSON at byte"},
           {user("\"\xFF\""), "messages: invalid JSON at byte"},
           {user(std::string(200, '[') + std::string(200, ']')), "nested more than 100 levels"},
           {user(std::string(100'000, '[')), "nested more than 100 levels"}}) {
    EXPECT_THAT(error_of(chat, turn_of(messages)), HasSubstr(message)) << messages.substr(0, 100);
  }
  const std::string hello = user("\"Hello\"");
  const auto with_tools = [&](const std::string& tools) {
    ChatTurn turn = turn_of(hello);
    turn.tools_json = tools;
    return error_of(chat, turn);
  };
  EXPECT_THAT(with_tools("{}"), HasSubstr("tools must be an array"));
  EXPECT_THAT(with_tools("[{}]"), HasSubstr("tools[0].type must be \"function\""));
  EXPECT_THAT(with_tools(R"([{"type": "web_search"}])"), HasSubstr("tools[0].type"));
  EXPECT_THAT(with_tools(R"([{"type": "function", "function": {"name": "a b"}}])"), HasSubstr("letters"));
  EXPECT_THAT(with_tools(R"([{"type": "function", "function": {"name": "f", "parameters": 1}}])"),
              HasSubstr("parameters"));
  EXPECT_THAT(
      with_tools(
          R"([{"type": "function", "function": {"name": "f"}}, {"type": "function", "function": {"name": "f"}}])"),
      HasSubstr("two functions named \"f\""));
  ChatTurn turn = turn_of(hello);
  turn.tool_choice = ToolChoice::kRequired;
  EXPECT_THAT(error_of(chat, turn), HasSubstr("there are no tools"));
  turn = turn_of(hello, true);
  turn.tool_choice = ToolChoice::kNamed;
  turn.tool_name = "missing";
  EXPECT_THAT(error_of(chat, turn), HasSubstr("\"missing\""));
  turn = turn_of(hello);
  turn.reasoning_effort = "extreme";
  EXPECT_THAT(error_of(chat, turn), HasSubstr("reasoning_effort"));
  turn.reasoning_effort = "";
  turn.variables_json = "[]";
  EXPECT_THAT(error_of(chat, turn), HasSubstr("object"));
  EXPECT_THAT(
      error_of(
          Chat(test_template("nine")),
          turn_of(
              R"([{"role": "assistant", "content": "x", "tool_calls": [{"id": "1", "function": {"name": "f"}}]},
                       {"role": "tool", "content": [{"type": "input_audio"}]}])")),
      HasSubstr("input_audio"));
  EXPECT_THROW(Chat(test_template("tags"), "no such format"), Error);
}

TEST(Chat, BoundsExpensiveInputs) {
  const Chat chat(test_template("tags"));
  std::string object = "{";
  for (int i = 0; i < 100'000; ++i) object += "\"k" + std::to_string(i) + "\": 1, ";
  EXPECT_THAT(error_of(chat, turn_of("[" + object + "\"role\": \"user\", \"content\": \"\"}]")),
              HasSubstr("too many members"));
  std::string calls;
  for (int i = 0; i < 2000; ++i) calls += R"({"id": "1", "function": {"name": "f"}}, )";
  EXPECT_THAT(error_of(chat, turn_of(R"([{"role": "assistant", "tool_calls": [)" + calls +
                                     R"({"function": {"name": "f"}}]}])")),
              HasSubstr("at most 1024 calls"));
  ordered_json properties = ordered_json::object();
  for (int i = 0; i < 1000; ++i) properties["p" + std::to_string(i)] = {{"$ref", "#/$defs/a"}};
  const ordered_json schema = {
      {"type", "object"},
      {"properties", properties},
      {"$defs", {{"a", {{"type", "string"}, {"description", std::string(20'000, 'x')}}}}}};
  ordered_json tool = {{"type", "function"}, {"function", {{"name", "f"}, {"parameters", schema}}}};
  ChatTurn turn = turn_of(R"([{"role": "user", "content": "Hi"}])");
  turn.tools_json = "[" + tool.dump() + "]";
  EXPECT_EQ(error_of(chat, turn), "no error");  // Definitions are shared.
}

/// A template that raises an error, loops or writes nothing is a chat all the same.
TEST(Chat, TemplatesThatCannotBeProbedAreTaken) {
  for (const char* source :
       {"{{ raise_exception('no') }}", "",
        "{% for i in range(100000) %}{% for k in range(100000) %}x{% endfor %}{% endfor %}",
        "{{ messages[0]['content']['x']['y'] }}"}) {
    const Chat chat{ChatTemplate(source)};
    EXPECT_EQ(chat.format(), "generic");
    EXPECT_FALSE(chat.has_tools());
  }
}

TEST(Chat, ReasonsUnlessToldOtherwise) {
  // As DeepSeek V3.1, Gemma 4 and Command R7B write it: off where the variable is not there.
  const Chat chat(
      ChatTemplate("{{ messages[0].content }}{{ '<think>' if enable_thinking else '</think>' }}"));
  ChatTurn turn = turn_of(R"([{"role": "user", "content": "x"}])");
  EXPECT_EQ(prompt_of(chat, turn), "x</think>") << "the template decides";
  turn.reasoning = true;
  EXPECT_EQ(prompt_of(chat, turn), "x<think>");
  turn.default_variables_json = R"({"enable_thinking": false})";
  EXPECT_EQ(prompt_of(chat, turn), "x</think>") << "variables of the server before its switch";
  turn.reasoning_effort = "high";
  EXPECT_EQ(prompt_of(chat, turn), "x<think>") << "the request's effort before the server's variables";
  turn.reasoning_effort = "none";
  EXPECT_EQ(prompt_of(chat, turn), "x</think>");
  turn.variables_json = R"({"enable_thinking": true})";
  EXPECT_EQ(prompt_of(chat, turn), "x<think>") << "the request's variables before all";
  turn = turn_of(R"([{"role": "user", "content": "x"}])");
  turn.reasoning = false;
  EXPECT_EQ(prompt_of(chat, turn), "x</think>");
}

TEST(Chat, ASwitchReplacesDefaultsOfItsOtherNames) {
  const Chat chat(
      ChatTemplate("{{ messages[0].content }}"
                   "{{ '<think>' if thinking | default(enable_thinking | default(false)) }}"));
  ChatTurn turn = turn_of(R"([{"role": "user", "content": "x"}])");
  turn.default_variables_json = R"({"enable_thinking": true, "thinking": true})";
  EXPECT_EQ(prompt_of(chat, turn), "x<think>");
  turn.reasoning_effort = "none";
  EXPECT_EQ(prompt_of(chat, turn), "x");
  turn.reasoning_effort = "";
  turn.variables_json = R"({"enable_thinking": false})";
  EXPECT_EQ(prompt_of(chat, turn), "x");
}

TEST(Chat, ReportsOnlySwitchesOfTheTemplate) {
  const Chat chat(ChatTemplate("{{ messages[0].content }}{{ enable_thinking is defined }}"));
  ChatTurn turn = turn_of(R"([{"role": "user", "content": "x"}])");
  turn.reasoning = true;
  EXPECT_EQ(prompt_of(chat, turn), "xFalse");
}

TEST(Chat, DefaultVariablesMustBeAnObject) {
  const Chat chat(ChatTemplate("{{ messages[0].content }}"));
  ChatTurn turn = turn_of(R"([{"role": "user", "content": "x"}])");
  turn.default_variables_json = "[]";
  EXPECT_THAT(error_of(chat, turn), HasSubstr("must be a JSON object"));
}

TEST(Chat, GivesFirefunctionItsToolsAsText) {
  const Chat chat(
      ChatTemplate("{{ 'Functions: ' + functions + '\nIt is ' + datetime }}"
                   "{% for m in messages %}{{ '\n' + m.role + ': ' + m.content }}{% endfor %}"));
  ChatTurn turn = turn_of(R"([{"role": "user", "content": "x"}])");
  turn.variables_json = R"({"now": "2026-11-28"})";
  EXPECT_EQ(prompt_of(chat, turn), "Functions: \nIt is Nov 28 2026 00:00:00 GMT\nuser: x");
  turn.tools_json = test_tools();
  const std::string prompt = prompt_of(chat, turn);
  EXPECT_THAT(prompt, HasSubstr("[\n  {\n    \"type\": \"function\""));
  EXPECT_THAT(prompt, HasSubstr("get_weather"));
  EXPECT_TRUE(chat.has_tools());
}

TEST(Chat, NamesFamilies) {
  const std::vector<std::string> names = Chat::template_names();
  for (const char* name : {"chatml", "llama2", "llama3", "gemma", "mistral-v1", "phi3", "zephyr", "vicuna",
                           "deepseek", "command-r"})
    EXPECT_THAT(names, ::testing::Contains(name));
  for (const std::string& name : names) {
    const Chat chat(ChatTemplate(name, "<s>", "</s>"));
    EXPECT_THAT(prompt_of(chat, turn_of(R"([{"role": "user", "content": "Hi"}])")), HasSubstr("Hi")) << name;
  }
}

}  // namespace
}  // namespace weft
