#pragma once
// Embeddings that replace tokens of a prompt: an image, a part of a large image, or audio. weft/media.h makes
// them. Plain data, which threads may share as long as none changes it; no errors.
#include <algorithm>
#include <cstdint>
#include <memory>

#include "weft/types.h"

#pragma GCC visibility push(default)

namespace weft {

struct EmbeddedPart {
  int first = 0;  ///< Index of its first token in the prompt.
  int n = 0;      ///< The number of tokens and embeddings. Each of these tokens in the prompt is kMediaToken.
  /// n embeddings of n_embd floats: the input of the first layer.
  std::shared_ptr<const float> rows = nullptr;
  int n_embd = 0;  ///< ModelInfo::n_embd_input.
  /// Identifies the embeddings in the prefix cache: parts with the same id have the same embeddings. 0 to
  /// kMaxId.
  std::int32_t id = 0;
  /// Whether its embeddings attend to each other in both directions. It is then computed in one step: n is at
  /// most ContextParams::n_ubatch.
  bool both_ways = false;
  /// For models with M-RoPE (ModelInfo::axes): the embeddings form a grid of this width, row by row. 0: they
  /// are a sequence, like tokens.
  int grid_width = 0;

  int grid_height() const { return grid_width > 0 ? n / grid_width : 0; }
  /// The positions that the part takes. With a grid: its longer side; otherwise n.
  int extent() const { return grid_width > 0 ? std::max(grid_width, grid_height()) : n; }
  static constexpr std::int32_t kMaxId = INT32_MAX - 2;
  [[deprecated("use kMediaToken")]] Token token() const { return kMediaToken; }  ///< For one version.
};

}  // namespace weft

#pragma GCC visibility pop
