#pragma once
// Generated messages and the events read from them.
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "weft/chat.h"

namespace weft {

inline std::string read_test_file(const std::string& name) {
  std::ifstream file(std::string(WEFT_TEST_DATA) + "/" + name, std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

/// get_weather(city, n), search(query, options, other) and now().
inline std::string test_tools() { return read_test_file("chat/tools.json"); }

struct Transcript {
  std::string format;
  std::string text;
  std::string prompt_end;
  bool tools = true;
  nlohmann::json events;
};

inline std::vector<Transcript> transcripts() {
  std::vector<Transcript> all;
  for (const nlohmann::json& row : nlohmann::json::parse(read_test_file("chat/transcripts.json"))) {
    all.push_back(
        {row["format"], row["text"], row.value("prompt_end", ""), row.value("tools", true), row["events"]});
  }
  return all;
}

inline ResponseReader reader_of(const Transcript& transcript) {
  const std::string source =
      "{{ messages[0].content }}{% if add_generation_prompt %}" + transcript.prompt_end + "{% endif %}";
  ChatTurn turn;
  turn.messages_json = R"([{"role": "user", "content": "How is the weather?"}])";
  if (transcript.tools) turn.tools_json = test_tools();
  return Chat(ChatTemplate(source), transcript.format).open(turn).reader;
}

/// Events with neighbours of one kind joined, as the transcripts write them.
class EventLog {
 public:
  struct Row {
    std::string kind;  ///< "content", "reasoning", "call" or, without an end, "unfinished"
    std::string name = {};
    std::string id = {};
    std::string text = {};
  };

  void add(const std::vector<ResponseEvent>& events) {
    for (const ResponseEvent& event : events) add(event);
  }
  const std::vector<Row>& all() const { return rows_; }
  nlohmann::json rows() const {
    nlohmann::json rows = nlohmann::json::array();
    for (const Row& row : rows_) {
      const bool call = row.kind == "call" || row.kind == "unfinished";
      rows.push_back(call ? nlohmann::json{row.kind, row.name, row.id, row.text}
                          : nlohmann::json{row.kind, row.text});
    }
    return rows;
  }
  /// The same for messages of any bytes.
  std::string text() const {
    std::string all;
    for (const Row& row : rows_) all += row.kind + "|" + row.name + "|" + row.id + "|" + row.text + "\n";
    return all;
  }

 private:
  void add(const ResponseEvent& event) {
    using Kind = ResponseEvent::Kind;
    switch (event.kind) {
      case Kind::kContent:
        return add_text("content", event.text);
      case Kind::kReasoning:
        return add_text("reasoning", event.text);
      case Kind::kToolCall:
        rows_.push_back({"unfinished", event.name, event.id});
        break;
      case Kind::kToolArguments:
        rows_.back().text += event.text;
        break;
      case Kind::kToolCallEnd:
        rows_.back().kind = "call";
        break;
    }
  }
  void add_text(const char* kind, const std::string& text) {
    if (rows_.empty() || rows_.back().kind != kind) rows_.push_back({kind});
    rows_.back().text += text;
  }
  std::vector<Row> rows_ = {};
};

}  // namespace weft
