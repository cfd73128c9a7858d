#pragma once
// Pictures (vision.h) and sounds (audio.h) in prompts: what their encoders make of them, and how it comes
// between the tokens of a text.
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

/// A picture or a sound as a text model reads it.
struct EncodedMedia {
  /// Either text of the family, in which control tokens are recognised, or rows.
  struct Piece {
    std::string text = {};
    int n_rows = 0;
    int grid_width = 0;  ///< EmbeddedPart::grid_width
  };
  std::vector<Piece> pieces = {};
  std::vector<float> rows = {};  ///< Of all pieces, one behind another: n_embd floats each.
  int n_embd = 0;
  bool both_ways = false;
  /// Of its first piece with rows; the others have the ids behind it. Unique among all that a process has
  /// encoded, and the same for the same content as long as its model keeps it.
  std::int32_t id = 0;
};

/// What an mmproj file has encoders for.
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

/// A text for the places of pictures and sounds in a prompt: a random one, so that nobody writes it who is
/// not told.
std::string make_media_mark();

/// A rendered prompt with pictures and sounds in the places of `mark`, in their order, whoever wrote it
/// there. Throws Error kInvalidArgument where there is another number of places than of them.
PromptWithMedia place_media(const Tokenizer& tokenizer, std::span<const PromptPiece> prompt,
                            std::span<const std::shared_ptr<const EncodedMedia>> media,
                            std::string_view mark);

}  // namespace weft

#pragma GCC visibility pop
