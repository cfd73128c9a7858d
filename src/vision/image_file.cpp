// Image files: PNG by libpng, JPEG by libjpeg-turbo.
#include <png.h>
#include <turbojpeg.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

#include "base/to_size.h"
#include "vision/exif.h"
#include "weft/error.h"
#include "weft/vision.h"

namespace weft {
namespace {

[[noreturn]] void damaged(std::string_view format, std::string_view why) {
  throw Error(ErrorCode::kInvalidFile,
              "the " + std::string(format) + " image cannot be read: " + std::string(why));
}

void check_size(std::int64_t width, std::int64_t height) {
  if (width >= 1 && height >= 1 && width <= kMaxImageSide && height <= kMaxImageSide &&
      width * height <= kMaxImagePixels)
    return;
  throw Error(ErrorCode::kUnsupported, "the image has " + std::to_string(width) + " x " +
                                           std::to_string(height) + " pixels; the limit is " +
                                           std::to_string(kMaxImageSide) + " per side and " +
                                           std::to_string(kMaxImagePixels) + " in total");
}

std::size_t rgb_bytes(int width, int height) { return 3 * to_size(width) * to_size(height); }

bool begins_with(std::span<const std::byte> bytes, std::string_view magic) {
  return bytes.size() >= magic.size() &&
         std::equal(magic.begin(), magic.end(), bytes.begin(),
                    [](char a, std::byte b) { return static_cast<std::byte>(a) == b; });
}

Image read_png(std::span<const std::byte> bytes) {
  png_image png = {};
  png.version = PNG_IMAGE_VERSION;
  struct Free {
    png_image* png;
    ~Free() { png_image_free(png); }
  } const free{&png};
  if (png_image_begin_read_from_memory(&png, bytes.data(), bytes.size()) == 0) damaged("PNG", png.message);
  check_size(png.width, png.height);
  png.format = PNG_FORMAT_RGB;
  Image image{static_cast<int>(png.width), static_cast<int>(png.height), {}};
  image.rgb.resize(rgb_bytes(image.width, image.height));
  const png_color white = {255, 255, 255};
  if (png_image_finish_read(&png, &white, image.rgb.data(), 0, nullptr) == 0) damaged("PNG", png.message);
  return image;
}

Image read_jpeg(std::span<const std::byte> bytes) {
  const std::unique_ptr<void, int (*)(tjhandle)> jpeg(tjInitDecompress(), tjDestroy);
  if (!jpeg) throw Error(ErrorCode::kOutOfMemory, "no memory to read a JPEG image");
  const auto* const data = reinterpret_cast<const unsigned char*>(bytes.data());
  int width = 0, height = 0, sampling = 0, colours = 0;
  if (tjDecompressHeader3(jpeg.get(), data, bytes.size(), &width, &height, &sampling, &colours) != 0)
    damaged("JPEG", tjGetErrorStr2(jpeg.get()));
  if (width < 1 || height < 1) damaged("JPEG", "it ends before its size");
  check_size(width, height);
  Image image{width, height, std::vector<std::uint8_t>(rgb_bytes(width, height))};
  // Truncated and damaged files are errors, although a viewer could show a part. So are files with very many
  // scans, which would take too long.
  if (tjDecompress2(jpeg.get(), data, bytes.size(), image.rgb.data(), width, 0, height, TJPF_RGB,
                    TJFLAG_ACCURATEDCT | TJFLAG_STOPONWARNING | TJFLAG_LIMITSCANS) != 0)
    damaged("JPEG", tjGetErrorStr2(jpeg.get()));
  return vision::turned(std::move(image), vision::orientation_of_jpeg(bytes));
}

}  // namespace

Image read_image(std::span<const std::byte> bytes) {
  if (begins_with(bytes, "\x89PNG\r\n\x1a\n")) return read_png(bytes);
  if (begins_with(bytes, "\xff\xd8\xff")) return read_jpeg(bytes);
  throw Error(ErrorCode::kUnsupported, "the image is neither PNG nor JPEG; convert it to one of these");
}

Image read_image_file(const std::filesystem::path& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), std::fclose);
  if (!file) throw Error(ErrorCode::kNotFound, "cannot open the image '" + path.string() + "'");
  constexpr std::size_t kMaxBytes = std::size_t{1} << 28, kPiece = std::size_t{1} << 20;
  std::vector<std::byte> bytes;
  while (bytes.size() < kMaxBytes) {
    const std::size_t n = bytes.size();
    bytes.resize(n + kPiece);
    const std::size_t got = std::fread(bytes.data() + n, 1, kPiece, file.get());
    bytes.resize(n + got);
    if (got < kPiece) break;
  }
  if (std::ferror(file.get()) != 0)
    throw Error(ErrorCode::kIo, "cannot read the image '" + path.string() + "'");
  try {
    return read_image(bytes);
  } catch (const Error& error) {
    throw Error(error.code(), path.string() + ": " + error.what());
  }
}

}  // namespace weft
