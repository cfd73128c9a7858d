#pragma once
// Embeddings that replace tokens in a prompt: an image, or a part of one.
#include <algorithm>
#include <cstdint>
#include <memory>

#include "weft/types.h"

#pragma GCC visibility push(default)

namespace weft {

struct EmbeddedPart {
  int first = 0;  ///< Index of its first token in the prompt.
  int n = 0;      ///< Number of tokens and rows. Each of these tokens is token().
  /// n rows of n_embd floats, as the first layer reads them.
  std::shared_ptr<const float> rows = nullptr;
  int n_embd = 0;  ///< As the model: ModelInfo::n_embd_input.
  /// Identifies the rows in the prefix cache: the same id means the same rows. From 0 to kMaxId.
  std::int32_t id = 0;
  /// Bidirectional attention among its rows. Then it is computed in one step and has at most n_ubatch rows.
  bool both_ways = false;
  /// The width of the grid of rows, line by line, in models with positions of lines and columns (M-RoPE:
  /// ModelInfo::axes). With 0 the rows follow one another like tokens.
  int grid_width = 0;

  int grid_height() const { return grid_width > 0 ? n / grid_width : 0; }
  /// In such models: the positions by which later tokens advance.
  int extent() const { return grid_width > 0 ? std::max(grid_width, grid_height()) : n; }
  static constexpr std::int32_t kMaxId = INT32_MAX - 2;
  /// The token that represents it in prompts: below kNoToken.
  Token token() const { return -2 - id; }
};

}  // namespace weft

#pragma GCC visibility pop
