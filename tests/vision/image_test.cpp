// Pictures from files, and in other sizes: against Pillow.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "vision/resize.h"
#include "vision/vision_testing.h"

namespace weft {
namespace {

std::filesystem::path folder() { return test::vision_dir() / "pictures"; }

ErrorCode code_of(std::span<const std::byte> bytes) {
  try {
    read_image(bytes);
  } catch (const Error& error) {
    return error.code();
  }
  ADD_FAILURE() << "no error";
  return ErrorCode::kIo;
}

TEST(Image, PngAndJpegAreReadAsPillowReadsThem) {
  for (const char* const name : {"photo.png", "photo.jpg"}) {
    const Image image = read_image_file(folder() / name);
    const Image expected = test::read_pixels(
        folder() / (std::string(name) == "photo.png" ? "photo.rgb" : "photo.jpg.rgb"), 40, 30);
    EXPECT_EQ(image.width, 40);
    EXPECT_EQ(image.height, 30);
    EXPECT_TRUE(image.rgb == expected.rgb) << name;
  }
}

TEST(Image, AppliesExifRotation) {
  const Image plain = read_image_file(folder() / "photo.jpg");
  const Image turned = read_image_file(folder() / "turned.jpg");
  ASSERT_EQ(turned.width, 30);
  ASSERT_EQ(turned.height, 40);
  for (int y = 0; y < 40; ++y)
    for (int x = 0; x < 30; ++x)
      for (int c = 0; c < 3; ++c)
        // A quarter to the right: the bottom left corner moves to the top left.
        ASSERT_EQ(turned.rgb[static_cast<std::size_t>(3 * (y * 30 + x) + c)],
                  plain.rgb[static_cast<std::size_t>(3 * ((29 - x) * 40 + y) + c)])
            << x << ", " << y;
}

TEST(Image, TransparentPixelsAreWhite) {
  const Image image = read_image_file(folder() / "clear.png");
  const Image photo = read_image_file(folder() / "photo.png");
  for (std::size_t i = 0; i < 40 * 30; ++i) {
    const bool is_clear = (i / 40 + i % 40) % 2 == 0;
    for (std::size_t c = 0; c < 3; ++c)
      ASSERT_EQ(image.rgb[3 * i + c], is_clear ? 255 : photo.rgb[3 * i + c]) << i;
  }
}

TEST(Image, FilesThatAreCutAreErrors) {
  for (const char* const name : {"photo.png", "photo.jpg"}) {
    const std::vector<std::byte> bytes = test::read_bytes(folder() / name);
    const std::vector<std::uint8_t> whole = read_image(bytes).rgb;
    for (std::size_t n = 0; n < bytes.size(); ++n) {
      try {
        // A file that lacks only markers after the pixels may be read.
        EXPECT_TRUE(read_image(std::span(bytes).first(n)).rgb == whole) << name << " cut to " << n;
        EXPECT_GE(n + 16, bytes.size()) << name << " cut to " << n;
      } catch (const Error& error) {
        EXPECT_TRUE(error.code() == ErrorCode::kInvalidFile || error.code() == ErrorCode::kUnsupported)
            << error.what();
        EXPECT_EQ(std::string(error.what()).find(" 0 x 0 "), std::string::npos) << error.what();
      }
    }
  }
}

TEST(Image, DamagedFilesAreReadOrErrors) {
  std::mt19937 random(5);
  for (const char* const name : {"photo.png", "turned.jpg"}) {
    const std::vector<std::byte> bytes = test::read_bytes(folder() / name);
    int n_errors = 0;
    for (int round = 0; round < 500; ++round) {
      std::vector<std::byte> damaged = bytes;
      for (int i = 0; i < 3; ++i) damaged[random() % damaged.size()] = static_cast<std::byte>(random());
      try {
        const Image image = read_image(damaged);
        EXPECT_EQ(image.rgb.size(),
                  3 * static_cast<std::size_t>(image.width) * static_cast<std::size_t>(image.height));
      } catch (const Error&) {
        ++n_errors;
      }
    }
    EXPECT_GT(n_errors, 50) << name;
  }
}

TEST(Image, ASizeIsCheckedBeforeMemoryIsTaken) {
  std::vector<std::byte> png = test::read_bytes(folder() / "photo.png");
  png[16] = std::byte{0x00};  // The width, four bytes: 65576.
  png[17] = std::byte{0x01};
  // The checksum of the header is wrong now; that is found first, or the size: an error either way.
  EXPECT_TRUE(code_of(png) == ErrorCode::kInvalidFile || code_of(png) == ErrorCode::kUnsupported);

  std::vector<std::byte> jpeg = test::read_bytes(folder() / "photo.jpg");
  const std::byte frame[] = {std::byte{0xff}, std::byte{0xc0}};
  const auto at = std::search(jpeg.begin(), jpeg.end(), std::begin(frame), std::end(frame));
  ASSERT_NE(at, jpeg.end());
  at[5] = std::byte{0xff};  // Height and width: 65310 x 65320.
  at[7] = std::byte{0xff};
  EXPECT_EQ(code_of(jpeg), ErrorCode::kUnsupported);
}

TEST(Image, OtherFilesAreRefused) {
  EXPECT_EQ(code_of({}), ErrorCode::kUnsupported);
  EXPECT_EQ(code_of(std::as_bytes(std::span("GIF89a and more"))), ErrorCode::kUnsupported);
  EXPECT_THROW(read_image_file(folder() / "nothing.png"), Error);
}

TEST(Resize, MatchesPillow) {
  const Image photo = test::read_pixels(folder() / "photo.rgb", 40, 30);
  using vision::Filter;
  for (const auto& [name, filter] :
       {std::pair("bilinear", Filter::kBilinear), std::pair("bicubic", Filter::kBicubic),
        std::pair("lanczos", Filter::kLanczos)})
    for (const auto& [width, height] : {std::pair(16, 16), std::pair(64, 50), std::pair(7, 45)}) {
      const std::string file =
          std::string(name) + "-" + std::to_string(width) + "x" + std::to_string(height) + ".rgb";
      const Image expected = test::read_pixels(folder() / file, width, height);
      EXPECT_TRUE(vision::resize(photo, width, height, filter).rgb == expected.rgb) << file;
    }
}

}  // namespace
}  // namespace weft
