#pragma once
// Pictures as an encoder reads them: rows of pixels, and where they lie.
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "vision/hparams.h"
#include "weft/plan.h"
#include "weft/vision.h"

namespace weft::vision {

/// Rows of a table that a patch lies between.
inline constexpr int kCorners = 4;
inline constexpr std::array<const char*, kCorners> kCornerNames = {"corner0", "corner1", "corner2",
                                                                   "corner3"};
inline constexpr std::array<const char*, kCorners> kShareNames = {"share0", "share1", "share2", "share3"};

/// Patches in the order in which the graph reads them: square by square of those that become one row and,
/// where layers see windows only, window by window.
struct Patches {
  std::vector<float> rows;              ///< The pixels of each.
  std::vector<std::int32_t> positions;  ///< Its place in a table of the largest picture.
  std::vector<std::int32_t> line_of, column_of;
  std::vector<std::int32_t> begins, ends;                ///< All of them ...
  std::vector<std::int32_t> window_begins, window_ends;  ///< ... and those of its window.
  /// Of a table for image_size, laid over this picture corner on corner: the rows around the patch, and their
  /// shares of it.
  std::array<std::vector<std::int32_t>, kCorners> corners;
  std::array<std::vector<float>, kCorners> shares;
  std::vector<int> row_places;  ///< Of each row of the result: which it is, line by line.
};

/// Of a picture of a whole number of squares.
Patches cut_into_patches(const HParams& hparams, const Image& image);

/// What a graph has inputs for; refers to the patches. The graph's names are those of EncoderBuilder.
std::vector<Plan::InputData> inputs_of(const Patches& patches, const Graph& graph);

}  // namespace weft::vision
