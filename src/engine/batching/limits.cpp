#include "engine/batching/limits.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/counted.h"
#include "base/to_size.h"
#include "engine/forget.h"
#include "engine/prompt_parts.h"
#include "engine/refuse.h"
#include "engine/sequence_adapters.h"
#include "engine/sources.h"

namespace weft::engine {
namespace {

constexpr int kMaxLogprobs = 1 << 10;
constexpr int kMaxDraft = 64;
constexpr int kMaxBranches = 64;

}  // namespace

BatcherParams fill_in(BatcherParams p, const Context& context) {
  const auto at_most = [](const char* what, int& value, int max) {
    if (value < 0) refuse(std::string(what) + " is " + std::to_string(value) + ", expected at least 0");
    if (value == 0 || value > max) value = max;
  };
  at_most("the number of running completions", p.n_running, context.params().n_sequences);
  at_most("the number of tokens of a step", p.n_step_tokens, context.batch_size());
  if (!(p.max_step_ms > 0.0)) refuse("the time of a step must be more than 0 ms");
  if (!(p.max_pause_ms >= 0.0)) refuse("the time of a pause must be at least 0 ms");
  const BatcherLimits& limits = p.limits;
  if (limits.n_waiting < 0 || limits.n_waiting_tokens < 0 || limits.n_completions < 1 ||
      limits.n_request_tokens < 1 || limits.n_stops < 0)
    refuse("the limits of a batcher must not be negative, and must allow at least one completion");
  if (p.draft != nullptr && p.speculation != Speculation::kModel)
    refuse("a draft model needs speculation = kModel; set it, or leave the draft out");
  if (p.speculation > Speculation::kModel)
    refuse("unknown speculation " + std::to_string(static_cast<int>(p.speculation)));
  if (p.draft.get() == &context)
    refuse("a context cannot be its own draft; create a context of the draft model");
  if (p.n_snapshots < 0 || p.snapshot_bytes < 0)
    refuse("n_snapshots and snapshot_bytes must not be negative");
  if (p.n_draft < 0 || p.n_draft > kMaxDraft)
    refuse("n_draft is " + std::to_string(p.n_draft) + ", expected 0 to " + std::to_string(kMaxDraft));
  if (p.n_draft_branches < 1 || p.n_draft_branches > kMaxBranches)
    refuse("n_draft_branches is " + std::to_string(p.n_draft_branches) + ", expected 1 to " +
           std::to_string(kMaxBranches));
  if (p.speculation == Speculation::kModel && p.draft == nullptr)
    refuse("speculation = kModel needs a draft model; set BatcherParams::draft to a context of it");
  if (p.speculation == Speculation::kModel &&
      (context.model().info().reads_source || p.draft->model().info().reads_source))
    throw Error(ErrorCode::kUnsupported,
                "draft models do not work with encoder-decoder models; use n-grams for speculation, or none");
  return p;
}

int max_text(const RequestParams& p, const Context& context) {
  const int n_cells =
      p.n_ctx > 0 ? std::min(p.n_ctx, context.cache().cells_total()) : context.cache().cells_total();
  return std::min<int>(n_cells, context.cache().max_positions());
}

namespace {

/// The prompt is the encoder input.
void check_source(std::span<const Token> source, const RequestParams& p, const Context& context) {
  const auto unsupported = [](const char* why) { throw Error(ErrorCode::kUnsupported, why); };
  if (!p.parts.empty()) unsupported("an encoder input is text only; this model accepts no images or audio");
  if (p.prompt_logprobs)
    unsupported("this model encodes the prompt and does not predict its tokens; leave prompt_logprobs out");
  if (p.pooling != Pooling::kNone)
    unsupported("this model generates from an encoder input and has no embeddings; use an embedding model");
  check_source_size(source.size(), context.params().n_source);
}

void check_strings(const std::vector<std::string>& strings, const std::string& what,
                   const BatcherLimits& limits) {
  std::size_t n_bytes = 0;
  for (const std::string& one : strings) {
    if (one.empty()) refuse("a " + what + " is empty");
    n_bytes += one.size();
  }
  if (static_cast<int>(strings.size()) > limits.n_stops || n_bytes > limits.stop_bytes)
    refuse("the request has " + base::counted(strings.size(), what) + " of " +
           base::counted(n_bytes, "byte") + "; the limit is " + std::to_string(limits.n_stops) + " of " +
           std::to_string(limits.stop_bytes));
}

/// Banned strings need a cache that drops tokens, and a last prompt token that can be computed again.
void check_goes_back(std::span<const Token> prompt, const RequestParams& p, const Context& context) {
  for (const std::string& one : p.banned_strings)
    if (one.size() > BatcherLimits::kMaxBannedBytes)
      refuse("a banned string has " + base::counted(one.size(), "byte") + "; the limit is " +
             std::to_string(BatcherLimits::kMaxBannedBytes));
  // The state at the start of a banned string may no longer be kept. Then all tokens would be recomputed.
  if (context.model().info().recurrent)
    refuse(
        "banned_strings need a cache that can drop any tokens, which models with recurrent layers lack; ban "
        "tokens with logit_bias instead");
  if (prompt.back() < 0)
    refuse("banned_strings need a prompt that does not end with an image or audio; put text after it");
}

}  // namespace

void check_request(std::span<const Token> prompt, const RequestParams& p, const Context& context,
                   const BatcherLimits& limits) {
  if (prompt.empty()) refuse("the prompt is empty");
  check_prompt(prompt, p.parts, context);
  const bool reads_source = context.model().info().reads_source;
  if (reads_source) check_source(prompt, p, context);
  if (!p.parts.empty() && p.prompt_logprobs)
    refuse("prompt_logprobs need a prompt of tokens only, without images or audio");
  if (p.n < 1 || p.n > limits.n_completions)
    refuse("the number of completions is " + std::to_string(p.n) + ", expected 1 to " +
           std::to_string(limits.n_completions));
  if (static_cast<std::int64_t>(prompt.size()) * p.n > limits.n_request_tokens)
    refuse(std::to_string(p.n) + " completions of a prompt of " + std::to_string(prompt.size()) +
           " tokens are more than a request may have (" + std::to_string(limits.n_request_tokens) +
           " tokens); ask for fewer completions");
  if (p.n_logprobs > kMaxLogprobs) refuse("at most " + std::to_string(kMaxLogprobs) + " log-probabilities");
  if (p.n_ctx < 0 || p.n_keep < 0) refuse("n_ctx and n_keep must not be negative");
  if (p.pooling != Pooling::kNone &&
      (p.n > 1 || p.n_min > 0 || !p.stop.empty() || !p.stop_tokens.empty() || !p.banned_strings.empty() ||
       p.n_logprobs >= 0 || p.prompt_logprobs || p.context_shift || p.constraint))
    refuse(
        "an embedding generates no tokens; leave out n, n_min, stop, stop_tokens, banned_strings, "
        "n_logprobs, "
        "prompt_logprobs, context_shift and the constraint");
  if (p.pooling == Pooling::kCls)
    refuse(
        "pooling \"cls\" needs an encoder: in a decoder the first token sees no later token; use \"mean\" or "
        "\"last\"");
  if (p.pooling > Pooling::kLast) refuse("unknown pooling " + std::to_string(static_cast<int>(p.pooling)));
  if (p.n_min < 0) refuse("n_min is " + std::to_string(p.n_min) + ", expected 0 or more");
  if (p.n_predict >= 0 && p.n_min > p.n_predict)
    refuse("the request asks for at least " + base::counted(p.n_min, "token") + " but at most " +
           std::to_string(p.n_predict) + "; n_min must not be larger than n_predict");
  for (const double ms : {p.queue_timeout_ms, p.first_token_timeout_ms, p.timeout_ms})
    if (!(ms >= 0.0)) refuse("the deadline must be 0 (none) or in the future");
  check_strings(p.stop, "stop string", limits);
  check_strings(p.banned_strings, "banned string", limits);
  if (!p.banned_strings.empty()) check_goes_back(prompt, p, context);
  if (p.n_shown_stops < 0 || p.n_shown_stops > std::ssize(p.stop))
    refuse("n_shown_stops is " + std::to_string(p.n_shown_stops) + ", expected 0 to " +
           std::to_string(p.stop.size()) + ", the number of stop strings");
  if (static_cast<int>(p.stop_tokens.size()) > limits.n_stops)
    refuse("the request has " + base::counted(p.stop_tokens.size(), "stop token") + "; the limit is " +
           std::to_string(limits.n_stops));
  const int n_vocab = context.model().tokenizer().n_vocab();
  for (const Token token : p.stop_tokens)
    if (token < 0 || token >= n_vocab)
      refuse("the stop token " + std::to_string(token) + " is outside the vocabulary of " +
             std::to_string(n_vocab) + " tokens");
  const int limit = max_text(p, context);
  if (p.context_shift) check_forgets(context, p.parts, p.n_keep, limit);
  if (!reads_source && prompt.size() > to_size(limit))
    refuse("the prompt has " + base::counted(prompt.size(), "token") + ", but the context has room for " +
           std::to_string(limit) + "; enlarge the context (n_ctx), or shorten the prompt");
  if (p.adapters) (void)checked_adapters(context.model(), *p.adapters);
  const Sampler checked(p.sampler, context.model().tokenizer());  // Throws for invalid parameters.
}

BatcherLimits limits_of(const RequestParams& params, BatcherLimits limits) {
  if (params.priority > kBackgroundPriority) return limits;
  limits.n_waiting = (limits.n_waiting + 1) / 2;  // 0, no limit, stays 0.
  limits.n_waiting_tokens = (limits.n_waiting_tokens + 1) / 2;
  return limits;
}

void check_load(const QueueLoad& load, std::size_t n_prompt, int n_completions, const BatcherLimits& limits) {
  const auto overloaded = [&](const std::string& what, double share_too_many) {
    // Unknown rate: suggest one second.
    const double ms =
        load.ms_per_admission > 0.0
            ? load.ms_per_admission * std::max(1.0, share_too_many * static_cast<double>(load.n_waiting))
            : 1000.0;
    throw OverloadedError(
        what + "; try again in " + std::to_string(static_cast<int>(std::ceil(ms / 1e3))) + " s", ms);
  };
  // If the queue is empty, a request larger than the limits is accepted: it can be served.
  if (limits.n_waiting > 0 && load.n_waiting > 0 && load.n_waiting + n_completions > limits.n_waiting) {
    const auto too_many = static_cast<double>(load.n_waiting + n_completions - limits.n_waiting);
    overloaded(std::to_string(load.n_waiting) + " completions are waiting already; the limit is " +
                   std::to_string(limits.n_waiting) + " may",
               too_many / std::max<double>(1.0, static_cast<double>(load.n_waiting)));
  }
  const auto n_tokens = static_cast<std::int64_t>(n_prompt) * n_completions;
  if (limits.n_waiting_tokens > 0 && load.n_waiting > 0 &&
      load.n_waiting_tokens + n_tokens > limits.n_waiting_tokens)
    overloaded(std::to_string(load.n_waiting_tokens) +
                   " tokens of prompts are waiting already; the limit is " +
                   std::to_string(limits.n_waiting_tokens) + " may",
               static_cast<double>(load.n_waiting_tokens + n_tokens - limits.n_waiting_tokens) /
                   static_cast<double>(load.n_waiting_tokens));
}

}  // namespace weft::engine
