// Qwen2-VL, Qwen2.5-VL (arXiv 2409.12191, 2502.13923) and Qwen3-VL (arXiv 2511.21631): images of any shape.
// Squares of 2 x 2 patches become a row. In 2.5 most layers have windowed attention. In 3 the language model
// gets rows of earlier layers, too.
#include <algorithm>
#include <cmath>

#include "vision/family.h"
#include "vision/resize.h"
#include "weft/error.h"

namespace weft::vision {
namespace {

constexpr std::string_view kQwen2[] = {"qwen2vl"};
constexpr std::string_view kQwen3[] = {"qwen3vl", "qwen3vlmoe"};
constexpr double kLongest = 200.0;  ///< Times its other side.

/// In whole squares, with about as many pixels as the model is made for (smart_resize of transformers).
Size wanted_size(const HParams& h, const Image& image) {
  const double width = image.width, height = image.height, square = h.square();
  if (std::max(width, height) > kLongest * std::min(width, height))
    throw Error(ErrorCode::kUnsupported, "an image of " + std::to_string(image.width) + " x " +
                                             std::to_string(image.height) +
                                             " pixels has an aspect ratio above 200; crop it");
  const auto scaled = [&](double scale, double least, double (*round)(double)) {
    const auto whole = [&](double side) {
      return static_cast<int>(std::max(round(side * scale / square), least) * square);
    };
    return Size{whole(width), whole(height)};
  };
  // An image that is less than half a square wide or high is scaled up below.
  Size size = scaled(1.0, 0.0, [](double x) { return std::nearbyint(x); });
  const auto n_pixels = [](const Size& s) { return std::int64_t{s.width} * s.height; };
  if (n_pixels(size) > h.max_pixels) {
    size = scaled(std::sqrt(static_cast<double>(h.max_pixels) / (width * height)), 1.0,
                  [](double x) { return std::floor(x); });
  } else if (n_pixels(size) < h.min_pixels) {
    size = scaled(std::sqrt(static_cast<double>(h.min_pixels) / (width * height)), 1.0,
                  [](double x) { return std::ceil(x); });
  }
  // A side has at least one square. The longer side shrinks to keep the number of rows.
  int& longer = size.width > size.height ? size.width : size.height;
  const int shorter = std::min(size.width, size.height);
  const std::int64_t most = std::max(h.max_rows() / (shorter / h.square()), 1) * h.square();
  longer = static_cast<int>(std::min<std::int64_t>(longer, most));
  return size;
}

Layout lay_out_qwen_vl(const HParams& h, const Image& image) {
  const Size size = wanted_size(h, image);
  Layout layout;
  layout.tiles.push_back(resize(image, size.width, size.height, Filter::kBicubic));
  const int across = size.width / h.square(), down = size.height / h.square();
  layout.pieces = {{"<|vision_start|>", 0}, {"", across * down, across}, {"<|vision_end|>", 0}};
  return layout;
}

/// Concatenates the rows of each square and applies a two-layer perceptron.
Value merged(EncoderBuilder& b, Value x, const std::string& first, const std::string& second) {
  const HParams& h = b.hparams();
  const std::int64_t width = std::int64_t{h.merge} * h.merge * h.width;
  return b.linear(gelu(b.linear(reshape(x, {b.n_rows(), width}), first, width, width, true)), second,
                  h.n_embd, width, true);
}

Value project_qwen_vl(EncoderBuilder& b, Value x) {
  const HParams& h = b.hparams();
  std::vector<Value> parts = {merged(b, x, "mm.0", "mm.2")};
  const std::int64_t width = std::int64_t{h.merge} * h.merge * h.width;
  for (const auto& [layer, rows] : b.taps()) {
    const std::string name = "v.deepstack." + std::to_string(layer) + ".";
    const Value normed = b.norm(reshape(rows, {b.n_rows(), width}), name + "norm", width, false);
    parts.push_back(merged(b, normed, name + "fc1", name + "fc2"));
  }
  return parts.size() == 1 ? parts[0] : concat(parts);
}

}  // namespace

constinit const Family kQwen2Vl = {
    .projector = "qwen2vl_merger",
    .text_models = kQwen2,
    .both_ways = false,
    .merge = 2,
    .keeps_shape = true,
    .encoder = {.places = Places::kHalves, .layers = {}, .patch_bias = false, .two_frames = true},
    .lay_out = lay_out_qwen_vl,
    .project = project_qwen_vl};

constinit const Family kQwen25Vl = {.projector = "qwen2.5vl_merger",
                                    .text_models = kQwen2,
                                    .both_ways = false,
                                    .merge = 2,
                                    .keeps_shape = true,
                                    .encoder = {.places = Places::kHalves,
                                                .layers = {.rms = true, .gated = true},
                                                .patch_bias = false,
                                                .two_frames = true},
                                    .lay_out = lay_out_qwen_vl,
                                    .project = project_qwen_vl};

constinit const Family kQwen3Vl = {
    .projector = "qwen3vl_merger",
    .text_models = kQwen3,
    .both_ways = false,
    .merge = 2,
    .keeps_shape = true,
    .encoder = {.places = Places::kInterpolated, .layers = {.fused = true}, .two_frames = true},
    .lay_out = lay_out_qwen_vl,
    .project = project_qwen_vl};

}  // namespace weft::vision
