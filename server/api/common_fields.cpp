#include "api/common_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

#include "api/adapters.h"
#include "api/error.h"
#include "api/job.h"
#include "api/prompts.h"
#include "api/sessions.h"
#include "base/to_size.h"
#include "weft/error.h"

namespace weft::server {
namespace {

constexpr double kLarge = 1e6;
constexpr std::size_t kMaxStops = 256;
constexpr int kMaxLogprobs = 4 << 20;
constexpr float kBanned = -std::numeric_limits<float>::infinity();  ///< A bias.

// The token whose id is the string. Nothing for a string that is not an integer. An integer may be too large.
std::optional<Token> token_of(const std::string& path, std::string_view text, const Tokenizer& tokenizer) {
  Token id = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  if (error == std::errc::invalid_argument || end != text.data() + text.size()) return std::nullopt;
  if (error != std::errc{} || id < 0 || id >= tokenizer.n_vocab())
    throw bad_request(path, fmt::format("'{}': token {} is outside the vocabulary of {} tokens", path,
                                        text.substr(0, 64), tokenizer.n_vocab()));
  return id;
}

void read_one_bias(const std::string& path, Token id, const Json& value,
                   std::vector<std::pair<Token, float>>& biases) {
  // false: never, as llama.cpp has it. OpenAI's -100 means the same.
  const bool banned = value.is_boolean() && !value.get<bool>();
  if (!banned && !value.is_number())
    throw bad_request(path, fmt::format("'{}': the bias of token {} must be a number", path, id));
  const double bias = banned ? -std::numeric_limits<double>::infinity() : value.get<double>();
  if (std::isnan(bias)) throw bad_request(path, fmt::format("'{}' must not be NaN", path));
  biases.emplace_back(id, bias <= -100.0 ? kBanned : static_cast<float>(bias));
}

// Each token of the string gets the bias.
void read_text_bias(const std::string& path, const std::string& text, const Json& value,
                    const Tokenizer& tokenizer, std::vector<std::pair<Token, float>>& biases) {
  const std::vector<Token> ids = tokenizer.encode(text, {.add_special = false});
  if (ids.empty())
    throw bad_request(path, fmt::format("'{}': the model's vocabulary has no token for the string {}", path,
                                        json_text(text.substr(0, 64))));
  for (const Token id : ids) read_one_bias(path, id, value, biases);
}

// `[15043, -1.5]`, `["text", false]` or `{"id": 15043, "bias": -1.5}`
void read_bias_entry(const std::string& at, const Json& entry, const Tokenizer& tokenizer,
                     std::vector<std::pair<Token, float>>& biases) {
  const bool is_object = entry.is_object() && entry.contains("id") && entry.contains("bias");
  if (!is_object && (!entry.is_array() || entry.size() != 2))
    throw bad_request(at, fmt::format("'{}' must be a pair: a token id or a string, and a number", at));
  const Json& key = is_object ? entry["id"] : entry[0];
  const Json& bias = is_object ? entry["bias"] : entry[1];
  if (key.is_string()) return read_text_bias(at, key.get_ref<const std::string&>(), bias, tokenizer, biases);
  if (!key.is_number_integer())
    throw bad_request(at, fmt::format("'{}' must begin with a token id or a string", at));
  read_one_bias(at, token_of(at, key.dump(), tokenizer).value(), bias, biases);
}

// `{"15043": -1.5, "text": -100}`, `[[15043, -1.5], ["text", false]]` or `[{"id": 15043, "bias": -1.5}]`
void read_biases(Fields& fields, const Tokenizer& tokenizer, std::vector<std::pair<Token, float>>& biases) {
  const Json* value = fields.find("logit_bias");
  if (value == nullptr) return;
  const std::string path = fields.path_of("logit_bias");
  const auto check_count = [&](std::size_t n) {
    if (n > to_size(tokenizer.n_vocab()))
      throw bad_request(
          path, fmt::format("'{}' may have at most {} tokens, the size of the vocabulary, not {}", path,
                            tokenizer.n_vocab(), n));
  };
  if (value->is_structured()) check_count(value->size());
  if (value->is_object()) {
    for (const auto& [key, bias] : value->items()) {
      if (const auto id = token_of(path, key, tokenizer))
        read_one_bias(path, *id, bias, biases);
      else
        read_text_bias(path, key, bias, tokenizer, biases);
      check_count(biases.size());
    }
    return;
  }
  if (!value->is_array())
    throw bad_request(path,
                      fmt::format("'{}' must be an object that maps token ids or strings to numbers", path));
  for (std::size_t i = 0; i < value->size(); ++i) {
    read_bias_entry(element(path, i), (*value)[i], tokenizer, biases);
    check_count(biases.size());
  }
}

// As llama.cpp: an array of names, or a string of letters. Samplers that llama.cpp has or had and weft lacks
// are skipped: web pages list all that they know. The response lists the samplers in use.
std::vector<SamplerStep> read_samplers(Fields& fields) {
  constexpr std::pair<std::string_view, char> kOthers[] = {
      {"infill", 'i'}, {"tfs_z", 'f'}, {"tfs", 'f'}, {"adaptive_p", 'a'}};
  const auto note = [&fields](std::string_view other) { fields.note(fmt::format("samplers.{}", other)); };
  std::vector<std::string> names = fields.strings("samplers", 64);
  for (const auto& [other, letter] : kOthers)
    if (std::erase(names, other) > 0) note(other);
  if (names.size() == 1 && names[0] != "temp") {
    std::string letters = names[0];
    std::vector<std::string_view> skipped;
    for (const auto& [other, letter] : kOthers)
      if (std::erase(letters, letter) > 0) skipped.push_back(other);
    try {
      const std::vector<SamplerStep> steps = parse_sampler_letters(letters);
      for (const std::string_view other : skipped) note(other);
      return steps;
    } catch (const Error&) {  // It is a name, then.
    }
  }
  return parse_sampler_steps(fmt::format("{}", fmt::join(names, ";")));
}

/// vLLM's allowed_token_ids and bad_words.
void read_bans(Fields& fields, const Tokenizer& tokenizer, TokenBans& bans) {
  if (const Json* const ids = fields.array("allowed_token_ids")) {
    const std::string path = fields.path_of("allowed_token_ids");
    if (ids->empty())
      throw bad_request(path, fmt::format("'{}' is empty: no token could be generated; leave it out", path));
    bans.allowed = read_ids(*ids, path, tokenizer);
  }
  const std::vector<std::string> words = fields.strings("bad_words", kMaxStops);
  for (std::size_t i = 0; i < words.size(); ++i) {
    try {
      bans.add_word(words[i], tokenizer);
    } catch (const Error& error) {
      const std::string path = element(fields.path_of("bad_words"), i);
      throw bad_request(path, fmt::format("'{}': {}", path, error.what()));
    }
  }
}

void read_sampler(Fields& fields, const Tokenizer& tokenizer, SamplerParams& sampler) {
  const auto number = [&](std::string_view name, float& value, double least, double most = kLarge) {
    value = fields.number(name, value, least, most);
  };
  number("temperature", sampler.temperature, 0.0, 1000.0);
  number("top_p", sampler.top_p, 0.0, 1.0);
  number("min_p", sampler.min_p, 0.0, 1.0);
  sampler.top_k = fields.integer("top_k", sampler.top_k, -1);
  for (const char* name : {"typ_p", "typical_p"}) number(name, sampler.typical_p, 0.0, 1.0);
  number("top_n_sigma", sampler.top_n_sigma, -1.0);
  number("xtc_probability", sampler.xtc_probability, 0.0, 1.0);
  number("xtc_threshold", sampler.xtc_threshold, 0.0, 1.0);
  number("dynatemp_range", sampler.dynamic_temperature_range, 0.0);
  number("dynatemp_exponent", sampler.dynamic_temperature_exponent, 0.0);
  number("frequency_penalty", sampler.frequency_penalty, -100.0, 100.0);
  number("presence_penalty", sampler.presence_penalty, -100.0, 100.0);
  for (const char* name : {"repeat_penalty", "repetition_penalty"}) {
    number(name, sampler.repetition_penalty, 0.0, 100.0);
    if (fields.has(name) && sampler.repetition_penalty <= 0.0F)
      throw bad_request(name, fmt::format("'{}' must be above 0; 1 turns it off", name));
  }
  sampler.penalty_last_n = fields.integer("repeat_last_n", sampler.penalty_last_n, -1);
  sampler.mirostat = fields.integer("mirostat", sampler.mirostat, 0, 2);
  number("mirostat_tau", sampler.mirostat_tau, 0.0);
  number("mirostat_eta", sampler.mirostat_eta, 0.0);
  number("dry_multiplier", sampler.dry_multiplier, 0.0);
  number("dry_base", sampler.dry_base, 1.0);
  sampler.dry_allowed_length = fields.integer("dry_allowed_length", sampler.dry_allowed_length, 0);
  sampler.dry_penalty_last_n = fields.integer("dry_penalty_last_n", sampler.dry_penalty_last_n, -1);
  if (fields.has("dry_sequence_breakers")) {
    sampler.dry_breakers = fields.strings("dry_sequence_breakers", 1024);
    std::erase(*sampler.dry_breakers, "");  // Clients send empty ones, which match nothing.
  }
  if (fields.has("samplers")) sampler.steps = read_samplers(fields);
  sampler.seed = fields.bits("seed", sampler.seed);  // -1 is SamplerParams::kRandomSeed.
  read_biases(fields, tokenizer, sampler.logit_bias);
  if (fields.boolean("use_beam_search", false))
    fields.refuse("use_beam_search", "this server samples; leave it out, or set 'temperature' to 0");
}

ApiError unenforceable(const GrammarRequest& wish, const Error& error) {
  ApiError result = bad_request(wish.field, fmt::format("'{}': {}", wish.field, error.what()));
  result.code = wish.code;
  return result;
}

// Runs `make`. Its errors about the grammar name the wish's field.
template <typename Make>
auto naming(const GrammarRequest& wish, const Make& make) {
  try {
    return make();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInvalidArgument) throw;
    throw unenforceable(wish, error);
  }
}

/// Reports errors of its grammar: they are due to the request, not to the server.
class ReportingConstraint final : public TokenConstraint {
 public:
  ReportingConstraint(const CompiledGrammar& grammar, std::shared_ptr<GrammarFault> fault,
                      GrammarRequest wish)
      : fault_(std::move(fault)), wish_(std::move(wish)) {
    report([&] { inner_ = grammar.constraint(); });
  }

  void accept(Token token) override {
    report([&] { inner_->accept(token); });
  }
  void fill(std::span<const Token> draft, std::span<std::uint32_t> allowed) override {
    report([&] { inner_->fill(draft, allowed); });
  }
  bool allows(std::span<const Token> draft, Token next) override { return inner_->allows(draft, next); }
  void forced(std::span<const Token> draft, std::vector<Token>& tokens) override {
    inner_->forced(draft, tokens);
  }

 private:
  template <typename Act>
  void report(const Act& act) {
    try {
      naming(wish_, act);
    } catch (const ApiError& error) {
      fault_->set(error);
      throw;
    }
  }

  std::unique_ptr<TokenConstraint> inner_;
  const std::shared_ptr<GrammarFault> fault_;
  const GrammarRequest wish_;  ///< The names for errors.
};

GrammarRequest choice_request(std::vector<std::string> words, std::string field) {
  std::string key = "choice:";
  for (const std::string& word : words) key += json_text(word);
  return {key,
          [words = std::move(words)] {
            std::vector<Grammar> parts;
            for (const std::string& word : words) parts.push_back(Grammar::literal(word));
            return Grammar::choice(std::move(parts));
          },
          std::move(field), "invalid_grammar"};
}

// A schema, or a string with its JSON.
GrammarRequest read_schema(const Fields& fields, std::string_view name, const Json& value,
                           std::vector<std::string>& warnings) {
  Json schema = value;
  if (value.is_string()) {
    try {
      schema = parse_json(value.get_ref<const std::string&>());
    } catch (const ApiError&) {  // Not JSON: no schema either.
      schema = nullptr;
    }
  }
  if (!schema.is_object() && !schema.is_boolean())
    throw bad_request(fields.path_of(name), fmt::format("'{}' must be a JSON schema", fields.path_of(name)));
  return schema_request(schema, false, fields.path_of(name), warnings);
}

// A structural tag: an object, or a string with its JSON. Keywords of its schemas that cannot be enforced
// give warnings.
GrammarRequest tag_request(const Json& value, const std::string& field, std::vector<std::string>& warnings) {
  const std::string text = value.is_string() ? value.get<std::string>() : to_text(value);
  const GrammarRequest names{.field = field, .code = "invalid_grammar"};
  std::vector<std::string> notes;
  Grammar grammar = naming(names, [&] { return Grammar::structural_tag(text, {.left_free = &notes}); });
  for (const std::string& note : notes) warnings.push_back(fmt::format("'{}': {}", field, note));
  return {"tag:" + text, [grammar = std::move(grammar)] { return grammar; }, field, names.code};
}

// The names of each kind of constraint in an object. Empty strings ask for nothing.
struct GrammarNames {
  std::vector<std::string_view> schemas = {}, regexes = {}, choices = {}, grammars = {};
};

void read_requirements(Fields& fields, const GrammarNames& names, std::vector<GrammarRequest>& wishes,
                       std::vector<std::string>& warnings) {
  for (const std::string_view name : names.grammars)
    if (std::string text = fields.string(name); !text.empty())
      wishes.push_back(
          {"gbnf:" + text, [text] { return Grammar::gbnf(text); }, fields.path_of(name), "invalid_grammar"});
  for (const std::string_view name : names.schemas)
    if (const Json* schema = fields.find(name); schema != nullptr && *schema != "")
      wishes.push_back(read_schema(fields, name, *schema, warnings));
  for (const std::string_view name : names.regexes)
    if (std::string text = fields.string(name); !text.empty())
      wishes.push_back(
          {"regex:" + text, [text] { return Grammar::regex(text); }, fields.path_of(name), "invalid_regex"});
  for (const std::string_view name : names.choices)
    if (std::vector<std::string> words = fields.strings(name, 4096); !words.empty())
      wishes.push_back(choice_request(std::move(words), fields.path_of(name)));
}

GrammarRequest read_named_schema(Fields& format, std::vector<std::string>& warnings) {
  const Json* holder = format.object("json_schema");
  if (holder == nullptr)
    throw bad_request(format.path_of("json_schema"), "'response_format.json_schema' is missing");
  Fields inner = format.within(*holder, format.path_of("json_schema"));
  const Json* schema = inner.object("schema");
  if (schema == nullptr)
    throw bad_request(inner.path_of("schema"), "'response_format.json_schema.schema' is missing");
  const bool strict = inner.boolean("strict", false);
  inner.ignore({"name", "description"});
  inner.done();
  return schema_request(*schema, strict, inner.path_of("schema"), warnings);
}

void read_response_format(Fields& fields, std::vector<GrammarRequest>& wishes,
                          std::vector<std::string>& warnings) {
  const Json* value = fields.object("response_format");
  if (value == nullptr) return;
  Fields format = fields.within(*value, fields.path_of("response_format"));
  enum Type : std::size_t { kText, kObject, kSchema, kRegex, kGrammar, kTag };
  const std::size_t type = format.word(
      "type", kText, {"text", "json_object", "json_schema", "regex", "grammar", "structural_tag"});
  if (type == kObject) {
    // llama.cpp takes a schema here.
    const Json* schema = format.object("schema");
    wishes.push_back(schema != nullptr ? schema_request(*schema, false, format.path_of("schema"), warnings)
                                       : object_request());
  } else if (type == kSchema) {
    wishes.push_back(read_named_schema(format, warnings));
  } else if (type == kTag) {
    format.ignore({"format", "structures", "triggers"});  // Grammar::structural_tag() reads them.
    wishes.push_back(tag_request(*value, fields.path_of("response_format"), warnings));
  } else if (type == kRegex || type == kGrammar) {
    const std::string kind = format.string("type");
    const std::vector<std::string_view> names = {kind, "value", "pattern"};
    read_requirements(format,
                      type == kRegex ? GrammarNames{.regexes = names} : GrammarNames{.grammars = names},
                      wishes, warnings);
    if (wishes.empty())
      throw bad_request(format.path_of(kind), fmt::format("'{}' is missing", format.path_of(kind)));
  }
  format.done();
}

std::optional<GrammarRequest> read_grammar(Fields& fields, std::vector<std::string>& warnings) {
  std::vector<GrammarRequest> wishes;
  read_response_format(fields, wishes, warnings);
  read_requirements(fields,
                    {.schemas = {"json_schema", "guided_json"},
                     .regexes = {"guided_regex"},
                     .choices = {"guided_choice"},
                     .grammars = {"grammar", "guided_grammar"}},
                    wishes, warnings);
  if (const Json* outputs = fields.object("structured_outputs")) {
    Fields inner = fields.within(*outputs, fields.path_of("structured_outputs"));
    read_requirements(
        inner, {.schemas = {"json"}, .regexes = {"regex"}, .choices = {"choice"}, .grammars = {"grammar"}},
        wishes, warnings);
    if (inner.boolean("json_object", false)) wishes.push_back(object_request());
    if (const Json* tag = inner.find("structural_tag"); tag != nullptr && *tag != "")
      wishes.push_back(tag_request(*tag, inner.path_of("structural_tag"), warnings));
    inner.done();
  }
  if (wishes.size() > 1)
    throw bad_request("response_format",
                      "response_format, grammar, json_schema, structured_outputs and guided_* each constrain "
                      "the response; send one of them");
  if (wishes.empty()) return std::nullopt;
  return std::move(wishes.front());
}

// Fields of other servers, with the value that has no effect. Some resemble names that are known here.
void read_others(Fields& fields) {
  static const std::vector<std::pair<const char*, Json>> kOthers = {
      {"min_keep", 0},
      {"n_cache_reuse", 0},
      {"n_discard", 0},
      {"return_progress", false},
      {"spaces_between_special_tokens", true},
      {"service_tier", "auto"},
      {"verbosity", "medium"},
      {"store", false},
      {"top_a", 0},
      {"tfs_z", 1},
      {"tfs", 1},
      {"mode", nullptr},
      {"models", nullptr},
      {"mirostat_mode", 0},
      {"guided_decoding_backend", nullptr},
      {"guided_whitespace_pattern", nullptr},
      {"length_penalty", 1},
      {"num_predict", -1},
      {"num_ctx", 0},
      {"rep_pen", 1},
      {"smoothing_factor", 0},
      {"prompt_logprobs", 0},
  };
  for (const auto& [name, nothing] : kOthers) fields.without_effect(name, nothing);
}

// weft's field, and llama.cpp's. The server measures which lengths of drafts pay, so limits are no more than
// on or off.
void read_speculation(Fields& fields, RequestParams& params) {
  params.speculate = fields.boolean("speculate", params.speculate);
  const std::pair<const char*, Json> off[] = {{"speculative.n_max", 0}, {"speculative.types", "none"}};
  for (const auto& [name, value] : off) {
    if (const Json* given = fields.find(name); given != nullptr && *given == value) {
      params.speculate = false;
    } else {
      fields.without_effect(name);
    }
  }
  for (const char* name : {"speculative", "speculative.n_min", "speculative.p_min"})
    fields.without_effect(name, "none");
}

// The names of llama.cpp, vLLM, Qwen, Anthropic and OpenRouter for the most tokens of reasoning.
ReasoningRequest read_reasoning(Fields& fields) {
  ReasoningRequest wish;
  const auto read = [&wish](Fields& holder, std::string_view name) {
    if (!holder.has(name)) return;
    wish.budget = holder.integer(name, -1, -1);
    wish.field = holder.path_of(name);
  };
  for (const char* name : {"reasoning_budget", "reasoning_budget_tokens", "thinking_budget_tokens",
                           "thinking_token_budget", "thinking_budget"})
    read(fields, name);
  for (const auto& [name, member] : {std::pair{"thinking", "budget_tokens"}, {"reasoning", "max_tokens"}}) {
    const Json* const object = fields.find(name);
    if (object == nullptr || !object->is_object() || object->value("type", Json()) == "disabled") continue;
    Fields inner = fields.within(*object, fields.path_of(name));
    read(inner, member);
  }
  if (fields.has("reasoning_budget_message")) {
    wish.message = fields.string("reasoning_budget_message");
    wish.field = fields.path_of("reasoning_budget_message");
  }
  return wish;
}

void read_banned_strings(Fields& fields, RequestParams& params) {
  params.banned_strings = fields.strings("banned_strings", kMaxStops);
  std::erase(params.banned_strings, "");
}

void read_stream(Fields& fields, CommonFields& result) {
  result.stream = fields.boolean("stream", false);
  const Json* options = fields.object("stream_options");
  if (options == nullptr) return;
  if (!result.stream) return fields.note("stream_options");
  Fields inner = fields.within(*options, fields.path_of("stream_options"));
  result.include_usage = inner.boolean("include_usage", false);
  result.continuous_usage = inner.boolean("continuous_usage_stats", false);
  inner.ignore({"include_obfuscation"});
  inner.done();
}

}  // namespace

GrammarRequest schema_request(const Json& schema, bool strict, const std::string& field,
                              std::vector<std::string>& warnings) {
  const std::string text = to_text(schema);
  std::vector<std::string> notes;
  try {
    Grammar grammar = Grammar::json_schema(text, {.left_free = strict ? nullptr : &notes});
    for (const std::string& note : notes) warnings.push_back(fmt::format("'{}': {}", field, note));
    return {"schema:" + text, [grammar = std::move(grammar)] { return grammar; }, field};
  } catch (const Error& error) {
    if (strict) throw unenforceable({.field = field}, error);
    // The schema is too large for any constraint.
    warnings.push_back(fmt::format("'{}': {}; it may be any JSON object", field, error.what()));
    return object_request();
  }
}

GrammarRequest object_request() { return {"object", &Grammar::json_object, "response_format"}; }

void read_stops(Fields& fields, std::string_view name, CommonFields& common) {
  RequestParams& params = common.params;
  if (fields.has(name)) params.stop = fields.strings(name, kMaxStops);
  // Some web pages send empty strings for settings.
  std::erase_if(params.stop, [](const std::string& stop) { return stop.empty(); });
  if (common.shows_stops) params.n_shown_stops = static_cast<int>(params.stop.size());
}

int read_n(Fields& fields, int most) {
  return fields.integer("n_cmpl", fields.integer("n", 1, 1, most), 1, most);
}

void read_max_tokens(Fields& fields, std::initializer_list<std::string_view> names, RequestParams& params) {
  for (const std::string_view name : names)
    params.n_predict = fields.integer(name, params.n_predict, -1, std::numeric_limits<int>::max());
}

void read_min_tokens(Fields& fields, std::initializer_list<std::string_view> maxima, RequestParams& params) {
  params.n_min = fields.integer("min_tokens", params.n_min, 0);
  if (params.n_predict < 0 || params.n_min <= params.n_predict) return;
  std::string_view most;  // The last one counts, as in read_max_tokens().
  for (const std::string_view name : maxima)
    if (fields.find(name) != nullptr) most = name;
  const std::string path = fields.path_of("min_tokens");
  throw bad_request(
      path, most.empty()
                ? fmt::format("'{}' is {}, but this server generates at most {} tokens by default; set "
                              "'max_tokens'",
                              path, params.n_min, params.n_predict)
                : fmt::format("'{}' is {} and '{}' {}; make '{}' the smaller one", path, params.n_min,
                              fields.path_of(most), params.n_predict, path));
}

CommonFields read_common(Fields& fields, Job& job) {
  const RequestDefaults& defaults = job.params->defaults;
  const Model& model = *job.model->model;
  const Tokenizer& tokenizer = model.tokenizer();
  CommonFields result;
  result.params = defaults.params;
  RequestParams& params = result.params;
  read_sampler(fields, tokenizer, params.sampler);
  read_bans(fields, tokenizer, job.bans);
  result.shows_stops = fields.boolean("include_stop_str_in_output", false);
  read_stops(fields, "stop", result);
  read_banned_strings(fields, params);
  result.reasoning = read_reasoning(fields);
  params.ignore_end = fields.boolean("ignore_eos", params.ignore_end);
  params.n_keep = fields.integer("n_keep", params.n_keep, -1);
  const int priority = fields.integer("priority", 0, -1000, 1000);
  if (fields.has("priority") && !job.is_background()) params.priority = priority;
  const double most = defaults.timeout_ms > 0.0 ? defaults.timeout_ms / 1000.0 : 1e9;
  const double seconds = fields.number("timeout", most, 0.001, 1e9);
  params.timeout_ms = defaults.timeout_ms > 0.0 || seconds < most ? 1000.0 * std::min(seconds, most) : 0.0;

  read_stream(fields, result);
  result.timings_per_token = fields.boolean("timings_per_token", false);
  result.return_tokens = fields.boolean("return_tokens", false) || fields.boolean("return_token_ids", false);
  result.grammar = read_grammar(fields, result.warnings);
  if (const Json* adapters = fields.find("lora"))
    params.adapters = read_adapters(*adapters, fields.path_of("lora"), model);
  result.slot = fields.integer("id_slot", -1, -1, kMostSlots - 1);
  // A slot is only a name for sessions.
  if (result.slot >= 0 && (job.sessions == nullptr || !job.sessions->enabled())) fields.note("id_slot");
  params.reuse_prefix = fields.boolean("cache_prompt", true);
  read_speculation(fields, params);
  if (const Json* ids = fields.array("stop_token_ids")) {
    if (ids->size() > kMaxStops)
      throw bad_request("stop_token_ids", fmt::format("'stop_token_ids' may have at most {} ids", kMaxStops));
    params.stop_tokens = read_ids(*ids, fields.path_of("stop_token_ids"), tokenizer);
  }
  result.n_kept = read_n_kept(fields);
  // Metadata of clients, and hints for caching, which weft does not need.
  fields.ignore({"user", "metadata", "safety_identifier", "prompt_cache_key", "prompt_cache_retention",
                 "prompt_cache_options", "client_metadata"});
  read_others(fields);
  return result;
}

void note_unshown(Fields& fields, const CommonFields& common) {
  for (const char* name : {"timings_per_token", "return_tokens", "return_token_ids"})
    fields.without_effect(name);
  if (common.continuous_usage) fields.note("stream_options.continuous_usage_stats");
}

int read_n_kept(Fields& fields) {
  const int n = fields.integer("truncate_prompt_tokens", 0, -1);
  if (n < 0) fields.note("truncate_prompt_tokens");  // The model's length: longer prompts are refused.
  return n > 0 ? n : -1;
}

bool keep_end(std::vector<Token>& prompt, int n_kept, const Tokenizer& tokenizer) {
  if (n_kept < 0 || prompt.size() <= to_size(n_kept)) return false;
  const int n_front = n_kept > 1 && prompt.front() == tokenizer.bos() ? 1 : 0;
  prompt.erase(prompt.begin() + n_front, prompt.end() - (n_kept - n_front));
  return true;
}

void check_logprobs(const RequestParams& params, std::size_t n_prompts, bool stream,
                    const ServedModel& model) {
  if (params.n_logprobs < 0 || stream) return;
  const double n_each = params.n_predict >= 0 && !params.prompt_logprobs
                            ? std::min(params.n_predict, model.n_ctx)
                            : model.n_ctx;
  const double n_all = n_each * static_cast<double>(n_prompts) * params.n * (params.n_logprobs + 1);
  if (n_all > kMaxLogprobs)
    throw bad_request(
        "logprobs",
        fmt::format(
            "the response could have {:.0f} logprobs, but {} is the limit: request fewer tokens, or a stream",
            n_all, kMaxLogprobs));
}

void set_grammar(CommonFields& common, GrammarRequest wish) {
  if (common.grammar)
    throw bad_request(wish.field, fmt::format("'{}' and '{}' each constrain the response; send one of them",
                                              common.grammar->field, wish.field));
  common.grammar = std::move(wish);
}

Grammar make_grammar(const GrammarRequest& wish) {
  return naming(wish, [&] { return wish.make(); });
}

void hold_to(RequestParams& params, Job& job, const GrammarRequest& wish) {
  std::shared_ptr<const CompiledGrammar> grammar =
      naming(wish, [&] { return job.model->grammars->get(wish.key, wish.make); });
  auto fault = std::make_shared<GrammarFault>();
  job.grammar_fault = fault;
  params.constraint = [grammar = std::move(grammar), fault = std::move(fault), field = wish.field,
                       code = wish.code](int) {
    return std::make_unique<ReportingConstraint>(*grammar, fault,
                                                 GrammarRequest{.field = field, .code = code});
  };
}

}  // namespace weft::server
