#include "api/chat_completions.h"

#include <fmt/format.h>

#include <utility>

#include "api/chat_order.h"

namespace weft::server {
namespace {

struct Style {
  std::string id;
  std::string model;
  std::int64_t created = 0;
  bool stream = false;
  bool include_usage = false;
  bool logprobs = false;
  bool timings_per_token = false;
  bool return_tokens = false;
};

class ChatWriter : public AnswerWriter {
 public:
  ChatWriter(Style style, std::shared_ptr<ServedModel> model, const AnswerReader& reader, int n)
      : style_(std::move(style)), model_(std::move(model)), answers_(static_cast<std::size_t>(n)) {
    for (ReadAnswer& answer : answers_) answer.reader = reader;
  }

  bool streams() const override { return style_.stream; }

  void begin(std::string& out) override {
    for (std::size_t i = 0; i < answers_.size(); ++i)
      add_delta(out, i, {{"role", "assistant"}, {"content", ""}});
  }

  void add(int choice, const Chunk& chunk, std::string& out) override {
    const auto at = static_cast<std::size_t>(choice);
    ReadAnswer& answer = answers_[at];
    Json logprobs = Json::array();
    if (style_.logprobs)
      for (const OutputToken& token : chunk.tokens)
        if (!model_->tokenizer().is_end(token.id))
          logprobs.push_back(logprob_json(token, model_->tokenizer()));
    std::vector<Token> tokens;
    if (style_.return_tokens)
      for (const OutputToken& token : chunk.tokens) tokens.push_back(token.id);

    std::vector<Json> deltas;
    for (const AnswerEvent& event : answer.read(chunk, "call_")) {
      if (Json delta = delta_of(event); !delta.empty()) deltas.push_back(std::move(delta));
    }
    if (!style_.stream) {
      for (Json& entry : logprobs) answer.logprobs.push_back(std::move(entry));
      answer.tokens.insert(answer.tokens.end(), tokens.begin(), tokens.end());
    } else {
      // Logprobs and ids go with the first piece; text that is held back must not hold them back.
      if (deltas.empty() && (!logprobs.empty() || !tokens.empty()))
        deltas.emplace_back(Json{{"content", ""}});
      for (std::size_t i = 0; i < deltas.size(); ++i) {
        add_delta(out, at, std::move(deltas[i]), i == 0 ? std::move(logprobs) : Json::array(),
                  i == 0 ? std::move(tokens) : std::vector<Token>{});
      }
    }
    if (chunk.done) {
      usage_.add(chunk.stats, choice == 0);
      if (style_.stream) add_end(out, at);
    }
  }

  void finish(std::string& out) override {
    if (style_.stream) {
      if (style_.include_usage) {
        Json json = head("chat.completion.chunk");
        json["choices"] = Json::array();
        json["usage"] = usage_json(usage_);
        json["timings"] = timings_json(answers_.front().stats);
        add_event(out, to_text(json));
      }
      add_event(out, "[DONE]");
      return;
    }
    Json json = head("chat.completion");
    Json choices = Json::array();
    for (std::size_t i = 0; i < answers_.size(); ++i) choices.push_back(whole(i));
    json["choices"] = std::move(choices);
    json["usage"] = usage_json(usage_);
    json["timings"] = timings_json(answers_.front().stats);
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

  static Json delta_of(const AnswerEvent& event) {
    switch (event.kind) {
      case AnswerEvent::Kind::kContent:
        return {{"content", event.text}};
      case AnswerEvent::Kind::kReasoning:
        return {{"reasoning_content", event.text}};
      case AnswerEvent::Kind::kToolCall:
        return {{"tool_calls", Json::array({{{"index", event.call},
                                             {"id", event.id},
                                             {"type", "function"},
                                             {"function", {{"name", event.name}, {"arguments", ""}}}}})}};
      case AnswerEvent::Kind::kToolArguments:
        return {{"tool_calls",
                 Json::array({{{"index", event.call}, {"function", {{"arguments", event.text}}}}})}};
      case AnswerEvent::Kind::kToolCallEnd:
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
    add_event(out, to_text(json));
  }

  void add_end(std::string& out, std::size_t choice) const {
    const ReadAnswer& answer = answers_[choice];
    Json json = head("chat.completion.chunk");
    json["choices"] = Json::array({{{"index", choice},
                                    {"delta", Json::object()},
                                    {"logprobs", nullptr},
                                    {"finish_reason", finish_reason(answer.stop, answer.has_called())}}});
    if (!style_.include_usage || style_.timings_per_token) json["timings"] = timings_json(answer.stats);
    add_event(out, to_text(json));
  }

  Json whole(std::size_t choice) {
    ReadAnswer& answer = answers_[choice];
    const bool called = !answer.calls.empty();
    Json message = {{"role", "assistant"}};
    message["content"] = called && answer.content.empty() ? Json() : Json(std::move(answer.content));
    message["refusal"] = nullptr;
    if (!answer.reasoning.empty()) message["reasoning_content"] = std::move(answer.reasoning);
    if (called) {
      Json calls = Json::array();
      for (const ToolCall& call : answer.calls)
        calls.push_back({{"id", call.id},
                         {"type", "function"},
                         {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
      message["tool_calls"] = std::move(calls);
    }
    Json json = {{"index", choice}, {"message", std::move(message)}};
    json["logprobs"] = style_.logprobs ? Json{{"content", std::move(answer.logprobs)}} : Json();
    json["finish_reason"] = finish_reason(answer.stop, answer.has_called());
    if (style_.return_tokens) json["token_ids"] = answer.tokens;
    return json;
  }

  const Style style_;
  const std::shared_ptr<ServedModel> model_;
  std::vector<ReadAnswer> answers_;
  Usage usage_;
};

// Fields of OpenAI's API that ask for what weft cannot do.
void refuse_the_rest(Fields& fields) {
  fields.refuse("audio", "weft writes text only");
  fields.refuse("functions", "use 'tools'");
  fields.refuse("function_call", "use 'tool_choice'");
  fields.refuse("web_search_options", "the server has no way out to the web");
  if (const Json* modalities = fields.array("modalities"))
    for (const Json& modality : *modalities)
      if (modality != "text") throw bad_request("modalities", "'modalities' can only be [\"text\"]");
  // What the answer will probably be: a hint for speed only, drafts are found in the text itself.
  if (const Json* prediction = fields.object("prediction")) {
    Fields inner(*prediction, "prediction");
    inner.word("type", 0, {"content"});
    inner.ignore({"content"});
    inner.done();
  }
  fields.word("reasoning_format", 0, {"auto", "deepseek"});
  fields.only("parse_tool_calls", true, "answers are always read back");
  fields.done();
}

/// What the model is asked; images and audio are taken out of its messages.
ChatTurn read_turn(Fields& fields, const Job& job, Media& media) {
  ChatTurn turn;
  const Json* messages = read_conversation(fields, "messages");
  if (messages == nullptr || !messages->is_array() || messages->empty())
    throw bad_request("messages", "'messages' must be an array with at least one message");
  Json texts = *messages;
  media = take_media(texts, job);
  turn.messages_json = to_text(texts);
  if (const Json* tools = find_tools(fields)) turn.tools_json = to_text(*tools);
  read_tool_choice(fields, turn);
  if (turn.tools_json.empty() &&
      (turn.tool_choice == ToolChoice::kRequired || turn.tool_choice == ToolChoice::kNamed))
    throw bad_request("tool_choice", "'tool_choice' asks for a call, but there are no 'tools'");
  if (fields.has("parallel_tool_calls"))
    turn.parallel_tool_calls = fields.boolean("parallel_tool_calls", true);
  turn.reasoning_effort = fields.string("reasoning_effort");
  read_template_variables(fields, turn);
  turn.add_generation_prompt = fields.boolean("add_generation_prompt", true);
  if (fields.boolean("continue_final_message", false)) turn.add_generation_prompt = false;
  return turn;
}

}  // namespace

void count_chat_tokens(Job& job) {
  Fields fields(job.body);
  Media media;
  ChatTurn turn = read_turn(fields, job, media);
  job.send({{"object", "response.input_tokens"},
            {"input_tokens", count_tokens(*job.model, std::move(turn), media)}});
}

void chat_completions(Job& job) {
  Fields fields(job.body);
  CommonFields common = read_common(fields, job.params->defaults, *job.model->model);
  RequestParams& params = common.params;
  Media media;
  ChatTurn turn = read_turn(fields, job, media);

  params.n = fields.integer("n", 1, 1, job.params->defaults.n_completions);
  read_max_tokens(fields, {"n_predict", "max_tokens", "max_completion_tokens"}, params);
  params.n_min = fields.integer("min_tokens", params.n_min, 0);
  // llama.cpp's name for both.
  const int n_probs = fields.integer("n_probs", 0, 0, job.params->defaults.n_logprobs);
  const bool logprobs = fields.boolean("logprobs", false) || n_probs > 0;
  const int n_top = fields.integer("top_logprobs", n_probs, 0, job.params->defaults.n_logprobs);
  if (n_top > 0 && !logprobs)
    throw bad_request("top_logprobs", "'top_logprobs' goes with 'logprobs': true only");
  if (logprobs) params.n_logprobs = n_top;
  fields.ignore({"model", "verbosity"});
  refuse_the_rest(fields);

  const Style style{.id = make_id("chatcmpl-"),
                    .model = job.model_name,
                    .created = seconds_now(),
                    .stream = common.stream,
                    .include_usage = common.include_usage,
                    .logprobs = logprobs,
                    .timings_per_token = common.timings_per_token,
                    .return_tokens = common.return_tokens};
  const int slot = common.slot;
  check_logprobs(params, 1, common.stream, *job.model);
  ChatOrder order = make_order(job, std::move(turn), std::move(common), media);
  auto writer = std::make_unique<ChatWriter>(style, job.model, order.reader, order.params.n);
  std::vector<std::vector<Token>> prompts;
  prompts.push_back(std::move(order.prompt));
  submit(job, std::move(prompts), order.params, std::move(writer), slot);
}

}  // namespace weft::server
