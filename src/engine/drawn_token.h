#pragma once
// Drawing a token from what a step computed.
#include <cstdint>
#include <span>

#include "weft/context.h"
#include "weft/sampler.h"

namespace weft::engine {

/// Draws a token from an item of the last batch: from its best tokens, or from the logits of `allowed` tokens
/// (empty: all). Throws NotNumbersError if the drawn token's logit is not finite. The sampler draws such a
/// token only if the largest logit is not finite, so this check finds every such row.
Token draw_token(const Context& context, int item, bool from_best, Sampler& sampler,
                 std::span<const std::uint32_t> allowed = {});

}  // namespace weft::engine
