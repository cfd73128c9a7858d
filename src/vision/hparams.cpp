#include "vision/hparams.h"

#include <algorithm>

#include "base/to_size.h"
#include "encoders/fit.h"
#include "weft/error.h"

namespace weft::vision {
namespace {

// Far above any encoder of today, far below what could overflow.
constexpr std::int64_t kMaxSide = 4096;
constexpr std::int64_t kMaxWidth = 1 << 16;
constexpr std::int64_t kMaxLayers = 512;
constexpr std::int64_t kMaxPatches = 1 << 16;
constexpr int kMaxTiles = 16;  // On a side.
// Rows of an image that keeps its shape: the default, the minimum and the maximum. Memory is planned for the
// most rows that a model allows.
constexpr int kUsualRows = 1280;
constexpr int kFewestRows = 4;
constexpr int kMostRows = 4096;
constexpr int kUsualWindow = 112;  // Pixels.

[[noreturn]] void refuse(const std::string& key, const std::string& why) {
  throw Error(ErrorCode::kInvalidFile, "metadata key " + key + ": " + why);
}

int require_int(const gguf::File& file, const std::string& key, std::int64_t max) {
  const auto value = file.get_int(key);
  const std::string expected = ", expected 1 to " + std::to_string(max);
  if (!value) refuse(key, "missing" + expected);
  if (*value < 1 || *value > max) refuse(key, "found " + std::to_string(*value) + expected);
  return static_cast<int>(*value);
}

float get_float(const gguf::File& file, const std::string& key, double min, double max, double otherwise) {
  const double value = file.get_float(key).value_or(otherwise);
  if (!(value >= min && value <= max))
    refuse(key, "found " + std::to_string(value) + ", expected " + std::to_string(min) + " to " +
                    std::to_string(max));
  return static_cast<float>(value);
}

std::array<float, 3> require_colours(const gguf::File& file, const std::string& key, double min, double max) {
  const auto values = file.get_floats(key);
  if (!values || values->size() != 3) refuse(key, "expected three numbers, for red, green and blue");
  std::array<float, 3> result{};
  for (std::size_t i = 0; i < 3; ++i) {
    if (!((*values)[i] >= min && (*values)[i] <= max))
      refuse(key, "found " + std::to_string((*values)[i]) + ", expected " + std::to_string(min) + " to " +
                      std::to_string(max));
    result[i] = static_cast<float>((*values)[i]);
  }
  return result;
}

void read_pixels(const gguf::File& file, HParams& h) {
  const std::int64_t of_row = std::int64_t{h.square()} * h.square();
  const auto read = [&](const char* name, int otherwise) {
    const std::string key = std::string("clip.vision.") + name;
    const std::int64_t pixels = file.get_int(key).value_or(otherwise * of_row);
    if (pixels < of_row)
      refuse(key, "found " + std::to_string(pixels) + ", less than a row of the output stands for");
    return pixels;
  };
  h.max_pixels = std::min(read("image_max_pixels", kUsualRows), kMostRows * of_row);
  h.min_pixels =
      read("image_min_pixels", static_cast<int>(std::min(kFewestRows * of_row, h.max_pixels) / of_row));
  if (h.min_pixels > h.max_pixels)
    refuse("clip.vision.image_min_pixels", "found " + std::to_string(h.min_pixels) +
                                               ", more than clip.vision.image_max_pixels, " +
                                               std::to_string(h.max_pixels));
}

void read_windows(const gguf::File& file, HParams& h) {
  const std::string every = "clip.vision.n_wa_pattern", window = "clip.vision.window_size";
  if (file.find(every) != nullptr) h.full_every = require_int(file, every, kMaxLayers);
  if (h.full_every == 1) return;
  h.window = file.find(window) == nullptr ? kUsualWindow : require_int(file, window, kMaxSide);
  if (h.window < h.square())
    refuse(window, "found " + std::to_string(h.window) + ", less than a row's " + std::to_string(h.square()));
}

void read_deepstack(const gguf::File& file, HParams& h) {
  const std::string key = "clip.vision.is_deepstack_layers";
  if (file.find(key) == nullptr) return;
  const auto flags = file.get_bools(key);
  if (!flags || flags->size() != to_size(h.n_layers))
    refuse(key, "expected a bool for each of " + std::to_string(h.n_layers) + " layers");
  h.deepstack = *flags;
  if (std::int64_t{h.n_embd} * (1 + h.n_taps()) > 64 * kMaxWidth) refuse(key, "the rows would be too wide");
}

}  // namespace

HParams read_hparams(const gguf::File& file, int merge_otherwise, bool keeps_shape) {
  HParams h;
  const std::string vision = "clip.vision.";
  h.name = file.get_label("general.name");
  h.projector = encoders::projector_of(file, "vision");
  h.image_size = require_int(file, vision + "image_size", kMaxSide);
  h.patch_size = require_int(file, vision + "patch_size", kMaxSide);
  h.width = require_int(file, vision + "embedding_length", kMaxWidth);
  h.n_heads = require_int(file, vision + "attention.head_count", kMaxWidth);
  h.n_layers = require_int(file, vision + "block_count", kMaxLayers);
  h.n_embd = require_int(file, vision + "projection_dim", kMaxWidth);
  h.eps = get_float(file, vision + "attention.layer_norm_epsilon", 0.0, 1.0, 1e-6);
  h.merge = merge_otherwise;
  for (const std::string key : {"projector.scale_factor", "spatial_merge_size"})
    if (file.find(vision + key) != nullptr) h.merge = require_int(file, vision + key, kMaxSide);
  // Files without the key are of models with four tiles on a side.
  const std::string longest = vision + "preproc_image_size";
  h.longest_side =
      file.find(longest) == nullptr ? 4 * h.image_size : require_int(file, longest, kMaxTiles * h.image_size);
  h.mean = require_colours(file, vision + "image_mean", -10.0, 10.0);
  h.deviation = require_colours(file, vision + "image_std", 1e-3, 10.0);
  h.activation = file.get_bool("clip.use_gelu").value_or(false)   ? encoders::Activation::kGeluTanh
                 : file.get_bool("clip.use_silu").value_or(false) ? encoders::Activation::kSilu
                                                                  : encoders::Activation::kGeluQuick;
  if (h.width % h.n_heads != 0)
    refuse(vision + "attention.head_count",
           std::to_string(h.n_heads) + " heads do not divide the width " + std::to_string(h.width));
  if (h.image_size % h.patch_size != 0 || h.grid() % h.merge != 0)
    refuse(vision + "image_size", std::to_string(h.image_size) + " pixels are not a multiple of " +
                                      std::to_string(h.merge) + " patches of " +
                                      std::to_string(h.patch_size));
  if (std::int64_t{h.grid()} * h.grid() > kMaxPatches)
    refuse(vision + "image_size", "more than " + std::to_string(kMaxPatches) + " patches");
  if (keeps_shape) read_pixels(file, h);
  read_windows(file, h);
  read_deepstack(file, h);
  return h;
}

}  // namespace weft::vision
