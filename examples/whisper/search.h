#pragma once
#include <span>

#include "model.h"
#include "vocabulary.h"

namespace whisper {

/// A window's text.
struct Found {
  Tokens tokens;               ///< Behind the prompt, without the end.
  double mean_log_prob = 0.0;  ///< Of its tokens and the end.
};

/// The best text behind the prompt: a beam search, greedy with a beam of 1. Texts are tokens and timestamps
/// as Whisper was trained to write them: a timestamp first, at most a second in; then always in pairs, the
/// end of a piece and the start of the next, and never back in time. All texts of a beam go on in one step,
/// those that part too: see Decoder. Throws what the decoder throws.
Found search(Decoder& decoder, const Vocabulary& vocabulary, const Tokens& prompt, int beam);

/// How probable each of these tokens is, among them, behind the text.
std::vector<float> probabilities(std::span<const float> logits, std::span<const Token> tokens);
/// How probable one token is, among all.
float probability(std::span<const float> logits, Token token);

}  // namespace whisper
