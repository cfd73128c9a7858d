#include "vision/exif.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/to_size.h"

namespace weft::vision {
namespace {

/// Reads numbers from bytes. A number beyond the end is 0.
class Reader {
 public:
  Reader(std::span<const std::byte> bytes, bool little) : bytes_(bytes), little_(little) {}
  std::uint32_t number(std::size_t at, std::size_t n) const {
    if (at > bytes_.size() || n > bytes_.size() - at) return 0;
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < n; ++i)
      value = value << 8 | std::to_integer<std::uint32_t>(bytes_[at + (little_ ? n - 1 - i : i)]);
    return value;
  }

 private:
  std::span<const std::byte> bytes_;
  bool little_;
};

/// `tiff` is the data after "Exif\0\0": a TIFF header and its first directory.
int orientation_of_tiff(std::span<const std::byte> tiff) {
  if (tiff.size() < 8) return 1;
  const Reader reader(tiff, tiff[0] == std::byte{'I'});
  const std::size_t directory = reader.number(4, 4);
  const std::size_t n_entries = reader.number(directory, 2);
  for (std::size_t i = 0; i < n_entries; ++i) {
    const std::size_t entry = directory + 2 + 12 * i;
    if (entry >= tiff.size()) break;
    if (reader.number(entry, 2) != 0x0112) continue;
    const std::uint32_t value = reader.number(entry + 8, 2);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

}  // namespace

int orientation_of_jpeg(std::span<const std::byte> bytes) {
  const Reader reader(bytes, false);
  constexpr std::string_view kExif("Exif\0\0", 6);
  // Segments after the start mark: FF, a kind, and the length including its two bytes.
  for (std::size_t at = 2; at + 4 <= bytes.size() && reader.number(at, 1) == 0xff;) {
    const std::uint32_t kind = reader.number(at + 1, 1), length = reader.number(at + 2, 2);
    if (kind == 0xda || length < 2) break;  // The image data begins.
    const auto segment = bytes.subspan(at + 4, std::min<std::size_t>(length - 2, bytes.size() - at - 4));
    if (kind == 0xe1 && segment.size() > kExif.size() &&
        std::equal(kExif.begin(), kExif.end(), segment.begin(),
                   [](char a, std::byte b) { return static_cast<std::byte>(a) == b; }))
      return orientation_of_tiff(segment.subspan(kExif.size()));
    at += 2 + std::size_t{length};
  }
  return 1;
}

Image turned(Image image, int orientation) {
  if (orientation <= 1) return image;
  // 5 to 8 exchange rows and columns; all are mirrored along none, one or both sides of the result.
  const bool exchange = orientation >= 5;
  const bool mirror_x = orientation == 2 || orientation == 3 || orientation == 6 || orientation == 7;
  const bool mirror_y = orientation == 3 || orientation == 4 || orientation == 7 || orientation == 8;
  Image result{exchange ? image.height : image.width, exchange ? image.width : image.height, {}};
  result.rgb.reserve(image.rgb.size());
  for (int y = 0; y < result.height; ++y)
    for (int x = 0; x < result.width; ++x) {
      int from_x = mirror_x ? result.width - 1 - x : x, from_y = mirror_y ? result.height - 1 - y : y;
      if (exchange) std::swap(from_x, from_y);
      const auto* pixel = image.rgb.data() + 3 * (to_size(from_y) * to_size(image.width) + to_size(from_x));
      result.rgb.insert(result.rgb.end(), pixel, pixel + 3);
    }
  return result;
}

}  // namespace weft::vision
