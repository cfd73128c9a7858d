#include "engine/batching/stream.h"

#include <exception>
#include <utility>

#include "base/to_size.h"
#include "engine/batching/what.h"
#include "engine/drawn_token.h"
#include "engine/sampling/best.h"
#include "weft/not_numbers.h"

namespace weft::engine {
namespace {

/// Tokens that any completion may draw and drop for banned strings.
constexpr int kMinDiscarded = 256;

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
    best.resize(std::min(to_size(n), logits.size()));
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
      banned(request.params.banned_strings),
      text(model.tokenizer(), request.params.special, request.params.stop, request.params.n_shown_stops,
           request.params.n_min) {
  for (const Token token : request.prompt)
    if (token >= 0) sampler.accept(token);
}

Stream::Stream(std::shared_ptr<const Request> request, int completion, const Model& model, Schedule::Key key)
    : schedule(key), request_(std::move(request)), completion_(completion), model_(model) {
  const TextOrigin& from = request_->origin;
  stats.n_prompt = static_cast<int>(from.source.empty() ? request_->prompt.size() : from.source.size());
}

void Stream::prepare() {
  if (writer_) return;
  auto writer = std::make_unique<Writer>(*request_, completion_, model_);
  if (params().constraint) writer->constraint = params().constraint(completion_);
  text_ = request_->prompt;
  writer_ = std::move(writer);
}

void Stream::forget(int keep, int n) {
  text_.erase(text_.begin() + keep, text_.begin() + keep + n);
  cached.drop(n);
}

void Stream::pause_reading_at(int n) {
  // Not inside a bidirectional part: it is computed in one step.
  const EmbeddedPart* const part = part_at(params().parts, n);
  if (part != nullptr && part->both_ways && n > part->first) return;
  if (n > cached.n_computed() && n < static_cast<int>(tokens().size())) stops.add(n);
}

std::vector<Token> Stream::ending_tokens() const {
  std::vector<Token> tokens = params().stop_tokens;
  if (params().ignore_end) return tokens;
  const std::span<const Token> ends = model_.tokenizer().end_tokens();
  tokens.insert(tokens.end(), ends.begin(), ends.end());
  return tokens;
}

bool Stream::needs_mask() const {
  if (!banned_next().empty() || holds_back_end(0)) return true;
  return constraint() != nullptr &&
         !constraint()->allows_all(static_cast<int>(held().size()) + draft.tree().size());
}

int Stream::n_best() const {
  const int n = needs_mask() ? 0 : writer_->sampler.n_best();
  return n == 0 ? 0 : std::max(n, params().n_logprobs);
}

OutputToken Stream::drawn(const Context& context, int item, bool from_best, Token token) const {
  if (params().n_logprobs < 0) return {token};
  float logit = 0.0f;
  if (from_best) {
    for (const Best& one : context.best(item))
      if (one.id == token) logit = one.logit;
  } else {
    logit = context.logits(item)[to_size(token)];
  }
  return with_logprobs(token, logit, context.log_sum_exp(item),
                       best_of(context, item, from_best, params().n_logprobs));
}

void Stream::read_prompt(const Context& context, int item, bool from_best) {
  const Token token = request_->prompt[to_size(new_.n_prompt_found + 1)];
  const float log_sum_exp = context.log_sum_exp(item);
  check_numbers(model_, {&log_sum_exp, 1});
  new_.prompt.push_back(with_logprobs(token, context.logit(item), log_sum_exp,
                                      best_of(context, item, from_best, std::max(params().n_logprobs, 0))));
  ++new_.n_prompt_found;
}

void Stream::pool(std::span<const float> embedding) {
  check_numbers(model_, embedding);
  new_.pooled.add(embedding);
}

bool Stream::draw(const Context& context, int item, bool from_best, std::span<const std::uint32_t> allowed) {
  if (draws_nothing(allowed)) {
    finish(StopReason::kLength);
    return false;
  }
  Sampler& sampler = writer_->sampler;
  // A mask needs all logits.
  const Token token = draw_token(context, item, from_best && allowed.empty(), sampler, allowed);
  sampler.accept(token);
  OutputToken output = drawn(context, item, from_best, token);
  const auto now = Clock::now();
  if (++stats.n_generated == 1) stats.first_token_ms = ms_between(request_->submitted, now);
  if (ends_with(token)) {
    if (!release(true)) return false;
    new_.tokens.push_back(std::move(output));
    finish(StopReason::kEnd);
    return false;
  }
  text_.push_back(token);
  if (params().banned_strings.empty()) {
    if (!deliver_token(std::move(output))) return false;
  } else {
    const int n_dropped = writer_->banned.push(std::move(output), writer_->text.bytes_of(token));
    if (n_dropped > 0) return drop_last(n_dropped);
    if (!release(false)) return false;
  }
  if (params().n_predict < 0 || stats.n_generated < params().n_predict) return true;
  finish(StopReason::kLength);
  return false;
}

/// Banned strings and the constraint leave no token.
bool Stream::draws_nothing(std::span<const std::uint32_t> allowed) const {
  return !banned_next().empty() && std::ranges::all_of(allowed, [](std::uint32_t word) { return word == 0; });
}

bool Stream::release(bool all) {
  BannedStrings& banned = writer_->banned;
  for (std::size_t n = all ? banned.held().size() : banned.n_certain(); n > 0; --n) {
    if (deliver_token(banned.take())) continue;
    stats.n_generated -= static_cast<int>(banned.held().size());
    return false;
  }
  return true;
}

bool Stream::deliver_token(OutputToken token) {
  const Token id = token.id;
  new_.tokens.push_back(std::move(token));
  if (constraint() != nullptr) constraint()->accept(id);
  if (!writer_->text.push(id, new_.text)) return true;
  finish(StopReason::kStopString);
  return false;
}

/// A banned string is complete; `n` tokens are dropped. False if the stream has dropped too many.
bool Stream::drop_last(int n) {
  text_.resize(text_.size() - to_size(n));
  writer_->sampler.retract(std::min(n, Sampler::kMaxRetracted));
  stats.n_generated -= n;
  stats.n_discarded += n;
  const int n_predict = params().n_predict;
  const int n_most = n_predict >= 0 ? n_predict : request_->max_text - stats.n_prompt;
  if (stats.n_discarded <= std::max(n_most, kMinDiscarded)) return true;
  finish(StopReason::kLength);
  return false;
}

void Stream::finish(StopReason reason) noexcept {
  if (!ending_.end(reason)) return;
  stats.total_ms = ms_between(request_->submitted, Clock::now());
  if (reason == StopReason::kStopString || !writer_) return;
  try {
    for (BannedStrings& banned = writer_->banned; !banned.held().empty();) {
      OutputToken token = banned.take();
      const Token id = token.id;
      new_.tokens.push_back(std::move(token));
      if (!writer_->text.push(id, new_.text)) continue;
      stats.n_generated -= static_cast<int>(banned.held().size());
      return ending_.set_reason(StopReason::kStopString);
    }
    if (writer_->text.finish(new_.text)) ending_.set_reason(StopReason::kStopString);
  } catch (const std::exception&) {  // An allocation failed: its last characters are lost.
    ending_.set_reason(StopReason::kError);
  }
}

void Stream::fail(std::string_view why, bool not_numbers) noexcept {
  if (ending_.fail(why, not_numbers)) stats.total_ms = ms_between(request_->submitted, Clock::now());
}

void Stream::fail_by_exception() noexcept {
  try {
    throw;
  } catch (const NotNumbersError& error) {
    fail(error.what(), true);
  } catch (...) {
    fail(what_is_thrown());
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
  Output output = {.request = request_->id,
                   .completion = completion_,
                   .text = std::exchange(new_.text, {}),
                   .tokens = std::exchange(new_.tokens, {}),
                   .prompt = std::exchange(new_.prompt, {}),
                   .done = done(),
                   .stop = stop(),
                   .stop_string = stop() == StopReason::kStopString ? writer_->text.found() : -1,
                   .error = ending_.take_error(),
                   .not_numbers = ending_.not_numbers(),
                   .stats = stats};
  if (done() && stop() == StopReason::kLength) output.embedding = new_.pooled.mean();
  ending_.deliver();
  return !params().on_output || params().on_output(output);
}

}  // namespace weft::engine
