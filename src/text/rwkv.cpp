// RWKV's tokenizer: greedy longest match of tokens, byte by byte. There is a token for every byte, so nothing
// is unknown.
#include <string>

#include "base/ascii.h"
#include "text/encoder.h"
#include "text/token_trie.h"
#include "weft/error.h"

namespace weft::text {
namespace {

std::vector<Token> normal_ids(const Vocabulary& vocabulary) {
  std::vector<Token> ids;
  for (std::size_t i = 0; i < vocabulary.tokens.size(); ++i)
    if (kind_of(vocabulary, i) == TokenKind::kNormal) ids.push_back(static_cast<Token>(i));
  return ids;
}

class RwkvEncoder final : public Encoder {
 public:
  RwkvEncoder(const Vocabulary& vocabulary, const TokenTexts& pieces)
      : trie_(pieces, normal_ids(vocabulary)) {
    for (unsigned b = 0; b < 256; ++b) {
      const TokenTrie::Node node = trie_.child(TokenTrie::kRoot, static_cast<char>(b));
      if (node == TokenTrie::kNone || trie_.token(node) == kNoToken)
        throw Error(ErrorCode::kInvalidFile,
                    "the vocabulary is damaged: tokenizer.ggml.tokens has no token for the byte " +
                        std::to_string(b));
    }
  }

  std::unique_ptr<Encoder::Session> session() const override { return std::make_unique<Session>(trie_); }

 private:
  class Session final : public Encoder::Session {
   public:
    explicit Session(const TokenTrie& trie) : trie_(trie) {}

    void encode(std::string_view text, std::vector<Token>& out) override {
      while (!text.empty()) {
        Token token = kNoToken;
        std::size_t size = 0;
        TokenTrie::Node node = TokenTrie::kRoot;
        for (std::size_t i = 0; i < text.size(); ++i) {
          ++steps_;
          node = trie_.child(node, text[i]);
          if (node == TokenTrie::kNone) break;
          if (trie_.token(node) == kNoToken) continue;
          token = trie_.token(node);
          size = i + 1;
        }
        out.push_back(token);
        text.remove_prefix(size);
      }
    }
    std::uint64_t steps() const override { return steps_; }

   private:
    const TokenTrie& trie_;
    std::uint64_t steps_ = 0;
  };

  TokenTrie trie_;
};

}  // namespace

std::string bytes_of_literal(std::string_view text) {
  std::string bytes;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      bytes += text[i];
      continue;
    }
    const char escaped = text[++i];
    if (escaped == 'x' && i + 2 < text.size() && base::hex_digit(text[i + 1]) >= 0 &&
        base::hex_digit(text[i + 2]) >= 0) {
      bytes += static_cast<char>(base::hex_digit(text[i + 1]) * 16 + base::hex_digit(text[i + 2]));
      i += 2;
    } else {
      bytes += escaped == 't' ? '\t' : escaped == 'n' ? '\n' : escaped == 'r' ? '\r' : escaped;
    }
  }
  return bytes;
}

std::unique_ptr<Encoder> make_rwkv_encoder(const Vocabulary& vocabulary, const TokenTexts& pieces) {
  return std::make_unique<RwkvEncoder>(vocabulary, pieces);
}

}  // namespace weft::text
