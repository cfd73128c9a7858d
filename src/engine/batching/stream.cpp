#include "engine/batching/stream.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace weft::engine {
namespace {

SamplerParams sampler_of(const RequestParams& params, int completion) {
  SamplerParams result = params.sampler;
  if (result.seed != SamplerParams::kRandomSeed) result.seed += static_cast<std::uint64_t>(completion);
  return result;
}

/// The drawn token and the n most probable ones, with the logarithms of their probabilities.
OutputToken with_logprobs(std::span<const float> logits, Token drawn, int n) {
  const float top = *std::max_element(logits.begin(), logits.end());
  double sum = 0.0;
  for (const float x : logits) sum += std::exp(static_cast<double>(x - top));
  const auto logprob = [&](Token id) {
    return static_cast<float>(logits[static_cast<std::size_t>(id)] - top - std::log(sum));
  };
  std::vector<Token> best(logits.size());
  for (std::size_t i = 0; i < best.size(); ++i) best[i] = static_cast<Token>(i);
  const auto end = best.begin() + std::min<std::ptrdiff_t>(n, std::ssize(best));
  std::partial_sort(best.begin(), end, best.end(), [&](Token a, Token b) {
    const float x = logits[static_cast<std::size_t>(a)], y = logits[static_cast<std::size_t>(b)];
    return x != y ? x > y : a < b;
  });
  OutputToken token{drawn, logprob(drawn), {}};
  for (auto id = best.begin(); id != end; ++id) token.top.push_back({*id, logprob(*id)});
  return token;
}

double ms_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double, std::milli>(to - from).count();
}

}  // namespace

Stream::Stream(std::shared_ptr<const Request> request, int completion, std::span<const Token> prompt,
               const Model& model, std::int64_t rank, std::int64_t order)
    : text(prompt.begin(), prompt.end()),
      request_(std::move(request)),
      completion_(completion),
      tokenizer_(model.tokenizer()),
      rank_(rank),
      order_(order),
      sampler_(sampler_of(request_->params, completion), model.info().n_vocab),
      detokenizer_(model.tokenizer()),
      filter_(request_->params.stop) {
  stats.n_prompt = static_cast<int>(prompt.size());
  for (const Token token : prompt) sampler_.accept(token);
}

bool Stream::draw(const Context& context, int item, bool from_best) {
  const Token token = from_best ? sampler_.sample(context.best(item)) : sampler_.sample(context.logits(item));
  sampler_.accept(token);
  new_tokens_.push_back(params().n_logprobs >= 0
                            ? with_logprobs(context.logits(item), token, params().n_logprobs)
                            : OutputToken{token, 0.0f, {}});
  if (++stats.n_generated == 1) stats.first_token_ms = ms_between(request_->submitted, Clock::now());
  if (!params().ignore_end && tokenizer_.is_end(token)) {
    finish(StopReason::kEnd);
    return false;
  }
  text.push_back(token);
  if (!emit(detokenizer_.push(token))) return false;
  if (params().n_predict < 0 || stats.n_generated < params().n_predict) return true;
  finish(StopReason::kLength);
  return false;
}

bool Stream::emit(std::string_view more) {
  std::string free;
  const bool stop = filter_.push(more, free);
  new_text_ += free;
  if (stop) finish(StopReason::kStopString);
  return !stop;
}

void Stream::finish(StopReason reason) {
  if (done_) return;
  done_ = true;
  stop_ = reason;
  if (reason != StopReason::kStopString) {
    std::string free;
    if (filter_.push(detokenizer_.finish(), free)) stop_ = StopReason::kStopString;
    new_text_ += free + filter_.rest();
  }
  stats.total_ms = ms_between(request_->submitted, Clock::now());
}

bool Stream::deliver() {
  const std::string told = std::exchange(new_text_, {});
  const std::vector<OutputToken> tokens = std::exchange(new_tokens_, {});
  if (!params().on_output) return true;
  return params().on_output({.request = request_->id,
                             .completion = completion_,
                             .text = told,
                             .tokens = tokens,
                             .done = done_,
                             .stop = stop_,
                             .stats = stats});
}

}  // namespace weft::engine
