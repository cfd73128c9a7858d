#include "api/responses.h"

#include <fmt/format.h>

#include <utility>

#include "api/chat_order.h"

namespace weft::server {
namespace {

// Parts of text, and of pictures and sounds, which `media` takes; other kinds are refused.
std::string text_of(const Json& content, const std::string& path, MediaTaker& media) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) throw bad_request(path, fmt::format("'{}' must be a string or an array", path));
  std::string text;
  for (std::size_t i = 0; i < content.size(); ++i) {
    Fields part(content[i], element(path, i));
    constexpr std::size_t kImage = 6, kSound = 7;
    const std::size_t type = part.word("type", 0,
                                       {"input_text", "output_text", "text", "refusal", "reasoning_text",
                                        "summary_text", "input_image", "input_audio"});
    if (type == kSound) {
      text += media.take_sound(content[i], element(path, i));
      continue;
    }
    if (type == kImage) {
      part.refuse("file_id", "the server keeps no files; send the picture as 'image_url'");
      text += media.take_url(part.string("image_url"), part.path_of("image_url"));
      continue;
    }
    text += part.string("text") + part.string("refusal");
  }
  return text;
}

// Items of a conversation, as messages of the chat API.
class ItemReader {
 public:
  explicit ItemReader(MediaTaker& media) : media_(media) {}

  Json read(const Json& input) {
    if (input.is_string()) return Json::array({{{"role", "user"}, {"content", input}}});
    if (!input.is_array() || input.empty())
      throw bad_request("input", "'input' must be a string or an array with at least one item");
    for (std::size_t i = 0; i < input.size(); ++i) read_item(input[i], element("input", i));
    return std::move(messages_);
  }

 private:
  // Calls and thoughts belong to the message that the model wrote with them.
  Json& assistant() {
    if (messages_.empty() || messages_.back()["role"] != "assistant")
      messages_.push_back({{"role", "assistant"}, {"content", ""}});
    return messages_.back();
  }

  void read_item(const Json& json, const std::string& path) {
    Fields item(json, path);
    item.ignore({"id", "status", "encrypted_content", "phase"});
    const std::string type = item.string("type", "message");
    if (type == "message") {
      constexpr const char* kRoles[] = {"user", "assistant", "system", "developer"};
      const std::string role = kRoles[item.word("role", 0, {"user", "assistant", "system", "developer"})];
      const Json* content = item.find("content");
      if (content == nullptr)
        throw bad_request(item.path_of("content"), fmt::format("'{}.content' is missing", path));
      const std::string text = text_of(*content, item.path_of("content"), media_);
      if (role == "assistant") {
        Json& mine = assistant();
        mine["content"].get_ref<std::string&>() += text;
      } else {
        messages_.push_back({{"role", role}, {"content", text}});
      }
    } else if (type == "function_call") {
      Json& mine = assistant();
      mine["tool_calls"].push_back(
          {{"id", item.string("call_id")},
           {"type", "function"},
           {"function", {{"name", item.string("name")}, {"arguments", item.string("arguments", "{}")}}}});
    } else if (type == "function_call_output") {
      const Json* output = item.find("output");
      messages_.push_back(
          {{"role", "tool"},
           {"tool_call_id", item.string("call_id")},
           {"content", output == nullptr ? "" : text_of(*output, item.path_of("output"), media_)}});
    } else if (type == "reasoning") {
      const Json* content = item.array("content");
      const std::string text = content == nullptr ? "" : text_of(*content, item.path_of("content"), media_);
      item.ignore({"summary"});
      if (!text.empty())
        messages_.push_back({{"role", "assistant"}, {"content", ""}, {"reasoning_content", text}});
    } else {
      throw bad_request(item.path_of("type"),
                        fmt::format("'{}': items of type '{}' are not supported", path, type.substr(0, 64)));
    }
    item.done();
  }

  MediaTaker& media_;
  Json messages_ = Json::array();
};

std::string read_tools(const Json& tools) {
  Json list = Json::array();
  for (std::size_t i = 0; i < tools.size(); ++i) {
    Fields tool(tools[i], element("tools", i));
    tool.word("type", 0, {"function"});
    Json function = {{"name", tool.string("name")},
                     {"description", tool.string("description")},
                     {"strict", tool.boolean("strict", false)}};
    if (const Json* parameters = tool.object("parameters")) function["parameters"] = *parameters;
    tool.ignore({"defer_loading"});
    tool.done();
    list.push_back({{"type", "function"}, {"function", std::move(function)}});
  }
  return to_text(list);
}

std::optional<GrammarWish> read_format(Fields& fields, std::vector<std::string>& warnings) {
  const Json* text = fields.object("text");
  if (text == nullptr) return std::nullopt;
  Fields inner(*text, "text");
  inner.ignore({"verbosity"});
  const Json* value = inner.object("format");
  inner.done();
  if (value == nullptr) return std::nullopt;
  Fields format(*value, "text.format");
  const std::size_t type = format.word("type", 0, {"text", "json_object", "json_schema"});
  const bool strict = format.boolean("strict", false);
  format.ignore({"name", "description"});
  const Json* schema = format.object("schema");
  format.done();
  if (type == 0) return std::nullopt;
  if (type == 1) return object_wish();
  if (schema == nullptr) throw bad_request("text.format.schema", "'text.format.schema' is missing");
  return schema_wish(*schema, strict, "text.format.schema", warnings);
}

class ResponseWriter : public AnswerWriter {
 public:
  ResponseWriter(Json frame, std::shared_ptr<ServedModel> model, bool stream, bool logprobs,
                 AnswerReader reader)
      : frame_(std::move(frame)), model_(std::move(model)), stream_(stream), logprobs_(logprobs) {
    answer_.reader = std::move(reader);
  }

  bool streams() const override { return stream_; }

  void begin(std::string& out) override {
    tell(out, "response.created", {{"response", frame_}});
    tell(out, "response.in_progress", {{"response", frame_}});
  }

  void add(int /*choice*/, const Chunk& chunk, std::string& out) override {
    if (logprobs_)
      for (const OutputToken& token : chunk.tokens)
        if (!model_->tokenizer().is_end(token.id))
          pending_logprobs_.push_back(logprob_json(token, model_->tokenizer()));
    // Those of text that is held back wait for it.
    for (const AnswerEvent& event : answer_.read(chunk, "call_")) {
      const bool is_content = event.kind == Kind::kContent;
      add_event_of(event, is_content ? std::exchange(pending_logprobs_, Json::array()) : Json::array(), out);
    }
  }

  void finish(std::string& out) override {
    const bool cut = finish_reason(answer_.stop) == "length";
    close(out, cut ? "incomplete" : "completed");
    frame_["status"] = cut ? "incomplete" : "completed";
    if (cut) frame_["incomplete_details"] = {{"reason", "max_output_tokens"}};
    const CompletionStats& stats = answer_.stats;
    frame_["usage"] = {{"input_tokens", stats.n_prompt},
                       {"input_tokens_details", {{"cached_tokens", stats.n_cached}}},
                       {"output_tokens", stats.n_generated},
                       {"output_tokens_details", {{"reasoning_tokens", 0}}},
                       {"total_tokens", stats.n_prompt + stats.n_generated}};
    if (stream_) {
      tell(out, cut ? "response.incomplete" : "response.completed", {{"response", frame_}});
    } else {
      out = to_text(frame_);
    }
  }

  void fail(const ApiError& error, std::string& out) override {
    frame_["status"] = "failed";
    frame_["error"] = {{"code", error.code.empty() ? "server_error" : error.code}, {"message", error.what()}};
    tell(out, "response.failed", {{"response", frame_}});
  }

 private:
  using Kind = AnswerEvent::Kind;

  void tell(std::string& out, std::string_view type, Json json) {
    if (!stream_) return;
    Json event = {{"type", type}, {"sequence_number", n_events_++}};
    event.update(json);
    weft::server::add_event(out, to_text(event), type);
  }

  std::size_t index() const { return frame_["output"].size() - 1; }
  Json& item() { return frame_["output"].back(); }
  Json at() { return {{"item_id", item()["id"]}, {"output_index", index()}}; }
  Json part_at() {
    Json json = at();
    json["content_index"] = 0;
    return json;
  }

  void open(std::string& out, Kind kind, Json json, Json part) {
    close(out);
    open_ = kind;
    frame_["output"].push_back(std::move(json));
    tell(out, "response.output_item.added", {{"output_index", index()}, {"item", item()}});
    if (part.is_null()) return;
    item()["content"].push_back(part);
    Json event = part_at();
    event["part"] = std::move(part);
    tell(out, "response.content_part.added", std::move(event));
  }

  // The item that is written is whole.
  void close(std::string& out, std::string_view status = "completed") {
    if (!open_) return;
    const Kind kind = *std::exchange(open_, std::nullopt);
    item()["status"] = status;
    if (kind == Kind::kToolCall) {
      Json event = at();
      event["name"] = item()["name"];
      event["arguments"] = item()["arguments"];
      tell(out, "response.function_call_arguments.done", std::move(event));
    } else {
      Json part = item()["content"][0];
      Json event = part_at();
      event["text"] = part["text"];
      if (kind == Kind::kContent) event["logprobs"] = part["logprobs"];
      tell(out, kind == Kind::kContent ? "response.output_text.done" : "response.reasoning_text.done",
           std::move(event));
      event = part_at();
      event["part"] = std::move(part);
      tell(out, "response.content_part.done", std::move(event));
    }
    tell(out, "response.output_item.done", {{"output_index", index()}, {"item", item()}});
  }

  void append(const char* field, const std::string& text) {
    Json& part = item()["content"][0][field];
    part.get_ref<std::string&>() += text;
  }

  void add_event_of(const AnswerEvent& event, Json logprobs, std::string& out) {
    switch (event.kind) {
      case Kind::kContent: {
        if (open_ != Kind::kContent)
          open(out, Kind::kContent,
               {{"id", make_id("msg_")},
                {"type", "message"},
                {"status", "in_progress"},
                {"role", "assistant"},
                {"content", Json::array()}},
               {{"type", "output_text"},
                {"text", ""},
                {"annotations", Json::array()},
                {"logprobs", Json::array()}});
        append("text", event.text);
        Json delta = part_at();
        delta["delta"] = event.text;
        delta["logprobs"] = logprobs;
        for (Json& entry : logprobs) item()["content"][0]["logprobs"].push_back(std::move(entry));
        tell(out, "response.output_text.delta", std::move(delta));
        break;
      }
      case Kind::kReasoning: {
        if (open_ != Kind::kReasoning)
          open(out, Kind::kReasoning,
               {{"id", make_id("rs_")},
                {"type", "reasoning"},
                {"status", "in_progress"},
                {"summary", Json::array()},
                {"content", Json::array()}},
               {{"type", "reasoning_text"}, {"text", ""}});
        append("text", event.text);
        Json delta = part_at();
        delta["delta"] = event.text;
        tell(out, "response.reasoning_text.delta", std::move(delta));
        break;
      }
      case Kind::kToolCall:
        open(out, Kind::kToolCall,
             {{"id", make_id("fc_")},
              {"type", "function_call"},
              {"status", "in_progress"},
              {"call_id", event.id},
              {"name", event.name},
              {"arguments", ""}},
             Json());
        break;
      case Kind::kToolArguments: {
        item()["arguments"].get_ref<std::string&>() += event.text;
        Json delta = at();
        delta["delta"] = event.text;
        tell(out, "response.function_call_arguments.delta", std::move(delta));
        break;
      }
      case Kind::kToolCallEnd:
        close(out);
        break;
    }
  }

  Json frame_;  ///< The response, as far as it is written.
  const std::shared_ptr<ServedModel> model_;
  const bool stream_;
  const bool logprobs_;
  Json pending_logprobs_ = Json::array();
  ReadAnswer answer_;
  std::optional<Kind> open_;
  int n_events_ = 0;
};

// The response without what the model writes: the request said back, as clients expect it.
Json frame_of(const Json& body, const std::string& model, const SamplerParams& sampler) {
  const auto said = [&](const char* name, Json fallback) {
    const auto found = body.find(name);
    return found == body.end() || found->is_null() ? std::move(fallback) : *found;
  };
  return {{"id", make_id("resp_")},
          {"object", "response"},
          {"created_at", seconds_now()},
          {"status", "in_progress"},
          {"background", false},
          {"error", nullptr},
          {"incomplete_details", nullptr},
          {"instructions", said("instructions", nullptr)},
          {"max_output_tokens", said("max_output_tokens", nullptr)},
          {"model", model},
          {"output", Json::array()},
          {"parallel_tool_calls", said("parallel_tool_calls", true)},
          {"previous_response_id", nullptr},
          {"reasoning", said("reasoning", {{"effort", nullptr}, {"summary", nullptr}})},
          {"store", false},
          {"temperature", sampler.temperature},
          {"text", said("text", {{"format", {{"type", "text"}}}})},
          {"tool_choice", said("tool_choice", "auto")},
          {"tools", said("tools", Json::array())},
          {"top_p", sampler.top_p},
          {"truncation", "disabled"},
          {"usage", nullptr},
          {"user", said("user", nullptr)},
          {"metadata", said("metadata", Json::object())}};
}

ChatTurn read_turn(Fields& fields, MediaTaker& taker) {
  ChatTurn turn;
  const Json* input = read_conversation(fields, "input");
  if (input == nullptr) throw bad_request("input", "'input' is missing");
  Json list = ItemReader(taker).read(*input);
  if (const std::string instructions = fields.string("instructions"); !instructions.empty())
    list.insert(list.begin(), Json{{"role", "system"}, {"content", instructions}});
  turn.messages_json = to_text(list);
  if (const Json* tools = find_tools(fields)) turn.tools_json = read_tools(*tools);
  read_tool_choice(fields, turn);
  if (fields.has("parallel_tool_calls"))
    turn.parallel_tool_calls = fields.boolean("parallel_tool_calls", true);
  if (const Json* reasoning = fields.object("reasoning")) {
    Fields inner(*reasoning, "reasoning");
    turn.reasoning_effort = inner.string("effort");
    inner.ignore({"summary", "generate_summary"});
    inner.done();
  }
  read_template_variables(fields, turn);
  return turn;
}

}  // namespace

void count_response_tokens(Job& job) {
  Fields fields(job.body);
  MediaTaker taker(job);
  ChatTurn turn = read_turn(fields, taker);
  job.send({{"object", "response.input_tokens"},
            {"input_tokens", count_tokens(*job.model, std::move(turn), taker.finish())}});
}

void responses(Job& job) {
  // Clients ask for responses to be kept by default. The response says that it is not.
  job.body.erase("store");
  Fields fields(job.body);
  CommonFields common = read_common(fields, job.params->defaults, *job.model->model);
  RequestParams& params = common.params;

  MediaTaker taker(job);
  ChatTurn turn = read_turn(fields, taker);
  if (auto format = read_format(fields, common.warnings)) common.grammar = std::move(format);
  read_max_tokens(fields, {"max_output_tokens"}, params);
  bool logprobs = fields.has("top_logprobs");
  for (const std::string& what : fields.strings("include", 64)) {
    if (what == "message.output_text.logprobs")
      logprobs = true;
    else if (what != "reasoning.encrypted_content")
      throw bad_request("include", fmt::format("'include': '{}' is not supported", what.substr(0, 64)));
  }
  const int n_top = fields.integer("top_logprobs", 0, 0, job.params->defaults.n_logprobs);
  if (logprobs) params.n_logprobs = n_top;
  check_logprobs(params, 1, common.stream, *job.model);
  fields.refuse("previous_response_id",
                "the server keeps no answers; send the whole conversation as 'input'");
  fields.refuse("conversation", "the server keeps no conversations; send the whole one as 'input'");
  fields.refuse("prompt", "the server keeps no prompts");
  fields.only("background", false, "the server keeps no answers");
  fields.only("truncation", "disabled", "what does not fit is refused");
  fields.ignore({"model", "max_tool_calls"});
  fields.done();

  Json frame = frame_of(job.body, job.model_name, params.sampler);
  const bool stream = common.stream;
  ChatOrder order = make_order(job, std::move(turn), std::move(common), taker.finish());
  auto writer = std::make_unique<ResponseWriter>(std::move(frame), job.model, stream, logprobs,
                                                 std::move(order.reader));
  std::vector<std::vector<Token>> prompts;
  prompts.push_back(std::move(order.prompt));
  submit(job, std::move(prompts), order.params, std::move(writer));
}

}  // namespace weft::server
