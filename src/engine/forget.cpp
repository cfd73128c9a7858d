#include "engine/forget.h"

#include <algorithm>
#include <string>

#include "engine/prompt_parts.h"
#include "engine/refuse.h"
#include "weft/error.h"
#include "weft/graph/extent.h"

namespace weft::engine {

void check_forgets(const Context& context, std::span<const EmbeddedPart> parts, int n_keep, int max_text) {
  const auto unsupported = [](std::string_view why) {
    throw Error(ErrorCode::kUnsupported, std::string("the context cannot be shifted: ") + std::string(why) +
                                             "; without a shift, generation ends when the context is full");
  };
  if (const std::string_view why = context.cache().why_not_forget(); !why.empty()) unsupported(why);
  if (any_skips(parts)) unsupported("the model has 2D positions of images");
  constexpr int kLeast = 2;  // One token to drop, and the last one.
  if (n_keep > max_text - kLeast)
    refuse("n_keep is " + std::to_string(n_keep) + " and the context has room for " +
           std::to_string(max_text) + " tokens, so context_shift could drop none; use a smaller n_keep");
}

Middle middle_of(const Context& context, SeqId seq, int n_keep) {
  const Pos end = context.cache().next_pos(seq);
  const Pos keep = std::clamp(n_keep, 0, end);
  Pos n = (end - keep) / 2;
  // The kept tokens at the start may have left the window. They must not enter it again.
  if (const Pos beyond = end - keep - context.model().info().window; beyond >= kPageCells)
    n = std::min(n, beyond);
  if (n >= kPageCells) n = n / kPageCells * kPageCells;
  return {keep, n};
}

}  // namespace weft::engine
