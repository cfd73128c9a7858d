#pragma once
// Reads SentencePiece's files (tokenizer.model, spiece.model). They are protocol buffer messages with pieces,
// the trainer's settings and the normaliser
// (https://github.com/google/sentencepiece/blob/master/src/sentencepiece_model.proto).
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace weft::convert_impl {

struct SentencePieceModel {
  struct Piece {
    std::string text;
    float score = 0.0f;
    std::int32_t kind = 1;  ///< The file's numbers, which are GGUF's.
  };
  std::vector<Piece> pieces;
  bool unigram = true;                                       ///< Otherwise merges of pairs.
  std::int64_t unknown = 0, bos = 1, eos = 2, padding = -1;  ///< Below 0: there is none.
  std::vector<std::uint8_t> charsmap;
  bool adds_space = true, removes_extra_spaces = true;
};

/// Throws Error kInvalidFile, and kUnsupported for models of words and characters.
SentencePieceModel read_sentencepiece(std::span<const std::byte> bytes);

}  // namespace weft::convert_impl
