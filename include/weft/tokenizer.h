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

/// A piece of a rendered prompt: a maximal run of characters of one origin. Special tokens are recognised
/// only in the template's own characters (and in bos_token and eos_token, which come with it), never in
/// strings of messages, tools or variables. Other characters are tokenized across the borders of pieces.
struct PromptPiece {
  std::string text = {};
  bool from_template = false;
};

/// Immutable after creation: any number of threads may use it.
class Tokenizer {
 public:
  /// Takes a description of the vocabulary (src/text/vocabulary.h). Throws Error kInvalidFile where it
  /// contradicts itself, kUnsupported for a kind of tokenizer that weft does not know.
  explicit Tokenizer(text::Vocabulary vocabulary);
  ~Tokenizer();

  struct EncodeOptions {
    bool add_special = true;  ///< Add the tokens that the model wants around its input (BOS, EOS, CLS, SEP).
    bool parse_special = false;  ///< Recognise control tokens in the input. Never for input from users.
  };
  /// Takes time linear in the input's length. Accepts invalid UTF-8: its bytes become byte tokens or U+FFFD.
  std::vector<Token> encode(std::string_view text, EncodeOptions options) const;
  std::vector<Token> encode(std::string_view text) const { return encode(text, EncodeOptions{}); }
  /// Encodes a rendered prompt. Special tokens are recognised in pieces of the template only; other
  /// characters are encoded across the borders of pieces. Adds the leading tokens that the model wants (BOS)
  /// if the prompt lacks them.
  std::vector<Token> encode(std::span<const PromptPiece> pieces) const;

  /// The bytes of tokens, without control tokens unless `special`. Throws Error kInvalidArgument for unknown
  /// ids. So do all functions that take an id, except is_end().
  std::string decode(std::span<const Token> tokens, bool special = false) const;
  /// The bytes of a token that is not the first one (so SentencePiece's leading space is kept).
  std::string piece(Token id, bool special = false) const;

  int n_vocab() const;
  std::string_view text(Token id) const;  ///< As the vocabulary writes it.
  TokenKind kind(Token id) const;
  Token find(std::string_view text) const;  ///< The token with this string, or kNoToken.

  Token bos() const;  ///< kNoToken where there is none; the same holds for the others.
  Token eos() const;
  bool adds_bos() const;
  /// Whether a token ends a generation: EOS, or the end of a turn, a message or a file of code. The file
  /// names these, weft knows some by name, and the chat template ends an assistant's message with one.
  bool is_end(Token id) const;
  std::span<const Token> end_tokens() const;  ///< Ascending.
  /// Oddities of the vocabulary, and how they are read: a sentence each, with the key's name.
  std::span<const std::string> notes() const;

 private:
  struct Impl;
  std::unique_ptr<const Impl> impl_;
};

/// A WordPiece tokenizer (BERT) from a `vocab.txt`: one token per line, with "##" before tokens that continue
/// a word. It adds [CLS] and [SEP] around its input. Throws Error kNotFound, kIo, and kInvalidFile.
Tokenizer read_word_pieces(const std::filesystem::path& vocabulary, bool lowercase = true);

/// Turns a stream of tokens into a stream of characters: bytes are held back until they make whole UTF-8
/// characters. One per stream; the tokenizer must outlive it.
class Detokenizer {
 public:
  explicit Detokenizer(const Tokenizer& tokenizer, bool special = false);
  /// The characters that are complete after this token; may be empty. Bytes that can never become valid UTF-8
  /// become U+FFFD, so the result is always valid.
  std::string push(Token id);
  /// At the end of the stream: returns bytes that are still held back as U+FFFD.
  std::string finish();

 private:
  const Tokenizer* tokenizer_;
  bool special_;
  std::string pending_;
};

}  // namespace weft

#pragma GCC visibility pop
