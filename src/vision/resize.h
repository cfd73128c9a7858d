#pragma once
// Pictures in other sizes, as the models were trained with them.
#include "weft/vision.h"

namespace weft::vision {

enum class Filter : std::uint8_t { kBilinear, kBicubic, kLanczos };

/// Each result is a weighted sum of the pixels within the filter's reach, which grows with the factor by
/// which a side shrinks; first along rows, then along columns, with 8 bits in between. Weights are integers,
/// so that results are the same on every machine: those of Pillow's Image.resize.
Image resize(const Image& image, int width, int height, Filter filter);

}  // namespace weft::vision
