#include "engine/forget.h"

#include <algorithm>

#include "weft/error.h"
#include "weft/graph/extent.h"

namespace weft::engine {

Middle middle_of(const Context& context, SeqId seq, int n_keep) {
  const Pos end = context.next_pos(seq);
  const Pos keep = std::clamp(n_keep, 0, end);
  Pos n = (end - keep) / 2;
  // What is kept at the beginning may have left the window: it must not come into it again.
  if (const Pos beyond = end - keep - context.model().info().window; beyond >= kPageCells)
    n = std::min(n, beyond);
  if (n >= kPageCells) n = n / kPageCells * kPageCells;
  return {keep, n};
}

bool forget(Context& context, SeqId seq, Pos begin, Pos n, const std::function<bool()>& make_room) {
  try {
    context.remove(seq, begin, begin + n);
    while (!context.shift(seq, begin + n, -1, -n))
      if (!make_room || !make_room()) return false;
    return true;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnsupported) throw;
    return false;  // Too much is kept: its windows are gone.
  }
}

}  // namespace weft::engine
