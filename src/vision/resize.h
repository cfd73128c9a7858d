#pragma once
// Resizes images with the filters that the models were trained with.
#include "weft/vision.h"

namespace weft::vision {

enum class Filter : std::uint8_t { kBilinear, kBicubic, kLanczos };

/// Each result is a weighted sum of the pixels within the filter's support. The support grows with the factor
/// by which a side shrinks. Rows are resized first, then columns, with 8 bits in between. Weights are
/// integers, so that results are the same on every machine and equal to Pillow's Image.resize.
Image resize(const Image& image, int width, int height, Filter filter);

}  // namespace weft::vision
