#include "api/completions.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "api/infill.h"
#include "api/line_limits.h"
#include "api/media.h"
#include "api/prompts.h"
#include "api/response_json.h"
#include "base/to_size.h"

namespace weft::server {
namespace {

/// Fields of llama.cpp's own API. Editors read `content`.
struct NativeStyle {
  bool alone = false;  ///< Without OpenAI's fields. Several completions are then a list, not `choices`.
  Json settings = Json::object();
  bool truncated = false;  ///< Parts of the prefix or suffix were left out.
  int slot = -1;
  LineLimits limits = {};
  std::vector<std::string> stops = {};
  std::vector<std::string> fields = {};  ///< The fields of the response, from response_fields; empty: all.
};

struct CompletionStyle {
  std::string id;
  std::string model;
  std::int64_t created = 0;
  int n = 1;  ///< Completions of each prompt.
  bool stream = false;
  bool include_usage = false;
  bool continuous_usage = false;
  bool logprobs = false;
  bool echo = false;
  bool return_tokens = false;
  std::optional<NativeStyle> native = std::nullopt;

  bool has_choices() const { return !native || !native->alone; }
};

// The legacy form of logprobs: parallel lists.
struct Logprobs {
  Json tokens = Json::array(), logprobs = Json::array(), top = Json::array(), offsets = Json::array();

  void add(const OutputToken& token, const Tokenizer& tokenizer, std::size_t& offset) {
    const std::string text = tokenizer.piece(token.id, true);
    Json best = Json::object();
    for (const Logprob& other : token.top) best[printable(tokenizer.piece(other.id, true))] = other.logprob;
    best.emplace(printable(text), token.logprob);  // The chosen one is always there.
    add_text(text, token.logprob, std::move(best), offset);
  }
  // The first token of a prompt has no probability.
  void add_first(Token id, const Tokenizer& tokenizer, std::size_t& offset) {
    add_text(tokenizer.piece(id, true), Json(), Json(), offset);
  }
  Json json() const {
    return {
        {"tokens", tokens}, {"token_logprobs", logprobs}, {"top_logprobs", top}, {"text_offset", offsets}};
  }

 private:
  void add_text(const std::string& text, Json logprob, Json best, std::size_t& offset) {
    tokens.push_back(printable(text));
    logprobs.push_back(std::move(logprob));
    top.push_back(std::move(best));
    offsets.push_back(offset);
    // In characters, as Python counts.
    for (const char c : text) offset += (static_cast<unsigned char>(c) & 0xC0U) != 0x80U ? 1 : 0;
  }
  // Keys must be UTF-8. Bytes of half a character are escaped as in OpenAI's API.
  static std::string printable(const std::string& text) {
    try {
      static_cast<void>(Json(text).dump());
      return text;
    } catch (const Json::exception&) {
      std::string bytes = "bytes:";
      for (const char c : text) bytes += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
      return bytes;
    }
  }
};

class CompletionWriter : public ResponseWriter {
 public:
  CompletionWriter(CompletionStyle style, std::shared_ptr<ServedModel> model, std::vector<Prompt> prompts)
      : style_(std::move(style)),
        model_(std::move(model)),
        prompts_(std::move(prompts)),
        choices_(prompts_.size() * to_size(style_.n)) {}

  bool streams() const override { return style_.stream; }

  void begin(std::string& out) override {
    if (!style_.echo) return;
    for (std::size_t i = 0; i < choices_.size(); ++i) add_piece(out, i, prompt_text(i), {}, Json());
  }

  void add(int choice, const Output& chunk, std::string& out) override {
    const auto at = to_size(choice);
    Choice& mine = choices_[at];
    if (mine.cut.is_over()) {
      if (chunk.done) mine.is_cut_short = false;
      return;
    }
    const std::string_view text =
        style_.native ? mine.cut.take(chunk.text, style_.native->limits) : chunk.text;
    mine.n_tokens += static_cast<int>(chunk.tokens.size());
    n_generated_ += static_cast<int>(chunk.tokens.size());
    Logprobs logprobs;
    if (style_.logprobs && style_.has_choices()) add_logprobs(mine, prompt_of(at), chunk, logprobs);
    Json native_logprobs = Json::array();
    if (style_.logprobs && style_.native) native_logprobs = native_logprobs_of(chunk);
    std::vector<Token> tokens;
    if (style_.return_tokens)
      for (const OutputToken& token : chunk.tokens) tokens.push_back(token.id);
    if (style_.stream) {
      if (!text.empty() || !logprobs.tokens.empty() || !tokens.empty())
        add_piece(out, at, std::string(text), std::move(tokens), style_.logprobs ? logprobs.json() : Json(),
                  std::move(native_logprobs));
    } else {
      mine.text += text;
      mine.tokens.insert(mine.tokens.end(), tokens.begin(), tokens.end());
      append(mine.logprobs, logprobs);
      for (Json& entry : native_logprobs) mine.native_logprobs.push_back(std::move(entry));
    }
    if (!chunk.done && !mine.cut.is_over()) return;
    mine.stop = mine.cut.is_over() ? StopReason::kLength : chunk.stop;
    mine.stop_string = mine.cut.is_over() ? -1 : chunk.stop_string;
    mine.stats = chunk.stats;
    if (!chunk.done) {
      mine.is_cut_short = true;
      mine.stats.n_prompt = static_cast<int>(prompt_of(at).tokens.size());
      mine.stats.n_generated = mine.n_tokens;
      mine.stats.total_ms = mine.cut.ms();
    }
    ++n_ended_;
    usage_.add(mine.stats, choice % style_.n == 0);
    if (style_.stream) {
      Json json = head();
      if (style_.has_choices())
        json["choices"] = Json::array({{{"index", at},
                                        {"text", ""},
                                        {"logprobs", nullptr},
                                        {"finish_reason", finish_reason(mine.stop)}}});
      add_usage(json);
      json["timings"] = timings_json(mine.stats);
      add_native(json, at, "");
      add_event(out, to_text(picked(std::move(json))));
    }
  }

  bool has_enough() const override { return style_.native && n_ended_ == choices_.size(); }

  std::vector<CompletionStats> cut_short() const override {
    std::vector<CompletionStats> result;
    for (const Choice& choice : choices_)
      if (choice.is_cut_short) result.push_back(choice.stats);
    return result;
  }

  void finish(std::string& out) override {
    if (style_.stream) {
      if (!style_.has_choices()) return;
      if (style_.include_usage) {
        Json json = head();
        json["choices"] = Json::array();
        json["usage"] = usage_json(usage_);
        add_event(out, to_text(json));
      }
      add_event(out, "[DONE]");
      return;
    }
    if (!style_.has_choices()) {
      Json list = Json::array();
      for (std::size_t i = 0; i < choices_.size(); ++i) {
        Json json = head();
        add_native(json, i, choices_[i].text);
        json["timings"] = timings_json(choices_[i].stats);
        list.push_back(picked(std::move(json)));
      }
      out = to_text(list.size() == 1 ? list.front() : list);
      return;
    }
    Json json = head();
    Json list = Json::array();
    for (std::size_t i = 0; i < choices_.size(); ++i) {
      Choice& choice = choices_[i];
      Json entry = {{"index", i},
                    {"text", (style_.echo ? prompt_text(i) : "") + choice.text},
                    {"logprobs", style_.logprobs ? choice.logprobs.json() : Json()},
                    {"finish_reason", finish_reason(choice.stop)}};
      if (style_.return_tokens) entry["token_ids"] = choice.tokens;
      list.push_back(std::move(entry));
    }
    json["choices"] = std::move(list);
    json["usage"] = usage_json(usage_);
    json["timings"] = timings_json(choices_.front().stats);
    add_native(json, 0, choices_.front().text);
    out = to_text(picked(std::move(json)));
  }

 private:
  struct Choice {
    std::string text;
    LineCut cut;
    int n_tokens = 0;
    std::vector<Token> tokens;
    Logprobs logprobs;
    Json native_logprobs = Json::array();
    std::size_t offset = 0;  ///< Characters so far.
    bool began = false;
    StopReason stop = StopReason::kEnd;
    int stop_string = -1;
    bool is_cut_short = false;  ///< It ended here, not yet in the service.
    CompletionStats stats;
  };

  const Prompt& prompt_of(std::size_t choice) const { return prompts_[choice / to_size(style_.n)]; }
  std::string prompt_text(std::size_t choice) const {
    const Prompt& prompt = prompt_of(choice);
    return prompt.text.empty() ? model_->tokenizer().decode(prompt.tokens) : prompt.text;
  }

  void add_logprobs(Choice& choice, const Prompt& prompt, const Output& chunk, Logprobs& logprobs) const {
    const Tokenizer& tokenizer = model_->tokenizer();
    if (style_.echo && !std::exchange(choice.began, true) && !prompt.tokens.empty())
      logprobs.add_first(prompt.tokens.front(), tokenizer, choice.offset);
    for (const OutputToken& token : chunk.prompt) logprobs.add(token, tokenizer, choice.offset);
    for (const OutputToken& token : chunk.tokens)
      if (!tokenizer.is_end(token.id)) logprobs.add(token, tokenizer, choice.offset);
  }

  static void append(Logprobs& to, Logprobs& from) {
    const auto move = [](Json& a, Json& b) {
      for (Json& entry : b) a.push_back(std::move(entry));
    };
    move(to.tokens, from.tokens);
    move(to.logprobs, from.logprobs);
    move(to.top, from.top);
    move(to.offsets, from.offsets);
  }

  Json native_logprobs_of(const Output& chunk) const {
    Json list = Json::array();
    for (const OutputToken& token : chunk.tokens)
      if (!model_->tokenizer().is_end(token.id))
        list.push_back(native_logprob_json(token, model_->tokenizer()));
    return list;
  }

  Json head() const {
    if (!style_.has_choices()) return Json::object();
    return {{"id", style_.id},
            {"object", "text_completion"},
            {"created", style_.created},
            {"model", style_.model},
            {"system_fingerprint", "weft"}};
  }

  void add_piece(std::string& out, std::size_t choice, const std::string& text, std::vector<Token> tokens,
                 Json logprobs, Json native_logprobs = Json::array()) const {
    Json json = head();
    Json entry = {
        {"index", choice}, {"text", text}, {"logprobs", std::move(logprobs)}, {"finish_reason", nullptr}};
    if (style_.native) {
      json["index"] = choice;
      json["content"] = text;
      json["tokens"] = tokens;
      json["stop"] = false;
      if (!native_logprobs.empty()) json["completion_probabilities"] = std::move(native_logprobs);
    }
    if (!tokens.empty()) entry["token_ids"] = std::move(tokens);
    if (style_.has_choices()) json["choices"] = Json::array({std::move(entry)});
    add_usage(json);
    add_event(out, to_text(picked(std::move(json))));
  }

  /// For the end of a response.
  void add_native(Json& json, std::size_t at, const std::string& text) const {
    if (!style_.native) return;
    const NativeStyle& native = *style_.native;
    const Choice& choice = choices_[at];
    const bool by_word = choice.stop == StopReason::kStopString && choice.stop_string >= 0;
    json["index"] = at;
    json["content"] = text;
    json["tokens"] = style_.stream ? std::vector<Token>() : choice.tokens;
    json["model"] = style_.model;
    json["id_slot"] = native.slot;
    json["stop"] = true;
    json["tokens_predicted"] = choice.stats.n_generated;
    json["tokens_evaluated"] = choice.stats.n_prompt;
    json["generation_settings"] = native.settings;
    const Prompt& prompt = prompt_of(at);
    const bool has_media =
        std::find(prompt.tokens.begin(), prompt.tokens.end(), kMediaToken) != prompt.tokens.end();
    json["prompt"] = has_media ? prompt.text : model_->tokenizer().decode(prompt.tokens, true);
    json["has_new_line"] = choice.cut.has_new_line();
    json["truncated"] = native.truncated;
    json["stop_type"] = choice.stop == StopReason::kEnd ? "eos" : by_word ? "word" : "limit";
    json["stopping_word"] = by_word ? native.stops[to_size(choice.stop_string)] : "";
    json["tokens_cached"] = choice.stats.n_prompt + choice.stats.n_generated;
    if (style_.logprobs && !style_.stream) json["completion_probabilities"] = choice.native_logprobs;
  }

  /// The fields that the client wants. A field of an inner object is named by its path.
  Json picked(Json json) const {
    if (!style_.native || style_.native->fields.empty()) return json;
    Json result = Json::object();
    for (const std::string& path : style_.native->fields) {
      const Json* at = &json;
      for (std::size_t begin = 0; at != nullptr && begin <= path.size();) {
        const std::size_t end = std::min(path.find('/', begin), path.size());
        const auto found = at->is_object() ? at->find(path.substr(begin, end - begin)) : at->end();
        at = at->is_object() && found != at->end() ? &*found : nullptr;
        begin = end + 1;
      }
      if (at != nullptr) result[path] = *at;
    }
    return result;
  }

  // The counts of all completions so far.
  void add_usage(Json& json) const {
    if (!style_.continuous_usage) return;
    std::size_t n_prompt = 0;
    for (const Prompt& prompt : prompts_) n_prompt += prompt.tokens.size();
    json["usage"] = usage_so_far(static_cast<int>(n_prompt), n_generated_);
  }

  const CompletionStyle style_;
  const std::shared_ptr<ServedModel> model_;
  const std::vector<Prompt> prompts_;
  std::vector<Choice> choices_;
  std::size_t n_ended_ = 0;
  int n_generated_ = 0;
  Usage usage_;
};

// A number, or as the chat API has it: true for the chosen token alone.
int read_n_logprobs(Fields& fields, int fallback, int most) {
  const Json* const value = fields.find("logprobs");
  if (value != nullptr && value->is_boolean()) return value->get<bool>() ? std::max(fallback, 0) : fallback;
  return fields.integer("logprobs", fallback, 0, most);
}

void read_length(Fields& fields, RequestParams& params) { read_max_tokens(fields, kMaxTokens, params); }

Json native_settings(const Job& job, const CommonFields& common, const NativeStyle& native) {
  Json settings = settings_json(common.params);
  settings["n_ctx"] = job.model->n_ctx;
  settings["model"] = job.model_name;
  settings["stream"] = common.stream;
  settings["n_indent"] = native.limits.n_indent;
  return settings;
}

// Cuts the prompt as the client asks. Throws ApiError if the rest is too long.
void fit(Job& job, const CommonFields& common, Prompt& prompt) {
  if (!prompt.parts.empty() && common.n_kept >= 0) job.ignored.add("truncate_prompt_tokens");
  if (prompt.parts.empty() && keep_end(prompt.tokens, common.n_kept, job.model->tokenizer()))
    prompt.text.clear();
  check_length(*job.model, prompt.tokens.size(), "prompt", common.params.n_predict != 0);
}

void write(Job& job, Fields& fields, CommonFields common, std::vector<Prompt> prompts,
           CompletionStyle style) {
  RequestParams& params = common.params;
  params.n = read_n(fields, job.params->defaults.n_completions);
  fields.without_effect("best_of", params.n);  // Completions are not ranked.
  read_min_tokens(fields, kMaxTokens, params);
  if (!common.reasoning.field.empty()) fields.note(common.reasoning.field);  // Only chats know reasoning.
  const int n_probs = fields.integer("n_probs", 0, 0, job.params->defaults.n_logprobs);
  const int n_logprobs = read_n_logprobs(fields, n_probs > 0 ? n_probs : -1, job.params->defaults.n_logprobs);
  if (n_logprobs >= 0) params.n_logprobs = n_logprobs;
  style.echo = fields.boolean("echo", false);
  if (style.echo && n_logprobs >= 0) params.prompt_logprobs = true;
  params.special = !fields.boolean("skip_special_tokens", !params.special);
  fields.done();
  check_logprobs(params, prompts.size(), common.stream, *job.model);
  for (Prompt& prompt : prompts) fit(job, common, prompt);
  if (common.grammar) hold_to(params, job, *common.grammar);
  for (std::string& warning : common.warnings) job.warnings.push_back(std::move(warning));

  if (style.native) style.native->settings = native_settings(job, common, *style.native);
  style.id = make_id("cmpl-");
  style.model = job.model_name;
  style.created = seconds_now();
  style.n = params.n;
  style.stream = common.stream;
  style.include_usage = common.include_usage;
  style.continuous_usage = common.continuous_usage;
  style.logprobs = n_logprobs >= 0;
  style.return_tokens = common.return_tokens;
  std::vector<std::vector<Token>> tokens;
  std::vector<std::vector<EmbeddedPart>> media;
  for (Prompt& prompt : prompts) {
    tokens.push_back(prompt.tokens);
    media.push_back(std::move(prompt.parts));
  }
  submit(job, std::move(tokens), params,
         std::make_unique<CompletionWriter>(std::move(style), job.model, std::move(prompts)), common.slot,
         std::move(media));
}

/// The fields of llama.cpp's own API.
NativeStyle read_native(Fields& fields, const CommonFields& common) {
  NativeStyle native;
  native.limits.n_indent = fields.integer("n_indent", 0, 0);
  native.limits.max_ms = fields.number("t_max_predict_ms", 0.0, 0.0, 1e9);
  native.fields = fields.strings("response_fields", 256);
  // llama.cpp's server ignores it as well.
  fields.ignore({"t_max_prompt_ms"});
  fields.without_effect("post_sampling_probs");  // They are the model's probabilities.
  fields.refuse("image_data",
                "send images as {\"prompt_string\": \"<__media__> ...\", \"multimodal_data\": [\"base64\"]} "
                "in 'prompt'");
  native.slot = common.slot;
  native.stops = common.params.stop;
  return native;
}

/// The prompts of the request. `style` has the form of the response.
void complete(Job& job, Fields& fields, CommonFields common, CompletionStyle style) {
  // The client sends the whole prompt, with its control tokens.
  const Tokenizer::EncodeOptions options{.add_special = fields.boolean("add_special_tokens", true),
                                         .parse_special = fields.boolean("parse_special", true)};
  const auto read_media = [&](const std::string& text, const Json& data, const std::string& path) {
    job.check_wanted();
    PromptWithMedia prompt = read_media_prompt(job, text, options.parse_special, data, path);
    return Prompt{text, std::move(prompt.tokens), std::move(prompt.parts)};
  };
  std::vector<Prompt> prompts =
      read_prompts(fields, "prompt", job.model->tokenizer(), job.params->n_inputs, options, read_media);
  if (const std::string suffix = fields.string("suffix"); !suffix.empty()) {
    const std::vector<Token> suffix_tokens = infill_tokens(*job.model, suffix);
    for (Prompt& prompt : prompts) {
      if (!prompt.parts.empty()) throw bad_request("suffix", "'suffix' cannot be used with images or audio");
      if (prompt.text.empty() && !prompt.tokens.empty())
        throw bad_request("suffix", "'suffix' needs a prompt that is a string, not token ids");
      job.check_wanted();
      const std::vector<Token> prefix = infill_tokens(*job.model, prompt.text);
      prompt = {"", join_infill(*job.model, {}, prefix, suffix_tokens)};
      fit(job, common, prompt);
    }
  }
  write(job, fields, std::move(common), std::move(prompts), std::move(style));
}

/// `alone`: as NativeStyle has it.
void complete_natively(Job& job, bool alone) {
  Fields fields = job.fields();
  CommonFields common = read_common(fields, job);
  read_length(fields, common.params);
  CompletionStyle style;
  style.native = read_native(fields, common);
  style.native->alone = alone;
  if (alone && common.stream) common.return_tokens = true;
  complete(job, fields, std::move(common), std::move(style));
}

}  // namespace

void completions(Job& job) {
  Fields fields = job.fields();
  CommonFields common = read_common(fields, job);
  read_length(fields, common.params);
  complete(job, fields, std::move(common), {});
}

void native_completion(Job& job) { complete_natively(job, true); }

void completions_in_both_forms(Job& job) { complete_natively(job, false); }

void infill(Job& job) {
  Fields fields = job.fields();
  CommonFields common = read_common(fields, job);
  const InfillText text = read_infill_text(fields);
  read_length(fields, common.params);
  InfillPrompt made = infill_prompt(*job.model, text, common.params.n_predict);
  NativeStyle native = read_native(fields, common);
  native.truncated = made.truncated;
  std::vector<Prompt> prompts;
  prompts.push_back(std::move(made.prompt));
  CompletionStyle style;
  style.native = std::move(native);
  write(job, fields, std::move(common), std::move(prompts), std::move(style));
}

}  // namespace weft::server
