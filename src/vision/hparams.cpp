#include "vision/hparams.h"

#include <cmath>

#include "weft/error.h"

namespace weft::vision {
namespace {

// Far above any encoder of today, far below what could overflow.
constexpr std::int64_t kMaxSide = 4096;
constexpr std::int64_t kMaxWidth = 1 << 16;
constexpr std::int64_t kMaxLayers = 512;
constexpr std::int64_t kMaxPatches = 1 << 16;
constexpr int kMaxTiles = 16;  // On a side.

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

std::array<float, 3> require_colours(const gguf::File& file, const std::string& key) {
  const auto values = file.get_floats(key);
  if (!values || values->size() != 3) refuse(key, "expected three numbers, of red, green and blue");
  std::array<float, 3> result{};
  for (std::size_t i = 0; i < 3; ++i) {
    if (!std::isfinite((*values)[i])) refuse(key, "expected finite numbers");
    result[i] = static_cast<float>((*values)[i]);
  }
  return result;
}

}  // namespace

HParams read_hparams(const gguf::File& file, int merge_otherwise) {
  HParams h;
  const std::string vision = "clip.vision.";
  h.name = file.get_string("general.name").value_or("");
  h.projector = file.get_string("clip.projector_type").value_or("");
  h.image_size = require_int(file, vision + "image_size", kMaxSide);
  h.patch_size = require_int(file, vision + "patch_size", kMaxSide);
  h.width = require_int(file, vision + "embedding_length", kMaxWidth);
  h.feed_forward = require_int(file, vision + "feed_forward_length", 4 * kMaxWidth);
  h.n_heads = require_int(file, vision + "attention.head_count", kMaxWidth);
  h.n_layers = require_int(file, vision + "block_count", kMaxLayers);
  h.n_embd = require_int(file, vision + "projection_dim", kMaxWidth);
  h.eps = static_cast<float>(file.get_float(vision + "attention.layer_norm_epsilon").value_or(1e-6));
  h.merge = merge_otherwise;
  for (const std::string key : {"projector.scale_factor", "spatial_merge_size"})
    if (file.find(vision + key) != nullptr) h.merge = require_int(file, vision + key, kMaxSide);
  // Files that do not say it are of models with four tiles on a side.
  const std::string longest = vision + "preproc_image_size";
  h.longest_side =
      file.find(longest) == nullptr ? 4 * h.image_size : require_int(file, longest, kMaxTiles * h.image_size);
  h.mean = require_colours(file, vision + "image_mean");
  h.deviation = require_colours(file, vision + "image_std");
  for (const float deviation : h.deviation)
    if (!(deviation > 0.0f)) refuse(vision + "image_std", "expected numbers above 0");
  h.activation = file.get_bool("clip.use_gelu").value_or(false)   ? Activation::kGeluTanh
                 : file.get_bool("clip.use_silu").value_or(false) ? Activation::kSilu
                                                                  : Activation::kGeluQuick;
  if (h.width % h.n_heads != 0)
    refuse(vision + "attention.head_count",
           std::to_string(h.n_heads) + " heads do not divide a width of " + std::to_string(h.width));
  if (h.image_size % h.patch_size != 0 || h.grid() % h.merge != 0)
    refuse(vision + "image_size", std::to_string(h.image_size) + " pixels are no whole number of " +
                                      std::to_string(h.merge) + " patches of " +
                                      std::to_string(h.patch_size));
  if (std::int64_t{h.grid()} * h.grid() > kMaxPatches)
    refuse(vision + "image_size", "more than " + std::to_string(kMaxPatches) + " patches");
  return h;
}

}  // namespace weft::vision
