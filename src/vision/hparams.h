#pragma once
// What a file of a vision model says of its encoder: metadata under "clip.".
#include <array>
#include <string>

#include "gguf/gguf.h"

namespace weft::vision {

enum class Activation : std::uint8_t { kGeluTanh, kSilu, kGeluQuick };

struct HParams {
  std::string name;
  std::string projector;
  int image_size = 0;  ///< Pixels of a side.
  int patch_size = 0;
  int width = 0;         ///< Of the encoder's rows ...
  int feed_forward = 0;  ///< ... and of its feed-forward parts.
  int n_heads = 0;
  int n_layers = 0;
  int n_embd = 0;        ///< Of the text model.
  int longest_side = 0;  ///< Pixels of a picture that is cut into tiles, before that.
  int merge = 1;         ///< Patches on a side of the square that becomes one row.
  float eps = 1e-6f;
  Activation activation = Activation::kGeluTanh;
  std::array<float, 3> mean{}, deviation{};  ///< Of colours from 0 to 1.

  int grid() const { return image_size / patch_size; }  ///< Patches on a side.
  int max_rows() const { return (grid() / merge) * (grid() / merge); }
};

/// `merge_otherwise`: where the file does not say it. Throws Error kInvalidFile that names the key,
/// kUnsupported for a file that is no vision model.
HParams read_hparams(const gguf::File& file, int merge_otherwise);

}  // namespace weft::vision
