#pragma once
// The orientation of the camera from the EXIF data of a JPEG file (Exif 2.3, 4.6.4: tag 0x0112).
#include <span>

#include "weft/vision.h"

namespace weft::vision {

/// Returns 1 to 8. Without a valid entry it returns 1, which leaves the pixels as they are.
int orientation_of_jpeg(std::span<const std::byte> bytes);
/// The image in its upright orientation.
Image turned(Image image, int orientation);

}  // namespace weft::vision
