// Answers that no model should write: random changes of transcripts, in random pieces.
#include <gtest/gtest.h>

#include <random>

#include "chat/chat_testing.h"

namespace weft {
namespace {

constexpr int kRounds = 50'000;

struct Fuzzed {
  std::string text;
  std::vector<std::string> pieces;
};

class Mutator {
 public:
  explicit Mutator(const std::vector<Transcript>& all) : all_(all) {}

  std::size_t below(std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random_); }

  Fuzzed mutate(const Transcript& transcript) {
    std::string text = transcript.text;
    for (std::size_t n = 1 + below(4); n > 0 && !text.empty(); --n) change(text);
    Fuzzed fuzzed{text, {}};
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t size = 1 + below(12);
      fuzzed.pieces.push_back(text.substr(at, size));
      at += size;
    }
    return fuzzed;
  }

 private:
  void change(std::string& text) {
    const std::size_t at = below(text.size());
    const std::size_t size = 1 + below(std::min<std::size_t>(20, text.size() - at));
    const std::string& other = all_[below(all_.size())].text;
    switch (below(6)) {
      case 0:
        text.erase(at, size);
        break;
      case 1:
        text[at] = static_cast<char>(below(256));
        break;
      case 2:
        text.insert(at, text.substr(at, size));
        break;
      case 3: {
        const std::size_t from = below(other.size());
        text.insert(at, other.substr(from, 1 + below(40)));
        break;
      }
      case 4: {
        static const std::string kBytes = "{}[]\"\\<>:,;\n 0-ue";
        text.insert(at, 1, kBytes[below(kBytes.size())]);
        break;
      }
      default:
        text.resize(at);
        break;
    }
  }

  const std::vector<Transcript>& all_;
  std::mt19937_64 random_{20240726};
};

/// JSON as another reader sees it; numbers beyond its range are JSON, too.
bool is_valid(const std::string& json) {
  try {
    return nlohmann::json::parse(json).is_object();
  } catch (const nlohmann::json::out_of_range&) {
    return true;
  } catch (const nlohmann::json::parse_error&) {
    return false;
  }
}

TEST(ResponseReader, AcceptsAnyBytes) {
  const std::vector<Transcript> all = transcripts();
  std::vector<ResponseReader> readers;
  for (const Transcript& transcript : all) readers.push_back(reader_of(transcript));
  Mutator mutator(all);
  int n_whole = 0;
  for (int round = 0; round < kRounds; ++round) {
    const std::size_t which = mutator.below(all.size());
    const Fuzzed fuzzed = mutator.mutate(all[which]);
    ResponseReader reader = readers[which], whole_reader = readers[which];
    EventLog log, whole_log;
    std::size_t n_bytes = 0;
    std::vector<ResponseEvent> events;
    for (const std::string& piece : fuzzed.pieces) {
      for (ResponseEvent& event : reader.push(piece)) events.push_back(std::move(event));
    }
    for (ResponseEvent& event : reader.finish()) events.push_back(std::move(event));
    int open = -1;
    for (const ResponseEvent& event : events) {
      n_bytes += event.text.size() + event.name.size();
      if (event.kind == ResponseEvent::Kind::kToolCall) {
        ASSERT_EQ(event.call, open + 1) << fuzzed.text;
        open = event.call;
      } else if (event.kind != ResponseEvent::Kind::kContent &&
                 event.kind != ResponseEvent::Kind::kReasoning) {
        ASSERT_EQ(event.call, open) << fuzzed.text;
      }
    }
    ASSERT_EQ(reader.n_calls(), open + 1);
    // An escaped character takes up to six bytes; missing parts of a call are added.
    ASSERT_LE(n_bytes, 6 * fuzzed.text.size() + 8) << fuzzed.text;
    log.add(events);
    whole_log.add(whole_reader.push(fuzzed.text));
    whole_log.add(whole_reader.finish());
    ASSERT_EQ(log.text(), whole_log.text()) << all[which].format << ": " << fuzzed.text;
    for (const EventLog::Row& row : log.all()) {
      if (row.kind != "call") continue;
      ++n_whole;
      ASSERT_TRUE(is_valid(row.text)) << row.text << " of " << fuzzed.text;
    }
  }
  EXPECT_GT(n_whole, kRounds / 10);
}

std::string read_in_pieces(const ResponseReader& fresh, const std::string& text, std::size_t size) {
  ResponseReader reader = fresh;
  EventLog log;
  for (std::size_t at = 0; at < text.size(); at += size) log.add(reader.push(text.substr(at, size)));
  log.add(reader.finish());
  return log.text();
}

struct ArgumentFormat {
  const char *name, *begin, *end;
};
constexpr ArgumentFormat kArgumentFormats[] = {
    {"hermes", "<tool_call>\n{\"name\": \"search\", \"arguments\": ", "}\n</tool_call>"},
    {"llama3", "<|python_tag|>{\"name\": \"search\", \"parameters\": ", "}<|eom_id|>"},
    {"kimi-k2",
     "<|tool_calls_section_begin|><|tool_call_begin|>functions.search:0<|tool_call_argument_begin|>",
     "<|tool_call_end|><|tool_calls_section_end|>"},
    {"harmony", "<|channel|>commentary to=functions.search <|constrain|>json<|message|>", "<|call|>"},
};

/// The arguments of the one call in it.
std::string arguments_of(const ArgumentFormat& format, const std::string& written) {
  ResponseReader reader = reader_of({format.name, "", "", true, {}});
  EventLog log;
  log.add(reader.push(format.begin + written + format.end));
  log.add(reader.finish());
  for (const EventLog::Row& row : log.all()) {
    if (row.kind == "call") return row.text;
  }
  return "no call";
}

TEST(ResponseReader, BrokenArgumentsEndAfterTheLastWholeCharacter) {
  for (const ArgumentFormat& format : kArgumentFormats) {
    SCOPED_TRACE(format.name);
    const auto of = [&](const std::string& written) { return arguments_of(format, written); };
    // A half of a surrogate pair, and what follows it.
    EXPECT_EQ(of("{\"a\": \"x\\n\\ud83d\xC3\xA9\"}"), "{\"a\": \"x\\n\"}");
    EXPECT_EQ(of("{\"a\": \"x\xC3\xA9\\ud83d\xC3\xA9\"}"), "{\"a\": \"x\xC3\xA9\"}");
    EXPECT_EQ(of("{\"a\": \"x\\ud83d\\n\"}"), "{\"a\": \"x\"}");
    EXPECT_EQ(of("{\"a\": \"x\\ud83d\\u0041\"}"), "{\"a\": \"x\"}");
    EXPECT_EQ(of("{\"a\": \"x\\udc00\"}"), "{\"a\": \"x\"}");
    // An escape that is cut.
    EXPECT_EQ(of("{\"a\": \"x\\u00zz\"}"), "{\"a\": \"x\"}");
    EXPECT_EQ(of("{\"a\": \"x\\\xFF\"}"), "{\"a\": \"x\\\\\"}");
    EXPECT_EQ(of("{\"a\": \"x\\\\\\\xFF\"}"), "{\"a\": \"x\\\\\\\\\"}");
    // A character that is cut.
    EXPECT_EQ(of("{\"a\": \"x\xC3\xA9\xE2\x82\"}"), "{\"a\": \"x\xC3\xA9\"}");
    EXPECT_EQ(of("{\"a\": \"x\\n\xF0\x9F\x98\"}"), "{\"a\": \"x\\n\"}");
    EXPECT_EQ(of("{\"a\": \"x\\\xC3\"}"), "{\"a\": \"x\\\\\"}");
  }
}

TEST(ResponseReader, BrokenArgumentsAreTheSameInAnyPieces) {
  static const std::vector<std::string> kParts = {"x",
                                                  "\xC3\xA9",
                                                  "\xE2\x82\xAC",
                                                  "\xF0\x9F\x98\x80",
                                                  "\\n",
                                                  "\\\\",
                                                  "\\\"",
                                                  "\\u00e9",
                                                  "\\ud83d",
                                                  "\\ude00",
                                                  "\\u0",
                                                  "\\",
                                                  "\xC3",
                                                  "\xE2\x82",
                                                  "\xFF",
                                                  "\n",
                                                  "\"",
                                                  "\", \"b\": \"",
                                                  "[",
                                                  "]",
                                                  "1.",
                                                  "\", \"b\": [\"",
                                                  "tru",
                                                  "\\'",
                                                  "\\d"};
  std::mt19937_64 random(20261129);
  const auto below = [&](std::size_t n) {
    return std::uniform_int_distribution<std::size_t>(0, n - 1)(random);
  };
  int n_calls = 0;
  for (const ArgumentFormat& format : kArgumentFormats) {
    const ResponseReader fresh = reader_of({format.name, "", "", true, {}});
    for (int round = 0; round < 3000; ++round) {
      std::string text = format.begin + std::string("{\"a\": \"");
      for (std::size_t n = 1 + below(8); n > 0; --n) text += kParts[below(kParts.size())];
      text += std::string("\"}") + format.end;
      const std::string whole = read_in_pieces(fresh, text, text.size());
      for (const std::size_t size : {1, 2, 3}) ASSERT_EQ(read_in_pieces(fresh, text, size), whole) << text;
      EventLog log;
      ResponseReader reader = fresh;
      log.add(reader.push(text));
      log.add(reader.finish());
      for (const EventLog::Row& row : log.all()) {
        if (row.kind != "call") continue;
        ++n_calls;
        ASSERT_TRUE(is_valid(row.text)) << row.text << " of " << text;
      }
    }
  }
  EXPECT_GT(n_calls, 6000);
}

/// Quadratic time would not end here.
TEST(ResponseReader, ReadsLongTextsByteByByte) {
  const std::size_t n = 60'000;
  const auto repeated = [n](const std::string& part) {
    std::string text;
    while (text.size() < n) text += part;
    return text;
  };
  for (const std::string& format : Chat::formats()) {
    const ResponseReader fresh = reader_of({format, "", "", true, {}});
    for (const std::string& text :
         {repeated("<"), repeated(" "), repeated("<tool_call>"), repeated("<tool_call>{\"a\":\""),
          "<tool_call>" + repeated("{\"a\":"),
          "<tool_call>\n<function=search>\n<parameter=query>\n" + repeated("a\n"), repeated("[TOOL_CALLS]f"),
          "<tool_call>{\"name\": \"search\", \"arguments\": {\"query\": \"" + repeated("x<")}) {
      ResponseReader reader = fresh;
      std::size_t n_bytes = 0;
      const auto count = [&](const std::vector<ResponseEvent>& events) {
        for (const ResponseEvent& event : events) n_bytes += event.text.size();
      };
      for (const char& c : text) count(reader.push({&c, 1}));
      count(reader.finish());
      EXPECT_LE(n_bytes, 6 * text.size() + 8);
      EXPECT_GT(n_bytes, 0u);
    }
  }
}

}  // namespace
}  // namespace weft
