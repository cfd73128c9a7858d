#pragma once
// The encoder's hyperparameters in a vision model's file: metadata under "clip.".
#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "encoders/transformer.h"
#include "gguf/gguf.h"

namespace weft::vision {

struct HParams : encoders::TransformerSizes {
  std::string name;
  std::string projector;
  int image_size = 0;  ///< Pixels of a side.
  int patch_size = 0;
  int n_embd = 0;        ///< The language model's width.
  int longest_side = 0;  ///< Longer side in pixels to which an image is scaled before it is split into tiles.
  int merge = 1;         ///< Patches on a side of the square that becomes one row.
  // Bounds for images that keep their shape; 0 where all become squares of image_size:
  std::int64_t min_pixels = 0;
  std::int64_t max_pixels = 0;
  int full_every = 1;           ///< The last of every full_every layers has full attention.
  int window = 0;               ///< Side in pixels of the attention windows of the other layers.
  std::vector<bool> deepstack;  ///< By layer: whether the language model gets its rows, too. Empty: for none.
  std::array<float, 3> mean{}, deviation{};  ///< For colours from 0 to 1.

  int grid() const { return image_size / patch_size; }  ///< Patches on a side.
  /// Pixels on a side of the square that becomes one row.
  int square() const { return patch_size * merge; }
  int max_rows() const {
    if (max_pixels > 0) return static_cast<int>(max_pixels / (std::int64_t{square()} * square()));
    return (grid() / merge) * (grid() / merge);
  }
  int n_taps() const { return static_cast<int>(std::count(deepstack.begin(), deepstack.end(), true)); }
  int n_embd_row() const { return n_embd * (1 + n_taps()); }  ///< Elements of a row of the result.
};

/// `merge_otherwise` is the default of merge. `keeps_shape`: images are not resized to squares. Throws Error
/// kInvalidFile that names the key, kUnsupported for a file that is not a vision model.
HParams read_hparams(const gguf::File& file, int merge_otherwise, bool keeps_shape);

}  // namespace weft::vision
