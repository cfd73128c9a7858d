#pragma once
// Checks of submitted requests, and the defaults of a batcher.
#include <span>

#include "weft/batcher.h"

namespace weft::engine {

/// The parameters with their defaults filled in. Throws Error kInvalidArgument.
BatcherParams fill_in(BatcherParams params, const Context& context);

/// Maximum tokens of prompt and completion together, for each completion.
int max_text(const RequestParams& params, const Context& context);

/// Throws Error kInvalidArgument if the request could never be served. Reads only immutable parts of the
/// context, so any thread may call it.
void check_request(std::span<const Token> prompt, const RequestParams& params, const Context& context,
                   const BatcherLimits& limits);

/// The length of the queue and the rate of admissions.
struct QueueLoad {
  std::int64_t n_waiting = 0;
  std::int64_t n_waiting_tokens = 0;
  double ms_per_admission = 0.0;  ///< Mean time between two admissions; 0: not known.
};
/// The limits of the queue for such a request: those in the background may fill half of it.
BatcherLimits limits_of(const RequestParams& params, BatcherLimits limits);
/// Throws OverloadedError if the queue has no room for the request.
void check_load(const QueueLoad& load, std::size_t n_prompt, int n_completions, const BatcherLimits& limits);

}  // namespace weft::engine
