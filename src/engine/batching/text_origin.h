#pragma once
#include <vector>

#include "weft/model.h"
#include "weft/types.h"

namespace weft::engine {

/// What a text is written with and about. What texts of other origins have in the cache is nothing to it.
struct TextOrigin {
  std::vector<AdapterUse> adapters = {};  ///< As a context has them.
  std::vector<Token> source = {};         ///< Of models that read one (ModelInfo::reads_source).
  friend auto operator<=>(const TextOrigin&, const TextOrigin&) = default;
};

}  // namespace weft::engine
