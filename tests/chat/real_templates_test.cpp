// Chats with real models' templates, if their files are available.
#include <gtest/gtest.h>

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
  int n_found = 0;
  const std::filesystem::path folder = std::filesystem::path(WEFT_SHARED_DIR) / "tokenizers";
  if (!std::filesystem::is_directory(folder)) GTEST_SKIP() << folder << " is not here";
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
