#include "weft/not_numbers.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/to_size.h"
#include "engine/drawn_token.h"
#include "engine/model_impl.h"

namespace weft {
namespace {

bool is_finite(float value) { return std::isfinite(value); }

/// Whether a token can be drawn from the logits.
bool any_number(std::span<const float> logits) {
  return std::ranges::any_of(logits,
                             [](float logit) { return logit > -std::numeric_limits<float>::infinity(); });
}

}  // namespace

NotNumbersError::NotNumbersError(const Model& model)
    : Error(ErrorCode::kInvalidFile,
            "the model '" + model.impl().path.stem().string() +
                "' computed NaN or infinity: its weights are damaged, or values overflow their type; "
                "download the file again, or convert the original to another type") {}

void check_numbers(const Model& model, std::span<const float> values) {
  if (!std::ranges::all_of(values, is_finite)) throw NotNumbersError(model);
}

namespace engine {

Token draw_token(const Context& context, int item, bool from_best, Sampler& sampler,
                 std::span<const std::uint32_t> allowed) {
  if (from_best) {
    const std::span<const Best> best = context.best(item);
    const Token token = sampler.sample(best);
    if (!std::ranges::any_of(best, [&](const Best& one) { return one.id == token && is_finite(one.logit); }))
      throw NotNumbersError(context.model());
    return token;
  }
  const std::span<const float> logits = context.logits(item);
  Token token = kNoToken;
  try {
    token = allowed.empty() ? sampler.sample(logits) : sampler.sample(logits, allowed);
  } catch (const Error&) {  // No token is left: because of the mask or the bias, or of the model itself?
    if (!any_number(logits)) throw NotNumbersError(context.model());
    throw;
  }
  if (!is_finite(logits[to_size(token)])) throw NotNumbersError(context.model());
  return token;
}

}  // namespace engine
}  // namespace weft
