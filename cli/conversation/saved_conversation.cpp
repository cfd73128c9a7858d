#include "conversation/saved_conversation.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "base/atomic_file.h"
#include "base/base64.h"
#include "files/json_input.h"
#include "options/options.h"
#include "weft/error.h"

namespace weft::cli {
namespace {

// An image is PNG or JPEG.
std::string_view kind_of_image(const MediaFile& file) {
  return !file.bytes.empty() && file.bytes[0] == std::byte{0x89} ? "png" : "jpeg";
}

Json part_of(const MediaFile& file) {
  const std::string data = base::to_base64(file.bytes);
  // The API requires a format; readers detect the real one from the bytes.
  if (file.is_audio) return {{"type", "input_audio"}, {"input_audio", {{"data", data}, {"format", "wav"}}}};
  return {{"type", "image_url"},
          {"image_url", {{"url", fmt::format("data:image/{};base64,{}", kind_of_image(file), data)}}}};
}

Json content_of(const ConversationMessage& message) {
  if (message.media.empty()) return message.content;
  Json parts = Json::array();
  for (const MediaFile& file : message.media) parts.push_back(part_of(file));
  parts.push_back({{"type", "text"}, {"text", message.content}});
  return parts;
}

class ConversationReader {
 public:
  ConversationReader(const std::filesystem::path& path, const MediaModels& models)
      : path_(path), models_(models) {}

  SavedConversation read() {
    const Json json = parsed();
    if (!json.is_object() || !json.contains("messages") || !json["messages"].is_array())
      refuse("expected a JSON object with an array \"messages\"");
    for (const Json& message : json["messages"]) {
      ++n_;
      saved_.messages.push_back(read_message(message));
    }
    check_end();
    if (json.contains("tools") && !json["tools"].empty()) saved_.tools = to_text(json["tools"]);
    return std::move(saved_);
  }

 private:
  Json parsed() const {
    const std::string text = read_text(path_.string());
    try {
      return parse_json(text);
    } catch (const Error& error) {
      refuse(error.what());
    }
  }

  [[noreturn]] void refuse(std::string_view reason) const {
    throw Error(ErrorCode::kInvalidFile, fmt::format("{} is not a saved conversation: {}; nothing was loaded",
                                                     path_.string(), reason));
  }

  std::string text(const Json& object, const char* key) const {
    if (!object.is_object() || !object.contains(key) || !object[key].is_string())
      refuse(fmt::format("message {} has no string \"{}\"", n_, key));
    return object[key].get<std::string>();
  }
  std::string text_or_nothing(const Json& object, const char* key) const {
    return object.contains(key) && !object[key].is_null() ? text(object, key) : std::string();
  }

  ConversationMessage read_message(const Json& json) const {
    ConversationMessage message{.role = text(json, "role")};
    const std::string& role = message.role;
    if (role != "system" && role != "user" && role != "assistant" && role != "tool")
      refuse(fmt::format("message {} has the role '{}', expected system, user, assistant or tool", n_, role));
    if (role == "assistant" && json.contains("tool_calls") && json["tool_calls"].is_array())
      for (const Json& call : json["tool_calls"]) message.calls.push_back(read_call(call));
    if (json.contains("content") && json["content"].is_array()) {
      for (const Json& part : json["content"]) read_part(part, message);
    } else {
      message.content = message.calls.empty() ? text(json, "content") : text_or_nothing(json, "content");
    }
    if (role == "assistant") message.reasoning = text_or_nothing(json, "reasoning_content");
    if (role == "tool") message.call_id = text_or_nothing(json, "tool_call_id");
    return message;
  }

  ChatResponse::Call read_call(const Json& json) const {
    if (!json.is_object() || !json.contains("function"))
      refuse(fmt::format("a call of message {} has no \"function\"", n_));
    return {text_or_nothing(json, "id"), text(json["function"], "name"), text(json["function"], "arguments")};
  }

  void read_part(const Json& part, ConversationMessage& message) const {
    const std::string type = text(part, "type");
    if (type == "text") {
      message.content += text(part, "text");
    } else if (type == "image_url" && part.contains("image_url")) {
      const std::string url = text(part["image_url"], "url");
      const std::size_t comma = url.find(";base64,");
      if (!url.starts_with("data:") || comma == std::string::npos)
        refuse(fmt::format("an image of message {} is not embedded in the file", n_));
      add_media(std::string_view(url).substr(comma + std::string_view(";base64,").size()), false, message);
    } else if (type == "input_audio" && part.contains("input_audio")) {
      add_media(text(part["input_audio"], "data"), true, message);
    } else {
      refuse(fmt::format("message {} has a part of type '{}', expected text, image_url or input_audio", n_,
                         type));
    }
  }

  void add_media(std::string_view data, bool is_audio, ConversationMessage& message) const {
    auto bytes = base::from_base64(data);
    if (!bytes) refuse(fmt::format("an image or audio clip of message {} is not base64", n_));
    try {
      message.media.push_back(encode_media(models_, *std::move(bytes), is_audio));
    } catch (const Error& error) {
      throw Error(error.code(),
                  fmt::format("{}, message {}: {}; nothing was loaded", path_.string(), n_, error.what()));
    }
  }

  void check_end() const {
    if (saved_.messages.empty()) return;
    const ConversationMessage& last = saved_.messages.back();
    if (last.role == "user" || last.role == "tool" || !last.calls.empty())
      refuse("its last question has no response");
  }

  const std::filesystem::path& path_;
  const MediaModels& models_;
  std::size_t n_ = 0;  // Number of the current message, from 1.
  SavedConversation saved_;
};

}  // namespace

void write_conversation(const std::filesystem::path& path, const std::string& model,
                        const Conversation& conversation) {
  Json json = {{"model", model}, {"messages", Json::array()}};
  for (const ConversationMessage& message : conversation.messages())
    json["messages"].push_back(to_json(message, content_of(message)));
  if (!conversation.tools().empty()) json["tools"] = parse_json(conversation.tools());
  const std::string text = to_text(json, 2);
  base::AtomicFile file(path);
  file.write(std::as_bytes(std::span(text)));
  file.commit();
}

SavedConversation read_conversation(const std::filesystem::path& path, const MediaModels& models) {
  return ConversationReader(path, models).read();
}

}  // namespace weft::cli
