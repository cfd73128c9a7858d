#pragma once
// Small vocabularies made by hand, so that these tests need no file.
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/encoder.h"
#include "text/vocabulary.h"

namespace weft::text {

inline std::string alphabet(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) text += alphabet_of_byte(static_cast<unsigned char>(c));
  return text;
}

inline Token add_token(Vocabulary& v, std::string text, TokenKind kind, float score = 0.0f) {
  v.tokens.push_back(std::move(text));
  v.kinds.push_back(kind);
  v.scores.push_back(score);
  return static_cast<Token>(v.tokens.size() - 1);
}

/// Byte-level BPE: ids 0 to 255 are the bytes, then one token for each merge ("left right" as plain bytes).
inline Vocabulary bpe_vocabulary(const std::vector<std::pair<std::string, std::string>>& merges,
                                 std::string pre = "gpt-2") {
  Vocabulary v;
  v.kind = VocabularyKind::kBpe;
  v.pre = std::move(pre);
  for (unsigned b = 0; b < 256; ++b)
    add_token(v, alphabet_of_byte(static_cast<unsigned char>(b)), TokenKind::kNormal);
  for (const auto& [left, right] : merges) {
    v.merges.push_back(alphabet(left) + " " + alphabet(right));
    add_token(v, alphabet(left + right), TokenKind::kNormal);
  }
  return v;
}

/// SentencePiece's BPE: <unk>, <s>, </s>, 256 bytes (ids 3 to 258), then the given tokens, scored -1, -2, ...
inline Vocabulary spm_vocabulary(const std::vector<std::string>& texts) {
  Vocabulary v;
  v.kind = VocabularyKind::kSpm;
  v.unk = add_token(v, "<unk>", TokenKind::kUnknown);
  v.bos = add_token(v, "<s>", TokenKind::kControl);
  v.eos = add_token(v, "</s>", TokenKind::kControl);
  constexpr std::string_view kHex = "0123456789ABCDEF";
  for (std::size_t b = 0; b < 256; ++b)
    add_token(v, std::string("<0x") + kHex[b / 16] + kHex[b % 16] + ">", TokenKind::kByte);
  float score = 0.0f;
  for (const std::string& text : texts) add_token(v, text, TokenKind::kNormal, score -= 1.0f);
  return v;
}

inline Vocabulary wordpiece_vocabulary(const std::vector<std::string>& texts) {
  Vocabulary v;
  v.kind = VocabularyKind::kWordPiece;
  v.unk = add_token(v, "[UNK]", TokenKind::kControl);
  v.cls = add_token(v, "[CLS]", TokenKind::kControl);
  v.sep = add_token(v, "[SEP]", TokenKind::kControl);
  for (const std::string& text : texts) add_token(v, text, TokenKind::kNormal);
  return v;
}

}  // namespace weft::text
