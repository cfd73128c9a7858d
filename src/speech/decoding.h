#pragma once
// The tokens of one window of audio, as OpenAI's program decodes them.
#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <vector>

#include "speech/network.h"
#include "speech/vocabulary.h"

namespace weft::speech {

struct DecodeParams {
  float temperature = 0.0f;
  int max_tokens = 224;
  std::function<bool()> goes_on;  ///< Asked before each token. False: decode() throws Error kCancelled.
};

struct Decoded {
  std::vector<Token> tokens;         ///< After the prompt, without the end. They begin with a timestamp.
  std::vector<float> probabilities;  ///< Of each.
  double mean_log_prob = 0.0;        ///< Of the tokens and the end.
  double no_speech = 0.0;
  float temperature = 0.0f;
  double compression_ratio = 0.0;  ///< Of the text.
};

/// `prompt` ends with the start of the transcript, which is at index `start`, its language and task.
Decoded decode(Decoder& decoder, const Vocabulary& vocabulary, std::span<const Token> prompt, int start,
               const DecodeParams& params, std::mt19937_64& random);

/// Rules out tokens that may not follow: `logits` of n_vocab become minus infinity. Timestamps come in pairs,
/// the end of a segment and the start of the next, and never decrease.
void apply_rules(const Vocabulary& vocabulary, std::span<const Token> generated, std::span<float> logits);

/// The probability of each of these tokens, among them.
std::vector<float> probabilities(std::span<const float> logits, std::span<const Token> tokens);

/// The size of a string, divided by its size after compression by zlib. 0 for an empty string.
double compression_ratio(const std::string& text);

}  // namespace weft::speech
