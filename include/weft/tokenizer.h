#pragma once
// Text to tokens and back.
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

/// A piece of a rendered prompt: a longest run of text of one origin. Special tokens are recognised only in
/// text of the template itself (and in bos_token and eos_token, which come with it), never in what came from
/// messages, tools or variables. Ordinary text is tokenized across the borders of pieces.
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

  /// The bytes of a text, without control tokens unless `special`. Throws Error kInvalidArgument for ids that
  /// the vocabulary does not have, as do all functions that take one, but is_end().
  std::string decode(std::span<const Token> tokens, bool special = false) const;
  /// The bytes of one token inside a text (so SentencePiece's leading space is kept).
  std::string piece(Token id, bool special = false) const;

  int n_vocab() const;
  std::string_view text(Token id) const;  ///< As the vocabulary writes it.
  TokenKind kind(Token id) const;
  Token find(std::string_view text) const;  ///< The token written so, or kNoToken.

  Token bos() const;  ///< kNoToken where there is none; the same holds for the others.
  Token eos() const;
  bool adds_bos() const;
  /// Whether a token ends a generation: EOS, or the end of a turn, a message or a file of code. The file
  /// names these, weft knows some by name, and the chat template ends an assistant's message with one.
  bool is_end(Token id) const;
  std::span<const Token> end_tokens() const;  ///< Ascending.
  /// What of the vocabulary was not as it should be, and how it is read: a sentence each, with the key's
  /// name.
  std::span<const std::string> notes() const;

 private:
  struct Impl;
  std::unique_ptr<const Impl> impl_;
};

/// A WordPiece tokenizer, BERT's, of a `vocab.txt`: a token a line, "##" before those that go on with a word.
/// It adds [CLS] and [SEP] around a text. Throws Error kNotFound, kIo, and kInvalidFile.
Tokenizer read_word_pieces(const std::filesystem::path& vocabulary, bool lowercase = true);

/// Turns a stream of tokens into a stream of text: bytes are held back until they make whole UTF-8
/// characters. One per stream; the tokenizer must outlive it.
class Detokenizer {
 public:
  explicit Detokenizer(const Tokenizer& tokenizer, bool special = false);
  /// The text that is complete after this token; may be empty. Bytes that can never become valid UTF-8 come
  /// out as U+FFFD, so what is returned is always valid.
  std::string push(Token id);
  /// At the end of the text: the bytes that are still held back, as U+FFFD.
  std::string finish();

 private:
  const Tokenizer* tokenizer_;
  bool special_;
  std::string pending_;
};

}  // namespace weft

#pragma GCC visibility pop
