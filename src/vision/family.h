#pragma once
// Families of vision models, by the names of their projectors: the preparation of an image, the projection of
// the encoder's rows, and the prompt around them. A family is a file in families/ and a row in family.cpp.
#include <span>
#include <string_view>
#include <vector>

#include "vision/encoder_graph.h"
#include "vision/hparams.h"
#include "weft/vision.h"

namespace weft::vision {

/// Pixels.
struct Size {
  int width = 0;
  int height = 0;
};

/// The tiles of an image for the encoder, and the prompt's pieces. The pieces have the rows of the tiles, in
/// their order.
struct Layout {
  /// Each side is a multiple of merge patches, and at most image_size pixels.
  std::vector<Image> tiles;
  std::vector<EncodedMedia::Piece> pieces;
};

struct Family {
  std::string_view projector;
  /// The language models that it is for (general.architecture), as far as weft has them.
  std::span<const std::string_view> text_models;
  bool both_ways;
  int merge;         ///< Used if the file does not have it.
  bool keeps_shape;  ///< Images are resized to a number of pixels, not to squares.
  EncoderKind encoder;
  Layout (*lay_out)(const HParams& hparams, const Image& image);
  /// x {n_rows * merge^2, width}, patches of one row adjacent -> {n_rows, n_embd_row}
  Value (*project)(EncoderBuilder& builder, Value x);
};

std::span<const Family> families();
/// Throws Error kUnsupported with a list of the known projectors.
const Family& find_family(std::string_view projector);

extern const Family kGemma3, kIdefics3, kPixtral, kQwen2Vl, kQwen25Vl, kQwen3Vl;

}  // namespace weft::vision
