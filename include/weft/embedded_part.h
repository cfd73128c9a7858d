#pragma once
// Rows of numbers that stand in a prompt in the place of tokens: a picture, or a part of one.
#include <algorithm>
#include <cstdint>
#include <memory>

#include "weft/types.h"

#pragma GCC visibility push(default)

namespace weft {

struct EmbeddedPart {
  int first = 0;  ///< Its first place in the prompt.
  int n = 0;      ///< Places, and rows. Each of them has token() in the prompt.
  /// n rows of n_embd floats, as the first layer reads them.
  std::shared_ptr<const float> rows = nullptr;
  int n_embd = 0;  ///< That of the model: ModelInfo::n_embd_input.
  /// The same id means the same rows: from 0 to kMaxId. What was computed of a text is found again by it.
  std::int32_t id = 0;
  /// Its rows see each other both ways. Then it is computed in one step and has n_ubatch rows at most.
  bool both_ways = false;
  /// The rows are those of a grid so wide, line by line, in models that tell lines and columns apart (M-RoPE:
  /// ModelInfo::axes). 0: they follow one another as text does.
  int grid_width = 0;

  int grid_height() const { return grid_width > 0 ? n / grid_width : 0; }
  /// Positions by which what stands behind it turns further on, in such models.
  int extent() const { return grid_width > 0 ? std::max(grid_width, grid_height()) : n; }
  static constexpr std::int32_t kMaxId = INT32_MAX - 2;
  /// What stands for it among tokens: below kNoToken.
  Token token() const { return -2 - id; }
};

}  // namespace weft

#pragma GCC visibility pop
