#pragma once
// The times of words: the attention of the decoder to the audio, aligned with the tokens by dynamic time
// warping.
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "speech/network.h"
#include "speech/vocabulary.h"
#include "weft/transcriber.h"

namespace weft::speech {

struct AlignedWord {
  std::vector<Token> tokens;
  std::string text;
  std::size_t segment = 0;
  double start = 0.0, end = 0.0;  ///< Seconds from the begin of the window.
};

/// Appends the words of a segment's tokens of text. Languages without spaces between words have a word for
/// each character.
void split_words(const Vocabulary& vocabulary, std::span<const Token> tokens, std::string_view language,
                 std::size_t segment, std::vector<AlignedWord>& words);

/// Adds the times to the words of a window. `start`: the start of the transcript, its language and task.
/// `n_rows`: rows of the encoder that have audio. Punctuation is joined to the word next to it.
void align_words(Decoder& decoder, const Vocabulary& vocabulary, std::span<const Token> start, int n_rows,
                 int n_heard, std::vector<AlignedWord>& words);

/// Finds the path of the lowest cost through a matrix {n, m}, from its first to its last element. Returns the
/// column where the path enters each row.
std::vector<int> warp(std::span<const float> cost, int n, int m);

}  // namespace weft::speech
