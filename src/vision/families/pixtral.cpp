// Pixtral (arXiv 2410.07073) and Mistral Small 3.1: images keep their size unless they are too large. Each
// line of rows ends with a mark. Later models merge squares of patches.
#include <algorithm>
#include <cmath>

#include "vision/family.h"
#include "vision/resize.h"
#include "weft/error.h"

namespace weft::vision {
namespace {

constexpr std::string_view kPixtralTextModels[] = {"llama", "mistral3"};

/// Pixels of a side, rounded up to whole squares of patches.
int whole_squares(int pixels, double shrink, int square) {
  const int wanted = std::max(static_cast<int>(std::floor(pixels / shrink)), 1);
  return ((wanted - 1) / square + 1) * square;
}

Layout lay_out_pixtral(const HParams& h, const Image& image) {
  const int square = h.patch_size * h.merge;
  const double shrink =
      std::max(1.0, static_cast<double>(std::max(image.width, image.height)) / h.image_size);
  const int width = whole_squares(image.width, shrink, square);
  const int height = whole_squares(image.height, shrink, square);
  Layout layout;
  layout.tiles.push_back(resize(image, width, height, Filter::kBicubic));
  for (int y = 0; y < height; y += square) {
    layout.pieces.push_back({"", width / square});
    layout.pieces.push_back({y + square < height ? "[IMG_BREAK]" : "[IMG_END]", 0});
  }
  return layout;
}

Value project_pixtral(EncoderBuilder& b, Value x) {
  const HParams& h = b.hparams();
  const std::int64_t n_merged = std::int64_t{h.merge} * h.merge;
  const bool merges = b.has("mm.patch_merger.weight");
  if (merges != (h.merge > 1))
    throw Error(ErrorCode::kInvalidFile,
                merges ? "tensor mm.patch_merger.weight is present, but clip.vision.spatial_merge_size is 1"
                       : "tensor mm.patch_merger.weight is missing");
  if (merges) {
    x = b.norm(x, "mm.input_norm");
    // Element by element of all patches of a square.
    const Value squares = permute(reshape(x, {b.n_rows(), n_merged, h.width}), {0, 2, 1});
    x = b.linear(reshape(squares, {b.n_rows(), n_merged * h.width}), "mm.patch_merger", h.width,
                 n_merged * h.width, false);
  }
  const bool biases = b.has("mm.1.bias");
  return b.linear(gelu(b.linear(x, "mm.1", h.n_embd, h.width, biases)), "mm.2", h.n_embd, h.n_embd, biases);
}

}  // namespace

constinit const Family kPixtral = {.projector = "pixtral",
                                   .text_models = kPixtralTextModels,
                                   .both_ways = false,
                                   .merge = 1,
                                   .keeps_shape = false,
                                   .encoder = {.places = Places::kTurns,
                                               .layers = {.rms = true, .biases = false, .gated = true},
                                               .patch_bias = false,
                                               .norm_before = true,
                                               .norm_behind = false},
                                   .lay_out = lay_out_pixtral,
                                   .project = project_pixtral};

}  // namespace weft::vision
