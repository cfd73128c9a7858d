#pragma once
#include <vector>

#include "weft/model.h"
#include "weft/types.h"

namespace weft::engine {

/// The adapters and the source that a sequence was computed with. Sequences of different origins share no
/// cells.
struct TextOrigin {
  std::vector<AdapterUse> adapters = {};  ///< As Context::adapters returns them.
  std::vector<Token> source = {};         ///< For models with ModelInfo::reads_source.
  friend auto operator<=>(const TextOrigin&, const TextOrigin&) = default;
};

}  // namespace weft::engine
