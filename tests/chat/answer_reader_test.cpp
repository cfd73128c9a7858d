// What models write, read back: tests/data/chat/transcripts.json has answers as each format writes them.
#include <gtest/gtest.h>

#include "chat/chat_testing.h"

namespace weft {
namespace {

TEST(AnswerReader, ReadsWhatModelsWrite) {
  for (const Transcript& transcript : transcripts()) {
    AnswerReader reader = reader_of(transcript);
    EventLog log;
    log.add(reader.push(transcript.text));
    log.add(reader.finish());
    EXPECT_EQ(log.rows(), transcript.events) << transcript.format << ": " << transcript.text;
  }
}

TEST(AnswerReader, EveryFormatHasTranscripts) {
  const std::vector<Transcript> all = transcripts();
  for (const std::string& name : Chat::formats()) {
    EXPECT_TRUE(std::any_of(all.begin(), all.end(), [&](const Transcript& t) { return t.format == name; }))
        << name;
  }
}

TEST(AnswerReader, AnyCutGivesTheSame) {
  for (const Transcript& transcript : transcripts()) {
    const AnswerReader fresh = reader_of(transcript);
    for (std::size_t cut = 0; cut <= transcript.text.size(); ++cut) {
      AnswerReader reader = fresh;
      EventLog log;
      log.add(reader.push(transcript.text.substr(0, cut)));
      log.add(reader.push(transcript.text.substr(cut)));
      log.add(reader.finish());
      ASSERT_EQ(log.rows(), transcript.events)
          << transcript.format << " cut at " << cut << ": " << transcript.text;
    }
    for (std::size_t step : {1, 2, 3, 5}) {
      AnswerReader reader = fresh;
      EventLog log;
      for (std::size_t at = 0; at < transcript.text.size(); at += step) {
        log.add(reader.push(transcript.text.substr(at, step)));
      }
      log.add(reader.finish());
      ASSERT_EQ(log.rows(), transcript.events) << transcript.format << " in steps of " << step;
    }
  }
}

TEST(AnswerReader, CopiesGoOnAlone) {
  for (const Transcript& transcript : transcripts()) {
    const std::size_t half = transcript.text.size() / 2;
    AnswerReader reader = reader_of(transcript);
    EventLog log;
    log.add(reader.push(transcript.text.substr(0, half)));
    AnswerReader copy = reader;
    reader.push("something else <tool_call>");
    log.add(copy.push(transcript.text.substr(half)));
    log.add(copy.finish());
    EXPECT_EQ(log.rows(), transcript.events) << transcript.format << ": " << transcript.text;
  }
}

TEST(AnswerReader, TellsTextAtOnce) {
  AnswerReader reader = reader_of({"hermes", "", "", true, {}});
  const auto text_of = [](const std::vector<AnswerEvent>& events) {
    std::string text;
    for (const AnswerEvent& event : events) text += event.text;
    return text;
  };
  EXPECT_EQ(text_of(reader.push("Hello")), "Hello");
  EXPECT_EQ(text_of(reader.push(" <")), "");
  EXPECT_EQ(text_of(reader.push("b>")), " <b>");
  EXPECT_EQ(text_of(reader.push("\n<tool_call>\n{\"name\": \"get_weather\", ")), "");
  EXPECT_EQ(reader.n_calls(), 0);
  const std::vector<AnswerEvent> events = reader.push("\"arguments\": {\"city\": \"Ro");
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].kind, AnswerEvent::Kind::kToolCall);
  EXPECT_EQ(events[0].name, "get_weather");
  EXPECT_EQ(events[1].text, "{\"city\": \"Ro");
  EXPECT_EQ(reader.n_calls(), 1);
  EXPECT_EQ(text_of(reader.push("me")), "me");
}

TEST(AnswerReader, WithoutAFormatAllIsContent) {
  AnswerReader reader;
  EventLog log;
  log.add(reader.push("<tool_call> {"));
  log.add(reader.push(" \n"));
  log.add(reader.finish());
  EXPECT_EQ(log.rows(), nlohmann::json::parse(R"([["content", "<tool_call> { \n"]])"));
}

}  // namespace
}  // namespace weft
