#pragma once
// Conversations as files: request bodies of OpenAI's API, with embedded images and audio.
#include <filesystem>
#include <string>
#include <vector>

#include "conversation/conversation.h"

namespace weft::cli {

struct SavedConversation {
  std::string tools = {};  ///< As Conversation::set_tools takes them; empty: none.
  std::vector<ConversationMessage> messages = {};
};

/// Replaces the file atomically. Throws Error kIo.
void write_conversation(const std::filesystem::path& path, const std::string& model,
                        const Conversation& conversation);
/// Throws Error: kNotFound, kIo, kInvalidFile for an invalid file, kUnsupported for images or audio without
/// an encoder for them.
SavedConversation read_conversation(const std::filesystem::path& path, const MediaModels& models);

}  // namespace weft::cli
