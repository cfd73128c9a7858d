#pragma once
// Strings to tokens and back.
#include <cstdint>
#include <filesystem>
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

/// A piece of a rendered prompt: characters of the chat template, or of its arguments (messages, tools,
/// variables). Special tokens are recognised only in the template's pieces, so that users cannot inject them.
/// bos_token and eos_token count as the template's. Other characters are tokenized across pieces.
struct PromptPiece {
  std::string text = {};
  bool from_template = false;
};

/// Immutable after creation: any number of threads may use it.
class Tokenizer {
 public:
  /// For weft's own use: from a parsed vocabulary (src/text/vocabulary.h). Programs use Model::tokenizer(),
  /// load_tokenizer() or read_word_pieces(). Throws Error kInvalidFile if it contradicts itself, and
  /// kUnsupported for an unknown kind of tokenizer.
  explicit Tokenizer(text::Vocabulary vocabulary);
  ~Tokenizer();

  struct EncodeOptions {
    bool add_special = true;  ///< Add the tokens that the model wants around its input (BOS, EOS, CLS, SEP).
    bool parse_special = false;  ///< Recognise control tokens in the string. Unsafe for users' input.
  };
  /// Tokenizes a string, in time linear in its length. Bytes of invalid UTF-8 become byte tokens or U+FFFD.
  std::vector<Token> encode(std::string_view text, EncodeOptions options) const;
  std::vector<Token> encode(std::string_view text) const { return encode(text, EncodeOptions{}); }
  /// Tokenizes a rendered prompt: see PromptPiece. Adds the model's leading tokens (BOS) if the prompt does
  /// not begin with them.
  std::vector<Token> encode(std::span<const PromptPiece> pieces) const;

  /// The bytes of tokens. Control tokens are left out unless `special`. Throws Error kInvalidArgument for
  /// unknown ids, as do all functions that take an id, except is_end().
  std::string decode(std::span<const Token> tokens, bool special = false) const;
  /// The bytes of one token in the middle of a string: SentencePiece's leading space is kept.
  std::string piece(Token id, bool special = false) const;

  int n_vocab() const;
  std::string_view text(Token id) const;  ///< The token as the vocabulary spells it.
  TokenKind kind(Token id) const;
  Token find(std::string_view text) const;  ///< The token with this string, or kNoToken.

  Token bos() const;  ///< kNoToken: none. eos() likewise.
  Token eos() const;
  bool adds_bos() const;
  /// Whether a token ends a generation: EOS, or the end of a turn, message or code file. These are the ones
  /// that the file names, that weft knows by name, or that end an assistant message in the chat template.
  bool is_end(Token id) const;
  std::span<const Token> end_tokens() const;  ///< Ascending.
  /// Notes for a log. A note says in a sentence how weft reads an unusual key of the vocabulary.
  std::span<const std::string> notes() const;

 private:
  struct Impl;
  std::unique_ptr<const Impl> impl_;
};

/// Reads a WordPiece tokenizer (BERT) from a `vocab.txt`: one token per line, with "##" before tokens that
/// continue a word. It adds [CLS] and [SEP]. Throws Error kNotFound, kIo and kInvalidFile.
Tokenizer read_word_pieces(const std::filesystem::path& vocabulary, bool lowercase = true);

/// Turns a stream of tokens into characters. Bytes are held back until they form complete UTF-8 characters.
/// Each stream needs its own. The tokenizer must outlive it.
class Detokenizer {
 public:
  explicit Detokenizer(const Tokenizer& tokenizer, bool special = false);
  /// The characters that this token completes; may be empty. Bytes that cannot become valid UTF-8 become
  /// U+FFFD, so the result is always valid.
  std::string push(Token id);
  /// Ends the stream: returns the bytes that are still held back, as U+FFFD.
  std::string finish();

 private:
  const Tokenizer* tokenizer_;
  bool special_;
  std::string pending_;
};

}  // namespace weft

#pragma GCC visibility pop
