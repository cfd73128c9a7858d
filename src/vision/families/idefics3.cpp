// Idefics 3 (arXiv 2408.12637) and SmolVLM: a SigLIP encoder reads the tiles of the image, then the whole
// image. Each square of patches is concatenated to one row.
#include <algorithm>
#include <cmath>

#include "base/to_size.h"
#include "vision/family.h"
#include "vision/resize.h"

namespace weft::vision {
namespace {

constexpr std::string_view kIdefics3TextModels[] = {"llama", "granite"};

constexpr int kLargestSide = 4096;

/// Scales the longer side to `longest`, up or down.
Size scaled(const Image& image, int longest) {
  const double aspect = static_cast<double>(image.width) / image.height;
  Size size;
  if (image.width >= image.height) {
    size = {longest, static_cast<int>(longest / aspect)};
    size.height += size.height % 2;
  } else {
    size = {static_cast<int>(longest * aspect), longest};
    size.width += size.width % 2;
  }
  return {std::clamp(size.width, 1, kLargestSide), std::clamp(size.height, 1, kLargestSide)};
}

int whole_tiles(int pixels, int side) { return std::max((pixels + side - 1) / side, 1) * side; }

/// Makes each side a multiple of `side`: the longer one first, then the other by the aspect ratio.
Size in_tiles(const Size& size, int side) {
  const double aspect = static_cast<double>(size.width) / size.height;
  if (size.width >= size.height) {
    const int width = whole_tiles(size.width, side);
    return {width, whole_tiles(static_cast<int>(width / aspect), side)};
  }
  const int height = whole_tiles(size.height, side);
  return {whole_tiles(static_cast<int>(height * aspect), side), height};
}

Image crop(const Image& image, int left, int top, int side) {
  Image tile{side, side, {}};
  const std::size_t row = 3 * to_size(side);
  tile.rgb.reserve(row * to_size(side));
  for (int y = top; y < top + side; ++y) {
    const auto at = 3 * (static_cast<std::ptrdiff_t>(y) * image.width + left);
    tile.rgb.insert(tile.rgb.end(), image.rgb.begin() + at,
                    image.rgb.begin() + at + static_cast<std::ptrdiff_t>(row));
  }
  return tile;
}

Layout lay_out_idefics3(const HParams& h, const Image& image) {
  const int side = h.image_size;
  const std::string around = "<fake_token_around_image>";
  const Size wanted = scaled(image, h.longest_side);
  Image large = resize(image, wanted.width, wanted.height, Filter::kLanczos);
  const Size tiled = in_tiles(wanted, side);
  large = resize(large, tiled.width, tiled.height, Filter::kLanczos);
  Layout layout;
  const bool is_cut = tiled.width > side || tiled.height > side;
  for (int y = 0; is_cut && y < tiled.height / side; ++y) {
    for (int x = 0; x < tiled.width / side; ++x) {
      layout.tiles.push_back(crop(large, x * side, y * side, side));
      layout.pieces.push_back(
          {around + "<row_" + std::to_string(y + 1) + "_col_" + std::to_string(x + 1) + ">", 0});
      layout.pieces.push_back({"", h.max_rows()});
    }
    layout.pieces.push_back({"\n", 0});
  }
  layout.tiles.push_back(resize(large, side, side, Filter::kLanczos));
  layout.pieces.push_back({(is_cut ? "\n" : "") + around + "<global-img>", 0});
  layout.pieces.push_back({"", h.max_rows()});
  layout.pieces.push_back({around, 0});
  return layout;
}

Value project_idefics3(EncoderBuilder& b, Value x) {
  const HParams& h = b.hparams();
  const std::int64_t width = std::int64_t{h.merge} * h.merge * h.width;
  return linear(reshape(x, {b.n_rows(), width}), b.weight("mm.model.fc.weight", {h.n_embd, width}));
}

}  // namespace

constinit const Family kIdefics3 = {.projector = "idefics3",
                                    .text_models = kIdefics3TextModels,
                                    .both_ways = false,
                                    .merge = 2,
                                    .keeps_shape = false,
                                    .encoder = {},
                                    .lay_out = lay_out_idefics3,
                                    .project = project_idefics3};

}  // namespace weft::vision
