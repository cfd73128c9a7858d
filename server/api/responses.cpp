#include "api/responses.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <span>
#include <utility>

#include "api/chat_order.h"
#include "api/stored_responses.h"
#include "base/base64.h"

namespace weft::server {
namespace {

/// Whether the result of a tool is a list of parts. Other lists are data.
bool is_parts(const Json& content) {
  return content.is_array() && std::all_of(content.begin(), content.end(), [](const Json& part) {
           return part.is_object() && (part.contains("type") || part.contains("text"));
         });
}

// Joins the parts of a content. Images and audio go to `media`. Unknown parts are skipped with a note. The
// result of a tool may be any JSON.
std::string response_text(const Json& content, const std::string& path, const Fields& parent,
                          MediaTaker& media) {
  if (content.is_null()) return {};
  if (content.is_string()) return content.get<std::string>();
  if (media.is_in_tool_result() && !is_parts(content)) return to_text(content);
  if (!content.is_array())
    throw bad_request(
        path, fmt::format("'{}' must be a string or an array of parts, not {}", path, content.type_name()));
  std::string text;
  for (std::size_t i = 0; i < content.size(); ++i) {
    Fields part = parent.within(content[i], element(path, i));
    const std::string type = part.string("type", "text");
    if (type == "input_audio") {
      text += media.take("audio", [&] {
        return part.has("audio_url")
                   ? media.take_audio_url(part.string("audio_url"), part.path_of("audio_url"))
                   : media.take_audio(content[i], element(path, i));
      });
    } else if (type == "input_image") {
      text += media.take("image", [&] {
        part.refuse("file_id", "the server stores no files; send the image as 'image_url'");
        return media.take_url(part.string("image_url"), part.path_of("image_url"));
      });
    } else if (type == "input_file") {
      text += media.take("file", [&]() -> std::string { throw no_files(element(path, i)); });
    } else if (part.has("text") || part.has("refusal")) {
      text += part.string("text") + part.string("refusal");
    } else if (type.ends_with("text")) {
      throw bad_request(part.path_of("text"), fmt::format("'{}' is missing", part.path_of("text")));
    } else {
      part.note(type);
    }
  }
  return text;
}

/// The output of a shell's commands: each has stdout, stderr, and an outcome.
std::string shell_text(const Json& output, const std::string& path, const Fields& parent) {
  std::string text;
  const auto add = [&text](const std::string& part) {
    if (!text.empty() && text.back() != '\n' && !part.empty()) text += '\n';
    text += part;
  };
  for (std::size_t i = 0; i < output.size(); ++i) {
    Fields command = parent.within(output[i], element(path, i));
    add(command.string("stdout"));
    add(command.string("stderr"));
    const Json* const found = command.object("outcome");
    if (found == nullptr) continue;
    Fields outcome = command.within(*found, command.path_of("outcome"));
    if (outcome.string("type") == "timeout")
      add("The command timed out.");
    else if (outcome.has("exit_code"))
      add(fmt::format("Exit code: {}",
                      outcome.integer("exit_code", std::int64_t{0}, std::numeric_limits<std::int64_t>::min(),
                                      std::numeric_limits<std::int64_t>::max())));
  }
  return text;
}

/// The prefix of "encrypted" content. Clients that drop reasoning send this content back.
constexpr std::string_view kSealed = "weft:";

std::string seal(const std::string& reasoning) {
  return std::string(kSealed) + base::to_base64(std::as_bytes(std::span(reasoning)));
}

/// The reasoning of sealed content. Empty for content of other servers.
std::string unseal(std::string_view text) {
  if (!text.starts_with(kSealed)) return {};
  const auto bytes = base::from_base64(text.substr(kSealed.size()));
  if (!bytes) return {};
  std::string reasoning(bytes->size(), '\0');
  std::transform(bytes->begin(), bytes->end(), reasoning.begin(),
                 [](std::byte b) { return static_cast<char>(b); });
  return reasoning;
}

// Items of a conversation, as messages of the chat API.
class ItemReader {
 public:
  ItemReader(Fields& fields, MediaTaker& media) : fields_(fields), media_(media) {}

  Json read(const Json& input) {
    if (input.is_string()) return Json::array({{{"role", "user"}, {"content", input}}});
    if (!input.is_array() || input.empty())
      throw bad_request("input", "'input' must be a string or an array with at least one item");
    for (std::size_t i = 0; i < input.size(); ++i) read_item(fields_.within(input[i], element("input", i)));
    if (messages_.empty()) throw bad_request("input", "'input' has no item of a supported type");
    return std::move(messages_);
  }
  /// The tools that the items add.
  const std::vector<ToolChange>& changes() const { return changes_; }

 private:
  // Calls and thoughts belong to the message that the model wrote with them.
  Json& assistant() {
    if (messages_.empty() || messages_.back()["role"] != "assistant")
      messages_.push_back({{"role", "assistant"}, {"content", ""}});
    return messages_.back();
  }

  std::string text(Fields& item, std::string_view name) {
    const Json* const content = item.find(name);
    return content == nullptr ? std::string() : response_text(*content, item.path_of(name), item, media_);
  }

  std::string result(Fields& item, std::string_view name) {
    media_.in_tool_result(true);
    std::string all = text(item, name);
    media_.in_tool_result(false);
    return all;
  }

  // Items have many members that do not concern the model: these get no notes.
  void read_item(Fields item) {
    const std::string type = item.string("type", "message");
    if (type == "message") return read_message(item);
    if (type == "reasoning") return read_reasoning(item);
    if (type == "item_reference") return read_reference(item);
    if (type == "agent_message") return read_agent_message(item);
    if (type == "additional_tools") return add_tools(item);
    if (type == "tool_search_output") return read_found_tools(item);
    if (type == "mcp_call") {
      read_call(item, type);
      return add_result(call_id_of(item), result(item, item.has("error") ? "error" : "output"));
    }
    if (const Json* const output = type == "shell_call_output" ? item.find("output") : nullptr;
        output != nullptr && output->is_array() && item.has("call_id"))
      return add_result(item.string("call_id"), shell_text(*output, item.path_of("output"), item));
    if (type.ends_with("_output") && item.has("call_id") && item.json().contains("output"))
      return add_result(item.string("call_id"), result(item, "output"));
    if (type.ends_with("_call") && item.has("call_id")) return read_call(item, type);
    item.note(type);
  }

  void read_message(Fields& item) {
    const std::string role = item.string("role");
    if (role.empty())
      throw bad_request(item.path_of("role"), fmt::format("'{}' is missing", item.path_of("role")));
    // null is empty, as in the message of an assistant that only calls tools.
    if (!item.has("content") && (role != "assistant" || !item.json().contains("content")))
      throw bad_request(item.path_of("content"), fmt::format("'{}' is missing", item.path_of("content")));
    const std::string content = text(item, "content");
    if (role == "assistant")
      assistant()["content"].get_ref<std::string&>() += content;
    else
      messages_.push_back({{"role", role}, {"content", content}});
  }

  // From another agent to this one.
  void read_agent_message(Fields& item) {
    if (std::string content = text(item, "content"); !content.empty())
      messages_.push_back({{"role", "user"}, {"content", std::move(content)}});
  }

  void add_tools(Fields& item) {
    const Json* const tools = item.array("tools");
    for (std::size_t i = 0; tools != nullptr && i < tools->size(); ++i)
      changes_.push_back(
          {ToolChange::Kind::kDefine, item.within((*tools)[i], element(item.path_of("tools"), i))});
  }

  // The model can call what its search has found. A search that a server ran has no call_id, and its call is
  // not in the prompt.
  void read_found_tools(Fields& item) {
    add_tools(item);
    if (!item.has("call_id")) return;
    std::string names;
    add_names(item, "", names);
    add_result(item.string("call_id"), names.empty() ? "No tools found." : "Found: " + names);
  }

  // The names of the functions, as the model calls them: "one, space__two".
  static void add_names(Fields& holder, const std::string& name_space, std::string& names) {
    const Json* const tools = holder.array("tools");
    for (std::size_t i = 0; tools != nullptr && i < tools->size(); ++i) {
      Fields tool = holder.within((*tools)[i], element(holder.path_of("tools"), i));
      const Json* const function = tool.object("function");
      const std::string name = function == nullptr
                                   ? tool.string("name")
                                   : tool.within(*function, tool.path_of("function")).string("name");
      if (name_space.empty() && tool.string("type") == "namespace")
        add_names(tool, name, names);
      else if (!name.empty())
        names += (names.empty() ? "" : ", ") + RequestTools::function_of(name_space, name);
    }
  }

  void read_reasoning(Fields& item) {
    std::string thoughts = text(item, "content");
    if (thoughts.empty()) thoughts = unseal(item.string("encrypted_content"));
    if (thoughts.empty()) thoughts = text(item, "summary");
    if (!thoughts.empty())
      messages_.push_back({{"role", "assistant"}, {"content", ""}, {"reasoning_content", thoughts}});
    else if (item.has("encrypted_content"))
      item.note("encrypted_content");  // Of another server.
  }

  // Reasoning may be left out. Without other items the conversation would have gaps.
  static void read_reference(Fields& item) {
    const std::string id = item.string("id");
    if (!id.starts_with("rs_"))
      throw bad_request(
          item.path_of("id"),
          fmt::format(
              "the server does not have the item '{}'; send it in full (clients do so with \"store\": "
              "false)",
              id.substr(0, 64)));
    item.note("item_reference");
  }

  // A call of a function, of a custom tool, or of a tool that is known by its type: "local_shell_call".
  void read_call(Fields& item, const std::string& type) {
    const std::string own = type.substr(0, type.size() - std::string_view("_call").size());
    const std::string name = RequestTools::function_of(item.string("namespace"), item.string("name", own));
    Json arguments = Json::object();
    if (const Json* given = item.find("arguments")) {
      arguments = *given;
    } else if (item.has("input")) {
      arguments = {{"input", item.string("input")}};
    } else {
      for (const char* key : {"action", "operation"})
        if (const Json* what = item.object(key)) arguments = *what;
    }
    assistant()["tool_calls"].push_back({{"id", call_id_of(item)},
                                         {"type", "function"},
                                         {"function", {{"name", name}, {"arguments", arguments}}}});
  }

  static std::string call_id_of(Fields& item) { return item.string("call_id", item.string("id")); }

  void add_result(const std::string& call_id, std::string content) {
    messages_.push_back({{"role", "tool"}, {"tool_call_id", call_id}, {"content", std::move(content)}});
  }

  Fields& fields_;
  MediaTaker& media_;
  Json messages_ = Json::array();
  std::vector<ToolChange> changes_;
};

std::optional<GrammarRequest> read_format(Fields& fields, std::vector<std::string>& warnings) {
  const Json* text = fields.object("text");
  if (text == nullptr) return std::nullopt;
  Fields inner = fields.within(*text, "text");
  inner.without_effect("verbosity", "medium");
  const Json* value = inner.object("format");
  inner.done();
  if (value == nullptr) return std::nullopt;
  Fields format = inner.within(*value, "text.format");
  const std::size_t type = format.word("type", 0, {"text", "json_object", "json_schema"});
  const bool strict = format.boolean("strict", false);
  format.ignore({"name", "description"});
  const Json* schema = format.object("schema");
  format.done();
  if (type == 0) return std::nullopt;
  if (type == 1) {
    GrammarRequest wish = object_request();
    wish.field = "text.format";
    return wish;
  }
  if (schema == nullptr) throw bad_request("text.format.schema", "'text.format.schema' is missing");
  return schema_request(*schema, strict, "text.format.schema", warnings);
}

class ResponsesWriter : public ResponseWriter {
 public:
  /// Stores the complete response. Returns whether it is stored.
  using Keep = std::function<bool(const Json& response)>;
  struct Style {
    bool stream = false;
    bool logprobs = false;
    bool seals_reasoning = false;  ///< Reasoning is also sent as "encrypted" content.
  };
  /// `keep` null: the response is not stored.
  ResponsesWriter(Json frame, std::shared_ptr<ServedModel> model, Style style, ReadResponse answer,
                  Keep keep = nullptr)
      : frame_(std::move(frame)),
        model_(std::move(model)),
        style_(style),
        response_(std::move(answer)),
        keep_(std::move(keep)) {}

  bool streams() const override { return style_.stream; }

  void begin(std::string& out) override {
    tell(out, "response.created", {{"response", frame_}});
    tell(out, "response.in_progress", {{"response", frame_}});
  }

  void add(int /*choice*/, const Output& chunk, std::string& out) override {
    if (style_.logprobs)
      for (const OutputToken& token : chunk.tokens)
        if (!model_->tokenizer().is_end(token.id))
          pending_logprobs_.push_back(logprob_json(token, model_->tokenizer()));
    // Logprobs wait with the characters that the reader holds back.
    for (const ResponseEvent& event : response_.read(chunk, "call_")) {
      const bool is_content = event.kind == Kind::kContent;
      add_event_of(event, is_content ? std::exchange(pending_logprobs_, Json::array()) : Json::array(), out);
    }
  }

  void finish(std::string& out) override {
    const bool cut = finish_reason(response_.stop) == "length";
    close(out, cut ? "incomplete" : "completed");
    frame_["status"] = cut ? "incomplete" : "completed";
    if (cut) frame_["incomplete_details"] = {{"reason", "max_output_tokens"}};
    const CompletionStats& stats = response_.stats;
    frame_["usage"] = {{"input_tokens", stats.n_prompt},
                       {"input_tokens_details", {{"cached_tokens", stats.n_cached}}},
                       {"output_tokens", stats.n_generated},
                       {"output_tokens_details", {{"reasoning_tokens", response_.n_reasoning}}},
                       {"total_tokens", stats.n_prompt + stats.n_generated}};
    if (keep_ && !keep_(frame_)) frame_["store"] = false;
    if (style_.stream) {
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
  using Kind = ResponseEvent::Kind;

  void tell(std::string& out, std::string_view type, Json json) {
    if (!style_.stream) return;
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

  // The current item is complete.
  void close(std::string& out, std::string_view status = "completed") {
    if (!open_) return;
    const Kind kind = *std::exchange(open_, std::nullopt);
    item()["status"] = status;
    if (kind == Kind::kToolCall && is_search()) {
      item()["arguments"] = parse_object(std::exchange(arguments_, {})).value_or(Json::object());
    } else if (kind == Kind::kToolCall) {
      const char* const member = text_member();
      Json event = at();
      if (!is_custom()) event["name"] = item()["name"];
      event[member] = item()[member];
      tell(out,
           is_custom() ? "response.custom_tool_call_input.done" : "response.function_call_arguments.done",
           std::move(event));
    } else {
      Json part = item()["content"][0];
      if (kind == Kind::kReasoning && style_.seals_reasoning)
        item()["encrypted_content"] = seal(part["text"].get<std::string>());
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

  // Of the call that is open.
  bool is_custom() { return item()["type"] == "custom_tool_call"; }
  bool is_search() { return item()["type"] == "tool_search_call"; }
  const char* text_member() { return is_custom() ? "input" : "arguments"; }

  Json call_item(const ResponseEvent& event) const {
    const RequestTools::Origin tool = response_.origin_of(event.name);
    if (tool.is_search)
      return {{"id", make_id("tsc_")}, {"type", "tool_search_call"}, {"status", "in_progress"},
              {"call_id", event.id},   {"execution", "client"},      {"arguments", Json::object()}};
    Json json = {{"id", make_id(tool.is_custom ? "ctc_" : "fc_")},
                 {"type", tool.is_custom ? "custom_tool_call" : "function_call"},
                 {"status", "in_progress"},
                 {"call_id", event.id},
                 {"name", tool.name}};
    if (!tool.name_space.empty()) json["namespace"] = tool.name_space;
    json[tool.is_custom ? "input" : "arguments"] = "";
    return json;
  }

  void append(const char* field, const std::string& text) {
    Json& part = item()["content"][0][field];
    part.get_ref<std::string&>() += text;
  }

  void add_event_of(const ResponseEvent& event, Json logprobs, std::string& out) {
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
        open(out, Kind::kToolCall, call_item(event), Json());
        break;
      case Kind::kToolArguments: {
        if (is_search()) {
          arguments_ += event.text;
          break;
        }
        item()[text_member()].get_ref<std::string&>() += event.text;
        Json delta = at();
        delta["delta"] = event.text;
        tell(out,
             is_custom() ? "response.custom_tool_call_input.delta" : "response.function_call_arguments.delta",
             std::move(delta));
        break;
      }
      case Kind::kToolCallEnd:
        close(out);
        break;
    }
  }

  Json frame_;  ///< The response so far.
  const std::shared_ptr<ServedModel> model_;
  const Style style_;
  Json pending_logprobs_ = Json::array();
  ReadResponse response_;
  const Keep keep_;
  std::optional<Kind> open_;
  std::string arguments_;  ///< Of the search for tools that is open.
  int n_events_ = 0;
};

// The response without the model's output. It repeats the request's settings, as clients expect.
Json frame_of(const Json& body, const std::string& model, const SamplerParams& sampler, bool store) {
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
          {"previous_response_id", said("previous_response_id", nullptr)},
          {"reasoning", said("reasoning", {{"effort", nullptr}, {"summary", nullptr}})},
          {"store", store},
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

/// The conversation of the request.
RequestTurn read_response_turn(Fields& fields, MediaTaker& taker) {
  RequestTurn turn;
  turn.field = "input";
  const Json* input = read_conversation(fields, turn.field);
  if (input == nullptr) throw bad_request("input", "'input' is missing");
  ItemReader reader(fields, taker);
  Json list = reader.read(*input);
  if (const std::string instructions = fields.string("instructions"); !instructions.empty())
    list.insert(list.begin(), Json{{"role", "system"}, {"content", instructions}});
  turn.messages_json = to_text(list);
  if (fields.has("parallel_tool_calls"))
    turn.parallel_tool_calls = fields.boolean("parallel_tool_calls", true);
  read_tools(fields, turn, reader.changes());
  turn.reasoning_effort = read_effort(fields);
  read_template_variables(fields, turn);
  return turn;
}

/// In a stream, OpenAI's API reports a prompt that is too long as an event. Agents shorten the conversation
/// then; a status of 400 ends their turn.
void send_too_long(Job& job, Json frame, const ApiError& error) {
  ResponsesWriter writer(std::move(frame), job.model, {.stream = true}, {});
  HttpResponse answer{.content_type = kEventStream, .headers = stream_headers(job.headers())};
  writer.begin(answer.body);
  writer.fail(error, answer.body);
  job.exchange->send(std::move(answer));
  if (job.done) job.done({.status = error.status, .error = error.what()});
}

}  // namespace

void count_response_tokens(Job& job) {
  continue_previous(job);
  Fields fields = job.fields();
  MediaTaker taker(job);
  RequestTurn turn = read_response_turn(fields, taker);
  job.send({{"object", "response.input_tokens"},
            {"input_tokens", count_tokens(*job.model, std::move(turn), taker.finish())}});
}

void responses(Job& job) {
  const bool store = takes_store(job);
  const Continued continued = continue_previous(job);
  Fields fields = job.fields();
  CommonFields common = read_common(fields, job);
  RequestParams& params = common.params;

  MediaTaker taker(job);
  RequestTurn turn = read_response_turn(fields, taker);
  ReadResponse answer;
  answer.tools = turn.tools;
  if (auto format = read_format(fields, common.warnings)) set_grammar(common, std::move(*format));
  read_max_tokens(fields, {"max_output_tokens"}, params);
  read_min_tokens(fields, {"max_output_tokens"}, params);
  note_unshown(fields, common);
  ResponsesWriter::Style style{.stream = common.stream, .logprobs = fields.has("top_logprobs")};
  for (const std::string& what : fields.strings("include", 64)) {
    if (what == "message.output_text.logprobs")
      style.logprobs = true;
    else if (what == "reasoning.encrypted_content")
      style.seals_reasoning = true;
    else
      fields.note("include." + what);
  }
  const int n_top = fields.integer("top_logprobs", 0, 0, job.params->defaults.n_logprobs);
  if (style.logprobs) params.n_logprobs = n_top;
  check_logprobs(params, 1, common.stream, *job.model);
  fields.ignore({"previous_response_id"});  // continue_previous() has read it.
  fields.refuse("conversation", "the server stores no conversations; send the whole one as 'input'");
  fields.refuse("prompt", "the server stores no prompts; send 'instructions' and 'input'");
  fields.without_effect("background");  // The request always waits for its response.
  fields.without_effect("truncation", "disabled");
  for (const char* name : {"max_tool_calls", "context_management"}) fields.without_effect(name);
  fields.done();

  Json frame = frame_of(job.body, job.model_name, params.sampler, store);
  const int slot = common.slot;
  std::optional<ChatOrder> made;
  try {
    made = make_order(job, std::move(turn), std::move(common), taker.finish());
  } catch (const ApiError& error) {
    if (!style.stream || error.n_prompt == 0) throw;
    return send_too_long(job, std::move(frame), error);
  }
  ChatOrder order = std::move(*made);
  answer.reader = std::move(order.reader);
  ResponsesWriter::Keep keep;
  if (store)
    keep = [responses = job.responses, owner = job.owner,
            input = input_to_store(job.body["input"], continued)](const Json& response) {
      return store_response(*responses, owner, response, input);
    };
  auto writer = std::make_unique<ResponsesWriter>(std::move(frame), job.model, style, std::move(answer),
                                                  std::move(keep));
  std::vector<std::vector<Token>> prompts;
  prompts.push_back(std::move(order.prompt));
  submit(job, std::move(prompts), order.params, std::move(writer), slot);
}

}  // namespace weft::server
