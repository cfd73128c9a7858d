#pragma once
// Families of vision models, by the names of their projectors: what is made of a picture before the encoder,
// what of its rows behind it, and what stands around them in a prompt. A family is a file in families/ and a
// row in family.cpp.
#include <span>
#include <string_view>
#include <vector>

#include "vision/encoder_graph.h"
#include "vision/hparams.h"
#include "weft/vision.h"

namespace weft::vision {

/// How a picture is read: tiles for the encoder, and the prompt's pieces, whose rows are those of the tiles
/// in their order.
struct Layout {
  /// Of a whole number of squares of merge x merge patches, at most image_size on a side.
  std::vector<Image> tiles;
  std::vector<EncodedMedia::Piece> pieces;
};

struct Family {
  std::string_view projector;
  /// The families of text models that it is for (general.architecture), as far as weft has them.
  std::span<const std::string_view> text_models;
  bool both_ways;
  int merge;         ///< Where the file does not say it.
  bool keeps_shape;  ///< Pictures are resized by their number of pixels, not to squares.
  EncoderKind encoder;
  Layout (*lay_out)(const HParams& hparams, const Image& image);
  /// x {n_rows * merge^2, width}, patches that become one row one behind another -> {n_rows, n_embd_row}
  Value (*project)(EncoderBuilder& builder, Value x);
};

std::span<const Family> families();
/// Throws Error kUnsupported that names those that weft knows.
const Family& find_family(std::string_view projector);

extern const Family kGemma3, kIdefics3, kPixtral, kQwen2Vl, kQwen25Vl, kQwen3Vl;

}  // namespace weft::vision
