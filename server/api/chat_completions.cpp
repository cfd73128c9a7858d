#include "api/chat_completions.h"

#include <fmt/format.h>

#include <utility>

#include "api/chat_order.h"
#include "base/to_size.h"

namespace weft::server {
namespace {

struct ChatStyle {
  std::string id;
  std::string model;
  std::int64_t created = 0;
  bool stream = false;
  bool include_usage = false;
  bool continuous_usage = false;
  bool logprobs = false;
  bool timings_per_token = false;
  bool return_tokens = false;
};

class ChatWriter : public ResponseWriter {
 public:
  /// `answer`: the initial state of each completion.
  ChatWriter(ChatStyle style, std::shared_ptr<ServedModel> model, const ReadResponse& answer, int n,
             int n_prompt)
      : style_(std::move(style)),
        model_(std::move(model)),
        responses_(to_size(n), answer),
        n_prompt_(n_prompt) {}

  bool streams() const override { return style_.stream; }

  void begin(std::string& out) override {
    for (std::size_t i = 0; i < responses_.size(); ++i)
      add_delta(out, i, {{"role", "assistant"}, {"content", ""}});
  }

  void add(int choice, const Output& chunk, std::string& out) override {
    const auto at = to_size(choice);
    ReadResponse& answer = responses_[at];
    Json logprobs = Json::array();
    if (style_.logprobs)
      for (const OutputToken& token : chunk.tokens)
        if (!model_->tokenizer().is_end(token.id))
          logprobs.push_back(logprob_json(token, model_->tokenizer()));
    std::vector<Token> tokens;
    if (style_.return_tokens)
      for (const OutputToken& token : chunk.tokens) tokens.push_back(token.id);

    std::vector<Json> deltas;
    for (const ResponseEvent& event : answer.read(chunk, "call_")) {
      if (Json delta = delta_of(event, answer); !delta.empty()) deltas.push_back(std::move(delta));
    }
    if (!style_.stream) {
      for (Json& entry : logprobs) answer.logprobs.push_back(std::move(entry));
      answer.tokens.insert(answer.tokens.end(), tokens.begin(), tokens.end());
    } else {
      // Logprobs and ids go with the first piece. They are sent even if the reader holds back characters.
      if (deltas.empty() && (!logprobs.empty() || !tokens.empty()))
        deltas.emplace_back(Json{{"content", ""}});
      for (std::size_t i = 0; i < deltas.size(); ++i) {
        add_delta(out, at, std::move(deltas[i]), i == 0 ? std::move(logprobs) : Json::array(),
                  i == 0 ? std::move(tokens) : std::vector<Token>{});
      }
    }
    if (chunk.done) {
      usage_.add(chunk.stats, choice == 0);
      usage_.n_reasoning += answer.n_reasoning;
      if (style_.stream) add_end(out, at);
    }
  }

  void finish(std::string& out) override {
    if (style_.stream) {
      if (style_.include_usage) {
        Json json = head("chat.completion.chunk");
        json["choices"] = Json::array();
        json["usage"] = usage_json(usage_);
        json["timings"] = timings_json(responses_.front().stats);
        add_event(out, to_text(json));
      }
      add_event(out, "[DONE]");
      return;
    }
    Json json = head("chat.completion");
    Json choices = Json::array();
    for (std::size_t i = 0; i < responses_.size(); ++i) choices.push_back(whole(i));
    json["choices"] = std::move(choices);
    json["usage"] = usage_json(usage_);
    json["timings"] = timings_json(responses_.front().stats);
    out = to_text(json);
  }

 private:
  Json head(std::string_view object) const {
    return {{"id", style_.id},
            {"object", object},
            {"created", style_.created},
            {"model", style_.model},
            {"system_fingerprint", "weft"}};
  }

  // A call with its arguments or input. This API has no namespaces.
  static Json call_json(const ReadResponse& answer, const std::string& function, std::string text) {
    if (answer.origin_of(function).is_custom)
      return {{"type", "custom"}, {"custom", {{"name", function}, {"input", std::move(text)}}}};
    return {{"type", "function"}, {"function", {{"name", function}, {"arguments", std::move(text)}}}};
  }

  static Json delta_of(const ResponseEvent& event, const ReadResponse& answer) {
    switch (event.kind) {
      case ResponseEvent::Kind::kContent:
        return {{"content", event.text}};
      case ResponseEvent::Kind::kReasoning:
        return {{"reasoning_content", event.text}};
      case ResponseEvent::Kind::kToolCall: {
        Json call = {{"index", event.call}, {"id", event.id}};
        call.update(call_json(answer, event.name, ""));
        return {{"tool_calls", Json::array({std::move(call)})}};
      }
      case ResponseEvent::Kind::kToolArguments: {
        const bool is_custom = answer.is_custom(event.call);
        return {{"tool_calls", Json::array({{{"index", event.call},
                                             {is_custom ? "custom" : "function",
                                              {{is_custom ? "input" : "arguments", event.text}}}}})}};
      }
      case ResponseEvent::Kind::kToolCallEnd:
        break;
    }
    return Json::object();
  }

  void add_delta(std::string& out, std::size_t choice, Json delta, Json logprobs = Json::array(),
                 std::vector<Token> tokens = {}) const {
    Json json = head("chat.completion.chunk");
    Json entry = {{"index", choice}, {"delta", std::move(delta)}, {"finish_reason", nullptr}};
    entry["logprobs"] = logprobs.empty() ? Json() : Json{{"content", std::move(logprobs)}};
    if (!tokens.empty()) entry["token_ids"] = std::move(tokens);
    json["choices"] = Json::array({std::move(entry)});
    add_usage(json);
    add_event(out, to_text(json));
  }

  // The counts of all completions so far.
  void add_usage(Json& json) const {
    if (!style_.continuous_usage) return;
    int n_generated = 0;
    for (const ReadResponse& answer : responses_) n_generated += answer.n_generated;
    json["usage"] = usage_so_far(n_prompt_, n_generated);
  }

  void add_end(std::string& out, std::size_t choice) const {
    const ReadResponse& answer = responses_[choice];
    Json json = head("chat.completion.chunk");
    json["choices"] = Json::array({{{"index", choice},
                                    {"delta", Json::object()},
                                    {"logprobs", nullptr},
                                    {"finish_reason", finish_reason(answer.stop, answer.has_called())}}});
    add_usage(json);
    if (!style_.include_usage || style_.timings_per_token) json["timings"] = timings_json(answer.stats);
    add_event(out, to_text(json));
  }

  Json whole(std::size_t choice) {
    ReadResponse& answer = responses_[choice];
    const bool called = !answer.calls.empty();
    Json message = {{"role", "assistant"}};
    message["content"] = called && answer.content.empty() ? Json() : Json(std::move(answer.content));
    message["refusal"] = nullptr;
    if (!answer.reasoning.empty()) message["reasoning_content"] = std::move(answer.reasoning);
    if (called) {
      Json calls = Json::array();
      for (const ToolCall& call : answer.calls) {
        Json entry = {{"id", call.id}};
        entry.update(call_json(answer, call.name, call.arguments));
        calls.push_back(std::move(entry));
      }
      message["tool_calls"] = std::move(calls);
    }
    Json json = {{"index", choice}, {"message", std::move(message)}};
    json["logprobs"] = style_.logprobs ? Json{{"content", std::move(answer.logprobs)}} : Json();
    json["finish_reason"] = finish_reason(answer.stop, answer.has_called());
    if (style_.return_tokens) json["token_ids"] = answer.tokens;
    return json;
  }

  const ChatStyle style_;
  const std::shared_ptr<ServedModel> model_;
  std::vector<ReadResponse> responses_;
  const int n_prompt_;
  Usage usage_;
};

// Fields of OpenAI's API and of other servers for features that weft lacks.
void read_the_rest(Fields& fields) {
  for (const char* name : {"audio", "web_search_options"}) fields.without_effect(name);
  if (const Json* functions = fields.array("functions"); functions != nullptr && !functions->empty())
    fields.refuse("functions", "use 'tools'");
  fields.ignore({"function_call"});
  if (const Json* modalities = fields.array("modalities"))
    for (const Json& modality : *modalities)
      if (modality != "text") fields.note("modalities");
  // "prediction" is only a hint for speed. The server drafts from the conversation itself.
  fields.ignore({"prediction"});
  fields.without_effect("best_of", 1);
  fields.done();
}

ReasoningPlace read_reasoning_place(Fields& fields) {
  constexpr ReasoningPlace kPlaces[] = {ReasoningPlace::kApart, ReasoningPlace::kApart,
                                        ReasoningPlace::kContent, ReasoningPlace::kBoth};
  return kPlaces[fields.word("reasoning_format", 0, {"auto", "deepseek", "none", "deepseek-legacy"})];
}

/// The conversation of the request. Its images and audio become `media`.
RequestTurn read_chat_turn(Fields& fields, Job& job, Media& media) {
  RequestTurn turn;
  const Json* messages = read_conversation(fields, "messages");
  if (messages == nullptr || !messages->is_array() || messages->empty())
    throw bad_request("messages", "'messages' must be an array with at least one message");
  Json texts = *messages;
  media = take_media(texts, job);
  turn.messages_json = to_text(texts);
  if (fields.has("parallel_tool_calls"))
    turn.parallel_tool_calls = fields.boolean("parallel_tool_calls", true);
  read_tools(fields, turn);
  turn.reasoning_effort = read_effort(fields);
  read_template_variables(fields, turn);
  read_continuation(fields, turn);
  return turn;
}

}  // namespace

void count_chat_tokens(Job& job) {
  Fields fields = job.fields();
  Media media;
  RequestTurn turn = read_chat_turn(fields, job, media);
  job.send({{"object", "response.input_tokens"},
            {"input_tokens", count_tokens(*job.model, std::move(turn), media)}});
}

void chat_completions(Job& job) {
  Fields fields = job.fields();
  CommonFields common = read_common(fields, job);
  RequestParams& params = common.params;
  Media media;
  RequestTurn turn = read_chat_turn(fields, job, media);
  ReadResponse answer;
  answer.tools = turn.tools;

  params.n = read_n(fields, job.params->defaults.n_completions);
  read_max_tokens(fields, kMaxTokens, params);
  read_min_tokens(fields, kMaxTokens, params);
  // llama.cpp's name for both.
  const int n_probs = fields.integer("n_probs", 0, 0, job.params->defaults.n_logprobs);
  const bool logprobs = fields.boolean("logprobs", false) || n_probs > 0;
  const int n_top = fields.integer("top_logprobs", n_probs, 0, job.params->defaults.n_logprobs);
  if (n_top > 0 && !logprobs) throw bad_request("top_logprobs", "'top_logprobs' requires 'logprobs': true");
  if (logprobs) params.n_logprobs = n_top;
  // The template writes special tokens into prompts, and the reader needs the special tokens of responses.
  fields.ignore({"skip_special_tokens"});
  fields.without_effect("add_special_tokens");
  answer.reasoning_place = read_reasoning_place(fields);
  const bool reads_calls = fields.boolean("parse_tool_calls", true);
  read_the_rest(fields);

  const ChatStyle style{.id = make_id("chatcmpl-"),
                        .model = job.model_name,
                        .created = seconds_now(),
                        .stream = common.stream,
                        .include_usage = common.include_usage,
                        .continuous_usage = common.continuous_usage,
                        .logprobs = logprobs,
                        .timings_per_token = common.timings_per_token,
                        .return_tokens = common.return_tokens};
  const int slot = common.slot;
  check_logprobs(params, 1, common.stream, *job.model);
  ChatOrder order = make_order(job, std::move(turn), std::move(common), media);
  if (reads_calls) answer.reader = std::move(order.reader);
  auto writer = std::make_unique<ChatWriter>(style, job.model, answer, order.params.n,
                                             static_cast<int>(order.prompt.size()));
  std::vector<std::vector<Token>> prompts;
  prompts.push_back(std::move(order.prompt));
  submit(job, std::move(prompts), order.params, std::move(writer), slot);
}

}  // namespace weft::server
