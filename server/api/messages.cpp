#include "api/messages.h"

#include <fmt/format.h>

#include <utility>

#include "api/chat_order.h"
#include "base/to_size.h"

namespace weft::server {
namespace {

// The image of a block of type "image".
std::string take_image(Fields& block, MediaTaker& media) {
  const std::string path = block.path_of("source");
  const Json* const value = block.object("source");
  if (value == nullptr) throw bad_request(path, fmt::format("'{}' is missing", path));
  Fields source = block.within(*value, path);
  source.ignore({"media_type"});
  const bool is_url = source.word("type", 2, {"base64", "url"}) == 1;
  std::string mark = is_url ? media.take_url(source.string("url"), source.path_of("url"))
                            : media.take_image(source.string("data"), source.path_of("data"));
  source.done();
  return mark;
}

// Joins blocks: each string is a line, images are within lines.
class TextBlocks {
 public:
  explicit TextBlocks(MediaTaker& media) : media_(&media) {}

  void add_text(std::string_view text) {
    has_any_ = true;
    if (text.empty()) return;  // Agents send empty blocks.
    if (was_text_) text_ += '\n';
    text_ += text;
    was_text_ = true;
  }
  void add_image(Fields& block) {
    text_ += media_->take("image", [&] { return take_image(block, *media_); });
    has_any_ = true;
    was_text_ = false;
  }
  /// False for a block of another type.
  bool read(const std::string& type, Fields& block) {
    if (type == "text") {
      if (!block.has("text"))
        throw bad_request(block.path_of("text"), fmt::format("'{}' is missing", block.path_of("text")));
      add_text(block.string("text"));
    } else if (type == "image") {
      add_image(block);
    } else if (type == "document") {
      add_text(media_->take("document", [&] { return document(block); }));
    } else if (type == "search_result" || type == "web_search_result") {
      add_text(with_title(block, block.string("source") + block.string("url"), nested(block, "content")));
    } else if (type == "web_search_tool_result") {
      add_text(nested(block, "content"));
    } else if (type == "tool_reference") {
      add_text(block.string("tool_name"));
    } else {
      return false;
    }
    return true;
  }
  /// A string, or an array of blocks. Blocks of unknown types are skipped with a note.
  void read_all(const Json& content, const std::string& path, const Fields& parent) {
    if (content.is_string()) return add_text(content.get_ref<const std::string&>());
    if (!content.is_array())
      throw bad_request(path, fmt::format("'{}' must be a string or an array of blocks", path));
    for (std::size_t i = 0; i < content.size(); ++i) {
      Fields block = parent.within(content[i], element(path, i));
      const std::string type = block.string("type");
      if (!read(type, block)) block.note(type);
    }
  }
  const std::string& text() const { return text_; }
  bool has_any() const { return has_any_; }

 private:
  std::string nested(Fields& block, std::string_view name) const {
    TextBlocks inner(*media_);
    if (const Json* content = block.find(name); content != nullptr && !content->is_object())
      inner.read_all(*content, block.path_of(name), block);
    return inner.text();
  }
  static std::string with_title(Fields& block, const std::string& source, const std::string& text) {
    std::string all = block.string("title");
    for (const std::string& part : {source, block.string("context"), text})
      if (!part.empty()) all += (all.empty() ? "" : "\n") + part;
    return all;
  }
  std::string document(Fields& block) const {
    const Json* const value = block.object("source");
    if (value == nullptr)
      throw bad_request(block.path_of("source"), fmt::format("'{}' is missing", block.path_of("source")));
    Fields source = block.within(*value, block.path_of("source"));
    const std::string kind = source.string("type");
    if (kind != "text" && kind != "content")
      throw bad_request(source.path_of("type"),
                        fmt::format("'{}' is '{}': the server reads plain-text documents only; send the "
                                    "document's contents as text",
                                    source.path_of("type"), kind.substr(0, 64)));
    return with_title(block, "", kind == "text" ? source.string("data") : nested(source, "content"));
  }

  MediaTaker* media_;
  std::string text_;
  bool has_any_ = false;
  bool was_text_ = false;
};

std::string message_text(const Json& content, const std::string& path, const Fields& parent,
                         MediaTaker& media) {
  TextBlocks blocks(media);
  blocks.read_all(content, path, parent);
  return blocks.text();
}

// Claude Code begins its system prompt with a line of bookkeeping that differs with each request. Without it
// the prompts have a common prefix.
std::string system_text(const Json& system, const Fields& fields, MediaTaker& media) {
  constexpr std::string_view kBookkeeping = "x-anthropic-billing-header:";
  if (!system.is_array()) return message_text(system, "system", fields, media);
  Json blocks = Json::array();
  for (const Json& block : system) {
    const auto text = block.is_object() ? block.find("text") : block.end();
    const bool is_bookkeeping = text != block.end() && text->is_string() &&
                                text->get_ref<const std::string&>().starts_with(kBookkeeping);
    if (!is_bookkeeping) blocks.push_back(block);
  }
  return message_text(blocks, "system", fields, media);
}

bool is_tool_result(const Json& block) {
  return block.is_object() && block.contains("type") && block["type"] == "tool_result";
}

/// The value of "clear_at" for a system message that ends with its turn.
constexpr std::string_view kNextUser = "next_user_message";

// Converts one message of Anthropic's API to OpenAI's: tool results become messages of their own, in front.
class MessageReader {
 public:
  MessageReader(Json& out, MediaTaker& media) : out_(&out), media_(&media) {}

  void read(Fields message) {
    for (const char* name : {"role", "content"})
      if (!message.has(name))
        throw bad_request(message.path_of(name), fmt::format("'{}' is missing", message.path_of(name)));
    const std::size_t role = message.word("role", 0, {"user", "assistant", "system"});
    const Json* content = message.find("content");
    const std::string path = message.path_of("content");
    // A system message that is over has been skipped.
    if (message.has("clear_at") && (role != 2 || message.json()["clear_at"] != kNextUser))
      message.note("clear_at");
    message.ignore({"output_config"});  // last_effort() reads it.
    message.done();
    TextBlocks blocks(*media_);
    thinking_.clear();
    calls_ = Json::array();
    if (content->is_array()) {
      // Tool results come first in the converted conversation, and images must be taken in its order.
      for (const bool results : {true, false})
        for (std::size_t i = 0; i < content->size(); ++i)
          if (is_tool_result((*content)[i]) == results)
            read_block(message.within((*content)[i], element(path, i)), blocks);
    } else {
      blocks.read_all(*content, path, message);
    }
    constexpr const char* kRoles[] = {"user", "assistant", "system"};
    if (role != 1 && !blocks.has_any()) return;  // Tool results only.
    Json mine = {{"role", kRoles[role]}, {"content", blocks.text()}};
    if (!thinking_.empty()) mine["reasoning_content"] = thinking_;
    if (!calls_.empty()) mine["tool_calls"] = std::move(calls_);
    out_->push_back(std::move(mine));
  }
  /// The changes of the tools by messages, in their order.
  const std::vector<ToolChange>& changes() const { return changes_; }

 private:
  void read_block(Fields block, TextBlocks& blocks) {
    const std::string type = block.string("type");
    if (blocks.read(type, block)) return;
    if (type == "thinking") {
      thinking_ += block.string("thinking");
    } else if (type == "tool_use") {
      const Json* input = block.find("input");
      calls_.push_back(
          {{"id", block.string("id")},
           {"type", "function"},
           {"function",
            {{"name", block.string("name")}, {"arguments", input == nullptr ? Json() : *input}}}});
    } else if (type == "tool_result") {
      const Json* content = block.find("content");
      media_->in_tool_result(true);
      std::string text = content == nullptr
                             ? std::string()
                             : message_text(*content, block.path_of("content"), block, *media_);
      media_->in_tool_result(false);
      if (block.boolean("is_error", false)) text = "Error: " + text;
      out_->push_back(
          {{"role", "tool"}, {"tool_call_id", block.string("tool_use_id")}, {"content", std::move(text)}});
    } else if (type == "compaction" && block.has("content")) {
      blocks.add_text(block.string("content"));  // The summary of what came before.
    } else if (type == "tool_addition" || type == "tool_removal") {
      read_change(block, type == "tool_addition");
    } else if (type != "redacted_thinking") {
      block.note(type);
    }
  }

  // A definition, or the name of one of the request's tools.
  void read_change(Fields& block, bool adds) {
    const Json* const value = block.object("tool");
    if (value == nullptr) return block.note(adds ? "tool_addition" : "tool_removal");
    Fields tool = block.within(*value, block.path_of("tool"));
    const Json* const definition = tool.object("definition");
    const std::string name = definition != nullptr
                                 ? tool.within(*definition, tool.path_of("definition")).string("name")
                                 : tool.string("name", tool.string("tool_name"));
    using Kind = ToolChange::Kind;
    if (adds && definition != nullptr)
      changes_.push_back({Kind::kDefine, tool.within(*definition, tool.path_of("definition"))});
    else
      changes_.push_back({adds ? Kind::kRestore : Kind::kRemove, block, name});
  }

  Json* out_;
  MediaTaker* media_;
  std::vector<ToolChange> changes_;
  std::string thinking_;
  Json calls_;
};

bool has(const Json& message, const char* name, std::string_view value) {
  return message.is_object() && message.contains(name) && message[name] == value;
}

/// The effort that the last message with one sets for what follows it. Empty: none does.
std::string last_effort(Fields& fields) {
  std::string effort;
  const Json* const list = fields.array("messages");
  for (std::size_t i = 0; list != nullptr && i < list->size(); ++i) {
    Fields message = fields.within((*list)[i], element("messages", i));
    const Json* const config = message.object("output_config");
    if (config == nullptr) continue;
    Fields inner = message.within(*config, message.path_of("output_config"));
    if (inner.has("effort")) effort = known_effort(inner.string("effort"));
    inner.done();
  }
  return effort;
}

RequestTurn read_message_turn(Fields& fields, MediaTaker& media) {
  RequestTurn turn;
  Json list = Json::array();
  if (const Json* system = fields.find("system"))
    list.push_back({{"role", "system"}, {"content", system_text(*system, fields, media)}});
  const Json* given = read_conversation(fields, "messages");
  if (given == nullptr || !given->is_array() || given->empty())
    throw bad_request("messages", "'messages' must be an array with at least one message");
  MessageReader reader(list, media);
  std::size_t last_user = given->size();
  while (last_user > 0 && !has((*given)[last_user - 1], "role", "user")) --last_user;
  for (std::size_t i = 0; i < given->size(); ++i) {
    // A system message may end with its turn.
    const Json& message = (*given)[i];
    const bool is_over =
        i + 1 < last_user && has(message, "role", "system") && has(message, "clear_at", kNextUser);
    if (!is_over) reader.read(fields.within(message, element("messages", i)));
  }
  // A last message of the assistant is continued, unless it ends with calls.
  turn.add_generation_prompt =
      list.empty() || list.back()["role"] != "assistant" || list.back().contains("tool_calls");
  turn.messages_json = to_text(list);
  read_tools(fields, turn, reader.changes());
  turn.reasoning_effort = read_effort(fields);
  read_template_variables(fields, turn);
  return turn;
}

// The format of the response, as newer clients request it.
void read_output_config(Fields& fields, CommonFields& common, RequestTurn& turn) {
  const auto read_format = [&](Fields& holder, std::string_view name) {
    const Json* value = holder.object(name);
    if (value == nullptr) return;
    Fields format = holder.within(*value, holder.path_of(name));
    format.word("type", 0, {"json_schema"});
    const Json* schema = format.object("schema");
    if (schema == nullptr) throw bad_request(format.path_of("schema"), "the schema is missing");
    const bool strict = format.boolean("strict", false);
    format.done();
    set_grammar(common, schema_request(*schema, strict, format.path_of("schema"), common.warnings));
  };
  read_format(fields, "output_format");
  if (const Json* config = fields.object("output_config")) {
    Fields inner = fields.within(*config, "output_config");
    // An effort says more than that reasoning is on.
    if (const std::string effort = known_effort(inner.string("effort"));
        !effort.empty() && turn.reasoning_effort != "none")
      turn.reasoning_effort = effort;
    read_format(inner, "format");
    inner.done();
  }
  if (const std::string effort = last_effort(fields); !effort.empty() && turn.reasoning_effort != "none")
    turn.reasoning_effort = effort;
}

class MessageWriter : public ResponseWriter {
 public:
  MessageWriter(std::string model, bool stream, int n_prompt, std::vector<std::string> stops,
                ResponseReader reader)
      : id_(make_id("msg_")),
        model_(std::move(model)),
        stream_(stream),
        n_prompt_(n_prompt),
        stops_(std::move(stops)) {
    response_.reader = std::move(reader);
  }

  bool streams() const override { return stream_; }
  ErrorShape shape() const override { return ErrorShape::kAnthropic; }

  void begin(std::string& out) override {
    Json message = head();
    message["content"] = Json::array();
    message["stop_reason"] = nullptr;
    message["stop_sequence"] = nullptr;
    message["usage"] = {{"input_tokens", n_prompt_},
                        {"cache_creation_input_tokens", 0},
                        {"cache_read_input_tokens", 0},
                        {"output_tokens", 0}};
    add(out, {{"type", "message_start"}, {"message", std::move(message)}});
  }

  void add(int /*choice*/, const Output& chunk, std::string& out) override {
    if (chunk.done) stop_string_ = chunk.stop_string;
    for (const ResponseEvent& event : response_.read(chunk, "toolu_"))
      if (stream_) tell(event, out);
  }

  void finish(std::string& out) override {
    if (stream_) {
      close(out);
      Json usage = usage_of();
      add(out, {{"type", "message_delta"},
                {"delta", {{"stop_reason", stop_reason()}, {"stop_sequence", stop_sequence()}}},
                {"usage", std::move(usage)}});
      add(out, {{"type", "message_stop"}});
      return;
    }
    Json content = Json::array();
    if (!response_.reasoning.empty())
      content.push_back({{"type", "thinking"}, {"thinking", response_.reasoning}, {"signature", ""}});
    if (!response_.content.empty() || response_.calls.empty())
      content.push_back({{"type", "text"}, {"text", response_.content}});
    for (const ToolCall& call : response_.calls)
      content.push_back({{"type", "tool_use"},
                         {"id", call.id},
                         {"name", call.name},
                         {"input", arguments_json(call.arguments)}});
    Json message = head();
    message["content"] = std::move(content);
    message["stop_reason"] = stop_reason();
    message["stop_sequence"] = stop_sequence();
    message["usage"] = usage_of();
    out = to_text(message);
  }

  void fail(const ApiError& error, std::string& out) override {
    add_event(out, to_text(error_json(error, ErrorShape::kAnthropic)), "error");
  }

 private:
  using Kind = ResponseEvent::Kind;

  static void add(std::string& out, const Json& json) {
    add_event(out, to_text(json), json["type"].get_ref<const std::string&>());
  }

  Json head() const { return {{"id", id_}, {"type", "message"}, {"role", "assistant"}, {"model", model_}}; }

  // Blocks follow each other: one that is open is closed before the next one begins.
  void open(std::string& out, Kind kind, Json block) {
    close(out);
    open_ = kind;
    add(out, {{"type", "content_block_start"}, {"index", n_blocks_}, {"content_block", std::move(block)}});
  }
  void close(std::string& out) {
    if (!open_) return;
    open_.reset();
    add(out, {{"type", "content_block_stop"}, {"index", n_blocks_++}});
  }
  void delta(std::string& out, Json json) const {
    add(out, {{"type", "content_block_delta"}, {"index", n_blocks_}, {"delta", std::move(json)}});
  }

  void tell(const ResponseEvent& event, std::string& out) {
    switch (event.kind) {
      case Kind::kContent:
        if (open_ != Kind::kContent) open(out, Kind::kContent, {{"type", "text"}, {"text", ""}});
        delta(out, {{"type", "text_delta"}, {"text", event.text}});
        break;
      case Kind::kReasoning:
        if (open_ != Kind::kReasoning)
          open(out, Kind::kReasoning, {{"type", "thinking"}, {"thinking", ""}, {"signature", ""}});
        delta(out, {{"type", "thinking_delta"}, {"thinking", event.text}});
        break;
      case Kind::kToolCall:
        open(out, Kind::kToolCall,
             {{"type", "tool_use"}, {"id", event.id}, {"name", event.name}, {"input", Json::object()}});
        break;
      case Kind::kToolArguments:
        delta(out, {{"type", "input_json_delta"}, {"partial_json", event.text}});
        break;
      case Kind::kToolCallEnd:
        close(out);
        break;
    }
  }

  std::string_view stop_reason() const {
    switch (response_.stop) {
      case StopReason::kStopString:
        if (is_clients(stop_string_)) return "stop_sequence";
        [[fallthrough]];
      case StopReason::kEnd:
        return response_.has_called() ? "tool_use" : "end_turn";
      default:
        return "max_tokens";
    }
  }
  // The chat format adds stop strings after the client's.
  bool is_clients(int stop) const { return stop >= 0 && stop < static_cast<int>(stops_.size()); }
  Json stop_sequence() const {
    const bool is_one = response_.stop == StopReason::kStopString && is_clients(stop_string_);
    return is_one ? Json(stops_[to_size(stop_string_)]) : Json();
  }
  Json usage_of() const {
    const CompletionStats& stats = response_.stats;
    return {{"input_tokens", stats.n_prompt - stats.n_cached},
            {"cache_creation_input_tokens", 0},
            {"cache_read_input_tokens", stats.n_cached},
            {"output_tokens", stats.n_generated}};
  }

  const std::string id_;
  const std::string model_;
  const bool stream_;
  const int n_prompt_;
  const std::vector<std::string> stops_;
  ReadResponse response_;
  int stop_string_ = -1;
  std::optional<Kind> open_;
  int n_blocks_ = 0;
};

}  // namespace

void messages(Job& job) {
  Fields fields = job.fields();
  CommonFields common = read_common(fields, job);
  RequestParams& params = common.params;
  MediaTaker media(job);
  RequestTurn turn = read_message_turn(fields, media);
  read_output_config(fields, common, turn);
  if (!fields.has("max_tokens")) throw bad_request("max_tokens", "'max_tokens' is missing");
  read_max_tokens(fields, {"max_tokens"}, params);
  read_min_tokens(fields, {"max_tokens"}, params);
  read_stops(fields, "stop_sequences", common);
  note_unshown(fields, common);
  // Prompts are cached anyway.
  fields.ignore({"betas", "inference_geo", "cache_control"});
  for (const char* name : {"context_management", "speed", "container", "mcp_servers"})
    fields.without_effect(name);
  fields.done();

  const bool stream = common.stream;
  const int slot = common.slot;
  std::vector<std::string> stops = params.stop;
  ChatOrder order = make_order(job, std::move(turn), std::move(common), media.finish());
  auto writer = std::make_unique<MessageWriter>(job.model_name, stream, static_cast<int>(order.prompt.size()),
                                                std::move(stops), std::move(order.reader));
  std::vector<std::vector<Token>> prompts;
  prompts.push_back(std::move(order.prompt));
  submit(job, std::move(prompts), order.params, std::move(writer), slot);
}

void count_message_tokens(Job& job) {
  Fields fields = job.fields();
  MediaTaker taker(job);
  CommonFields common;
  RequestTurn turn = read_message_turn(fields, taker);
  read_output_config(fields, common, turn);
  // Fields of generation.
  fields.ignore({"max_tokens", "stream", "temperature", "top_p", "top_k", "stop_sequences", "metadata",
                 "betas", "service_tier", "context_management", "cache_control", "mcp_servers", "speed",
                 "container", "inference_geo"});
  fields.done();
  job.send({{"input_tokens", count_tokens(*job.model, std::move(turn), taker.finish())}});
}

}  // namespace weft::server
