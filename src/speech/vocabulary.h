#pragma once
// The tokens of a Whisper model: characters, languages, tasks and timestamps.
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/vocabulary.h"
#include "weft/tokenizer.h"

namespace weft::speech {

inline constexpr double kSecondsPerTimestamp = 0.02;

/// Immutable.
class Vocabulary {
 public:
  /// `n_vocab`: rows of the decoder's embeddings. `multilingual`: nullopt: it follows from n_vocab. Throws
  /// Error kInvalidFile if a special token is missing, and as Tokenizer's constructor.
  Vocabulary(text::Vocabulary vocabulary, int n_vocab, std::optional<bool> multilingual);

  Token end = 0, start = 0, translate = 0, transcribe = 0, previous = 0, no_speech = 0, no_timestamps = 0;
  Token first_timestamp = 0;
  std::vector<std::pair<std::string, Token>> languages;  ///< By code. Empty: English only.
  std::vector<Token> suppressed;  ///< Never generated, with all special tokens but the end and timestamps.
  std::vector<Token> suppressed_at_start;  ///< Not the first one: a space, and the end.

  int size() const { return n_vocab_; }
  bool is_timestamp(Token token) const { return token >= first_timestamp; }
  double seconds(Token timestamp) const { return (timestamp - first_timestamp) * kSecondsPerTimestamp; }
  /// Detokenizes the tokens below `end`; others are left out. Valid UTF-8.
  std::string text(std::span<const Token> tokens) const;
  /// The bytes of one token.
  std::string bytes(Token token) const { return tokenizer_.piece(token); }
  /// Tokenizes a string without special tokens.
  std::vector<Token> encode(std::string_view text) const {
    return tokenizer_.encode(text, {.add_special = false});
  }
  Token language(std::string_view code) const;  ///< kNoToken: unknown.

 private:
  std::vector<Token> non_speech() const;

  Tokenizer tokenizer_;
  int n_vocab_;
};

/// The vocabulary of a file that has only the bytes of its text tokens. Merges follow from the order of
/// tokens. Adds the special tokens of the published models, n_vocab in total. Throws Error kInvalidFile if
/// these do not fit.
text::Vocabulary complete_vocabulary(std::span<const std::string> tokens, int n_vocab);

}  // namespace weft::speech
