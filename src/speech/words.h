#pragma once
// The times of words: the attention of the decoder to the audio, aligned with the tokens by dynamic time
// warping.
#include <span>
#include <string_view>
#include <vector>

#include "speech/network.h"
#include "speech/vocabulary.h"
#include "weft/transcriber.h"

namespace weft::speech {

struct AlignedWord {
  std::vector<Token> tokens;
  std::string text;
  double start = 0.0, end = 0.0;  ///< Seconds from the begin of the window.
};

/// Splits tokens of text into words. Languages without spaces between words have a word for each character.
std::vector<AlignedWord> split_words(const Vocabulary& vocabulary, std::span<const Token> tokens,
                                     std::string_view language);

/// The words of a window's tokens of text, with times. `start`: the start of the transcript, its language and
/// task. `n_rows`: rows of the encoder that have audio. Punctuation is part of the word next to it.
std::vector<AlignedWord> align_words(Decoder& decoder, const Vocabulary& vocabulary,
                                     std::span<const Token> start, std::span<const Token> tokens,
                                     std::string_view language, int n_rows, int n_heard);

/// The path of the lowest cost through a matrix {n, m} from its first to its last element: for each row the
/// column where the path enters it.
std::vector<int> warp(std::span<const float> cost, int n, int m);

}  // namespace weft::speech
