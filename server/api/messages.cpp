#include "api/messages.h"

#include <fmt/format.h>

#include <utility>

#include "api/chat_order.h"

namespace weft::server {
namespace {

// The picture of a block of type "image".
std::string take_picture(Fields& block, MediaTaker& media) {
  const std::string path = block.path_of("source");
  const Json* const value = block.object("source");
  if (value == nullptr) throw bad_request(path, fmt::format("'{}' is missing", path));
  Fields source(*value, path);
  source.ignore({"media_type"});
  const bool is_url = source.word("type", 2, {"base64", "url"}) == 1;
  std::string mark = is_url ? media.take_url(source.string("url"), source.path_of("url"))
                            : media.take_picture(source.string("data"), source.path_of("data"));
  source.done();
  return mark;
}

// A string, or blocks of text and pictures: the text.
std::string text_of(const Json& content, const std::string& path, MediaTaker& media) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array())
    throw bad_request(path, fmt::format("'{}' must be a string or an array of blocks", path));
  std::string text;
  bool was_text = false;  // Texts are lines of their own.
  for (std::size_t i = 0; i < content.size(); ++i) {
    Fields block(content[i], element(path, i));
    if (block.word("type", 0, {"text", "image"}) == 1) {
      text += take_picture(block, media);
      was_text = false;
      continue;
    }
    if (was_text) text += '\n';
    text += block.string("text");
    was_text = true;
  }
  return text;
}

bool is_tool_result(const Json& block) {
  return block.is_object() && block.contains("type") && block["type"] == "tool_result";
}

// What one message of Anthropic's is in OpenAI's: tool results become messages of their own, in front.
class MessageReader {
 public:
  MessageReader(Json& out, MediaTaker& media) : out_(&out), media_(&media) {}

  void read(const Json& message, const std::string& path) {
    Fields fields(message, path);
    const std::size_t role = fields.word("role", 2, {"user", "assistant", "system"});
    const Json* content = fields.find("content");
    if (content == nullptr)
      throw bad_request(fields.path_of("content"), fmt::format("'{}.content' is missing", path));
    fields.done();
    text_.clear();
    thinking_.clear();
    calls_ = Json::array();
    has_text_ = content->is_string();
    was_text_ = false;
    if (content->is_string()) {
      text_ = content->get<std::string>();
    } else if (content->is_array()) {
      // Tool results first, as they stand in the conversation: pictures are taken in that order.
      for (const bool results : {true, false})
        for (std::size_t i = 0; i < content->size(); ++i)
          if (is_tool_result((*content)[i]) == results)
            read_block((*content)[i], element(fields.path_of("content"), i), role == 1);
    } else {
      throw bad_request(fields.path_of("content"),
                        fmt::format("'{}.content' must be a string or an array", path));
    }
    constexpr const char* kRoles[] = {"user", "assistant", "system"};
    if (role != 1 && !has_text_) return;  // Tool results only.
    Json mine = {{"role", kRoles[role]}, {"content", text_}};
    if (!thinking_.empty()) mine["reasoning_content"] = thinking_;
    if (!calls_.empty()) mine["tool_calls"] = std::move(calls_);
    out_->push_back(std::move(mine));
  }

 private:
  void read_block(const Json& json, const std::string& path, bool from_assistant) {
    Fields block(json, path);
    block.ignore({"cache_control", "citations"});
    const std::string type = block.string("type");
    if (type == "text") {
      if (was_text_) text_ += '\n';
      text_ += block.string("text");
      has_text_ = was_text_ = true;
    } else if (type == "image" && !from_assistant) {
      text_ += take_picture(block, *media_);
      has_text_ = true;
      was_text_ = false;
    } else if (type == "thinking" && from_assistant) {
      thinking_ += block.string("thinking");
      block.ignore({"signature"});
    } else if (type == "redacted_thinking" && from_assistant) {
      block.ignore({"data"});
    } else if (type == "tool_use" && from_assistant) {
      const Json* input = block.object("input");
      calls_.push_back(
          {{"id", block.string("id")},
           {"type", "function"},
           {"function",
            {{"name", block.string("name")}, {"arguments", input == nullptr ? "{}" : to_text(*input)}}}});
      block.ignore({"caller"});
    } else if (type == "tool_result" && !from_assistant) {
      const Json* content = block.find("content");
      std::string text =
          content == nullptr ? std::string() : text_of(*content, block.path_of("content"), *media_);
      if (block.boolean("is_error", false)) text = "Error: " + text;
      out_->push_back(
          {{"role", "tool"}, {"tool_call_id", block.string("tool_use_id")}, {"content", std::move(text)}});
    } else {
      throw bad_request(
          block.path_of("type"),
          fmt::format("'{}': blocks of type '{}' are not supported; weft reads text, pictures and tools",
                      path, type.substr(0, 64)));
    }
    block.done();
  }

  Json* out_;
  MediaTaker* media_;
  std::string text_;
  std::string thinking_;
  Json calls_;
  bool has_text_ = false;
  bool was_text_ = false;  // The block before: texts are lines of their own.
};

std::string read_tools(const Json& tools) {
  Json list = Json::array();
  for (std::size_t i = 0; i < tools.size(); ++i) {
    Fields tool(tools[i], element("tools", i));
    tool.word("type", 0, {"custom"});
    Json function = {{"name", tool.string("name")}, {"description", tool.string("description")}};
    const Json* schema = tool.object("input_schema");
    function["parameters"] = schema == nullptr ? Json{{"type", "object"}} : *schema;
    function["strict"] = tool.boolean("strict", false);
    tool.ignore(
        {"cache_control", "eager_input_streaming", "allowed_callers", "defer_loading", "input_examples"});
    tool.done();
    list.push_back({{"type", "function"}, {"function", std::move(function)}});
  }
  return to_text(list);
}

void read_choice(Fields& fields, ChatTurn& turn) {
  const Json* value = fields.object("tool_choice");
  if (value == nullptr) return;
  Fields choice(*value, "tool_choice");
  constexpr ToolChoice kChoices[] = {ToolChoice::kAuto, ToolChoice::kRequired, ToolChoice::kNamed,
                                     ToolChoice::kNone};
  turn.tool_choice = kChoices[choice.word("type", 0, {"auto", "any", "tool", "none"})];
  turn.tool_name = choice.string("name");
  if (choice.has("disable_parallel_tool_use"))
    turn.parallel_tool_calls = !choice.boolean("disable_parallel_tool_use", false);
  choice.done();
}

ChatTurn read_turn(Fields& fields, MediaTaker& media) {
  ChatTurn turn;
  Json list = Json::array();
  if (const Json* system = fields.find("system"))
    list.push_back({{"role", "system"}, {"content", text_of(*system, "system", media)}});
  const Json* given = read_conversation(fields, "messages");
  if (given == nullptr || !given->is_array() || given->empty())
    throw bad_request("messages", "'messages' must be an array with at least one message");
  MessageReader reader(list, media);
  for (std::size_t i = 0; i < given->size(); ++i) reader.read((*given)[i], element("messages", i));
  // An answer that is begun is continued.
  turn.add_generation_prompt = list.empty() || list.back()["role"] != "assistant";
  turn.messages_json = to_text(list);
  if (const Json* tools = find_tools(fields)) turn.tools_json = read_tools(*tools);
  read_choice(fields, turn);
  if (const Json* thinking = fields.object("thinking")) {
    Fields inner(*thinking, "thinking");
    if (inner.word("type", 0, {"enabled", "disabled", "adaptive"}) == 1) turn.reasoning_effort = "none";
    inner.ignore({"budget_tokens", "display"});
    inner.done();
  }
  read_template_variables(fields, turn);
  return turn;
}

// An answer's form, as newer clients ask for it.
void read_output_config(Fields& fields, CommonFields& common, ChatTurn& turn) {
  const auto read_format = [&](Fields& holder, std::string_view name) {
    const Json* value = holder.object(name);
    if (value == nullptr) return;
    Fields format(*value, holder.path_of(name));
    format.word("type", 0, {"json_schema"});
    const Json* schema = format.object("schema");
    if (schema == nullptr) throw bad_request(format.path_of("schema"), "the schema is missing");
    const bool strict = format.boolean("strict", false);
    format.done();
    common.grammar = schema_wish(*schema, strict, format.path_of("schema"), common.warnings);
  };
  read_format(fields, "output_format");
  if (const Json* config = fields.object("output_config")) {
    Fields inner(*config, "output_config");
    constexpr const char* kEfforts[] = {"low", "medium", "high", "high", "high"};
    if (inner.has("effort") && turn.reasoning_effort.empty())
      turn.reasoning_effort = kEfforts[inner.word("effort", 1, {"low", "medium", "high", "xhigh", "max"})];
    read_format(inner, "format");
    inner.done();
  }
}

class MessageWriter : public AnswerWriter {
 public:
  MessageWriter(std::string model, bool stream, int n_prompt, std::vector<std::string> stops,
                AnswerReader reader)
      : id_(make_id("msg_")),
        model_(std::move(model)),
        stream_(stream),
        n_prompt_(n_prompt),
        stops_(std::move(stops)) {
    answer_.reader = std::move(reader);
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

  void add(int /*choice*/, const Chunk& chunk, std::string& out) override {
    if (chunk.done) stop_string_ = chunk.stop_string;
    for (const AnswerEvent& event : answer_.read(chunk, "toolu_"))
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
    if (!answer_.reasoning.empty())
      content.push_back({{"type", "thinking"}, {"thinking", answer_.reasoning}, {"signature", ""}});
    if (!answer_.content.empty() || answer_.calls.empty())
      content.push_back({{"type", "text"}, {"text", answer_.content}});
    for (const ToolCall& call : answer_.calls)
      content.push_back(
          {{"type", "tool_use"}, {"id", call.id}, {"name", call.name}, {"input", input_of(call)}});
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
  using Kind = AnswerEvent::Kind;

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

  void tell(const AnswerEvent& event, std::string& out) {
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

  Json input_of(const ToolCall& call) const {
    try {
      return parse_json(call.arguments);
    } catch (const ApiError&) {  // Cut off by the length: what there is, as text.
      return {{"_partial", call.arguments}};
    }
  }

  std::string_view stop_reason() const {
    switch (answer_.stop) {
      case StopReason::kStopString:
        if (is_clients(stop_string_)) return "stop_sequence";
        [[fallthrough]];
      case StopReason::kEnd:
        return answer_.has_called() ? "tool_use" : "end_turn";
      default:
        return "max_tokens";
    }
  }
  // Formats have stop strings of their own, behind the client's.
  bool is_clients(int stop) const { return stop >= 0 && stop < static_cast<int>(stops_.size()); }
  Json stop_sequence() const {
    const bool is_one = answer_.stop == StopReason::kStopString && is_clients(stop_string_);
    return is_one ? Json(stops_[static_cast<std::size_t>(stop_string_)]) : Json();
  }
  Json usage_of() const {
    const CompletionStats& stats = answer_.stats;
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
  ReadAnswer answer_;
  int stop_string_ = -1;
  std::optional<Kind> open_;
  int n_blocks_ = 0;
};

}  // namespace

void messages(Job& job) {
  Fields fields(job.body);
  CommonFields common = read_common(fields, job.params->defaults, *job.model->model);
  RequestParams& params = common.params;
  MediaTaker media(job);
  ChatTurn turn = read_turn(fields, media);
  read_output_config(fields, common, turn);
  if (!fields.has("max_tokens")) throw bad_request("max_tokens", "'max_tokens' is missing");
  read_max_tokens(fields, {"max_tokens"}, params);
  read_stops(fields, "stop_sequences", params);
  fields.ignore({"model", "betas", "inference_geo", "context_management", "speed", "cache_control"});
  fields.refuse("container", "the server runs no code");
  if (const Json* servers = fields.array("mcp_servers"); servers != nullptr && !servers->empty())
    fields.refuse("mcp_servers", "the server has no way out");
  fields.done();

  const bool stream = common.stream;
  std::vector<std::string> stops = params.stop;
  ChatOrder order = make_order(job, std::move(turn), std::move(common), media.finish());
  auto writer = std::make_unique<MessageWriter>(job.model_name, stream, static_cast<int>(order.prompt.size()),
                                                std::move(stops), std::move(order.reader));
  std::vector<std::vector<Token>> prompts;
  prompts.push_back(std::move(order.prompt));
  submit(job, std::move(prompts), order.params, std::move(writer));
}

void count_message_tokens(Job& job) {
  Fields fields(job.body);
  MediaTaker taker(job);
  ChatTurn turn = read_turn(fields, taker);
  job.send({{"input_tokens", count_tokens(*job.model, std::move(turn), taker.finish())}});
}

}  // namespace weft::server
