// SentencePiece's unigram model: among all segmentations of the input into tokens, the one with the greatest
// sum of scores (log probabilities; Kudo 2018). Viterbi's algorithm finds it, after the normalisation that
// the model was trained with.
#include <algorithm>
#include <cstdint>
#include <string>

#include "base/to_size.h"
#include "text/byte_fallback.h"
#include "text/charsmap.h"
#include "text/encoder.h"
#include "text/token_trie.h"
#include "text/utf8.h"

namespace weft::text {
namespace {

/// How far the score of an unknown character is below the worst token's score.
constexpr double kUnknownPenalty = 10.0;

std::vector<Token> unigram_ids(const Vocabulary& vocabulary) {
  std::vector<Token> ids;
  for (std::size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    const TokenKind kind = kind_of(vocabulary, i);
    const std::string& token = vocabulary.tokens[i];
    // User-defined tokens are found before this step; unused tokens are never produced. Those that count only
    // as single words may also be pieces, with a score.
    const bool is_word = kind == TokenKind::kUserDefined && vocabulary.scores[i] < 0.0f &&
                         std::find(vocabulary.single_word.begin(), vocabulary.single_word.end(),
                                   static_cast<Token>(i)) != vocabulary.single_word.end();
    if ((kind == TokenKind::kNormal || is_word) && !token.empty() && valid_prefix(token) == token.size())
      ids.push_back(static_cast<Token>(i));
  }
  return ids;
}

class UnigramEncoder final : public Encoder {
 public:
  UnigramEncoder(const Vocabulary& vocabulary, const TokenTexts& texts)
      : form_(vocabulary),
        trie_(texts, unigram_ids(vocabulary)),
        fallback_(vocabulary),
        scores_(vocabulary.scores) {
    double worst = 0.0;
    for (std::size_t i = 0; i < scores_.size(); ++i)
      if (kind_of(vocabulary, i) == TokenKind::kNormal) worst = std::min(worst, double{scores_[i]});
    unknown_score_ = worst - kUnknownPenalty;
  }

  std::unique_ptr<Encoder::Session> session() const override { return std::make_unique<Session>(*this); }

 private:
  class Session final : public Encoder::Session {
   public:
    explicit Session(const UnigramEncoder& encoder) : encoder_(encoder) {}

    void encode(std::string_view text, std::vector<Token>& out) override {
      encoder_.form_.apply(text, normalised_);
      const std::string_view line = normalised_;
      after_unknown_ = false;
      begin_part(0);
      std::size_t reach = 0;  // Where the longest token so far ends.
      for (std::size_t at = 0; at < line.size(); at += char_size(line[at])) {
        // No token crosses this position, so all segmentations pass through it. The best one up to here is
        // final.
        if (at == reach && at > part_) {
          write_part(line, at, out);
          begin_part(at);
        }
        reach = std::max(reach, add_tokens(line, at));
      }
      write_part(line, line.size(), out);
    }
    std::uint64_t steps() const override { return steps_; }

   private:
    /// The best way to a place: its score and its last token. kNoToken: a character that is none.
    struct Way {
      double score = 0.0;
      std::uint32_t begin = kNowhere;
      Token token = kNoToken;
    };
    static constexpr std::uint32_t kNowhere = ~std::uint32_t{0};

    void begin_part(std::size_t at) {
      part_ = at;
      ways_.assign(1, {0.0, static_cast<std::uint32_t>(at), kNoToken});
    }

    /// The tokens that begin at a place; where the longest ends.
    std::size_t add_tokens(std::string_view line, std::size_t at) {
      const double score = ways_[at - part_].score;
      const std::size_t next = at + char_size(line[at]);
      std::size_t reach = next;
      bool is_token = false;
      TokenTrie::Node node = TokenTrie::kRoot;
      for (std::size_t end = at; end < line.size();) {
        ++steps_;
        node = encoder_.trie_.child(node, line[end++]);
        if (node == TokenTrie::kNone) break;
        const Token token = encoder_.trie_.token(node);
        if (token == kNoToken) continue;
        offer(end, score + encoder_.scores_[to_size(token)], at, token);
        is_token = is_token || end == next;
        reach = std::max(reach, end);
      }
      if (!is_token) offer(next, score + encoder_.unknown_score_, at, kNoToken);
      return reach;
    }

    /// Of equally good ways the one that came first stays: its last token is the longest.
    void offer(std::size_t end, double score, std::size_t begin, Token token) {
      if (ways_.size() <= end - part_) ways_.resize(end - part_ + 1);
      Way& way = ways_[end - part_];
      if (way.begin == kNowhere || score > way.score) way = {score, static_cast<std::uint32_t>(begin), token};
    }

    /// Appends the tokens of the best way from the part's begin to `end`.
    void write_part(std::string_view line, std::size_t end, std::vector<Token>& out) {
      chosen_.clear();
      for (std::size_t at = end; at > part_; at = ways_[at - part_].begin)
        chosen_.push_back(static_cast<std::uint32_t>(at));
      for (std::size_t i = chosen_.size(); i-- > 0;) {
        const Way& way = ways_[chosen_[i] - part_];
        if (way.token != kNoToken) out.push_back(way.token);
        after_unknown_ =
            way.token == kNoToken &&
            encoder_.fallback_.encode(line.substr(way.begin, chosen_[i] - way.begin), after_unknown_, out);
      }
    }

    const UnigramEncoder& encoder_;
    std::string normalised_;
    std::size_t part_ = 0;               ///< Where the part begins that is not settled yet.
    std::vector<Way> ways_;              ///< By place, from the part's begin on.
    std::vector<std::uint32_t> chosen_;  ///< Ends of tokens, the last first.
    bool after_unknown_ = false;
    std::uint64_t steps_ = 0;
  };

  SentencePieceForm form_;
  TokenTrie trie_;
  ByteFallback fallback_;
  std::vector<float> scores_;
  double unknown_score_;
};

}  // namespace

std::unique_ptr<Encoder> make_unigram_encoder(const Vocabulary& vocabulary, TokenSet tokens) {
  return std::make_unique<UnigramEncoder>(vocabulary, tokens.texts);
}

}  // namespace weft::text
