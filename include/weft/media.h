#pragma once
// Images (vision.h) and audio (audio.h) in prompts: the results of their encoders, and their places among the
// tokens.
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weft/embedded_part.h"
#include "weft/tokenizer.h"

#pragma GCC visibility push(default)

namespace weft {

/// An encoded image or audio input, as a language model reads it.
struct EncodedMedia {
  /// Either a string of the family, in which control tokens are recognised, or rows.
  struct Piece {
    std::string text = {};
    int n_rows = 0;
    int grid_width = 0;  ///< EmbeddedPart::grid_width
  };
  std::vector<Piece> pieces = {};
  std::vector<float> rows = {};  ///< All pieces' rows, one after another: n_embd floats each.
  int n_embd = 0;
  bool both_ways = false;
  /// The id of its first piece with rows; the others have the following ids. Unique in a process, and the
  /// same for the same content as long as its model caches it.
  std::int32_t id = 0;
};

/// The encoders of an mmproj file.
struct MediaKinds {
  bool pictures = false;  ///< VisionModel::load
  bool sounds = false;    ///< AudioModel::load
};
/// Throws Error kNotFound, kIo, kInvalidFile, and kUnsupported for a file that has none.
MediaKinds media_kinds(const std::filesystem::path& path);

struct PromptWithMedia {
  std::vector<Token> tokens = {};
  std::vector<EmbeddedPart> parts = {};
};

/// A string that marks places of images and audio in a prompt. It is random, so that a message cannot contain
/// it by intent.
std::string make_media_mark();

/// Replaces each `mark` in a rendered prompt, in any piece, by the next of `media`. Throws Error
/// kInvalidArgument where the numbers of marks and media differ.
PromptWithMedia place_media(const Tokenizer& tokenizer, std::span<const PromptPiece> prompt,
                            std::span<const std::shared_ptr<const EncodedMedia>> media,
                            std::string_view mark);

}  // namespace weft

#pragma GCC visibility pop
