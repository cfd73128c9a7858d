#include "engine/batching/stream.h"

#include "engine/batching/what.h"
#include "engine/drawn_token.h"
#include "engine/sampling/best.h"
#include "weft/not_numbers.h"

namespace weft::engine {
namespace {

SamplerParams sampler_of(const RequestParams& params, int completion) {
  SamplerParams result = params.sampler;
  if (result.seed == SamplerParams::kRandomSeed) return result;
  result.seed += static_cast<std::uint64_t>(completion);
  if (result.seed == SamplerParams::kRandomSeed) result.seed = 0;
  return result;
}

/// The most probable tokens of an item of the last batch, best first.
std::vector<Best> best_of(const Context& context, int item, bool from_best, int n) {
  std::vector<Best> best;
  if (from_best) {
    const std::span<const Best> all = context.best(item);
    best.assign(all.begin(), all.begin() + std::min<std::ptrdiff_t>(n, std::ssize(all)));
  } else if (n > 0) {
    const std::span<const float> logits = context.logits(item);
    best.resize(std::min(static_cast<std::size_t>(n), logits.size()));
    find_best(logits, best);
  }
  return best;
}

OutputToken with_logprobs(Token token, float logit, float log_sum_exp, std::span<const Best> best) {
  OutputToken result{token, logit - log_sum_exp, {}};
  result.top.reserve(best.size());
  for (const Best& one : best) result.top.push_back({one.id, one.logit - log_sum_exp});
  return result;
}

Clock::time_point after(Clock::time_point start, double ms) {
  // A year is practically never, and representable.
  constexpr double kNever = 3.2e10;
  if (!(ms > 0.0) || ms >= kNever) return Clock::time_point::max();
  return start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double, std::milli>(ms));
}

}  // namespace

Stream::Writer::Writer(const Request& request, int completion, const Model& model)
    : sampler(sampler_of(request.params, completion), model.tokenizer()),
      text(model.tokenizer(), request.params.special, request.params.stop, request.params.n_shown_stops,
           request.params.n_min) {
  for (const Token token : request.prompt)
    if (token >= 0) sampler.accept(token);
}

Stream::Stream(std::shared_ptr<const Request> request, int completion, const Model& model, std::int64_t rank,
               std::int64_t order)
    : request_(std::move(request)), completion_(completion), model_(model), rank_(rank), order_(order) {
  const TextOrigin& from = request_->origin;
  stats.n_prompt = static_cast<int>(from.source.empty() ? request_->prompt.size() : from.source.size());
}

void Stream::prepare() {
  if (writer_) return;
  auto writer = std::make_unique<Writer>(*request_, completion_, model_);
  auto constraint = params().constraint ? params().constraint(completion_) : nullptr;
  text = request_->prompt;
  writer_ = std::move(writer);
  constraint_ = std::move(constraint);
}

std::vector<Token> Stream::ending_tokens() const {
  std::vector<Token> tokens = params().stop_tokens;
  if (params().ignore_end) return tokens;
  const std::span<const Token> ends = model_.tokenizer().end_tokens();
  tokens.insert(tokens.end(), ends.begin(), ends.end());
  return tokens;
}

int Stream::n_best() const {
  const int n = constraint_ != nullptr || holds_back_end(0) ? 0 : writer_->sampler.n_best();
  return n == 0 ? 0 : std::max(n, params().n_logprobs);
}

OutputToken Stream::drawn(const Context& context, int item, bool from_best, Token token) const {
  if (params().n_logprobs < 0) return {token};
  float logit = 0.0f;
  if (from_best) {
    for (const Best& one : context.best(item))
      if (one.id == token) logit = one.logit;
  } else {
    logit = context.logits(item)[static_cast<std::size_t>(token)];
  }
  return with_logprobs(token, logit, context.log_sum_exp(item),
                       best_of(context, item, from_best, params().n_logprobs));
}

void Stream::read_prompt(const Context& context, int item, bool from_best) {
  const Token token = request_->prompt[static_cast<std::size_t>(n_prompt_told_ + 1)];
  const float log_sum_exp = context.log_sum_exp(item);
  check_numbers(model_, {&log_sum_exp, 1});
  new_prompt_.push_back(with_logprobs(token, context.logit(item), log_sum_exp,
                                      best_of(context, item, from_best, std::max(params().n_logprobs, 0))));
  ++n_prompt_told_;
}

void Stream::pool(std::span<const float> embedding) {
  check_numbers(model_, embedding);
  pooled_.resize(embedding.size());
  for (std::size_t i = 0; i < embedding.size(); ++i) pooled_[i] += static_cast<double>(embedding[i]);
  ++n_pooled_;
}

bool Stream::draw(const Context& context, int item, bool from_best, std::span<const std::uint32_t> allowed) {
  Sampler& sampler = writer_->sampler;
  // A mask needs all logits.
  const Token token = draw_token(context, item, from_best && allowed.empty(), sampler, allowed);
  sampler.accept(token);
  new_tokens_.push_back(drawn(context, item, from_best, token));
  const auto now = Clock::now();
  if (++stats.n_generated == 1) stats.first_token_ms = ms_between(request_->submitted, now);
  if (ends_with(token)) {
    finish(StopReason::kEnd);
    return false;
  }
  text.push_back(token);
  if (constraint_) constraint_->accept(token);
  if (writer_->text.push(token, new_text_)) {
    finish(StopReason::kStopString);
    return false;
  }
  if (params().n_predict < 0 || stats.n_generated < params().n_predict) return true;
  finish(StopReason::kLength);
  return false;
}

void Stream::finish(StopReason reason) noexcept {
  if (done_) return;
  done_ = true;
  stop_ = reason;
  stats.total_ms = ms_between(request_->submitted, Clock::now());
  if (reason == StopReason::kStopString || !writer_) return;
  try {
    if (writer_->text.finish(new_text_)) stop_ = StopReason::kStopString;
  } catch (const std::exception&) {  // An allocation failed: its last characters are lost.
    stop_ = StopReason::kError;
  }
}

void Stream::fail_by_exception() noexcept {
  try {
    throw;
  } catch (const NotNumbersError& error) {
    not_numbers_ = true;
    fail(error.what());
  } catch (...) {
    fail(what_is_thrown());
  }
}

void Stream::fail(std::string_view why) noexcept {
  if (done_) return;
  done_ = true;
  stop_ = StopReason::kError;
  stats.total_ms = ms_between(request_->submitted, Clock::now());
  try {
    error_ = why;
  } catch (const std::exception&) {  // The message is lost, not the error.
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
  const std::vector<OutputToken> prompt = std::exchange(new_prompt_, {});
  std::vector<float> embedding;
  if (done_ && stop_ == StopReason::kLength)
    for (const double sum : pooled_) embedding.push_back(static_cast<float>(sum / n_pooled_));
  told_end_ = done_;
  if (!params().on_output) return true;
  return params().on_output({.request = request_->id,
                             .completion = completion_,
                             .text = told,
                             .tokens = tokens,
                             .prompt = prompt,
                             .embedding = embedding,
                             .done = done_,
                             .stop = stop_,
                             .stop_string = stop_ == StopReason::kStopString ? writer_->text.found() : -1,
                             .error = error_,
                             .not_numbers = not_numbers_,
                             .stats = stats});
}

}  // namespace weft::engine
