#pragma once
// Conversations as files: the body of a request of OpenAI's API, with pictures and sounds within.
#include <filesystem>
#include <string>
#include <vector>

#include "conversation.h"

namespace weft::cli {

struct SavedConversation {
  std::string tools = {};  ///< As Conversation::set_tools takes them; empty: none.
  std::vector<ConversationMessage> messages = {};
};

/// The file appears whole or stays as it was. Throws Error kIo.
void write_conversation(const std::filesystem::path& path, const std::string& model,
                        const Conversation& conversation);
/// Throws Error: kNotFound and kIo, kInvalidFile for what is none, kUnsupported where it has pictures or
/// sounds and there is no model for them.
SavedConversation read_conversation(const std::filesystem::path& path, const MediaModels& models);

}  // namespace weft::cli
