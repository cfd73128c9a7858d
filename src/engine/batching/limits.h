#pragma once
// What a batcher refuses when it is submitted, and its defaults.
#include <span>

#include "weft/batcher.h"

namespace weft::engine {

/// The parameters with their defaults filled in. Throws Error kInvalidArgument.
BatcherParams fill_in(BatcherParams params, const Context& context);

/// Tokens that the text of each completion may have.
int max_text(const RequestParams& params, const Context& context);

/// Throws Error kInvalidArgument where a request could never be served as it is. Reads only what never
/// changes of the context: any thread may ask.
void check_request(std::span<const Token> prompt, const RequestParams& params, const Context& context,
                   const BatcherLimits& limits);

/// How much waits, and how fast it moves.
struct QueueLoad {
  std::int64_t n_waiting = 0;
  std::int64_t n_waiting_tokens = 0;
  double ms_per_admission = 0.0;  ///< Between two that leave the queue; 0: not known.
};
/// Throws OverloadedError where the queue has no room for the request.
void check_load(const QueueLoad& load, std::size_t n_prompt, int n_completions, const BatcherLimits& limits);

}  // namespace weft::engine
