#include "conversation/completer.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "weft/error.h"
#include "weft/not_numbers.h"

namespace weft::cli {
namespace {

double tokens_per_second(int n, double ms) { return ms > 0.0 ? 1000.0 * n / ms : 0.0; }

/// The limits protect a server from its clients.
BatcherParams without_limits(BatcherParams params) {
  params.limits.n_request_tokens = std::numeric_limits<std::int64_t>::max();
  params.limits.n_stops = std::numeric_limits<int>::max();
  params.limits.stop_bytes = std::numeric_limits<std::size_t>::max();
  return params;
}

}  // namespace

double Completion::prefill_per_second() const {
  return tokens_per_second(stats.n_prompt - stats.n_cached, stats.prefill_ms());
}

double Completion::decode_per_second() const {
  return tokens_per_second(std::max(0, stats.n_generated - 1), stats.decode_ms());
}

Completer::Completer(Context& context, const BatcherParams& params)
    : context_(context), batcher_(context, without_limits(params)) {}

Completion Completer::complete(std::span<const Token> prompt, RequestParams params,
                               const CompletionWatch& watch) {
  Completion completion;
  bool done = false, not_numbers = false, has_failed = false;
  std::string error;
  params.on_output = [&](const Output& output) {
    for (const OutputToken& token : output.tokens) completion.tokens.push_back(token.id);
    completion.text += output.text;
    if (output.done) {
      done = true;
      completion.stop = output.stop;
      completion.stats = output.stats;
      error = output.error;
      not_numbers = output.not_numbers;
    }
    if (!output.text.empty() && watch.on_text && !has_failed) watch.on_text(output.text);
    return true;
  };
  const BatcherStats before = batcher_.stats();
  const RequestId id = batcher_.submit(prompt, std::move(params));
  try {
    while (!done) {
      batcher_.step();
      if (completion.tokens.empty() && watch.on_prefill) {
        const BatcherStats now = batcher_.stats();
        watch.on_prefill(static_cast<int>(now.n_prompt_tokens + now.n_cached_tokens - before.n_prompt_tokens -
                                          before.n_cached_tokens));
      }
      if (!done && watch.goes_on && !watch.goes_on()) batcher_.cancel(id);
    }
  } catch (...) {
    has_failed = true;
    batcher_.cancel(id);
    while (!done) batcher_.step();
    throw;
  }
  context_.take_back_cancel();  // It was meant for this request.
  if (completion.stop == StopReason::kError) {
    if (not_numbers) throw NotNumbersError(model());
    throw Error(ErrorCode::kDevice, error);
  }
  // Completion::tokens excludes the end token.
  if (completion.stop == StopReason::kEnd && !completion.tokens.empty()) completion.tokens.pop_back();
  return completion;
}

}  // namespace weft::cli
