#pragma once
// Rope: its keys, and the axes of models that read images.
#include <array>
#include <cstddef>

#include "model/metadata.h"
#include "weft/graph/op.h"

namespace weft::model {

/// Positions of time, lines and columns (M-RoPE). Present if a family has rope.dimension_sections.
struct RopeAxes {
  std::array<int, 3> sections{};  ///< Pairs of a head that turn by each axis.
  bool interleaved = false;       ///< Their pairs alternate; otherwise they follow one another.

  /// The axis by which a pair of a head turns.
  std::size_t of_pair(int pair) const;
};

/// The keys "rope.*" of linear and YaRN scaling (dimension count, base, factor, ...) into a rope op.
ops::Rope read_rope(const Metadata& metadata, int head_dim, int n_ctx_train);
/// rope.dimension_sections, which is required. `n_rot`: the elements of a head that turn.
RopeAxes read_axes(const Metadata& metadata, int n_rot);

}  // namespace weft::model
