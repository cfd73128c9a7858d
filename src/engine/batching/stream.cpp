#include "engine/batching/stream.h"

#include <cmath>
#include <limits>

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

/// The logits with those that are not allowed at minus infinity.
std::vector<float> masked(std::span<const float> logits, std::span<const std::uint32_t> allowed) {
  std::vector<float> result(logits.begin(), logits.end());
  for (std::size_t i = 0; i < result.size(); ++i)
    if ((allowed[i / 32] >> (i % 32) & 1) == 0) result[i] = -std::numeric_limits<float>::infinity();
  return result;
}

Clock::time_point after(Clock::time_point start, double ms) {
  // A year is as good as never, and fits the clock.
  constexpr double kNever = 3.2e10;
  if (!(ms > 0.0) || ms >= kNever) return Clock::time_point::max();
  return start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double, std::milli>(ms));
}

}  // namespace

Stream::Writer::Writer(const Request& request, int completion, const Model& model)
    : sampler(sampler_of(request.params, completion), model.info().n_vocab),
      detokenizer(model.tokenizer()),
      filter(request.params.stop) {
  for (const Token token : request.prompt) sampler.accept(token);
}

Stream::Stream(std::shared_ptr<const Request> request, int completion, const Model& model, std::int64_t rank,
               std::int64_t order)
    : request_(std::move(request)), completion_(completion), model_(model), rank_(rank), order_(order) {
  stats.n_prompt = static_cast<int>(request_->prompt.size());
}

void Stream::prepare() {
  if (writer_) return;
  auto writer = std::make_unique<Writer>(*request_, completion_, model_);
  auto constraint = params().constraint ? params().constraint(completion_) : nullptr;
  text = request_->prompt;
  writer_ = std::move(writer);
  constraint_ = std::move(constraint);
}

int Stream::n_best() const {
  return params().n_logprobs >= 0 || constraint_ != nullptr ? 0 : writer_->sampler.n_best();
}

bool Stream::draw(const Context& context, int item, bool from_best, std::span<const std::uint32_t> allowed) {
  Sampler& sampler = writer_->sampler;
  const Token token = !allowed.empty() ? sampler.sample(masked(context.logits(item), allowed))
                      : from_best      ? sampler.sample(context.best(item))
                                       : sampler.sample(context.logits(item));
  sampler.accept(token);
  new_tokens_.push_back(params().n_logprobs >= 0
                            ? with_logprobs(context.logits(item), token, params().n_logprobs)
                            : OutputToken{token, 0.0f, {}});
  const auto now = Clock::now();
  if (++stats.n_generated == 1) stats.first_token_ms = ms_between(request_->submitted, now);
  if (!params().ignore_end && model_.tokenizer().is_end(token)) {
    finish(StopReason::kEnd);
    return false;
  }
  text.push_back(token);
  if (constraint_) constraint_->accept(token);
  if (!emit(writer_->detokenizer.push(token))) return false;
  if (params().n_predict < 0 || stats.n_generated < params().n_predict) return true;
  finish(StopReason::kLength);
  return false;
}

bool Stream::emit(std::string_view more) {
  std::string free;
  const bool stop = writer_->filter.push(more, free);
  new_text_ += free;
  if (stop) finish(StopReason::kStopString);
  return !stop;
}

void Stream::finish(StopReason reason) noexcept {
  if (done_) return;
  done_ = true;
  stop_ = reason;
  stats.total_ms = ms_between(request_->submitted, Clock::now());
  if (reason == StopReason::kStopString || !writer_) return;
  try {
    std::string free;
    if (writer_->filter.push(writer_->detokenizer.finish(), free)) stop_ = StopReason::kStopString;
    new_text_ += free + writer_->filter.rest();
  } catch (const std::exception&) {  // No memory for its last characters.
    stop_ = StopReason::kError;
  }
}

void Stream::fail(std::string_view why) noexcept {
  if (done_) return;
  done_ = true;
  stop_ = StopReason::kError;
  stats.total_ms = ms_between(request_->submitted, Clock::now());
  try {
    error_ = why;
  } catch (const std::exception&) {  // It goes without saying why.
  }
}

Clock::time_point Stream::deadline() const {
  auto next = after(request_->submitted, params().timeout_ms);
  if (stats.n_generated == 0)
    next = std::min(next, after(request_->submitted, params().first_token_timeout_ms));
  if (!writer_) next = std::min(next, after(request_->submitted, params().queue_timeout_ms));
  return next;
}

bool Stream::deliver() {
  const std::string told = std::exchange(new_text_, {});
  const std::vector<OutputToken> tokens = std::exchange(new_tokens_, {});
  told_end_ = done_;
  if (!params().on_output) return true;
  return params().on_output({.request = request_->id,
                             .completion = completion_,
                             .text = told,
                             .tokens = tokens,
                             .done = done_,
                             .stop = stop_,
                             .error = error_,
                             .stats = stats});
}

}  // namespace weft::engine
