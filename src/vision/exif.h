#pragma once
// How a camera was held: the orientation that EXIF data of a JPEG file name (Exif 2.3, 4.6.4: tag 0x0112).
#include <span>

#include "weft/vision.h"

namespace weft::vision {

/// 1 to 8; 1, as the pixels stand, where the file says nothing that makes sense.
int orientation_of_jpeg(std::span<const std::byte> bytes);
/// The picture as it was seen.
Image turned(Image image, int orientation);

}  // namespace weft::vision
