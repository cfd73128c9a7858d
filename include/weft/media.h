#pragma once
// Images (weft/vision.h) and audio (weft/audio.h) in prompts. Write a mark into the messages where an image
// or audio belongs, render the chat template, and replace the marks:
//
//   const std::string mark = weft::make_media_marker();
//   const auto pieces = model->chat_template()->render({{"user", mark + "What is this?"}}, {});
//   weft::PromptWithMedia prompt = weft::place_media(model->tokenizer(), pieces, {&media, 1}, mark);
//
// Any number of threads may call these functions. The types are plain data.
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

/// An encoded image or audio input: what replaces a mark in a prompt.
struct EncodedMedia {
  /// Either a string (`text`) in which control tokens are recognised, or embeddings (`n_rows`).
  struct Piece {
    std::string text = {};
    int n_rows = 0;
    int grid_width = 0;  ///< EmbeddedPart::grid_width
  };
  std::vector<Piece> pieces = {};
  std::vector<float> rows = {};  ///< The embeddings of all pieces, one after another, n_embd floats each.
  int n_embd = 0;
  bool both_ways = false;
  /// EmbeddedPart::id of the first piece with embeddings. Later pieces have the following ids. Ids are unique
  /// in the process. The same content has the same id as long as its encoder caches it.
  std::int32_t id = 0;
};

/// Which encoders an mmproj file has.
struct MediaKinds {
  bool images = false;  ///< VisionModel::load
  bool audio = false;   ///< AudioModel::load
};
/// Throws Error kNotFound, kIo, kInvalidFile, and kUnsupported for a file that has none.
MediaKinds media_kinds(const std::filesystem::path& path);

struct PromptWithMedia {
  std::vector<Token> tokens = {};
  std::vector<EmbeddedPart> parts = {};
};

/// A string that marks the places of images and audio in messages. It is random, so that users cannot write
/// it into messages.
std::string make_media_marker();
[[deprecated("use make_media_marker")]] inline std::string make_media_mark() { return make_media_marker(); }

/// Replaces each `mark` in a rendered prompt by the next of `media`, and tokenizes the rest. Throws Error
/// kInvalidArgument if the numbers of marks and media differ.
PromptWithMedia place_media(const Tokenizer& tokenizer, std::span<const PromptPiece> prompt,
                            std::span<const std::shared_ptr<const EncodedMedia>> media,
                            std::string_view mark);

}  // namespace weft

#pragma GCC visibility pop
