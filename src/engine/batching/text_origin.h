#pragma once
#include <vector>

#include "weft/model.h"
#include "weft/types.h"

namespace weft::engine {

/// The adapters and the source that a sequence was computed with. Sequences of different origins share no
/// cells.
struct TextOrigin {
  std::vector<AdapterUse> adapters = {};  ///< As a context has them.
  std::vector<Token> source = {};         ///< Of models that read one (ModelInfo::reads_source).
  friend auto operator<=>(const TextOrigin&, const TextOrigin&) = default;
};

}  // namespace weft::engine
