#include "api/response_json.h"

#include <cmath>

namespace weft::server {
namespace {

double per_second(int n, double ms) { return ms > 0.0 ? 1000.0 * n / ms : 0.0; }
double per_token(int n, double ms) { return n > 0 ? ms / n : 0.0; }

// JSON has no infinity.
double finite(float logprob) { return std::isfinite(logprob) ? static_cast<double>(logprob) : -9999.0; }

Json bytes_json(std::string_view text) {
  Json bytes = Json::array();
  for (const char c : text) bytes.push_back(static_cast<unsigned char>(c));
  return bytes;
}

Json one_logprob(Token id, float logprob, const Tokenizer& tokenizer) {
  const std::string text = tokenizer.piece(id, true);
  return {{"token", text}, {"logprob", finite(logprob)}, {"bytes", bytes_json(text)}};
}

}  // namespace

void Usage::add(const CompletionStats& stats, bool first_of_prompt) {
  if (first_of_prompt) {
    n_prompt += stats.n_prompt;
    n_cached += stats.n_cached;
  }
  n_generated += stats.n_generated;
  n_accepted += stats.n_accepted;
  n_drafted += stats.n_drafted;
}

Json usage_json(const Usage& usage) {
  return {{"prompt_tokens", usage.n_prompt},
          {"completion_tokens", usage.n_generated},
          {"total_tokens", usage.n_prompt + usage.n_generated},
          {"prompt_tokens_details", {{"cached_tokens", usage.n_cached}}},
          {"completion_tokens_details",
           {{"reasoning_tokens", usage.n_reasoning},
            {"accepted_prediction_tokens", usage.n_accepted},
            {"rejected_prediction_tokens", usage.n_drafted - usage.n_accepted}}}};
}

Json usage_so_far(int n_prompt, int n_generated) {
  return {{"prompt_tokens", n_prompt},
          {"completion_tokens", n_generated},
          {"total_tokens", n_prompt + n_generated}};
}

Json timings_json(const CompletionStats& stats) {
  const double prompt_ms = stats.prefill_ms();
  const double predicted_ms = stats.decode_ms();
  const int n_prompt = stats.n_prompt - stats.n_cached;
  // The first token comes with the prompt's last step.
  const int n_predicted = std::max(0, stats.n_generated - 1);
  return {{"cache_n", stats.n_cached},
          {"prompt_n", n_prompt},
          {"prompt_ms", prompt_ms},
          {"prompt_per_token_ms", per_token(n_prompt, prompt_ms)},
          {"prompt_per_second", per_second(n_prompt, prompt_ms)},
          {"predicted_n", stats.n_generated},
          {"predicted_ms", predicted_ms},
          {"predicted_per_token_ms", per_token(n_predicted, predicted_ms)},
          {"predicted_per_second", per_second(n_predicted, predicted_ms)},
          {"queue_ms", stats.queue_ms},
          {"draft_n", stats.n_drafted},
          {"draft_n_accepted", stats.n_accepted}};
}

Json settings_json(const RequestParams& params) {
  const SamplerParams& sampler = params.sampler;
  Json steps = Json::array();
  for (const SamplerStep step : sampler.steps) steps.push_back(to_string(step));
  constexpr std::uint64_t kRandom = 0xFFFF'FFFF;  // As llama.cpp's clients know it.
  Json json = {{"seed", sampler.seed == SamplerParams::kRandomSeed ? kRandom : sampler.seed},
               {"temperature", sampler.temperature},
               {"dynatemp_range", sampler.dynamic_temperature_range},
               {"dynatemp_exponent", sampler.dynamic_temperature_exponent},
               {"top_k", sampler.top_k},
               {"top_p", sampler.top_p},
               {"min_p", sampler.min_p},
               {"top_n_sigma", sampler.top_n_sigma},
               {"xtc_probability", sampler.xtc_probability},
               {"xtc_threshold", sampler.xtc_threshold},
               {"typical_p", sampler.typical_p},
               {"repeat_last_n", sampler.penalty_last_n},
               {"repeat_penalty", sampler.repetition_penalty},
               {"presence_penalty", sampler.presence_penalty},
               {"frequency_penalty", sampler.frequency_penalty},
               {"dry_multiplier", sampler.dry_multiplier},
               {"dry_base", sampler.dry_base},
               {"dry_allowed_length", sampler.dry_allowed_length},
               {"dry_penalty_last_n", sampler.dry_penalty_last_n},
               {"mirostat", sampler.mirostat},
               {"mirostat_tau", sampler.mirostat_tau},
               {"mirostat_eta", sampler.mirostat_eta},
               {"max_tokens", params.n_predict},
               {"n_predict", params.n_predict},
               {"n_keep", params.n_keep},
               {"ignore_eos", params.ignore_end},
               {"stop", params.stop},
               {"n_probs", std::max(0, params.n_logprobs)},
               {"speculate", params.speculate},
               {"samplers", std::move(steps)}};
  if (sampler.dry_breakers) json["dry_sequence_breakers"] = *sampler.dry_breakers;
  return json;
}

Json logprob_json(const OutputToken& token, const Tokenizer& tokenizer) {
  Json json = one_logprob(token.id, token.logprob, tokenizer);
  Json top = Json::array();
  for (const Logprob& other : token.top) top.push_back(one_logprob(other.id, other.logprob, tokenizer));
  json["top_logprobs"] = std::move(top);
  return json;
}

Json native_logprob_json(const OutputToken& token, const Tokenizer& tokenizer) {
  const auto with_id = [&](Token id, float logprob) {
    Json json = {{"id", id}};
    json.update(one_logprob(id, logprob, tokenizer));
    return json;
  };
  Json json = with_id(token.id, token.logprob);
  Json top = Json::array();
  for (const Logprob& other : token.top) top.push_back(with_id(other.id, other.logprob));
  json["top_logprobs"] = std::move(top);
  return json;
}

Json arguments_json(const std::string& arguments) {
  auto json = parse_object(arguments);
  return json ? *std::move(json) : Json{{"_partial", arguments}};
}

std::string_view finish_reason(StopReason stop, bool called) {
  switch (stop) {
    case StopReason::kEnd:
    case StopReason::kStopString:
      return called ? "tool_calls" : "stop";
    default:
      return "length";
  }
}

}  // namespace weft::server
