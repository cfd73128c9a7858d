// POST /api/chat and /api/generate.
#include <fmt/format.h>

#include <deque>
#include <optional>
#include <unordered_map>
#include <utility>

#include "api/chat_order.h"
#include "api/infill.h"
#include "api/ollama/keep_alive.h"
#include "api/ollama/ollama.h"
#include "api/ollama/writer.h"
#include "api/prompts.h"
#include "base/to_size.h"

namespace weft::server {
namespace {

/// Options of the server, not of a request, and the values that ask for nothing.
void read_load_options(Fields& options) {
  const std::pair<const char*, Json> load_options[] = {
      {"num_batch", nullptr}, {"num_gpu", nullptr},      {"main_gpu", nullptr},  {"num_thread", 0},
      {"numa", false},        {"low_vram", false},       {"f16_kv", true},       {"logits_all", nullptr},
      {"vocab_only", false},  {"use_mmap", true},        {"use_mlock", nullptr}, {"embedding_only", false},
      {"num_gqa", nullptr},   {"penalize_newline", true}};
  for (const auto& [name, nothing] : load_options) options.without_effect(name, nothing);
}

/// The object "options": the fields of the other APIs, most under the same names.
CommonFields read_options(Fields& fields, Job& job) {
  const Json* const given = fields.object("options");
  Json rest = given == nullptr ? Json::object() : *given;
  Fields options = fields.within(given == nullptr ? rest : *given, "options");
  const RequestParams& defaults = job.params->defaults.params;
  const int n_predict = options.integer("num_predict", defaults.n_predict, -2);
  const int n_keep = options.integer("num_keep", defaults.n_keep, -1);
  // The context of the server is never smaller than a client's.
  if (options.integer("num_ctx", 0, 0) > job.model->n_ctx) options.note("num_ctx");
  for (const char* name : {"num_predict", "num_keep", "num_ctx"}) rest.erase(name);

  Fields others = fields.within(rest, "options");
  CommonFields common = read_common(others, job);
  common.params.n_predict = n_predict > 0 ? n_predict : -1;
  common.params.n_keep = n_keep;
  read_load_options(others);
  note_unshown(others, common);
  others.done();
  return common;
}

/// "format": "json", or a JSON schema.
void read_ollama_format(Fields& fields, CommonFields& common) {
  const Json* const format = fields.find("format");
  if (format == nullptr || *format == "") return;
  if (format->is_object())
    return set_grammar(common, schema_request(*format, false, "format", common.warnings));
  if (*format != "json") throw bad_request("format", "'format' must be \"json\" or a JSON schema");
  GrammarRequest wish = object_request();
  wish.field = "format";
  set_grammar(common, std::move(wish));
}

/// The fields of both endpoints.
struct OllamaRequest {
  CommonFields common;
  OllamaStyle style;
  KeepAlive keep_alive;
};

OllamaRequest read_request(Fields& fields, Job& job, OllamaForm form) {
  OllamaRequest request;
  request.common = read_options(fields, job);
  RequestParams& params = request.common.params;
  read_ollama_format(fields, request.common);
  request.keep_alive = read_keep_alive(fields);
  const int n_top = fields.integer("top_logprobs", 0, 0, job.params->defaults.n_logprobs);
  request.style = {.form = form,
                   .stream = fields.boolean("stream", true),
                   .logprobs = fields.boolean("logprobs", false) || n_top > 0,
                   .model = job.model_name,
                   .start = job.start,
                   .load_time = std::chrono::steady_clock::now() - job.start};
  if (request.style.logprobs) params.n_logprobs = n_top;
  check_logprobs(params, 1, request.style.stream, *job.model);
  params.context_shift = fields.boolean("shift", params.context_shift);
  // A prompt that is too long is refused: dropping messages would change the conversation.
  if (fields.boolean("truncate", false)) fields.note("truncate");
  if (request.keep_alive.is_given) job.models->keep(job.model_name, request.keep_alive.time);
  return request;
}

void submit_ollama(Job& job, OllamaStyle style, ReadResponse answer, std::vector<Token> prompt,
                   const RequestParams& params, int slot) {
  auto writer = std::make_unique<OllamaWriter>(std::move(style), job.model, std::move(answer));
  std::vector<std::vector<Token>> prompts;
  prompts.push_back(std::move(prompt));
  submit(job, std::move(prompts), params, std::move(writer), slot);
}

/// The response to a request without a prompt.
void report(Job& job, OllamaForm form, std::string_view reason) {
  job.send_at_once(ollama_json(form, job.model_name, "", reason));
}

/// The images in "images", as marks.
std::string take_images(Fields& holder, MediaTaker& media) {
  std::string marks;
  const Json* const images = holder.array("images");
  for (std::size_t i = 0; images != nullptr && i < images->size(); ++i) {
    const std::string path = element(holder.path_of("images"), i);
    marks += media.take("image", [&] {
      if (!(*images)[i].is_string()) throw bad_request(path, fmt::format("'{}' must be base64", path));
      const auto& text = (*images)[i].get_ref<const std::string&>();
      return text.starts_with("data:") ? media.take_url(text, path) : media.take_image(text, path);
    });
  }
  return marks;
}

/// Converts messages to OpenAI's. Ollama's calls and results of tools have no ids: results belong to the
/// calls in their order, or to the call of their "tool_name".
class OllamaMessages {
 public:
  explicit OllamaMessages(MediaTaker& media) : media_(&media) {}

  void read(Fields message) {
    Json mine = {{"role", message.string("role")}};
    const bool is_result = mine["role"] == "tool";
    media_->in_tool_result(is_result);
    mine["content"] = take_images(message, *media_) + content_of(message);
    media_->in_tool_result(false);
    if (const std::string thinking = message.string("thinking"); !thinking.empty())
      mine["reasoning_content"] = thinking;
    read_calls(message, mine);
    const std::string name = message.string("tool_name", message.string("name"));
    const std::string id = message.string("tool_call_id");
    if (is_result) {
      mine["tool_call_id"] = id.empty() ? take_id(name) : id;
      if (!name.empty()) mine["name"] = name;
    }
    message.done();
    messages_.push_back(std::move(mine));
  }
  Json take() { return std::move(messages_); }

 private:
  /// A string, or parts as OpenAI's clients send them.
  std::string content_of(Fields& message) const {
    const Json* const content = message.find("content");
    if (content == nullptr || !content->is_array()) return message.string("content");
    std::string all;
    for (std::size_t i = 0; i < content->size(); ++i) {
      Fields part = message.within((*content)[i], element(message.path_of("content"), i));
      if (const Json* const image = part.find("image_url")) {
        const Json* const url = image->is_object() && image->contains("url") ? &(*image)["url"] : image;
        if (!url->is_string())
          throw bad_request(part.path(), fmt::format("'{}' has no string as its URL", part.path()));
        all += media_->take("image", [&] {
          return media_->take_url(url->get_ref<const std::string&>(), part.path_of("image_url"));
        });
      } else if (part.has("text")) {
        all += part.string("text");
      } else {
        part.note(part.string("type"));
      }
    }
    return all;
  }

  void read_calls(Fields& message, Json& mine) {
    const Json* const calls = message.array("tool_calls");
    for (std::size_t i = 0; calls != nullptr && i < calls->size(); ++i) {
      Fields call = message.within((*calls)[i], element(message.path_of("tool_calls"), i));
      const Json* const function = call.object("function");
      if (function == nullptr)
        throw bad_request(call.path_of("function"), fmt::format("'{}' is missing", call.path_of("function")));
      Fields inner = call.within(*function, call.path_of("function"));
      const std::string name = inner.string("name");
      const Json* const arguments = inner.find("arguments");
      const std::string id = call.string("id", fmt::format("call_{}", n_calls_++));
      calls_of_[name].push_back(ids_.size());
      calls_.push_back(ids_.size());
      ids_.emplace_back(id);
      mine["tool_calls"].push_back(
          {{"id", id},
           {"type", "function"},
           {"function",
            {{"name", name}, {"arguments", arguments == nullptr ? Json::object() : *arguments}}}});
    }
  }

  /// Takes the id of the first call of the name without a result, else of the first call of any name.
  std::string take_id(const std::string& name) {
    const auto named = calls_of_.find(name);
    std::optional<std::string> id = named == calls_of_.end() ? std::nullopt : take_first(named->second);
    if (!id) id = take_first(calls_);
    return id ? *std::move(id) : fmt::format("call_{}", n_calls_++);
  }

  std::optional<std::string> take_first(std::deque<std::size_t>& calls) {
    std::optional<std::string> id;
    for (; !id && !calls.empty(); calls.pop_front()) id = std::exchange(ids_[calls.front()], std::nullopt);
    return id;
  }

  MediaTaker* media_;
  Json messages_ = Json::array();
  std::vector<std::optional<std::string>> ids_;  ///< By call; null once its result was read.
  std::deque<std::size_t> calls_;                ///< Calls that may lack a result, all and by name.
  std::unordered_map<std::string, std::deque<std::size_t>> calls_of_;
  int n_calls_ = 0;
};

/// Whether "messages" is missing or empty.
bool has_no_messages(const Json& body) {
  const auto found = body.find("messages");
  return found == body.end() || found->is_null() || (found->is_array() && found->empty());
}

bool is_empty_string(const Json& body, const char* name) {
  const auto found = body.find(name);
  return found == body.end() || found->is_null() || *found == "";
}

bool has_no_prompt(const Json& body) {
  const auto images = body.find("images");
  const bool has_images = images != body.end() && images->is_array() && !images->empty();
  return is_empty_string(body, "prompt") && is_empty_string(body, "suffix") && !has_images;
}

void read_messages(Fields& fields, MediaTaker& media, RequestTurn& turn) {
  const Json* const list = read_conversation(fields, "messages");
  if (list == nullptr || !list->is_array())
    throw bad_request("messages", "'messages' must be an array of messages");
  OllamaMessages messages(media);
  for (std::size_t i = 0; i < list->size(); ++i)
    messages.read(fields.within((*list)[i], element("messages", i)));
  const Json made = messages.take();
  // A last message of the assistant is continued, unless it has calls.
  turn.add_generation_prompt = made.back()["role"] != "assistant" || made.back().contains("tool_calls");
  turn.messages_json = to_text(made);
}

/// The prompt as it is, without a template: a raw one, or one with a suffix.
std::vector<Token> plain_prompt(Fields& fields, const Job& job) {
  const Tokenizer& tokenizer = job.model->tokenizer();
  const std::string text = fields.string("prompt");
  const std::string suffix = fields.string("suffix");
  std::vector<Token> tokens;
  if (!suffix.empty())
    tokens = join_infill(*job.model, {}, infill_tokens(*job.model, text), infill_tokens(*job.model, suffix));
  else
    tokens = read_prompts(fields, "prompt", tokenizer, 1, {.add_special = true, .parse_special = true})
                 .front()
                 .tokens;
  check_length(*job.model, tokens.size(), "prompt");
  return tokens;
}

void generate_plainly(Job& job, Fields& fields, OllamaRequest request) {
  for (const char* name : {"system", "context", "images"})
    if (fields.has(name) && !fields.find(name)->empty() && *fields.find(name) != "")
      throw bad_request(name, fmt::format("'{}' cannot be combined with 'raw' or 'suffix'", name));
  std::vector<Token> prompt = plain_prompt(fields, job);
  fields.without_effect("think");
  fields.done();
  if (request.common.grammar) hold_to(request.common.params, job, *request.common.grammar);
  for (std::string& warning : request.common.warnings) job.warnings.push_back(std::move(warning));
  submit_ollama(job, std::move(request.style), {}, std::move(prompt), request.common.params,
                request.common.slot);
}

/// Puts the tokens of an earlier response in front of the prompt, which then begins without BOS.
void continue_context(const Json& ids, ChatOrder& order, const Tokenizer& tokenizer) {
  std::vector<Token> context = read_ids(ids, "context", tokenizer);
  if (context.empty()) return;
  const bool has_two = tokenizer.bos() != kNoToken && order.prompt.front() == tokenizer.bos();
  order.prompt.erase(order.prompt.begin(), order.prompt.begin() + (has_two ? 1 : 0));
  for (EmbeddedPart& part : order.params.parts)
    part.first += static_cast<int>(context.size()) - (has_two ? 1 : 0);
  order.prompt.insert(order.prompt.begin(), context.begin(), context.end());
}

}  // namespace

bool unload_by_request(Job& job) {
  Fields fields(job.body, "", &job.ignored);
  const bool is_chat = job.exchange->request().path == "/api/chat";
  if (is_chat ? !has_no_messages(job.body) : !has_no_prompt(job.body)) return false;
  if (!read_keep_alive(fields).is_none()) return false;
  const std::string name = fields.string("model");
  // PoolParams::any_name is for generation: a mistyped name unloads nothing.
  if (!name.empty() && !job.models->knows(name)) throw job.models->unknown_model(name);
  job.model_name = job.models->whole_name(name);
  job.models->keep(name, std::chrono::milliseconds(0));
  report(job, is_chat ? OllamaForm::kChat : OllamaForm::kGenerate, "unload");
  return true;
}

void ollama_chat(Job& job) {
  Fields fields = job.fields();
  OllamaRequest request = read_request(fields, job, OllamaForm::kChat);
  if (has_no_messages(job.body)) return report(job, OllamaForm::kChat, "load");
  MediaTaker media(job);
  RequestTurn turn;
  read_messages(fields, media, turn);
  read_tools(fields, turn);
  turn.reasoning_effort = read_effort(fields);
  read_template_variables(fields, turn);
  fields.done();
  ReadResponse answer;
  answer.tools = turn.tools;
  const int slot = request.common.slot;
  ChatOrder order = make_order(job, std::move(turn), std::move(request.common), media.finish());
  answer.reader = std::move(order.reader);
  submit_ollama(job, std::move(request.style), std::move(answer), std::move(order.prompt), order.params,
                slot);
}

void ollama_generate(Job& job) {
  Fields fields = job.fields();
  OllamaRequest request = read_request(fields, job, OllamaForm::kGenerate);
  if (has_no_prompt(job.body)) return report(job, OllamaForm::kGenerate, "load");
  // Ollama's templates are in another language than the templates of models' files.
  fields.without_effect("template");
  if (fields.boolean("raw", false) || !is_empty_string(job.body, "suffix"))
    return generate_plainly(job, fields, std::move(request));

  MediaTaker media(job);
  RequestTurn turn;
  turn.field = "prompt";
  Json messages = Json::array();
  if (const std::string system = fields.string("system"); !system.empty())
    messages.push_back({{"role", "system"}, {"content", system}});
  const std::string marks = take_images(fields, media);
  messages.push_back({{"role", "user"}, {"content", marks + fields.string("prompt")}});
  turn.messages_json = to_text(messages);
  turn.reasoning_effort = read_effort(fields);
  read_template_variables(fields, turn);
  const Json* const context = fields.array("context");
  fields.string("suffix");
  fields.done();
  ReadResponse answer;
  const int slot = request.common.slot;
  ChatOrder order = make_order(job, std::move(turn), std::move(request.common), media.finish());
  if (context != nullptr) {
    continue_context(*context, order, job.model->tokenizer());
    check_length(*job.model, order.prompt.size(), "context");
  }
  answer.reader = std::move(order.reader);
  // Tokens cannot repeat the images.
  if (marks.empty()) request.style.context = order.prompt;
  submit_ollama(job, std::move(request.style), std::move(answer), std::move(order.prompt), order.params,
                slot);
}

}  // namespace weft::server
