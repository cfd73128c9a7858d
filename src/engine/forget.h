#pragma once
// Making room in the midst of a text that has filled its cache.
#include <functional>

#include "weft/context.h"

namespace weft::engine {

struct Middle {
  Pos begin = 0;
  Pos n = 0;  ///< 0: nothing can be forgotten.
};
/// What to forget of a text: the older half behind the first `n_keep` positions, in whole pages where it is
/// long enough for that. Layers with a window go on seeing one behind what is kept.
Middle middle_of(const Context& context, SeqId seq, int n_keep);

/// Forgets these positions and closes the gap. Where the cache lacks room for copies of shared cells,
/// `make_room` is asked for it until it says that it has none. False where it cannot be done: the text is of
/// no further use then.
bool forget(Context& context, SeqId seq, Pos begin, Pos n, const std::function<bool()>& make_room = {});

}  // namespace weft::engine
