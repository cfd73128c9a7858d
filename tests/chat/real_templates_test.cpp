// Chats with real models' templates, if WEFT_VOCABULARIES names a folder of GGUF files that have some.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "chat/abilities.h"
#include "chat/chat_testing.h"
#include "chat/derived_format.h"
#include "gguf/gguf.h"

namespace weft {
namespace {

constexpr const char* kConversation = R"([
  {"role": "developer", "content": "SYSTEM"}, {"role": "user", "content": "FIRST"},
  {"role": "assistant", "content": null, "tool_calls": [{"id": "call_0123456789", "type": "function",
    "function": {"name": "get_weather", "arguments": "{\"city\": \"ARGUMENT\"}"}}]},
  {"role": "tool", "tool_call_id": "call_0123456789", "content": "RESULT"},
  {"role": "assistant", "content": "ANSWER"}, {"role": "user", "content": "SECOND"}, {"role": "user", "content": "THIRD"}])";

TEST(Chat, RealTemplatesWriteWholeConversations) {
  const char* const folder = std::getenv("WEFT_VOCABULARIES");
  if (folder == nullptr) GTEST_SKIP() << "WEFT_VOCABULARIES names no folder of real vocabularies";
  int n_found = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".gguf") continue;
    const gguf::File file = gguf::File::open(entry.path());
    const auto source = file.get_string("tokenizer.chat_template");
    if (!source) continue;
    ++n_found;
    const ChatTemplate chat_template(*source, "<s>", "</s>");
    const Chat chat(chat_template);
    ChatTurn turn;
    turn.messages_json = kConversation;
    turn.tools_json = test_tools();
    const std::string prompt = join(chat.open(turn).prompt);
    for (const char* part :
         {"SYSTEM", "FIRST", "get_weather", "ARGUMENT", "RESULT", "ANSWER", "SECOND", "THIRD"}) {
      EXPECT_NE(prompt.find(part), std::string::npos) << part << " of " << entry.path() << ": " << prompt;
    }
    const auto written = chat::write_probe_calls(chat_template, chat::find_abilities(chat_template));
    if (!written) continue;
    for (const chat::Format& format : chat::known_formats()) {
      if (format.name != chat.format()) continue;
      EXPECT_TRUE(chat::reads_back(format, *written)) << entry.path();
    }
  }
  EXPECT_GT(n_found, 0);
}

}  // namespace
}  // namespace weft
