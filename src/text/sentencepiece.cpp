// SentencePiece's BPE: neighbours merge while their concatenation is a token, the best score first (Kudo and
// Richardson 2018).
#include <algorithm>
#include <bitset>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "base/to_size.h"
#include "text/byte_fallback.h"
#include "text/charsmap.h"
#include "text/encoder.h"
#include "text/merger.h"
#include "text/utf8.h"

namespace weft::text {
namespace {

std::vector<Token> piece_ids(const Vocabulary& vocabulary) {
  std::vector<Token> ids;
  for (std::size_t i = 0; i < vocabulary.tokens.size(); ++i)
    // Added tokens with this score are not pieces of the model.
    if (!vocabulary.tokens[i].empty() && is_text(kind_of(vocabulary, i)) &&
        !(kind_of(vocabulary, i) == TokenKind::kUserDefined && std::isinf(vocabulary.scores[i])))
      ids.push_back(static_cast<Token>(i));
  return ids;
}

class SpmEncoder final : public Encoder {
 public:
  SpmEncoder(const Vocabulary& vocabulary, const TokenTexts& texts)
      : index_(texts, piece_ids(vocabulary)),
        longest_(texts.longest()),
        fallback_(vocabulary),
        form_(vocabulary) {
    rank_scores(vocabulary);
    for (const std::string& token : vocabulary.tokens)
      for (std::size_t at = token.find(kSpaceMark, 1); at < token.size(); at = token.find(kSpaceMark, at + 1))
        joined_to_space_.set(static_cast<unsigned char>(token[at - 1]));
  }

  std::unique_ptr<Encoder::Session> session() const override { return std::make_unique<Session>(*this); }

  /// Called by the merger.
  Pair find(std::string_view word, const Symbol& left, const Symbol&, std::size_t end) const {
    if (end - left.begin > longest_) return {};
    const Token id = index_.find(word.substr(left.begin, end - left.begin));
    const std::uint32_t rank = id == kNoToken ? kNoRank : ranks_[to_size(id)];
    return rank == kNoRank ? Pair{} : Pair{rank, id};
  }
  std::size_t n_ranks() const { return n_ranks_; }

 private:
  static constexpr std::uint32_t kNoRank = std::numeric_limits<std::uint32_t>::max();

  /// Equal scores have equal ranks: among them the leftmost pair merges first. Minus infinity has none.
  void rank_scores(const Vocabulary& vocabulary) {
    std::vector<float> scores = vocabulary.scores;
    std::sort(scores.begin(), scores.end(), std::greater<>());
    scores.erase(std::unique(scores.begin(), scores.end()), scores.end());
    n_ranks_ = scores.size();
    ranks_.reserve(vocabulary.scores.size());
    for (const float score : vocabulary.scores) {
      const auto place = std::lower_bound(scores.begin(), scores.end(), score, std::greater<>());
      ranks_.push_back(
          std::isinf(score) && score < 0.0f ? kNoRank : static_cast<std::uint32_t>(place - scores.begin()));
    }
  }

  class Session final : public Encoder::Session {
   public:
    explicit Session(const SpmEncoder& encoder) : encoder_(encoder), merger_(encoder) {}

    void encode(std::string_view text, std::vector<Token>& out) override {
      encoder_.form_.apply(text, marked_);
      const std::string_view marked = marked_;
      // No merge crosses the start of a space unless some token has such a place inside. So words can be
      // merged one by one.
      std::size_t begin = 0;
      for (std::size_t at = marked.find(kSpaceMark, 1); at < marked.size();
           at = marked.find(kSpaceMark, at + 1)) {
        if (encoder_.joined_to_space_[static_cast<unsigned char>(marked[at - 1])]) continue;
        encode_word(marked.substr(begin, at - begin), out);
        begin = at;
      }
      encode_word(marked.substr(begin), out);
    }
    std::uint64_t steps() const override { return merger_.steps(); }

   private:
    void encode_word(std::string_view word, std::vector<Token>& out) {
      std::vector<Symbol>& symbols = merger_.symbols();
      symbols.clear();
      for (std::size_t at = 0; at < word.size();) {
        const std::size_t size = char_size(word[at]);
        symbols.push_back({static_cast<std::uint32_t>(at), kNoToken, {}});
        at += size;
      }
      merger_.merge(word);
      bool unknown = false;  // A run of unknown characters is one unknown token.
      for (std::size_t i = 0; i < symbols.size(); ++i) {
        const std::size_t end = i + 1 < symbols.size() ? symbols[i + 1].begin : word.size();
        const std::string_view text = word.substr(symbols[i].begin, end - symbols[i].begin);
        const Token id = symbols[i].id != kNoToken ? symbols[i].id : encoder_.index_.find(text);
        if (id != kNoToken) out.push_back(id);
        unknown = id == kNoToken && encoder_.fallback_.encode(text, unknown, out);
      }
    }

    const SpmEncoder& encoder_;
    Merger<SpmEncoder> merger_;
    std::string marked_;
  };

  TokenIndex index_;  ///< Tokens that encoding may produce.
  std::size_t longest_;
  ByteFallback fallback_;
  SentencePieceForm form_;
  std::vector<std::uint32_t> ranks_;  ///< Per token, from its score.
  std::size_t n_ranks_ = 0;
  std::bitset<256> joined_to_space_;  ///< Bytes that precede a U+2581 inside a token.
};

}  // namespace

std::unique_ptr<Encoder> make_spm_encoder(const Vocabulary& vocabulary, TokenSet tokens) {
  return std::make_unique<SpmEncoder>(vocabulary, tokens.texts);
}

}  // namespace weft::text
