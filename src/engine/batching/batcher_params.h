#pragma once
// What a batcher and its requests are asked for, checked and filled in. Both throw Error: kInvalidArgument,
// or kUnsupported where the model cannot do it.
#include <span>

#include "weft/batcher.h"

namespace weft::engine {

/// With the defaults filled in.
BatcherParams fill_in(BatcherParams params, const Context& context);

/// The most tokens that a completion's text may have: what its cells hold, and the model's positions.
int max_text(const RequestParams& params, const Context& context);

/// Whether the request can be served when it is alone.
void check_request(std::span<const Token> prompt, const RequestParams& params, const Context& context);

}  // namespace weft::engine
