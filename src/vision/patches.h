#pragma once
// Splits images into the inputs of an encoder: rows of pixels and their positions.
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "vision/hparams.h"
#include "weft/plan.h"
#include "weft/vision.h"

namespace weft::vision {

/// Rows of the table from which a patch's row is interpolated.
inline constexpr int kCorners = 4;
inline constexpr std::array<const char*, kCorners> kCornerNames = {"corner0", "corner1", "corner2",
                                                                   "corner3"};
inline constexpr std::array<const char*, kCorners> kShareNames = {"share0", "share1", "share2", "share3"};

/// Patches in the graph's order. Patches of the square that becomes one row are adjacent. If layers have
/// windowed attention, so are the squares of a window.
struct Patches {
  std::vector<float> rows;              ///< The pixels of each patch.
  std::vector<std::int32_t> positions;  ///< The row of each patch in a table for the largest image.
  std::vector<std::int32_t> line_of, column_of;
  std::vector<std::int32_t> begins, ends;                ///< The range of all patches.
  std::vector<std::int32_t> window_begins, window_ends;  ///< The range of the patch's window.
  /// For a table of image_size that is stretched over the image: the four rows around each patch and their
  /// weights.
  std::array<std::vector<std::int32_t>, kCorners> corners;
  std::array<std::vector<float>, kCorners> shares;
  std::vector<int> row_places;  ///< For each row of the result its index in line order.
};

/// The image must consist of whole squares.
Patches cut_into_patches(const HParams& hparams, const Image& image);

/// The data for the inputs that the graph has, by EncoderBuilder's names. It refers to `patches`.
std::vector<Plan::InputData> inputs_of(const Patches& patches, const Graph& graph);

}  // namespace weft::vision
