#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace whisper {

using Token = std::int32_t;
using Tokens = std::vector<Token>;

/// The tokens of a model's folder: tokenizer.json, and from config.json the tokens that are never generated.
/// Untrusted input: throws weft::Error kNotFound, kIo and kInvalidFile. Immutable.
class Vocabulary {
 public:
  Vocabulary(const std::filesystem::path& folder, int n_vocab);

  static constexpr double kSecondsPerTimestamp = 0.02;

  Token end = 0;    ///< Ends a transcript. All tokens below it are words.
  Token start = 0;  ///< Of a transcript.
  Token transcribe = 0;
  Token translate = 0;  ///< To English.
  Token no_speech = 0;
  Token no_timestamps = 0;
  Token first_timestamp = 0;               ///< 0.00 s; the vocabulary ends with the last.
  std::map<std::string, Token> languages;  ///< By their codes: "en". Empty: the model knows English only.
  Tokens suppressed;                       ///< Never generated.
  Tokens suppressed_at_start;              ///< Never generated first.

  int size() const { return n_vocab_; }
  bool is_timestamp(Token token) const { return token >= first_timestamp; }
  double seconds(Token timestamp) const { return (timestamp - first_timestamp) * kSecondsPerTimestamp; }
  /// The string of the words; other tokens add nothing. Invalid UTF-8 becomes U+FFFD.
  std::string text(std::span<const Token> tokens) const;

 private:
  int n_vocab_;
  std::vector<std::string> bytes_;  ///< Of each word.
};

}  // namespace whisper
