#include "chat/messages.h"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "chat/call_writer.h"
#include "chat/request_json.h"

namespace weft::chat {

namespace {

using nlohmann::ordered_json;

/// Limit per message, because each result searches its call among them.
constexpr std::size_t kMaxCalls = 1024;
/// Limit of an unknown role in a warning.
constexpr std::size_t kMaxRoleBytes = 64;

/// A string member; empty where there is none or it is null.
std::string text_of(const ordered_json& object, const char* key, const std::string& where) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return {};
  if (!found->is_string()) refuse(where + "." + key + " must be a string");
  return found->get<std::string>();
}

void append_line(std::string& text, std::string_view more) {
  if (!text.empty()) text += '\n';
  text += more;
}

/// Reads a content: a string, or parts. Parts may be reasoning of the assistant.
void read_content(const ordered_json& content, const std::string& where, Message& message) {
  if (content.is_null()) return;
  if (content.is_string()) {
    message.content = content.get<std::string>();
    return;
  }
  if (!content.is_array()) refuse(where + " must be a string or an array of parts");
  bool has_text = false;
  for (std::size_t i = 0; i < content.size(); ++i) {
    const ordered_json& part = content[i];
    const std::string here = where + "[" + std::to_string(i) + "]";
    if (!part.is_object()) refuse(here + " must be an object {\"type\": \"text\", \"text\": ...}");
    const std::string type = text_of(part, "type", here);
    if (type == "thinking" || type == "reasoning") {
      // Mistral's API has a list of parts here, others a string.
      const char* const key = part.contains(type) ? type.c_str() : "text";
      Message thoughts;
      if (part.contains(key)) read_content(part[key], here + "." + key, thoughts);
      append_line(message.reasoning, thoughts.content);
      continue;
    }
    const bool refusal = type == "refusal";
    if (type != "text" && type != "input_text" && type != "output_text" && !refusal) {
      refuse(here + ".type is \"" + type +
             "\": only parts of type \"text\" are read, no images, audio or files");
    }
    const char* key = refusal ? "refusal" : "text";
    if (!part.contains(key)) refuse(here + "." + key + " is missing");
    if (std::exchange(has_text, true)) message.content += '\n';
    message.content += text_of(part, key, here);
  }
}

/// A name as templates can write it. An earlier call need not name a tool of this request.
std::string history_name(std::string name) {
  constexpr std::size_t kMaxBytes = 128;
  name.resize(std::min(name.size(), kMaxBytes));
  for (char& c : name) {
    if (!is_tool_name(std::string_view(&c, 1))) c = '_';
  }
  return name.empty() ? "unknown" : name;
}

/// The member "function" has arguments in JSON, "custom" a string.
HistoryCall read_call(const ordered_json& item, const std::string& where) {
  const auto member = [&item](const char* key) -> const ordered_json* {
    const auto found = item.is_object() ? item.find(key) : item.end();
    return found != item.end() && found->is_object() ? &*found : nullptr;
  };
  const ordered_json* const custom = member("custom");
  const ordered_json* const function = member("function");
  if (function == nullptr && custom == nullptr) {
    refuse(where + " must be an object with id, type \"function\" and function");
  }
  HistoryCall call{.id = text_of(item, "id", where)};
  if (function == nullptr) {
    call.name = history_name(text_of(*custom, "name", where + ".custom"));
    call.arguments["input"] = text_of(*custom, "input", where + ".custom");
    return call;
  }
  call.name = history_name(text_of(*function, "name", where + ".function"));
  if (const auto arguments = function->find("arguments"); arguments != function->end()) {
    call.arguments = history_arguments(*arguments);
  }
  return call;
}

/// Maps clients' names of roles to the four roles of templates. Empty: the name is unknown.
std::string_view known_role(std::string_view role) {
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"system", "system"},   {"developer", "system"}, {"user", "user"},        {"assistant", "assistant"},
      {"model", "assistant"}, {"ai", "assistant"},     {"bot", "assistant"},    {"tool", "tool"},
      {"function", "tool"},   {"ipython", "tool"},     {"observation", "tool"}, {"human", "user"}};
  for (const auto& [name, known] : kNames) {
    if (name == role) return known;
  }
  return {};
}

void read_calls(const ordered_json& item, const std::string& where, Message& message) {
  const auto calls = item.find("tool_calls");
  if (calls == item.end() || calls->is_null()) {
    // The form of OpenAI's API before tools.
    if (const auto call = item.find("function_call"); call != item.end() && call->is_object()) {
      message.calls.push_back(read_call({{"function", *call}}, where + ".function_call"));
    }
    return;
  }
  if (!calls->is_array()) refuse(where + ".tool_calls must be an array");
  if (calls->size() > kMaxCalls) {
    refuse(where + ".tool_calls must have at most " + std::to_string(kMaxCalls) + " calls");
  }
  for (std::size_t i = 0; i < calls->size(); ++i) {
    message.calls.push_back(read_call((*calls)[i], where + ".tool_calls[" + std::to_string(i) + "]"));
  }
  if (!calls->empty() && message.role != "assistant") {
    refuse(where + ".tool_calls is allowed only in messages of the assistant");
  }
}

Message read_message(const ordered_json& item, const std::string& where,
                     std::set<std::string>& unknown_roles) {
  if (!item.is_object()) refuse(where + " must be an object with role and content");
  const std::string role = text_of(item, "role", where);
  if (role.empty()) {
    refuse(where + ".role must be \"system\", \"developer\", \"user\", \"assistant\" or \"tool\"");
  }
  Message message{.role = std::string(known_role(role))};
  if (message.role.empty()) {
    message.role = "user";
    unknown_roles.insert(role.substr(0, kMaxRoleBytes));
  }
  const auto content = item.find("content");
  const bool has_content = content != item.end() && !content->is_null();
  if (has_content) read_content(*content, where + ".content", message);
  message.name = text_of(item, "name", where);
  if (message.role == "tool") message.call_id = text_of(item, "tool_call_id", where);
  if (message.role == "assistant") {
    for (const char* key : {"reasoning_content", "reasoning", "thinking"}) {
      if (message.reasoning.empty() && item.contains(key) && item[key].is_string())
        message.reasoning = item[key];
    }
  }
  read_calls(item, where, message);
  if (!has_content && message.role != "assistant" && message.role != "tool")
    refuse(where + ".content is missing");
  return message;
}

void append_paragraph(std::string& text, std::string_view more) {
  if (!text.empty() && !more.empty()) text += "\n\n";
  text += more;
}

/// For models whose template has no tools.
std::string describe_tools(const CallFormat& calls, std::string_view tools_json) {
  std::string text =
      "You may call one or more functions to help with the user's request. These functions are available, "
      "each "
      "described by a JSON schema:\n<tools>\n";
  for (const ordered_json& tool : parse_request_json(tools_json, "tools")) text += tool.dump() + "\n";
  HistoryCall example{.id = "0", .name = "function_name"};
  example.arguments["argument_name"] = "value";
  return text +
         "</tools>\n\nTo call a function write its name and arguments in this way, and nothing after it:\n" +
         write_calls(calls, {example}) + "\nThen its result is given to you.";
}

/// Writes calls and results into the content of messages.
void write_as_text(std::vector<Message>& messages, const CallFormat& format, bool results) {
  for (Message& message : messages) {
    if (!message.calls.empty()) {
      if (!message.content.empty()) message.content += '\n';
      message.content += write_calls(format, std::exchange(message.calls, {}));
    }
    if (message.role != "tool" || results) continue;
    message.role = "user";
    message.content = "<tool_response>\n" + message.content + "\n</tool_response>";
  }
}

/// Assigns results to calls in linear time.
class ResultQueues {
 public:
  ResultQueues(const std::vector<std::string>& ids, const std::vector<Message>& results) {
    for (const std::string& id : ids) of_call_[id];
    for (std::size_t i = 0; i < results.size(); ++i) {
      const auto found = of_call_.find(results[i].call_id);
      (found == of_call_.end() ? of_none_ : found->second).push_back(i);
    }
  }

  /// Takes the first result that names the call, otherwise the first one that names none.
  std::optional<std::size_t> take(const std::string& id) {
    std::deque<std::size_t>& named = of_call_.at(id);
    std::deque<std::size_t>& queue = named.empty() ? of_none_ : named;
    if (queue.empty()) return std::nullopt;
    const std::size_t first = queue.front();
    queue.pop_front();
    return first;
  }
  /// The results that were not taken, in their order.
  std::vector<std::size_t> rest() const {
    std::vector<std::size_t> left(of_none_.begin(), of_none_.end());
    for (const auto& [id, queue] : of_call_) left.insert(left.end(), queue.begin(), queue.end());
    std::sort(left.begin(), left.end());
    return left;
  }

 private:
  std::unordered_map<std::string, std::deque<std::size_t>> of_call_;
  std::deque<std::size_t> of_none_;
};

/// Calls one after another, each with its result.
std::vector<Message> without_parallel_calls(std::vector<Message> messages) {
  std::vector<Message> all;
  for (std::size_t i = 0; i < messages.size();) {
    Message& message = messages[i++];
    if (message.calls.size() < 2) {
      all.push_back(std::move(message));
      continue;
    }
    std::vector<HistoryCall> calls = std::exchange(message.calls, {});
    std::vector<Message> results;
    while (i < messages.size() && messages[i].role == "tool") results.push_back(std::move(messages[i++]));
    std::vector<std::string> ids;
    for (const HistoryCall& call : calls) ids.push_back(call.id);
    ResultQueues queues(ids, results);
    for (std::size_t k = 0; k < calls.size(); ++k) {
      Message single = k == 0 ? std::move(message) : Message{.role = "assistant"};
      single.calls.push_back(std::move(calls[k]));
      all.push_back(std::move(single));
      if (const auto result = queues.take(ids[k])) all.push_back(std::move(results[*result]));
    }
    for (const std::size_t left : queues.rest()) all.push_back(std::move(results[left]));
  }
  return all;
}

std::vector<Message> with_calls_apart(std::vector<Message> messages) {
  std::vector<Message> all;
  for (Message& message : messages) {
    if (!message.calls.empty() && !message.content.empty()) {
      Message calls = message;
      calls.content.clear();
      message.calls.clear();
      all.push_back(std::move(message));
      all.push_back(std::move(calls));
    } else {
      all.push_back(std::move(message));
    }
  }
  return all;
}

/// All system messages at the beginning are one; then what the template can do with it.
void place_system(std::vector<Message>& messages, const Abilities& abilities, std::string_view more) {
  std::string system;
  std::size_t n = 0;
  while (n < messages.size() && messages[n].role == "system") append_paragraph(system, messages[n++].content);
  append_paragraph(system, more);
  messages.erase(messages.begin(), messages.begin() + static_cast<std::ptrdiff_t>(n));
  for (Message& message : messages) {
    if (message.role == "system" && !abilities.later_system) message.role = "user";
  }
  if (system.empty()) return;
  if (abilities.system) {
    messages.insert(messages.begin(), Message{.role = "system", .content = std::move(system)});
  } else if (!messages.empty() && messages.front().role == "user") {
    append_paragraph(system, messages.front().content);
    messages.front().content = std::move(system);
  } else {
    messages.insert(messages.begin(), Message{.role = "user", .content = std::move(system)});
  }
}

/// Roles take turns. Templates count calls and results as no turn, so messages of one role may meet around
/// them, too.
std::vector<Message> with_alternating_roles(std::vector<Message> messages, const Abilities& abilities) {
  std::vector<Message> all;
  std::string_view turn;  // The role of the last turn.
  for (Message& message : messages) {
    const bool is_turn = message.role == "user" || (message.role == "assistant" && message.calls.empty());
    const bool joins = !all.empty() && all.back().role == message.role && message.role != "tool" &&
                       all.back().calls.empty() && (message.calls.empty() || abilities.content_with_calls);
    if (joins) {
      append_paragraph(all.back().content, message.content);
      append_paragraph(all.back().reasoning, message.reasoning);
      all.back().calls = std::move(message.calls);
      if (!all.back().calls.empty()) turn = "user";
      continue;
    }
    if (message.role == "assistant" && turn.empty()) {
      all.push_back({.role = "user"});
      turn = "user";
    }
    if (message.role == "user" && turn == "user" && !abilities.user_after_result)
      all.push_back({.role = "assistant", .content = "Understood."});
    if (is_turn) turn = message.role == "user" ? "user" : "assistant";
    all.push_back(std::move(message));
  }
  return all;
}

/// Derives nine letters and digits from an id. Equal ids give equal results.
std::string short_id(const std::string& id) {
  constexpr std::string_view kDigits = "0123456789abcdefghijklmnopqrstuvwxyz";
  std::uint64_t hash = 0xCBF29CE484222325ULL;  // FNV-1a
  for (const char c : id) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3ULL;
  std::string digits;
  for (int i = 0; i < 9; ++i, hash /= kDigits.size()) digits += kDigits[hash % kDigits.size()];
  return digits;
}

bool is_short_id(const std::string& id) {
  return id.size() == 9 && std::all_of(id.begin(), id.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
         });
}

/// Templates look for ids and names that clients may leave out.
void complete_calls(std::vector<Message>& messages, bool short_ids) {
  const auto shorten = [short_ids](std::string& id) {
    if (short_ids && !is_short_id(id)) id = short_id(id);
  };
  int n_calls = 0;
  std::vector<const HistoryCall*> open;  // Calls whose results may follow.
  for (Message& message : messages) {
    if (message.role != "tool") open.clear();
    for (HistoryCall& call : message.calls) {
      if (call.id.empty()) call.id = "call_" + std::to_string(n_calls);
      ++n_calls;
      shorten(call.id);
      open.push_back(&call);
    }
    if (message.role != "tool") continue;
    if (message.call_id.empty() && !open.empty()) {
      message.call_id = open.front()->id;
    } else {
      shorten(message.call_id);
    }
    const auto found = std::find_if(open.begin(), open.end(),
                                    [&](const HistoryCall* call) { return call->id == message.call_id; });
    if (found == open.end()) continue;
    if (message.name.empty()) message.name = (*found)->name;
    open.erase(found);
  }
}

}  // namespace

std::vector<Message> read_messages(std::string_view messages_json, std::vector<std::string>& warnings) {
  const ordered_json all = parse_request_json(messages_json, "messages");
  if (!all.is_array() || all.empty()) refuse("messages must be an array of at least one message");
  std::vector<Message> messages;
  std::set<std::string> unknown_roles;
  for (const ordered_json& item : all) {
    messages.push_back(
        read_message(item, "messages[" + std::to_string(messages.size()) + "]", unknown_roles));
  }
  for (const std::string& role : unknown_roles) {
    warnings.push_back(
        "the role \"" + role +
        "\" is unknown and read as \"user\"; known are system, developer, user, assistant, tool");
  }
  return messages;
}

std::vector<Message> adapted(std::vector<Message> messages, const Abilities& abilities,
                             const CallFormat* calls, std::string_view tools_json) {
  complete_calls(messages, abilities.short_ids);
  if (abilities.calls) {
    if (!abilities.parallel_calls) messages = without_parallel_calls(std::move(messages));
    if (!abilities.content_with_calls && abilities.repeated_roles)
      messages = with_calls_apart(std::move(messages));
  } else if (calls) {
    write_as_text(messages, *calls, abilities.results);
  }
  const bool describes = calls && !abilities.tools && !tools_json.empty();
  place_system(messages, abilities, describes ? describe_tools(*calls, tools_json) : std::string());
  if (!abilities.repeated_roles) messages = with_alternating_roles(std::move(messages), abilities);
  return messages;
}

ordered_json to_json(const std::vector<Message>& messages, const Abilities& abilities) {
  ordered_json all = ordered_json::array();
  for (const Message& message : messages) {
    ordered_json item = {{"role", message.role}, {"content", message.content}};
    if (abilities.parts_only) {
      item["content"] = ordered_json::array({{{"type", "text"}, {"text", message.content}}});
    }
    if (!message.name.empty()) item["name"] = message.name;
    if (!message.call_id.empty()) item["tool_call_id"] = message.call_id;
    if (!message.reasoning.empty() && !abilities.reasoning_key.empty()) {
      item[abilities.reasoning_key] = message.reasoning;
    }
    for (const HistoryCall& call : message.calls) {
      ordered_json arguments = call.arguments;
      if (!abilities.object_arguments) arguments = call.arguments.dump();
      item["tool_calls"].push_back(
          {{"id", call.id},
           {"type", "function"},
           {"function", {{"name", call.name}, {"arguments", std::move(arguments)}}}});
    }
    if (!message.calls.empty() && message.content.empty() && abilities.null_content)
      item["content"] = nullptr;
    all.push_back(std::move(item));
  }
  return all;
}

}  // namespace weft::chat
