#pragma once
// How a sequence that has filled its cache makes room (Context::forget).
#include <span>

#include "weft/context.h"
#include "weft/embedded_part.h"

namespace weft::engine {

/// Throws Error where a sequence of at most `max_text` tokens cannot make room: kUnsupported because of the
/// model or of parts that skip positions, kInvalidArgument because of n_keep. It reads only constants of the
/// context, so any thread may call it.
void check_forgets(const Context& context, std::span<const EmbeddedPart> parts, int n_keep, int max_text);

struct Middle {
  Pos begin = 0;
  Pos n = 0;  ///< 0: nothing can be forgotten.
};
/// What to forget of a text: the older half behind the first `n_keep` positions, in whole pages where it is
/// long enough for that. Layers with a window go on seeing one behind what is kept.
Middle middle_of(const Context& context, SeqId seq, int n_keep);

}  // namespace weft::engine
