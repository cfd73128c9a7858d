#pragma once
// An encoder turns the input between special tokens into ids. Each kind of tokenizer has one, in a file of
// its own.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/token_texts.h"
#include "text/vocabulary.h"
#include "weft/types.h"

namespace weft::text {

/// Immutable: any number of threads may have a session at a time.
class Encoder {
 public:
  virtual ~Encoder() = default;

  /// Scratch memory of one call of Tokenizer::encode.
  class Session {
   public:
    virtual ~Session() = default;
    /// Appends the ids of `text`, which is valid UTF-8 and not empty. It begins the input or follows a
    /// special token.
    virtual void encode(std::string_view text, std::vector<Token>& out) = 0;
    /// Units of work done so far: pairs looked up, positions visited. Tests check that it grows linearly.
    virtual std::uint64_t steps() const = 0;
  };
  virtual std::unique_ptr<Session> session() const = 0;
};

/// The tokens' strings as the vocabulary writes them, with an index of all of them. The encoders keep
/// references.
struct TokenSet {
  const TokenTexts& texts;
  const TokenIndex& index;
};

/// BPE. `pieces` are the tokens' bytes (piece_of). Merges whose parts or result are not tokens are left out,
/// with a note.
std::unique_ptr<Encoder> make_bpe_encoder(const Vocabulary& vocabulary, TokenSet tokens,
                                          const TokenTexts& pieces,
                                          std::vector<std::string>* notes = nullptr);
/// SentencePiece's BPE by score. Throws Error kInvalidFile if some character could be encoded by no token at
/// all, or if the charsmap is damaged.
std::unique_ptr<Encoder> make_spm_encoder(const Vocabulary& vocabulary, TokenSet tokens);
/// SentencePiece's unigram model. Throws like make_spm_encoder.
std::unique_ptr<Encoder> make_unigram_encoder(const Vocabulary& vocabulary, TokenSet tokens);
/// RWKV's longest matches. `pieces` are the tokens' bytes. Throws Error kInvalidFile if a byte has no token.
std::unique_ptr<Encoder> make_rwkv_encoder(const Vocabulary& vocabulary, const TokenTexts& pieces);
/// WordPiece. Throws Error kInvalidFile if the vocabulary has no unknown token.
std::unique_ptr<Encoder> make_wordpiece_encoder(const Vocabulary& vocabulary, TokenSet tokens);

inline TokenKind kind_of(const Vocabulary& vocabulary, std::size_t id) {
  return vocabulary.kinds.empty() ? TokenKind::kNormal : vocabulary.kinds[id];
}

/// Whether encoding plain input may produce this token. Input never produces control tokens, unless the
/// caller allows it.
inline bool is_text(TokenKind kind) {
  return kind == TokenKind::kNormal || kind == TokenKind::kUserDefined || kind == TokenKind::kUnused;
}

/// Decodes a token from GPT-2's byte alphabet. False if a character is not in the alphabet.
bool bytes_of_alphabet(std::string_view text, std::string& bytes);
/// Decodes a token written as a Python literal: \n, \xff.
std::string bytes_of_literal(std::string_view text);
/// The character of a byte in GPT-2's alphabet.
std::string alphabet_of_byte(unsigned char byte);

}  // namespace weft::text
