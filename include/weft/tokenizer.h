#pragma once
// Text to tokens and back.
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weft/types.h"

#pragma GCC visibility push(default)

namespace weft::text {
struct Vocabulary;
}

namespace weft {

enum class TokenKind : std::uint8_t { kNormal, kUnknown, kControl, kUserDefined, kUnused, kByte };

/// A piece of a rendered prompt. Only text that stands in the template itself (and bos_token and eos_token,
/// which come with it) may be parsed for special tokens; what came from messages, tools or variables never
/// is. Pieces are the longest runs of one origin; ordinary text still has to be tokenized across their
/// borders.
struct PromptPiece {
  std::string text;
  bool from_template = false;
};

/// Immutable after creation: any number of threads may use it.
class Tokenizer {
 public:
  /// Takes a checked description of the vocabulary (src/text/vocabulary.h). Throws Error kInvalidFile where
  /// it contradicts itself, kUnsupported for a kind of tokenizer that weft does not know.
  explicit Tokenizer(text::Vocabulary vocabulary);
  ~Tokenizer();

  struct EncodeOptions {
    bool add_special = true;     ///< Add what the model wants around a text (BOS, EOS, CLS, SEP).
    bool parse_special = false;  ///< Recognise control tokens written in the text. Never for text from users.
  };
  /// Time is linear in the text's length. Invalid UTF-8 is accepted: its bytes become byte tokens or U+FFFD.
  std::vector<Token> encode(std::string_view text, EncodeOptions options) const;
  std::vector<Token> encode(std::string_view text) const { return encode(text, EncodeOptions{}); }
  /// A rendered prompt: special tokens are recognised where they lie within the template's own text, ordinary
  /// text is encoded across the borders of pieces. What the model wants in front is added where the prompt
  /// lacks it.
  std::vector<Token> encode(std::span<const PromptPiece> pieces) const;

  /// The bytes of a text. Control tokens are left out unless `special`.
  std::string decode(std::span<const Token> tokens, bool special = false) const;
  /// The bytes of one token inside a text (so SentencePiece's leading space is kept). `id` must be in range.
  std::string piece(Token id, bool special = false) const;

  int n_vocab() const;
  std::string_view text(Token id) const;  ///< As the vocabulary writes it.
  TokenKind kind(Token id) const;
  Token find(std::string_view text) const;  ///< The token written so, or kNoToken.

  Token bos() const;  ///< kNoToken where there is none; the same holds for the others.
  Token eos() const;
  bool adds_bos() const;
  bool is_end(Token id) const;  ///< Ends a generation (EOS, end of turn, end of message).
  std::span<const Token> end_tokens() const;

 private:
  struct Impl;
  std::unique_ptr<const Impl> impl_;
};

/// Turns a stream of tokens into a stream of text: bytes are held back until they make whole UTF-8
/// characters. One per stream; the tokenizer must outlive it.
class Detokenizer {
 public:
  explicit Detokenizer(const Tokenizer& tokenizer, bool special = false);
  /// The text that is complete after this token; may be empty. Bytes that can never become valid UTF-8 come
  /// out as U+FFFD, so what is returned is always valid.
  std::string push(Token id);
  /// What is held back at the end, as U+FFFD.
  std::string finish();

 private:
  const Tokenizer* tokenizer_;
  bool special_;
  std::string pending_;
};

}  // namespace weft

#pragma GCC visibility pop
