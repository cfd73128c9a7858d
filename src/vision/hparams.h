#pragma once
// What a file of a vision model says of its encoder: metadata under "clip.".
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
  int n_embd = 0;        ///< Of the text model.
  int longest_side = 0;  ///< Pixels of a picture that is cut into tiles, before that.
  int merge = 1;         ///< Patches on a side of the square that becomes one row.
  // Of pictures that keep their shape; 0 where all become squares of image_size:
  std::int64_t min_pixels = 0;
  std::int64_t max_pixels = 0;
  int full_every = 1;           ///< Every so many layers the last sees all of a picture, the others ...
  int window = 0;               ///< ... windows of so many pixels on a side.
  std::vector<bool> deepstack;  ///< By layer: whether its rows go to the text model, too. Empty: none do.
  std::array<float, 3> mean{}, deviation{};  ///< Of colours from 0 to 1.

  int grid() const { return image_size / patch_size; }  ///< Patches on a side.
  int square() const { return patch_size * merge; }     ///< Pixels on a side of what becomes one row.
  int max_rows() const {
    if (max_pixels > 0) return static_cast<int>(max_pixels / (std::int64_t{square()} * square()));
    return (grid() / merge) * (grid() / merge);
  }
  int n_taps() const { return static_cast<int>(std::count(deepstack.begin(), deepstack.end(), true)); }
  int n_embd_row() const { return n_embd * (1 + n_taps()); }  ///< Numbers of a row of the result.
};

/// `merge_otherwise`: where the file does not say it. `keeps_shape`: pictures are not made squares. Throws
/// Error kInvalidFile that names the key, kUnsupported for a file that is no vision model.
HParams read_hparams(const gguf::File& file, int merge_otherwise, bool keeps_shape);

}  // namespace weft::vision
