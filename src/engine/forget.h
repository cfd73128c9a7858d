#pragma once
// Context shift: how a sequence that has filled its cache makes room (KvCache::forget).
#include <span>

#include "weft/context.h"
#include "weft/embedded_part.h"

namespace weft::engine {

/// Throws Error if a sequence of at most `max_text` tokens cannot make room. kUnsupported: the model cannot
/// shift, or parts skip positions. kInvalidArgument: n_keep is too large. It reads only constants of the
/// context, so any thread may call it.
void check_forgets(const Context& context, std::span<const EmbeddedPart> parts, int n_keep, int max_text);

struct Middle {
  Pos begin = 0;
  Pos n = 0;  ///< 0: nothing can be dropped.
};
/// The part of a sequence to drop: the older half after the first `n_keep` positions, in whole pages if it is
/// long enough. If at least a page is dropped, a whole window stays after the first `n_keep` positions.
Middle middle_of(const Context& context, SeqId seq, int n_keep);

}  // namespace weft::engine
