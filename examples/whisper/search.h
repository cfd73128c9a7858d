#pragma once
#include <span>

#include "model.h"
#include "vocabulary.h"

namespace whisper {

/// A window's transcript, as tokens.
struct Found {
  Tokens tokens;               ///< After the prompt, without the end.
  double mean_log_prob = 0.0;  ///< Of its tokens and the end.
};

/// The best sequence after the prompt: a beam search, greedy with a beam of 1. Sequences have tokens and
/// timestamps as Whisper was trained to generate them. A timestamp is first, at most a second in. Later ones
/// come in pairs, the end of a segment and the start of the next, and never decrease. One step continues all
/// sequences of a beam, also after they diverge: see Decoder. Throws what the decoder throws.
Found search(Decoder& decoder, const Vocabulary& vocabulary, const Tokens& prompt, int beam);

/// The probability of each of these tokens, among them, after the sequence.
std::vector<float> probabilities(std::span<const float> logits, std::span<const Token> tokens);
/// How probable one token is, among all.
float probability(std::span<const float> logits, Token token);

}  // namespace whisper
