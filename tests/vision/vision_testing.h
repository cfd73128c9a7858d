#pragma once
// What tests of vision models share: their files (scripts/make_vision_data.py).
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "weft/error.h"
#include "weft/vision.h"

namespace weft::test {

inline std::filesystem::path vision_dir() { return std::filesystem::path(WEFT_TEST_DATA) / "vision"; }

inline std::vector<std::byte> read_bytes(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<char> text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

/// Of a file of pixels.
inline Image read_pixels(const std::filesystem::path& path, int width, int height) {
  const std::vector<std::byte> bytes = read_bytes(path);
  Image image{width, height, {}};
  for (const std::byte byte : bytes) image.rgb.push_back(std::to_integer<std::uint8_t>(byte));
  return image;
}

inline Image tiny_image(const std::string& family) {
  return read_pixels(vision_dir() / family / "pixels.rgb",
                     family == "pixtral" || family.starts_with("qwen") ? 40 : 48, 48);
}

}  // namespace weft::test
