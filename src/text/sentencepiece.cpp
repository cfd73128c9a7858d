// SentencePiece's BPE: neighbours merge while their text is a token, the best score first (Kudo and
// Richardson 2018).
#include <algorithm>
#include <array>
#include <bitset>
#include <optional>
#include <string>

#include "text/encoder.h"
#include "text/merger.h"
#include "text/utf8.h"
#include "weft/error.h"

namespace weft::text {
namespace {

std::vector<Token> findable(const Vocabulary& vocabulary) {
  std::vector<Token> ids;
  for (std::size_t i = 0; i < vocabulary.tokens.size(); ++i)
    if (!vocabulary.tokens[i].empty() && is_text(kind_of(vocabulary, i)))
      ids.push_back(static_cast<Token>(i));
  return ids;
}

class SpmEncoder final : public Encoder {
 public:
  SpmEncoder(const Vocabulary& vocabulary, const TokenTexts& texts)
      : index_(texts, findable(vocabulary)),
        longest_(texts.longest()),
        unk_(vocabulary.unk),
        add_space_prefix_(vocabulary.add_space_prefix.value_or(true)) {
    rank_scores(vocabulary);
    byte_ids_.fill(kNoToken);
    for (std::size_t i = 0; i < vocabulary.tokens.size(); ++i) {
      if (kind_of(vocabulary, i) != TokenKind::kByte) continue;
      const std::optional<unsigned char> byte = byte_of_text(vocabulary.tokens[i]);
      if (!byte)
        throw Error(ErrorCode::kInvalidFile, "the vocabulary is damaged: tokenizer.ggml.tokens[" +
                                                 std::to_string(i) +
                                                 "] is of type byte and not written <0x00> to <0xFF>");
      if (byte_ids_[*byte] == kNoToken) byte_ids_[*byte] = static_cast<Token>(i);
    }
    if (unk_ == kNoToken && std::find(byte_ids_.begin(), byte_ids_.end(), kNoToken) != byte_ids_.end())
      throw Error(ErrorCode::kInvalidFile,
                  "the vocabulary is damaged: there are neither all 256 byte tokens nor "
                  "tokenizer.ggml.unknown_token_id");
    for (const std::string& token : vocabulary.tokens)
      for (std::size_t at = token.find(kSpaceMark, 1); at < token.size(); at = token.find(kSpaceMark, at + 1))
        joined_to_space_.set(static_cast<unsigned char>(token[at - 1]));
  }

  std::unique_ptr<Encoder::Session> session() const override { return std::make_unique<Session>(*this); }

  /// For the merger.
  Pair find(std::string_view word, const Symbol& left, const Symbol&, std::size_t end) const {
    if (end - left.begin > longest_) return {};
    const Token id = index_.find(word.substr(left.begin, end - left.begin));
    return id == kNoToken ? Pair{} : Pair{ranks_[static_cast<std::size_t>(id)], id};
  }
  std::size_t n_ranks() const { return n_ranks_; }

 private:
  /// Equal scores are of equal rank: among them the leftmost pair merges first.
  void rank_scores(const Vocabulary& vocabulary) {
    std::vector<float> scores = vocabulary.scores;
    std::sort(scores.begin(), scores.end(), std::greater<>());
    scores.erase(std::unique(scores.begin(), scores.end()), scores.end());
    n_ranks_ = scores.size();
    ranks_.reserve(vocabulary.scores.size());
    for (const float score : vocabulary.scores)
      ranks_.push_back(static_cast<std::uint32_t>(
          std::lower_bound(scores.begin(), scores.end(), score, std::greater<>()) - scores.begin()));
  }

  class Session final : public Encoder::Session {
   public:
    explicit Session(const SpmEncoder& encoder) : encoder_(encoder), merger_(encoder) {}

    void encode(std::string_view text, bool first, std::vector<Token>& out) override {
      marked_.clear();
      if (first && encoder_.add_space_prefix_) marked_ += kSpaceMark;
      for (std::size_t done = 0; done < text.size();) {
        const std::size_t space = std::min(text.find(' ', done), text.size());
        marked_ += text.substr(done, space - done);
        if (space < text.size()) marked_ += kSpaceMark;
        done = space + 1;
      }
      const std::string_view marked = marked_;
      // No merge crosses the front of a space unless some token has such a place inside: words can go one by
      // one.
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
      bool unknown = false;  // Unknown characters in a row are one unknown token.
      for (std::size_t i = 0; i < symbols.size(); ++i) {
        const std::size_t end = i + 1 < symbols.size() ? symbols[i + 1].begin : word.size();
        const std::string_view text = word.substr(symbols[i].begin, end - symbols[i].begin);
        const Token id = symbols[i].id != kNoToken ? symbols[i].id : encoder_.index_.find(text);
        if (id != kNoToken) out.push_back(id);
        unknown = id == kNoToken && encode_bytes(text, unknown, out);
      }
    }

    /// A character that is no token, as bytes. True if the unknown token stands for it.
    bool encode_bytes(std::string_view text, bool after_unknown, std::vector<Token>& out) {
      const auto id_of = [&](char c) { return encoder_.byte_ids_[static_cast<unsigned char>(c)]; };
      if (std::all_of(text.begin(), text.end(), [&](char c) { return id_of(c) != kNoToken; })) {
        for (const char c : text) out.push_back(id_of(c));
        return false;
      }
      if (!after_unknown) out.push_back(encoder_.unk_);
      return true;
    }

    const SpmEncoder& encoder_;
    Merger<SpmEncoder> merger_;
    std::string marked_;
  };

  TokenIndex index_;  ///< Of tokens that text may become.
  std::size_t longest_;
  Token unk_;
  bool add_space_prefix_;
  std::array<Token, 256> byte_ids_;
  std::vector<std::uint32_t> ranks_;  ///< Per token, from its score.
  std::size_t n_ranks_ = 0;
  std::bitset<256> joined_to_space_;  ///< Bytes that stand before a U+2581 inside of a token.
};

}  // namespace

std::unique_ptr<Encoder> make_spm_encoder(const Vocabulary& vocabulary, TokenSet tokens) {
  return std::make_unique<SpmEncoder>(vocabulary, tokens.texts);
}

}  // namespace weft::text
